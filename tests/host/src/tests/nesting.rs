// SPDX-License-Identifier: GPL-2.0

//! Writers that interrupt writers, at every place where they can.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::cpu::{check_events, Cpu};
use super::{interrupted, points, points_from, some_under_miri};
use crate::engine::consumer::Consumer;
use crate::engine::decode::Event;
use crate::engine::slot::SlotWords;
use crate::support::{copy_space, task};

/// Number of sub-buffers, and of slots in each.
type Geometry = (usize, usize);

/// Reasons for a write to need more slots than one.
#[derive(Clone, Copy, Debug)]
struct Write {
    new_epoch: bool,
    wide: bool,
}

const PLAIN: Write = Write {
    new_epoch: false,
    wide: false,
};
const LONG: Write = Write {
    new_epoch: true,
    wide: true,
};
const WRITES: [Write; 4] = [
    PLAIN,
    Write {
        new_epoch: true,
        wide: false,
    },
    Write {
        new_epoch: false,
        wide: true,
    },
    LONG,
];

/// More than any of the rings here can hold.
const ROUND: u32 = 40;

fn write(cpu: &Cpu, write: Write) {
    if write.new_epoch {
        cpu.advance(1 << 32);
    }
    cpu.write(write.wide);
}

fn burst(cpu: &Cpu, kind: Write, count: u32) {
    for _ in 0..count {
        write(cpu, kind);
    }
}

/// Returns a CPU that has written `events`; the next one belongs to another task if `new_task`.
fn prepared((subbufs, subbuf_slots): Geometry, events: u32, new_task: bool) -> Rc<Cpu> {
    let cpu = Cpu::new(subbufs, subbuf_slots, 1);
    cpu.writes(events);
    if new_task {
        cpu.task.set(task(2, 2, "kthreadd"));
    }
    Rc::new(cpu)
}

/// Takes events out of a CPU's ring.
struct Taker {
    consumer: RefCell<Consumer<Vec<SlotWords>>>,
    taken: RefCell<Vec<(u64, Event)>>,
    lost: Cell<u64>,
}

impl Taker {
    fn new(cpu: &Cpu) -> Self {
        Self {
            consumer: RefCell::new(Consumer::new(copy_space(&cpu.ring))),
            taken: RefCell::default(),
            lost: Cell::new(0),
        }
    }

    fn take(&self, cpu: &Cpu, most: u64) {
        let mut consumer = self.consumer.borrow_mut();
        for _ in 0..most {
            let Some((index, event)) = consumer.peek(&cpu.ring) else {
                return;
            };
            assert!(consumer.take(index));
            self.lost.set(self.lost.get() + event.lost);
            let event = Event { lost: 0, ..event };
            self.taken.borrow_mut().push((index, event));
        }
    }

