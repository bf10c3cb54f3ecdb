// SPDX-License-Identifier: GPL-2.0

//! Calls with entry and return, with interrupts at every place where they can come.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::engine::consumer::Consumer;
use crate::engine::decode::{Event, EventKind};
use crate::engine::reader::{Cursor, EventExtras};
use crate::engine::ring::{OpenCall, Ring};
use crate::engine::slot::{SlotWords, Task};
use crate::platform::preempt;
use crate::support::{self, call, copy_space, task, FixedContext, Heap};
use crate::tests::{interrupted, points, some_under_miri};

/// An event as a CPU has recorded it: its time, whether it is an entry, the call, its depth and
/// duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    time: u64,
    entry: bool,
    ip: u64,
    depth: u32,
    duration: u64,
}

struct Cpu {
    ring: Ring<Heap>,
    task: Cell<Task>,
    now: Rc<Cell<u64>>,
    serial: Cell<u64>,
    depth: Cell<u32>,
    log: RefCell<Vec<Step>>,
    /// Entries and returns that could not be written.
    failed: Cell<u64>,
}

/// A call on its way.
struct Called {
    ip: u64,
    open: Option<OpenCall>,
}

impl Cpu {
    fn new(subbufs: usize, subbuf_slots: usize) -> Self {
        Self {
            ring: support::ring(subbufs, subbuf_slots),
            task: Cell::new(task(1, 1, "init")),
            now: Rc::default(),
            serial: Cell::new(0),
            depth: Cell::new(0),
            log: RefCell::default(),
            failed: Cell::new(0),
        }
    }

    fn tick(&self, last: &Cell<u64>) -> u64 {
        preempt::point();
        self.now.set(self.now.get() + 1);
        last.set(self.now.get());
        last.get()
    }

    fn enter(&self, wide: bool, extras: &[SlotWords]) -> Called {
        let serial = self.serial.replace(self.serial.get() + 1);
        let (call, context) = call(serial, wide);
        let depth = self.depth.get();
        let time = Cell::new(0);
        let clock = || self.tick(&time);
        let who = FixedContext {
            context,
            task: self.task.get(),
            clock: &clock,
        };
        let mut open = OpenCall::default();
        // SAFETY: The thread is this CPU, and what interrupts it does so by function calls.
        let written = unsafe { (self.ring).enter_call(call, || depth, extras, who, &mut open) };
        let open = written.then_some(open);
        match open {
            Some(open) => {
                assert_eq!(open.start, time.get());
                self.log.borrow_mut().push(Step {
                    time: time.get(),
                    entry: true,
                    ip: call.ip,
                    depth,
                    duration: 0,
                });
            }
            None => self.failed.set(self.failed.get() + 1),
        }
        self.depth.set(depth + 1);
        Called { ip: call.ip, open }
    }

    fn leave(&self, called: &Called, extras: &[SlotWords]) {
        let depth = self.depth.get() - 1;
        if let Some(open) = called.open {
            let time = Cell::new(0);
            let clock = || self.tick(&time);
            let who = FixedContext {
                context: 0,
                task: self.task.get(),
                clock: &clock,
            };
            let took = |now: u64| now - open.start;
            // SAFETY: As in `enter`.
            let is_leaf = extras.is_empty() && unsafe { self.ring.leave_leaf(open, who, took) };
            // SAFETY: As in `enter`.
            let call = || unsafe { self.ring.leave_call(called.ip, depth, extras, who, took) };
            let written = is_leaf || call();
            if written {
                self.log.borrow_mut().push(Step {
                    time: time.get(),
                    entry: false,
                    ip: called.ip,
                    depth,
                    // Until the time at its place in the order, whatever came since it was first
                    // read.
                    duration: time.get() - open.start,
                });
            } else {
                self.failed.set(self.failed.get() + 1);
            }
        }
        self.depth.set(depth);
    }

    fn call(&self, inner: impl FnOnce()) {
        let called = self.enter(false, &[]);
        inner();
        self.leave(&called, &[]);
    }

    /// Makes calls one after the other.
    fn calls(&self, count: u32) {
        for _ in 0..count {
            self.call(|| ());
        }
    }

    fn lost(&self) -> u64 {
        self.ring.commit_overrun() + self.ring.dropped()
    }

    fn complete(&self) {
        // SAFETY: As in `enter`.
        unsafe { self.ring.complete_pending() };
    }

