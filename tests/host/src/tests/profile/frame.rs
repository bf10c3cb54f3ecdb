// SPDX-License-Identifier: GPL-2.0

//! The profile's frames: times of calls and of calls within them, on a shadow stack, with
//! interrupts at any place.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::engine::profile::frame::{
    begin, begin_again, end, forget, number, Below, Frame, Outer, Timed, CONTEXT, WORDS,
};
use crate::engine::shadow;
use crate::engine::shared_frame::{self, Seat};
use crate::platform::Word;
use crate::tests::{cases, interrupted, points};

const SECRET: u64 = 0x1234_5678_9abc_def1;
const BASE: u64 = 0xffff_8881_0000_0000;
/// Words of other users of a frame, below those of the profile and above.
const BEFORE: usize = 5;
const STRIDE: usize = BEFORE + WORDS + 1;

/// A task that calls functions, with a clock that goes on with each step.
struct Task {
    words: Vec<Word>,
    used: Cell<usize>,
    clock: Cell<u64>,
    /// Time within calls of functions, their own.
    own: RefCell<Vec<(u64, u64)>>,
    /// Other users' words lie between.
    is_mixed: bool,
    slow: Cell<u32>,
}

impl Task {
    fn new(is_mixed: bool) -> Rc<Self> {
        Rc::new(Self {
            words: (0..512).map(|_| Word::new(0)).collect(),
            used: Cell::new(0),
            clock: Cell::new(1000),
            own: RefCell::new(Vec::new()),
            is_mixed,
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

    /// The frame whose words begin at an index, and their address.
    fn frame(&self, at: usize) -> (&Frame, u64) {
        let words = self.words[at..].first_chunk().unwrap();
        (words, BASE + 8 * at as u64)
    }

    fn outer(&self, at: usize) -> Option<&Word> {
        let next = at.checked_sub(STRIDE).map(|at| self.frame(at));
        match Outer::next(next, SECRET) {
            Outer::Known(word) => Some(word),
            Outer::None => None,
            Outer::Unknown => {
                self.slow.set(self.slow.get() + 1);
                self.search(at)
            }
        }
    }

    /// Calls function `of`, which does `body`, as the hooks see it. Returns its time.
    fn call(&self, of: u64, body: impl FnOnce()) {
        let more = if self.is_mixed { of as usize % 3 } else { 0 };
        let before = self.used.get();
        let at = before + BEFORE + more;
        self.used.set(at + WORDS + 1);
        let (frame, address) = self.frame(at);
        if !begin(frame, address, SECRET, of, || self.now()) {
            begin_again(frame, self.search(at), || self.now());
        }
        body();
        assert_eq!(number(frame, address, SECRET), Some(of));
        let timed = Timed::of(frame);
        let times = timed.measure(|| self.now());
        let times = times.unwrap_or_else(|| timed.measure_again(|| self.now()));
        let outer = self.outer(at);
        let added = end(frame, times);
        if let Some(outer) = outer {
            outer.local_add(added);
        }
        assert!(times.within <= times.time);
        self.own.borrow_mut().push((of, times.time - times.within));
        assert_eq!(number(frame, address, SECRET), None);
        self.used.set(before);
    }

    fn search(&self, at: usize) -> Option<&Word> {
        Below::new(&self.words[..at], BASE, None).search(SECRET)
    }
}

/// Calls as a tree: a function, and what it calls.
#[derive(Clone, Debug)]
struct Tree(u64, u64, Vec<Tree>);

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = (0u64..50, 0u64..1000).prop_map(|(of, time)| Tree(of, time, Vec::new()));
    leaf.prop_recursive(5, 40, 4, |inner| {
        let inner = vec(inner, 0..4);
        (0u64..50, 0u64..1000, inner).prop_map(|(of, time, inner)| Tree(of, time, inner))
    })
}

fn run(task: &Task, tree: &Tree) {
    task.call(tree.0, || {
        task.work(tree.1);
        tree.2.iter().for_each(|inner| run(task, inner));
    });
}

/// Returns the own time of a call: its work, a tick of its clock, and one of each call within it
/// that began before what is counted for that.
fn wanted(tree: &Tree, own: &mut Vec<(u64, u64)>) {
    tree.2.iter().for_each(|inner| wanted(inner, own));
    own.push((tree.0, tree.1 + 1 + tree.2.len() as u64));
}

proptest! {
    #![proptest_config(cases(200))]

    /// Each call has its own time to the tick, with words of others between or without.
    #[test]
    fn own_times_are_exact(tree in trees(), is_mixed: bool) {
        let task = Task::new(is_mixed);
        run(&task, &tree);
        let mut own = Vec::new();
        wanted(&tree, &mut own);
        prop_assert_eq!(&*task.own.borrow(), &own);
        if !is_mixed {
            prop_assert_eq!(task.slow.get(), 0);
        }
    }

    /// Words that are no tags are not taken for any.
    #[test]
    fn other_words_are_no_tags(word: u64, index in 0u64..512) {
        let task = Task::new(false);
        let (frame, _) = task.frame(0);
        frame[0].store_relaxed(word);
        let address = BASE + 8 * index;
        let is_one = (word ^ (address << 24) ^ SECRET) >> 24 == 0;
        prop_assert_eq!(number(frame, address, SECRET).is_some(), is_one);
    }
}

/// An interrupt at any step of a call, and an NMI in it at any step: the times of all add up to
/// that of the outermost call, which is not interrupted.
#[test]
fn interrupts_have_times_of_their_own() {
    for is_mixed in [false, true] {
        let mut rounds = 0;
        'points: for first in points() {
            for second in points() {
                let task = Task::new(is_mixed);
                let (inner, nmi_task) = (task.clone(), task.clone());
                let all_came = Rc::new(Cell::new(false));
                let nmi_came = all_came.clone();
                let interrupt = move |_| {
                    let nmi_task = nmi_task.clone();
                    // It takes a while that is not in any function.
                    let nmi = move |_| nmi_task.call(3, || nmi_task.work(100_000));
                    inner.work(10_000_000);
                    nmi_came.set(interrupted([second], nmi, || {
                        inner.call(2, || inner.work(1000));
                    }));
                };
                let mut came = false;
                let mut time = 0;
                task.call(9, || {
                    let began = task.clock.get();
                    came = interrupted([first], interrupt, || task.call(1, || task.work(10)));
                    time = task.clock.get() - began;
                });
                if !came {
                    break 'points;
                }
                if !all_came.get() {
                    break;
                }
                rounds += 1;
                let own = task.own.borrow();
                let of = |of: u64| own.iter().find(|(call, _)| *call == of).unwrap().1;
                let sum: u64 = own.iter().map(|(_, own)| own).sum();
                // The end of the outermost takes a tick.
                assert_eq!(sum, time + 1, "{first} {second}: {own:?}");
                // No call has the time of another that interrupted it.
                assert!(
                    (100_000..100_010).contains(&of(3)),
                    "{first} {second}: {own:?}"
                );
                assert!((1000..1010).contains(&of(2)), "{first} {second}: {own:?}");
                // The interrupt's time outside of functions is that of the call it came in.
                let rest = of(1) % 10_000_000;
                assert!((10..20).contains(&rest), "{first} {second}: {own:?}");
            }
        }
        assert!(cfg!(miri) || rounds > 100, "{rounds}");
    }
}

/// A frame that others have left is forgotten when a call is not counted.
#[test]
fn what_is_forgotten_is_no_call() {
    let task = Task::new(false);
    let (frame, address) = task.frame(7);
    assert!(begin(frame, address, SECRET, 5, || 1));
    assert_eq!(number(frame, address, SECRET), Some(5));
    assert_eq!(number(frame, address, SECRET ^ (1 << 40)), None);
    assert_eq!(number(frame, address + 8, SECRET), None);
    forget(frame);
    assert_eq!(number(frame, address, SECRET), None);
}

/// The context of the innermost call is found, of those that have one, alone or shared.
#[test]
fn contexts_are_found() {
    let (of_three, of_four) = (SECRET, SECRET ^ (1 << 50));
    let task = Task::new(false);
    let search = |at: usize, shared| {
        let below = Below::new(&task.words[..at], BASE, shared);
        below.search_context(of_four).map(|context| context.0)
    };
    let call = |at: usize, secret, context| {
        let (frame, address) = task.frame(at);
        task.words[at + CONTEXT].store_relaxed(context);
        assert!(begin(frame, address, secret, 5, || 1));
    };
    assert_eq!(search(100, None), None);
    call(10, of_four, 77);
    assert_eq!(search(100, None), Some(77));
    assert_eq!(search(10, None), None);
    // A frame of the other kind has none.
    call(20, of_three, 88);
    assert_eq!(search(100, None), Some(77));
    let (frame, address) = task.frame(20);
    assert_eq!(number(frame, address, of_four), None);
    call(30, of_four, 99);
    assert_eq!(search(100, None), Some(99));
    assert_eq!(search(30, None), Some(77));
    forget(task.frame(30).0);
    // A shared call, of which the profile has the second word.
    let of_machine = 0xffff_8881_7777_0000;
    let seat = Seat {
        number: 2,
        own_start: false,
        sleeps: false,
        since: 3,
    };
    let marks = shared_frame::marks(4) | shared_frame::mark(seat.number, 0, 1);
    let tag = shadow::tag(BASE + 8 * 40, of_machine, 0);
    for (index, word) in [tag, marks, 1, 11, 22, 33, 44].into_iter().enumerate() {
        task.words[40 + index].store_relaxed(word);
    }
    assert_eq!(search(100, Some((seat, of_machine))), Some(33));
    assert_eq!(search(100, None), Some(77));
    let later = Seat { since: 5, ..seat };
    assert_eq!(search(100, Some((later, of_machine))), Some(77));
}

/// The counters of two CPUs may differ.
#[test]
fn time_does_not_go_back() {
    let task = Task::new(false);
    let (frame, address) = task.frame(7);
    assert!(begin(frame, address, SECRET, 5, || 100));
    assert!(Timed::of(frame).measure(|| 99).is_none());
    assert_eq!(Timed::of(frame).measure_again(|| 99).time, 0);
}
