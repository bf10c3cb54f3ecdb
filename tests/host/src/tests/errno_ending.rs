// SPDX-License-Identifier: GPL-2.0

//! Ends of calls, with a shadow stack as the kernel has it, against what the tree of calls says.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashSet};

use proptest::prelude::*;

use crate::engine::context::{Level, HARDIRQ, NMI, SOFTIRQ};
use crate::engine::errno::{ResultKind, MAX_ERRNO};
use crate::engine::errno_chain::{CallInfo, Chains, Ending, ErrnoLinks, Link, FRAME_WORDS};
use crate::engine::shadow::{flags_of, secret, tag, Shadow, ShadowFrame};
use crate::engine::slot::text_address;
use crate::platform::Word;

const BASE: u64 = 0xffff_8881_0000_1000;
/// Words of others before and behind those of a call.
const OTHERS: usize = 5;
const LEVELS: [(Level, u32); 4] = [
    (Level::Task, 0),
    (Level::Softirq, SOFTIRQ),
    (Level::Hardirq, HARDIRQ),
    (Level::Nmi, NMI),
];

/// A call, with all that it calls.
#[derive(Clone, Debug)]
struct Call {
    ip: u64,
    kind: ResultKind,
    register: u64,
    /// Index of [`LEVELS`].
    level: usize,
    callees: Vec<Call>,
    start: u64,
    end: u64,
}

/// An event that is recorded: the function, and when the call began or ended, with its result.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Entered(u64, u32, u64),
    Returned(u64, u32, u64, Option<i64>),
}

impl Event {
    /// Returns whether it is `other`, at a time that differs by at most so much.
    fn is_like(&self, other: &Self, slack: u64) -> bool {
        let parts = |event: &Self| match *event {
            Self::Entered(ip, depth, time) => (ip, depth, None, time),
            Self::Returned(ip, depth, time, result) => (ip, depth, Some(result), time),
        };
        let ((ip, depth, result, time), other) = (parts(self), parts(other));
        (ip, depth, result) == (other.0, other.1, other.2) && time.abs_diff(other.3) <= slack
    }
}

/// Returns whether events are as `wanted`, each with the slack that its time has.
fn are_like(events: &[Event], wanted: &[(Event, u64)]) -> bool {
    let mut both = events.iter().zip(wanted);
    events.len() == wanted.len()
        && both.all(|(event, (wanted, slack))| event.is_like(wanted, *slack))
}

/// A task's shadow stack, and what is recorded.
struct Hooks<'a> {
    words: Vec<Word>,
    used: Cell<usize>,
    now: Cell<u64>,
    depth: Cell<u32>,
    /// The calls that are open, by where their words are.
    open: RefCell<Vec<(usize, u64)>>,
    /// The one that returns.
    returning: Cell<u64>,
    links: ErrnoLinks,
    asked: &'a BTreeSet<u64>,
    handled: bool,
    events: RefCell<Vec<Event>>,
}

impl Chains for Hooks<'_> {
    fn asks_for(&self, errno: u64) -> bool {
        self.asked.contains(&errno)
    }

    fn shows_handled(&self) -> bool {
        self.handled
    }

    fn thresh(&self) -> u64 {
        0
    }

    fn now(&self) -> Option<u64> {
        Some(self.now.get())
    }

    fn cpu(&self) -> u32 {
        0
    }

    fn misses(&self) -> bool {
        false
    }

    fn links(&self) -> Option<&ErrnoLinks> {
        Some(&self.links)
    }

    fn place(&self) -> u64 {
        self.returning.get()
    }

    fn place_of(&self, frame: &ShadowFrame<'_>) -> Option<u64> {
        let open = self.open.borrow();
        let is_it = |call: &&(usize, u64)| call.0 == frame.index();
        open.iter().find(is_it).map(|call| call.1)
    }

    fn entered(&self, start: u64, info: CallInfo, place: u64) {
        let event = Event::Entered(text_address(place), info.depth(), start);
        self.events.borrow_mut().push(event);
    }

    fn returned(&self, call: &Link, result: Option<u64>) {
        let result = result.map(|result| result as i64);
        let ip = text_address(call.place);
        let event = Event::Returned(ip, call.info.depth(), call.end, result);
        self.events.borrow_mut().push(event);
    }
}