    fn events(&self) -> Vec<Event> {
        let mut cursor = Cursor::new(&self.ring, copy_space(&self.ring), 0);
        std::iter::from_fn(|| cursor.next(&self.ring)).collect()
    }

    /// Takes out all events, though one at a time.
    fn drained(&self) -> Vec<Event> {
        let mut consumer = Consumer::new(copy_space(&self.ring));
        let mut events = vec![];
        let mut before = usize::MAX;
        while before != events.len() {
            before = events.len();
            consumer.drain(&self.ring, &mut |event: &Event,
                                             _: Option<
                EventExtras<'_, Vec<SlotWords>>,
            >| {
                let accepted = events.len() == before;
                if accepted {
                    events.push(Event { lost: 0, ..*event });
                }
                accepted
            });
        }
        events
    }

    /// Checks that the ring has the events that were recorded, all but the overwritten ones, in
    /// order.
    fn check(&self) {
        self.complete();
        assert!(!self.ring.has_pending());
        // Every event, written or not, is an entry or a return.
        let events = self.ring.extent().end_event + self.lost();
        assert_eq!(events - self.ring.returns(), self.serial.get());
        let mut log = self.log.borrow().clone();
        log.sort();
        let mut read = Vec::new();
        let events = self.events();
        let all = events.iter().map(|event| Event { lost: 0, ..*event });
        assert_eq!(self.drained(), all.collect::<Vec<_>>());
        for event in events {
            let step = |entry, duration| (entry, event.ip, u32::from(event.depth), duration);
            match event.what {
                EventKind::Entry => read.push(step(true, 0)),
                EventKind::Return => read.push(step(false, event.duration)),
                EventKind::Call => {
                    read.push(step(true, 0));
                    read.push(step(false, event.duration));
                }
                other => panic!("{other:?}"),
            }
        }
        let log: Vec<_> = (log.iter())
            .map(|step| (step.entry, step.ip, step.depth, step.duration))
            .collect();
        let present = log.len().saturating_sub(read.len());
        assert_eq!(read, log[present..]);
        assert!(present == 0 || self.ring.extent().first_event > 0);
    }
}

fn prepared((subbufs, subbuf_slots): (usize, usize), calls: u32, new_task: bool) -> Rc<Cpu> {
    let cpu = Cpu::new(subbufs, subbuf_slots);
    cpu.calls(calls);
    if new_task {
        cpu.task.set(task(2, 2, "kthreadd"));
    }
    Rc::new(cpu)
}

/// Calls in which interrupts come.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Leaf,
    /// One call in another.
    Nested,
    /// Calls with more than one slot at entry and return.
    Announced,
}

fn run(cpu: &Cpu, shape: Shape) {
    match shape {
        Shape::Leaf => cpu.calls(1),
        Shape::Nested => cpu.call(|| {
            cpu.calls(1);
            cpu.calls(1);
        }),
        Shape::Announced => {
            let called = cpu.enter(true, &[SlotWords::wide_slot(7)]);
            cpu.leave(&called, &[SlotWords::retval_slot(3)]);
        }
    }
}

const SHAPES: [Shape; 3] = [Shape::Leaf, Shape::Nested, Shape::Announced];
/// More than any of the rings here can hold.
const ROUND: u32 = 40;

fn states() -> impl Iterator<Item = u32> {
    some_under_miri(0..=20, 9)
}

#[test]
fn a_leaf_is_one_event() {
    let cpu = Cpu::new(2, 16);
    cpu.calls(3);
    cpu.check();
    assert_eq!(cpu.ring.extent().end_event, 3);
    assert!(cpu
        .events()
        .iter()
        .all(|event| event.what == EventKind::Call && !event.joined));
}

#[test]
fn a_call_with_calls_is_two_events() {
    let cpu = Cpu::new(2, 16);
    cpu.call(|| cpu.calls(2));
    cpu.check();
    let what: Vec<_> = cpu.events().iter().map(|event| event.what).collect();
    assert_eq!(
        what,
        [
            EventKind::Entry,
            EventKind::Call,
            EventKind::Call,
            EventKind::Return
        ]
    );
    assert_eq!(cpu.ring.extent().end_event, 4);
}

