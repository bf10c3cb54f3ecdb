// SPDX-License-Identifier: GPL-2.0

//! Calls that two profiles share, on a shadow stack with calls of one of them alone: their times
//! and those of calls within them, with interrupts at any place.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::engine::profile::frame::{begin, begin_again, end, end_shared, Below, Outer, Timed};
use crate::engine::profile::frame::{Frame, WORDS as OWN_WORDS};
use crate::engine::shadow::tag;
use crate::engine::shared_frame::{self, Frame as SharedFrame, Seat, WORDS};
use crate::platform::Word;
use crate::tests::{cases, interrupted, points};

/// The secret of shared calls, and those of the profiles' own.
const SHARED: u64 = 0x5555_1234_abcd_0008;
const OWN: [u64; 2] = [0x1234_5678_9abc_def1, 0x0fed_cba9_8765_4321];
const BASE: u64 = 0xffff_8881_0000_0000;
/// Other words of a call.
const BEFORE: usize = 5;
const TURN: u16 = 7;
/// The seats of the two, and that of a tracer.
const SEATS: [usize; 3] = [1, 5, 6];

/// The parts that watch a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watched {
    /// The first profile alone.
    Alone,
    /// Both profiles, and a tracer behind them.
    Both,
    /// The second profile, and the tracer.
    Other,
}

impl Watched {
    const ALL: [Self; 3] = [Self::Alone, Self::Both, Self::Other];

    fn by(self, profile: usize) -> bool {
        match self {
            Self::Alone => profile == 0,
            Self::Both => true,
            Self::Other => profile == 1,
        }
    }
}

/// A call as a profile sees it: the function, its time, and that without calls within it.
type Seen = (u64, u64, u64);

/// A task that calls functions, with a clock that goes on with each step.
struct Task {
    words: Vec<Word>,
    used: Cell<usize>,
    clock: Cell<u64>,
    seen: [RefCell<Vec<Seen>>; 2],
    slow: Cell<u32>,
}

impl Task {
    fn new() -> Rc<Self> {
        Rc::new(Self {
            words: (0..512).map(|_| Word::new(0)).collect(),
            used: Cell::new(0),
            clock: Cell::new(1000),
            seen: [const { RefCell::new(Vec::new()) }; 2],
            slow: Cell::new(0),
        })
    }