impl<'a> Hooks<'a> {
    fn new(asked: &'a BTreeSet<u64>, handled: bool) -> Self {
        Self {
            // Calls before have left something there.
            words: (0..1000).map(|word| Word::new(word * 0x1_0001)).collect(),
            used: Cell::new(0),
            now: Cell::new(0),
            depth: Cell::new(0),
            open: RefCell::new(Vec::new()),
            returning: Cell::new(0),
            links: ErrnoLinks::new(1).unwrap(),
            asked,
            handled,
            events: RefCell::new(Vec::new()),
        }
    }

    /// Does what the hooks do at the entry and the return, and `within` between the two.
    fn call(&self, call: &Call, within: impl FnOnce()) {
        let secret = secret(0x1234_5678, FRAME_WORDS);
        let used = self.used.get();
        let at = used + OTHERS;
        let address = BASE + 8 * at as u64;
        let shadow = || Shadow::new(&self.words[..at], BASE, secret);
        let frame = &self.words[at..at + FRAME_WORDS];
        let info = CallInfo::within(
            shadow().innermost().as_ref(),
            self.depth.get(),
            LEVELS[call.level].1,
            call.kind,
        );
        let place = call.ip & 0xffff_ffff;
        for (index, word) in [
            (1, call.start),
            (2, info.0),
            (3, 0),
            (4, 0),
            (6, 0),
            (0, tag(address, secret, 0)),
        ] {
            frame[index].store_relaxed(word);
        }
        self.used.set(at + FRAME_WORDS + OTHERS);
        self.depth.set(self.depth.get() + 1);
        self.open.borrow_mut().push((at, place));
        within();
        self.open.borrow_mut().pop();
        self.returning.set(place);
        self.depth.set(self.depth.get() - 1);
        self.used.set(used);
        let word = |index: usize| frame[index].load_relaxed();
        let flags = flags_of(word(0), address, secret).expect("a tag");
        frame[0].store_relaxed(0);
        self.now.set(call.end);
        let words: [u64; FRAME_WORDS] = std::array::from_fn(word);
        let ending = Ending {
            words: &words,
            flags,
            ip: call.ip,
            register: call.register,
            around: shadow(),
        };
        ending.end(self);
    }

    fn run(&self, call: &Call) {
        self.call(call, || call.callees.iter().for_each(|call| self.run(call)));
    }
}

/// The definition, which says what is to be recorded.
struct Definition<'a> {
    asked: &'a BTreeSet<u64>,
    handled: bool,
    /// Calls whose entries were recorded, by when they began.
    shown: HashSet<u64>,
    /// Events, and how much their times may differ.
    events: Vec<(Event, u64)>,
}

impl<'a> Definition<'a> {
    fn result(call: &Call) -> Option<i64> {
        match call.kind {
            ResultKind::None | ResultKind::Unknown => None,
            ResultKind::Int => Some((call.register as i32).into()),
            ResultKind::Long => Some(call.register as i64),
            ResultKind::Byte => Some((call.register as u8).into()),
            ResultKind::Half => Some((call.register as u32).into()),
        }
    }

    /// The error that a call returns, if it is asked for.
    fn errno(&self, call: &Call) -> Option<u64> {
        let result = Self::result(call)
            .filter(|result| call.kind.can_fail() && (-(MAX_ERRNO as i64)..0).contains(result))?;
        Some(result.unsigned_abs()).filter(|errno| self.asked.contains(errno))
    }