#[test]
fn a_pending_entry_is_not_seen_until_it_is_completed() {
    let cpu = Cpu::new(2, 16);
    let called = cpu.enter(false, &[]);
    assert!(cpu.ring.has_pending() && cpu.events().is_empty());
    cpu.complete();
    assert_eq!(cpu.events().len(), 1);
    cpu.leave(&called, &[]);
    cpu.check();
    // The reader makes one of the two.
    let events = cpu.events();
    assert_eq!(events.len(), 1);
    assert!(events[0].what == EventKind::Call && events[0].joined);
    assert_eq!(cpu.ring.extent().end_event, 2);
}

#[test]
fn what_was_announced_belongs_to_its_call() {
    let cpu = Cpu::new(2, 32);
    let called = cpu.enter(true, &[SlotWords::since_slot(1 << 40)]);
    cpu.calls(1);
    cpu.now.set(5 << 32);
    cpu.leave(
        &called,
        &[SlotWords::retval_slot(!0), SlotWords::overrun_slot(9)],
    );
    cpu.complete();
    let mut cursor = Cursor::new(&cpu.ring, copy_space(&cpu.ring), 0);
    let entry = cursor.next(&cpu.ring).expect("the entry");
    assert_eq!(entry.parent_ip, call(0, true).0.parent_ip);
    assert_eq!(cursor.extras().since, Some(1 << 40));
    let leaf = cursor.next(&cpu.ring).expect("the leaf");
    assert!(leaf.what == EventKind::Call && !leaf.has_extras);
    let end = cursor.next(&cpu.ring).expect("the return");
    assert!(end.has_extras && end.duration > 4 << 32);
    assert_eq!(cursor.extras().retval, Some(!0));
    assert_eq!(cursor.extras().overrun, Some(9));
    cpu.check();
}