    /// Takes the rest, and checks that all events that were written were taken, in order, or else
    /// lost.
    fn check(&self, cpu: &Cpu, may_lose: bool) {
        self.take(cpu, u64::MAX);
        let taken = self.taken.borrow();
        let written = cpu.written();
        check_events(&taken, &written);
        assert!(taken.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let lost = self.lost.get();
        assert_eq!(taken.len() as u64 + lost, written.len() as u64);
        assert!(may_lose || lost == 0, "{lost} lost");
    }
}

/// Returns the numbers of plain events that bring a ring through all its states, and once more
/// round; under Miri some of them.
fn states((subbufs, subbuf_slots): Geometry) -> impl Iterator<Item = u32> {
    let in_subbuf = subbuf_slots - 4;
    some_under_miri(0..=((2 * subbufs + 1) * in_subbuf) as u32, 13)
}

#[test]
fn one_interrupt() {
    let mut commit_overruns = 0;
    let bursts = [
        (PLAIN, 1),
        (PLAIN, 4),
        (PLAIN, ROUND),
        (LONG, 1),
        (LONG, ROUND),
    ];
    for geometry in some_under_miri([(2, 8), (3, 8), (2, 16)].into_iter(), 2) {
        for events in states(geometry) {
            for (outer, new_task) in WRITES.into_iter().flat_map(|w| [(w, false), (w, true)]) {
                for (inner, count) in some_under_miri(bursts.into_iter(), 2) {
                    for point in points() {
                        let cpu = prepared(geometry, events, new_task);
                        let other = cpu.clone();
                        let came = interrupted(
                            [point],
                            move |_| burst(&other, inner, count),
                            || write(&cpu, outer),
                        );
                        cpu.check();
                        // What fits must not be refused.
                        assert!(count == ROUND || cpu.commit_overrun() == 0);
                        commit_overruns += cpu.commit_overrun();
                        if !came {
                            break;
                        }
                    }
                }
            }
        }
    }
    assert!(commit_overruns > 0, "no burst met the writer below it");
}

#[test]
fn two_interrupts_of_one_writer() {
    let geometry = (2, 8);
    let counts = [[1, 1], [4, 1], [3, 5], [ROUND, 1], [4, ROUND]];
    for events in states(geometry) {
        for (outer, new_task) in [(PLAIN, false), (PLAIN, true), (LONG, true)] {
            for counts in some_under_miri(counts.into_iter(), 2) {
                for first in points() {
                    let mut any = false;
                    for second in points_from(first + 1) {
                        let cpu = prepared(geometry, events, new_task);
                        let other = cpu.clone();
                        let came = interrupted(
                            [first, second],
                            move |index| burst(&other, PLAIN, counts[index]),
                            || write(&cpu, outer),
                        );
                        cpu.check();
                        if !came {
                            break;
                        }
                        any = true;
                    }
                    if !any {
                        break;
                    }
                }
            }
        }
    }
}

#[test]
fn interrupt_of_an_interrupt() {
    let geometry = (2, 8);
    let nmis = [(PLAIN, 1), (LONG, 1), (PLAIN, 4), (PLAIN, ROUND)];
    for events in states(geometry) {
        for (outer, new_task) in [(PLAIN, false), (LONG, true)] {
            for (irq, irqs) in [(PLAIN, 1), (LONG, 1), (PLAIN, 5)] {
                for (nmi, nmis) in some_under_miri(nmis.into_iter(), 3) {
                    for irq_point in points() {
                        let mut came = false;
                        for nmi_point in points() {
                            let cpu = prepared(geometry, events, new_task);
                            let nmi_came = Rc::new(Cell::new(false));
                            let (in_irq, in_nmi, seen) =
                                (cpu.clone(), cpu.clone(), nmi_came.clone());
                            let mut nmi_handler = Some(move |_| burst(&in_nmi, nmi, nmis));
                            came = interrupted(
                                [irq_point],
                                move |_| {
                                    let handler = nmi_handler.take().expect("one interrupt");
                                    seen.set(interrupted([nmi_point], handler, || {
                                        burst(&in_irq, irq, irqs)
                                    }));
                                },
                                || write(&cpu, outer),
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
    }
}

/// Returns a CPU as [`prepared`], in discard mode, whose sub-buffers below `released` were read.
fn limited(geometry: Geometry, events: u32, new_task: bool, released: u64) -> Rc<Cpu> {
    let cpu = prepared(geometry, events, new_task);
    cpu.ring.set_discard(true);
    cpu.ring.release(released);
    cpu
}

/// Checks that all is accounted for and nothing was overwritten that was not released when `before`
/// was all that was overwritten.
fn check_limited(cpu: &Cpu, before: u64, released: u64) {
    cpu.check();
    let oldest = cpu.ring.extent().oldest;
    assert!(
        oldest <= before.max(released).max(1),
        "sub-buffer {} was overwritten",
        oldest - 1
    );
}

#[test]
fn one_interrupt_of_a_full_ring() {
    let mut dropped = 0;
    let bursts = [(PLAIN, 1), (PLAIN, 5), (LONG, 1), (PLAIN, ROUND)];
    for geometry in some_under_miri([(2, 8), (3, 8)].into_iter(), 2) {
        for events in states(geometry) {
            let oldest = prepared(geometry, events, false).ring.extent().oldest;
            for released in oldest..=oldest + geometry.0 as u64 {
                for (outer, new_task) in [(PLAIN, false), (PLAIN, true), (LONG, true)] {
                    for (inner, count) in some_under_miri(bursts.into_iter(), 3) {
                        for point in points() {
                            let cpu = limited(geometry, events, new_task, released);
                            let other = cpu.clone();
                            let came = interrupted(
                                [point],
                                move |_| burst(&other, inner, count),
                                || write(&cpu, outer),
                            );
                            check_limited(&cpu, oldest, released);
                            dropped += cpu.dropped();
                            if !came {
                                break;
                            }
                        }
                    }
                }
            }
        }
    }
    assert!(dropped > 0, "the ring was never full");
}

#[test]
fn interrupt_of_an_interrupt_of_a_full_ring() {
    let geometry = (2, 8);
    for events in states(geometry) {
        let oldest = prepared(geometry, events, false).ring.extent().oldest;
        for released in oldest..=oldest + 1 {
            for (kind, nmis) in [(PLAIN, 1), (PLAIN, 5), (LONG, 1)] {
                for irq_point in points() {
                    let mut came = false;
                    for nmi_point in points() {
                        let cpu = limited(geometry, events, true, released);
                        let nmi_came = Rc::new(Cell::new(false));
                        let (in_irq, in_nmi, seen) = (cpu.clone(), cpu.clone(), nmi_came.clone());
                        let mut nmi_handler = Some(move |_| burst(&in_nmi, kind, nmis));
                        came = interrupted(
                            [irq_point],
                            move |_| {
                                let handler = nmi_handler.take().expect("one interrupt");
                                seen.set(interrupted([nmi_point], handler, || {
                                    burst(&in_irq, kind, 2)
                                }));
                            },
                            || write(&cpu, PLAIN),
                        );
                        check_limited(&cpu, oldest, released);
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
}

/// A consumer on another CPU takes events at every step of a writer, in both modes.
#[test]
fn consumer_at_every_step_of_a_writer() {
    for discard in [false, true] {
        for geometry in some_under_miri([(2, 8), (3, 8)].into_iter(), 2) {
            for events in states(geometry) {
                for before in [0, 3, u64::MAX] {
                    for point in points() {
                        let cpu = prepared(geometry, 0, false);
                        cpu.ring.set_discard(discard);
                        let taker = Rc::new(Taker::new(&cpu));
                        // As far as there is room.
                        cpu.writes(events / 2);
                        taker.take(&cpu, before);
                        cpu.writes(events - events / 2);
                        cpu.task.set(task(2, 2, "kthreadd"));
                        let (other, taking) = (cpu.clone(), taker.clone());
                        let came = interrupted(
                            [point],
                            move |_| taking.take(&other, u64::MAX),
                            || write(&cpu, LONG),
                        );
                        cpu.check();
                        taker.check(&cpu, !discard);
                        if !came {
                            break;
                        }
                    }
                }
            }
        }
    }
}

/// A writer, an interrupt of it, and two NMIs in that: the fewest that could see a header zeroed by
/// one that is already behind.
#[test]
fn two_interrupts_of_an_interrupt() {
    // Only where a sub-buffer is opened, and the first NMI fills it.
    for events in [0, 4, 8] {
        for irq_point in points() {
            let mut irq_came = false;
            for first in points() {
                let mut any = false;
                for second in points_from(first + 1) {
                    let cpu = prepared((2, 8), events, false);
                    let nmis_came = Rc::new(Cell::new(false));
                    let (in_irq, in_nmi) = (cpu.clone(), cpu.clone());
                    let seen = nmis_came.clone();
                    let mut nmi_handler = Some(move |index| in_nmi.writes([4, 1][index]));
                    irq_came = interrupted(
                        [irq_point],
                        move |_| {
                            let handler = nmi_handler.take().expect("one interrupt");
                            let points = [first, second];
                            seen.set(interrupted(points, handler, || in_irq.writes(1)));
                        },
                        || cpu.writes(1),
                    );
                    cpu.check();
                    if !nmis_came.get() {
                        break;
                    }
                    any = true;
                }
                if !any {
                    break;
                }
            }
            if !irq_came {
                break;
            }
        }
    }
}