    /// The last callee, with how often it was handed on, and the last that returned an error that
    /// is asked for.
    fn last<'b>(&self, call: &'b Call) -> (Option<(&'b Call, u64)>, Option<&'b Call>) {
        let (mut last, mut failed): (Option<(&Call, u64)>, Option<&Call>) = (None, None);
        for callee in call
            .callees
            .iter()
            .filter(|callee| callee.level == call.level)
        {
            match callee.kind {
                ResultKind::None => {}
                ResultKind::Unknown => {
                    let (inner_last, inner_failed) = self.last(callee);
                    last = inner_last.map(|(call, hands)| (call, hands + 1)).or(last);
                    failed = inner_failed.or(failed);
                }
                ResultKind::Int | ResultKind::Long => {
                    last = Some((callee, 0));
                    if self.errno(callee).is_some() {
                        failed = Some(callee);
                    }
                }
                ResultKind::Byte | ResultKind::Half => {
                    if last.is_none_or(|(last, _)| self.errno(last).is_none()) {
                        last = Some((callee, 0));
                    }
                }
            }
        }
        (last, failed)
    }

    fn enter(&mut self, call: &Call, depth: u32, slack: u64) {
        self.events
            .push((Event::Entered(call.ip, depth, call.start), slack));
    }

    fn leave(&mut self, call: &Call, depth: u32, slack: u64) {
        let result = Self::result(call);
        self.events
            .push((Event::Returned(call.ip, depth, call.end, result), slack));
    }

    /// Of a chain: what is between the entry and the return of a call that failed.
    fn explain(&mut self, call: &Call, depths: &dyn Fn(&Call) -> u32) {
        let errno = self.errno(call);
        let (last, failed) = self.last(call);
        let child = failed.filter(|failed| self.errno(failed) == errno);
        if let (Some(child), false) = (child, self.handled) {
            self.enter(child, depths(child), 0);
            self.explain(child, depths);
            self.leave(child, depths(child), 0);
        }
        if let Some((last, hands)) = last {
            let is_child = child.is_some_and(|child| child.start == last.start);
            let was_shown = self.handled && self.errno(last).is_some();
            if !is_child && !was_shown {
                // Right below, whatever it was handed on by.
                let depth = depths(call) + 1;
                self.enter(last, depth, 256 * (hands + 1));
                self.leave(last, depth, 256 * (hands + 1));
            }
        }
    }

    fn run(&mut self, call: &'a Call, around: &mut Vec<&'a Call>, depths: &dyn Fn(&Call) -> u32) {
        around.push(call);
        for callee in &call.callees {
            self.run(callee, around, depths);
        }
        around.pop();
        let is_root = around
            .last()
            .is_none_or(|caller| caller.level != call.level);
        if self.errno(call).is_some() && (is_root || self.handled) {
            if self.handled {
                for caller in around.iter() {
                    if self.shown.insert(caller.start) {
                        self.enter(caller, depths(caller), 0);
                    }
                }
            }
            if self.shown.insert(call.start) {
                self.enter(call, depths(call), 0);
            }
            self.explain(call, depths);
            self.leave(call, depths(call), 0);
        } else if self.shown.contains(&call.start) {
            self.leave(call, depths(call), 0);
        }
    }
}

fn any_call() -> impl Strategy<Value = Call> {
    let kinds = vec![
        ResultKind::None,
        ResultKind::Int,
        ResultKind::Int,
        ResultKind::Int,
        ResultKind::Long,
        ResultKind::Long,
        ResultKind::Unknown,
        ResultKind::Byte,
        ResultKind::Half,
    ];
    let registers = vec![
        0,
        1,
        -2_i64 as u64,
        -2_i64 as u64,
        -11_i64 as u64,
        -22_i64 as u64,
        0x1234_5678_ffff_fffe,
        0xffff_fff5,
        0xffff_8881_0000_0000,
    ];
    let own = (
        0..0x4000_0000_u64,
        prop::sample::select(kinds),
        prop::sample::select(registers),
        prop::sample::select(vec![0, 0, 0, 0, 0, 0, 0, 1]),
        0..3000_u64,
    );
    let call =
        |((ip, kind, register, level, took), callees): ((u64, _, _, _, u64), Vec<Call>)| Call {
            ip: 0xffff_ffff_8000_0000 | ip,
            kind,
            register,
            level,
            callees,
            start: 0,
            end: took,
        };
    let leaf = own.clone().prop_map(move |own| call((own, Vec::new())));
    leaf.prop_recursive(7, 60, 4, move |inner| {
        (own.clone(), prop::collection::vec(inner, 0..5)).prop_map(call)
    })
}