    fn now(&self) -> u64 {
        // An interrupt may come before the clock is read.
        self.words[0].load_relaxed();
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    fn work(&self, ticks: u64) {
        self.clock.set(self.clock.get() + ticks);
    }

    fn seat(profile: usize) -> (Seat, u64) {
        let seat = Seat {
            number: SEATS[profile],
            own_start: false,
            sleeps: false,
            since: TURN,
        };
        (seat, SHARED)
    }

    fn search(&self, profile: usize, at: usize) -> Option<&Word> {
        let below = Below::new(&self.words[..at], BASE, Some(Self::seat(profile)));
        below.search(OWN[profile])
    }

    fn saw(&self, profile: usize, of: u64, times: (u64, u64)) {
        let (time, within) = times;
        assert!(within <= time, "{of}: {within} within {time}");
        self.seen[profile]
            .borrow_mut()
            .push((of, time, time - within));
    }

    fn call(&self, watched: Watched, of: u64, body: impl FnOnce()) {
        let before = self.used.get();
        let at = before + BEFORE;
        match watched {
            Watched::Alone => {
                self.used.set(at + OWN_WORDS + 1);
                self.call_alone(at, of, body);
            }
            _ => {
                self.used.set(at + WORDS + 1);
                self.call_shared(watched, at, of, body);
            }
        }
        self.used.set(before);
    }

    fn call_alone(&self, at: usize, of: u64, body: impl FnOnce()) {
        let frame: &Frame = self.words[at..].first_chunk().unwrap();
        let address = BASE + 8 * at as u64;
        if !begin(frame, address, OWN[0], of, || self.now()) {
            begin_again(frame, self.search(0, at), || self.now());
        }
        body();
        let timed = Timed::of(frame);
        let times = timed.measure(|| self.now());
        let times = times.unwrap_or_else(|| timed.measure_again(|| self.now()));
        let outer = self.search(0, at);
        let added = end(frame, times);
        if let Some(outer) = outer {
            outer.local_add(added);
        }
        self.saw(0, of, (times.time, times.within));
    }

    fn call_shared(&self, watched: Watched, at: usize, of: u64, body: impl FnOnce()) {
        let words: &SharedFrame = self.words[at..].first_chunk().unwrap();
        let address = BASE + 8 * at as u64;
        shared_frame::clear(words);
        let mut marks = shared_frame::marks(TURN);
        let profiles = || (0..2).filter(|profile| watched.by(*profile));
        for profile in profiles() {
            marks |= shared_frame::mark(SEATS[profile], 0, profile);
        }
        if !shared_frame::begin(words, tag(address, SHARED, 0), marks, || self.now()) {
            let pass_on = |seat, time| {
                let profile = usize::from(seat == SEATS[1]);
                if let Some(outer) = self.search(profile, at) {
                    outer.local_add(time);
                }
            };
            shared_frame::begin_again(words, marks, pass_on, || self.now());
        }
        // The tracer keeps a word, and does not look at the profiles'.
        words[shared_frame::word_at(3)].store_relaxed(12345);
        marks |= shared_frame::mark(SEATS[2], 0, 3);
        words[shared_frame::MARKS].store_release(marks);
        body();
        for profile in profiles() {
            let seat = SEATS[profile];
            let timed = Timed::of_shared(words, marks, seat).unwrap();
            let times = timed.measure(|| self.now());
            let times = times.unwrap_or_else(|| timed.measure_again(|| self.now()));
            let next = at.checked_sub(BEFORE + WORDS + 1).map(|at| {
                let words = self.words[at..].first_chunk().unwrap();
                (words, BASE + 8 * at as u64)
            });
            let outer = match Outer::next_shared(next, Some(Self::seat(profile))) {
                Outer::Known(outer) => Some(outer),
                Outer::None => self.search(profile, at),
                Outer::Unknown => {
                    self.slow.set(self.slow.get() + 1);
                    self.search(profile, at)
                }
            };
            let added = end_shared(words, seat, timed, times);
            if let Some(outer) = outer {
                outer.local_add(added);
            }
            self.saw(profile, of, (times.time, times.within));
        }
        shared_frame::leave(words, SEATS[2]);
        shared_frame::forget(words);
    }

    /// Looks whether all own times of what a profile saw add up to the time of the outermost.
    fn adds_up(&self, profile: usize) {
        let seen = self.seen[profile].borrow();
        let Some((_, time, _)) = seen.last() else {
            return;
        };
        let sum: u64 = seen.iter().map(|(_, _, own)| own).sum();
        assert_eq!(sum, *time, "profile {profile}: {seen:?}");
    }
}

/// Calls as a tree: a function, the way in which it is watched, its work, and its calls.
#[derive(Clone, Debug)]
struct Tree(u64, usize, u64, Vec<Tree>);

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = (0u64..50, 0usize..3, 0u64..1000);
    let leaf = leaf.prop_map(|(of, watched, work)| Tree(of, watched, work, Vec::new()));
    leaf.prop_recursive(5, 40, 4, |inner| {
        let node = (0u64..50, 0usize..3, 0u64..1000, vec(inner, 0..4));
        node.prop_map(|(of, watched, work, inner)| Tree(of, watched, work, inner))
    })
}

/// Work is so much more than the ticks of the clock that it can be told from them.
const UNIT: u64 = 1000;

fn run(task: &Task, tree: &Tree) {
    task.call(Watched::ALL[tree.1], tree.0, || {
        task.work(tree.2 * UNIT);
        tree.3.iter().for_each(|inner| run(task, inner));
    });
}