#[test]
fn one_interrupt() {
    let bursts = [
        (Shape::Leaf, 1),
        (Shape::Nested, 1),
        (Shape::Announced, 1),
        (Shape::Leaf, ROUND),
    ];
    for geometry in some_under_miri([(2, 8), (3, 8), (2, 16)].into_iter(), 2) {
        for calls in states() {
            for shape in SHAPES {
                for (inner, count) in some_under_miri(bursts.into_iter(), 3) {
                    for point in points() {
                        let cpu = prepared(geometry, calls, calls % 2 == 0);
                        let other = cpu.clone();
                        let came = interrupted(
                            [point],
                            move |_| (0..count).for_each(|_| run(&other, inner)),
                            || run(&cpu, shape),
                        );
                        cpu.check();
                        // What fits must not be refused.
                        let small = geometry.1 == 8
                            && !matches!((shape, inner), (Shape::Leaf, Shape::Leaf));
                        assert!(small || count == ROUND || cpu.lost() == 0);
                        assert_eq!(cpu.failed.get(), cpu.lost());
                        if !came {
                            break;
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn interrupt_of_an_interrupt() {
    let geometry = (2, 8);
    for calls in states() {
        for shape in [Shape::Leaf, Shape::Nested] {
            for irq_point in points() {
                let mut came = false;
                for nmi_point in points() {
                    let cpu = prepared(geometry, calls, false);
                    let nmi_came = Rc::new(Cell::new(false));
                    let (in_irq, in_nmi, seen) = (cpu.clone(), cpu.clone(), nmi_came.clone());
                    let mut nmi = Some(move |_| in_nmi.calls(1));
                    came = interrupted(
                        [irq_point],
                        move |_| {
                            let handler = nmi.take().expect("one interrupt");
                            let body = || run(&in_irq, Shape::Nested);
                            seen.set(interrupted([nmi_point], handler, body));
                        },
                        || run(&cpu, shape),
                    );
                    cpu.check();
                    if !nmi_came.get() {
                        break;
                    }
                }
                if !came {
                    break;
                }
            }
        }
    }
}

/// A reader on another CPU makes this CPU complete its entry, at any moment.
#[test]
fn completed_at_every_step() {
    for calls in states() {
        for shape in SHAPES {
            for point in points() {
                let cpu = prepared((2, 8), calls, true);
                let other = cpu.clone();
                let came = interrupted(
                    [point],
                    move |_| {
                        other.complete();
                        // Nothing is read that is not true.
                        other.events();
                    },
                    || run(&cpu, shape),
                );
                cpu.check();
                assert_eq!(cpu.lost(), 0);
                if !came {
                    break;
                }
            }
        }
    }
}

/// An interrupt whose return is missed leaves its entry pending; nothing may wait for that for
/// ever.
#[test]
fn missed_returns() {
    for calls in states() {
        for point in points() {
            let cpu = prepared((2, 8), calls, false);
            let other = cpu.clone();
            let came = interrupted(
                [point],
                move |_| {
                    other.enter(false, &[]);
                    other.depth.set(other.depth.get() - 1);
                },
                || run(&cpu, Shape::Nested),
            );
            cpu.calls(ROUND);
            cpu.check();
            assert_eq!(cpu.lost(), 0);
            if !came {
                break;
            }
        }
    }
}

/// A call that is recorded long after it began, and after it ended, keeps its times, and completes
/// what was pending before it.
#[test]
fn late_calls() {
    for (took, result) in [
        (7, None),
        (7, Some(5)),
        (3 << 33, Some(u64::MAX)),
        (3 << 33, None),
    ] {
        let cpu = Cpu::new(2, 64);
        cpu.now.set(1 << 40);
        cpu.enter(false, &[]);
        let (late, _) = call(100, false);
        let (start, end) = (1000, 1000 + took);
        let time = Cell::new(0);
        let clock = || cpu.tick(&time);
        let who = FixedContext {
            context: 0,
            task: cpu.task.get(),
            clock: &clock,
        };
        let context = 3;
        // SAFETY: As in `enter`.
        assert!(unsafe { cpu.ring.write_late_entry(late, start, 1, context, &who) });
        assert!(!cpu.ring.has_pending());
        // With nothing between them, entry and return are read as one.
        cpu.enter(false, &[]);
        let returns = cpu.ring.returns();
        let times = start..end;
        // SAFETY: As in `enter`.
        let written =
            unsafe { (cpu.ring).write_late_return(late.ip, times, result, 1, context, &who) };
        assert!(written);
        assert_eq!(cpu.ring.returns(), returns + 1);
        let mut cursor = Cursor::new(&cpu.ring, copy_space(&cpu.ring), 0);
        assert_eq!(
            cursor.next(&cpu.ring).map(|event| event.what),
            Some(EventKind::Entry)
        );
        let entry = cursor.next(&cpu.ring).expect("the entry");
        assert_eq!(
            (entry.what, entry.ip, entry.depth),
            (EventKind::Entry, late.ip, 1)
        );
        assert_eq!(entry.parent_ip, late.parent_ip);
        assert_eq!(cursor.extras().since, Some(start));
        let inner = cursor.next(&cpu.ring).map(|event| event.what);
        assert_eq!(inner, Some(EventKind::Entry));
        let returned = cursor.next(&cpu.ring).expect("the return");
        assert_eq!((returned.what, returned.ip), (EventKind::Return, late.ip));
        assert_eq!(returned.duration, took);
        assert_eq!(
            (cursor.extras().since, cursor.extras().retval),
            (Some(end), result)
        );
        assert_eq!(cursor.next(&cpu.ring), None);
    }
}

/// A call that ends on another CPU, or in another ring of its own, is never taken for one that is
/// pending there at the same place.
#[test]
fn rings_do_not_take_each_others_calls() {
    let mut cpu = Cpu::new(2, 8);
    cpu.ring = cpu.ring.identified(1);
    let mut other = Cpu::new(2, 8);
    other.ring = other.ring.identified(2);
    let away = cpu.enter(false, &[]);
    other.serial.set(9);
    let there = other.enter(false, &[]);
    other.depth.set(1);
    other.leave(&away, &[]);
    other.depth.set(1);
    other.leave(&there, &[]);
    let what: Vec<_> = other.events().iter().map(|event| event.what).collect();
    assert_eq!(
        what,
        [EventKind::Entry, EventKind::Return, EventKind::Return]
    );
    assert_eq!(away.open.map(|open| open.token == 0), Some(false));
    assert_ne!(away.open, there.open);
}

#[test]
fn full_rings_drop_and_count() {
    for calls in states() {
        for point in points() {
            let cpu = Rc::new(Cpu::new(2, 8));
            cpu.ring.set_discard(true);
            cpu.calls(calls);
            let other = cpu.clone();
            let came = interrupted(
                [point],
                move |_| run(&other, Shape::Nested),
                || run(&cpu, Shape::Nested),
            );
            cpu.check();
            assert_eq!(cpu.failed.get(), cpu.lost());
            if !came {
                break;
            }
        }
    }
}