/// Gives all calls their times, one after the other, and levels not below that of their callers.
fn set_times(call: &mut Call, time: &mut u64, level: usize) {
    call.level = (call.level + level).min(LEVELS.len() - 1);
    let took = call.end;
    *time += 1 + took / 2;
    call.start = *time;
    for callee in &mut call.callees {
        set_times(callee, time, call.level);
    }
    *time += 1 + took;
    call.end = *time;
}

fn depth_of(root: &Call, start: u64) -> Option<u32> {
    if root.start == start {
        return Some(0);
    }
    let found = root.callees.iter().find_map(|call| depth_of(call, start));
    found.map(|depth| depth + 1)
}

proptest! {
    #![proptest_config(super::cases(2000))]

    /// The hooks record what the definition says.
    #[test]
    fn as_defined(
        root in any_call(),
        asked in prop::collection::btree_set(prop::sample::select(vec![2_u64, 11, 22]), 1..3),
        handled in any::<bool>(),
    ) {
        let mut root = root;
        set_times(&mut root, &mut 1000, 0);
        let hooks = Hooks::new(&asked, handled);
        hooks.run(&root);
        let mut definition = Definition {
            asked: &asked,
            handled,
            shown: HashSet::new(),
            events: Vec::new(),
        };
        definition.run(&root, &mut Vec::new(), &|call| depth_of(&root, call.start).unwrap());
        let events = hooks.events.into_inner();
        let are_alike = are_like(&events, &definition.events);
        prop_assert!(are_alike, "{events:#x?}\nis not\n{:#x?}", definition.events);
        prop_assert_eq!(hooks.links.cut(), 0);
    }
}

fn call(ip: u64, kind: ResultKind, register: i64, start: u64) -> Call {
    Call {
        ip: 0xffff_ffff_8000_0000 | ip,
        kind,
        register: register as u64,
        level: 0,
        callees: Vec::new(),
        start,
        end: start + 1000,
    }
}

/// Of a chain that is cut, the call that is gone is still shown, as the last callee.
#[test]
fn cut() {
    let asked = BTreeSet::from([2]);
    let hooks = Hooks::new(&asked, false);
    let root = call(0x10, ResultKind::Int, -2, 1000);
    let inner = call(0x20, ResultKind::Int, -2, 1100);
    let root = Call { end: 3000, ..root };
    hooks.call(&root, || {
        hooks.call(&inner, || {});
        // Other tasks have errors meanwhile.
        for _ in 0..1024 {
            hooks.links.keep(0, Level::Task, 2, &Link::default());
        }
    });
    let events = hooks.events.into_inner();
    let wanted = [
        (Event::Entered(root.ip, 0, 1000), 0),
        (Event::Entered(inner.ip, 1, 1100), 256),
        (Event::Returned(inner.ip, 1, 2100, Some(-2)), 256),
        (Event::Returned(root.ip, 0, 3000, Some(-2)), 0),
    ];
    assert!(are_like(&events, &wanted), "{events:#x?}");
    assert_eq!(hooks.links.cut(), 1);
}

/// A call that cleans up after the error hides neither where it began nor itself.
#[test]
fn after_the_error() {
    let asked = BTreeSet::from([28]);
    let hooks = Hooks::new(&asked, false);
    let mut root = call(0x10, ResultKind::Int, -28, 1000);
    root.end = 9000;
    root.callees = vec![
        call(0x20, ResultKind::Int, -28, 2000),
        call(0x30, ResultKind::Int, 0, 4000),
    ];
    hooks.run(&root);
    let ips: Vec<u64> = (hooks.events.borrow().iter())
        .map(|event| match event {
            Event::Entered(ip, ..) | Event::Returned(ip, ..) => ip & 0xff,
        })
        .collect();
    assert_eq!(ips, [0x10, 0x20, 0x20, 0x30, 0x30, 0x10]);
}