/// Returns the work that is not in any call that a profile sees within the tree; `own` gets the own
/// work of those.
fn wanted(profile: usize, tree: &Tree, own: &mut Vec<(u64, u64)>) -> u64 {
    let within: u64 = (tree.3.iter().map(|inner| wanted(profile, inner, own))).sum();
    let work = tree.2 + within;
    if !Watched::ALL[tree.1].by(profile) {
        return work;
    }
    own.push((tree.0, work));
    0
}

proptest! {
    #![proptest_config(cases(200))]

    /// Each call has its own time, whatever watches those around it and within it.
    #[test]
    fn each_has_its_own_time(tree in trees()) {
        let task = Task::new();
        task.call(Watched::Both, 99, || run(&task, &tree));
        let tree = Tree(99, 1, 0, vec![tree]);
        for profile in 0..2 {
            let mut own = Vec::new();
            wanted(profile, &tree, &mut own);
            let seen: Vec<_> = task.seen[profile].borrow().iter().map(|(of, _, own)| (*of, own / UNIT)).collect();
            prop_assert_eq!(seen, own);
            task.adds_up(profile);
        }
    }
}

/// No call is searched for where all are shared by the same parts.
#[test]
fn the_one_around_is_known() {
    let task = Task::new();
    task.call(Watched::Both, 1, || {
        task.call(Watched::Both, 2, || task.call(Watched::Both, 3, || ()));
    });
    assert_eq!(task.slow.get(), 0);
}

/// An interrupt at any step of a call, and an NMI in it at any step, each of them watched in any
/// way: no time is told to two, or to none.
#[test]
fn interrupts_have_times_of_their_own() {
    let all = Watched::ALL;
    let ways = all
        .into_iter()
        .flat_map(|call| all.map(|interrupt| (call, interrupt)));
    for (nmi, (call, interrupt)) in all
        .into_iter()
        .flat_map(|nmi| ways.clone().map(move |way| (nmi, way)))
    {
        let mut rounds = 0;
        // All places of one or the other; the other's at some distance, as they are many.
        for (first, step) in points().map(|first| (first, if first % 5 == 0 { 1 } else { 7 })) {
            let mut came = false;
            for second in points().step_by(step) {
                let task = Task::new();
                let (inner, nmi_task) = (task.clone(), task.clone());
                let all_came = Rc::new(Cell::new(false));
                let nmi_came = all_came.clone();
                let handler = move |_| {
                    let nmi_task = nmi_task.clone();
                    let handler = move |_| nmi_task.call(nmi, 3, || nmi_task.work(100_000));
                    nmi_came.set(interrupted([second], handler, || {
                        inner.call(interrupt, 2, || inner.work(10_000));
                    }));
                };
                task.call(Watched::Both, 9, || {
                    came = interrupted([first], handler, || {
                        task.call(call, 1, || task.work(1000));
                    });
                });
                if !came || !all_came.get() {
                    break;
                }
                rounds += 1;
                for profile in 0..2 {
                    task.adds_up(profile);
                    let seen = task.seen[profile].borrow();
                    for (of, _, own) in seen.iter().filter(|(of, ..)| *of != 9) {
                        // The work of those that are not watched may be its own, too.
                        let work = [0, 1000, 10_000, 100_000];
                        let is_seen = [
                            true,
                            call.by(profile),
                            interrupt.by(profile),
                            nmi.by(profile),
                        ];
                        let unseen: u64 = (*of as usize + 1..4)
                            .filter(|inner| !is_seen[*inner])
                            .map(|inner| work[inner])
                            .sum();
                        let least = work[*of as usize];
                        assert!(
                            (least..least + unseen + 60).contains(own),
                            "{call:?} {interrupt:?} {nmi:?} {first} {second} {profile}: {seen:?}"
                        );
                    }
                }
            }
            if !came {
                break;
            }
        }
        assert!(cfg!(miri) || rounds > 50, "{rounds}");
    }
}
