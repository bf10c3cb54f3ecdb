// SPDX-License-Identifier: GPL-2.0

//! Pages that are drained from a ring: the fast path of functions makes the same bytes as the path
//! of all events.

use std::cell::Cell;

use proptest::prelude::*;

use super::cases;
use crate::engine::clock::{ClockSample, Conversion, Scale};
use crate::engine::consumer::{Consumer, Sink};
use crate::engine::decode::{Decoder, Event};
use crate::engine::extras::ARGS;
use crate::engine::kernel_page::{KernelPage, Layout};
use crate::engine::reader::EventExtras;
use crate::engine::ring::{OpenCall, Ring, WriteOutcome};
use crate::engine::slot::{SlotKind, SlotWords};
use crate::support::{self, call, copy_space, task, FixedContext, Heap};

#[derive(Clone, Debug)]
enum Step {
    Functions(u8),
    Wide,
    Args([u64; ARGS]),
    Mark(u8),
    Leaf,
    Call,
    Advance(u64),
    Switch(u32),
    /// Make a page of the next events both ways.
    Page,
}

fn step() -> impl Strategy<Value = Step> {
    let ticks = prop_oneof![
        4 => 0..1000u64,
        2 => (0..4u64).prop_map(|more| (1 << 27) - 2 + more),
        1 => (0..3u64).prop_map(|more| (1 << 28) - 1 + more),
        1 => 0..1u64 << 40,
    ];
    prop_oneof![
        8 => (1..30u8).prop_map(Step::Functions),
        1 => Just(Step::Wide),
        1 => any::<[u64; ARGS]>().prop_map(Step::Args),
        1 => (1..60u8).prop_map(Step::Mark),
        1 => Just(Step::Leaf),
        1 => Just(Step::Call),
        3 => ticks.prop_map(Step::Advance),
        1 => (1..4u32).prop_map(Step::Switch),
        4 => Just(Step::Page),
    ]
}

/// A ring, and a clock.
struct Cpu {
    ring: Ring<Heap>,
    now: Cell<u64>,
    pid: Cell<u32>,
    serial: Cell<u64>,
}

impl Cpu {
    fn apply(&self, step: &Step) {
        let serial = self.serial.replace(self.serial.get() + 1);
        let (called, context) = call(serial, matches!(step, Step::Wide));
        let clock = || {
            self.now.set(self.now.get() + 1);
            self.now.get()
        };
        let who = FixedContext {
            context,
            task: task(self.pid.get(), 1, "task"),
            clock: &clock,
        };
        let write = || {
            // SAFETY: The thread is this CPU, and nothing interrupts it.
            let outcome = unsafe { self.ring.write(called, who) };
            assert_eq!(outcome, WriteOutcome::Written);
        };
        match step {
            Step::Functions(count) => (0..*count).for_each(|_| write()),
            Step::Wide => write(),
            Step::Args(args) => {
                let args = SlotWords::args_slots(args);
                // SAFETY: As above.
                unsafe { (self.ring).write_with_extras(called, who, args.slots(), None) };
            }
            Step::Mark(length) => {
                let text = [SlotWords::text_slot(b"text of a mark"); 5];
                let kind = [SlotKind::Marker, SlotKind::RawMarker][usize::from(length % 2)];
                // SAFETY: As above.
                unsafe { (self.ring).write_marker(kind, called.ip, &text, (*length).into(), who) }
                    .expect("a mark");
            }
            Step::Leaf | Step::Call => {
                let mut open = OpenCall::default();
                // SAFETY: As above.
                assert!(unsafe { (self.ring).enter_call(called, || 1, &[], who, &mut open) });
                if matches!(step, Step::Call) {
                    write();
                }
                let took = |now| now - open.start;
                // SAFETY: As above.
                if !unsafe { self.ring.leave_leaf(open, who, took) } {
                    // SAFETY: As above.
                    assert!(unsafe { (self.ring).leave_call(called.ip, 1, &[], who, took) });
                }
            }
            Step::Advance(ticks) => self.now.set(self.now.get() + ticks),
            Step::Switch(pid) => self.pid.set(*pid),
            Step::Page => {}
        }
    }
}

/// Makes pages of what is drained, functions in a row if it is `QUICK`.
struct Pages<'a, const QUICK: bool> {
    page: KernelPage<Vec<u8>>,
    to_time: &'a dyn Fn(u64) -> u64,
    lost: u64,
    /// Number of functions that came in a row.
    in_row: usize,
}

impl<const QUICK: bool> Sink<Vec<SlotWords>> for Pages<'_, QUICK> {
    fn functions(&mut self, decoder: &Decoder, slots: &[SlotWords]) -> usize {
        if !QUICK {
            return 0;
        }
        let count = self.page.push_functions(decoder, slots, self.to_time);
        self.in_row += count;
        count
    }

    fn event(
        &mut self,
        event: &Event,
        event_extras: Option<EventExtras<'_, Vec<SlotWords>>>,
    ) -> bool {
        let is_first = self.page.is_empty();
        if event.lost != 0 && !is_first {
            return false;
        }
        let time = (self.to_time)(event.time);
        let added = match event_extras {
            None => self.page.push_plain(event, time, event.duration),
            Some(event_extras) => {
                let (callers, text) = (&mut event_extras.stack(), &mut event_extras.text());
                (self.page).push(
                    event,
                    event_extras.extras(),
                    callers,
                    text,
                    time,
                    event.duration,
                )
            }
        };
        if is_first && added {
            self.lost = event.lost;
        }
        added
    }
}

/// One of the ways, with its own place in the ring.
struct Way<'a, const QUICK: bool> {
    consumer: Consumer<Vec<SlotWords>>,
    pages: Pages<'a, QUICK>,
}

impl<'a, const QUICK: bool> Way<'a, QUICK> {
    fn new(cpu: &Cpu, page_bytes: usize, to_time: &'a dyn Fn(u64) -> u64) -> Self {
        let layout = Layout {
            page_bytes,
            ..Layout::default()
        };
        Self {
            consumer: Consumer::new(copy_space(&cpu.ring)),
            pages: Pages {
                page: KernelPage::new(vec![0xee; page_bytes], layout),
                to_time,
                lost: 0,
                in_row: 0,
            },
        }
    }

    /// Returns the next page, and the number of events taken so far; `None` if there are no more.
    fn next(&mut self, cpu: &Cpu) -> Option<(Vec<u8>, u64)> {
        self.pages.page.clear();
        self.pages.lost = 0;
        self.consumer.drain(&cpu.ring, &mut self.pages);
        if self.pages.page.is_empty() {
            return None;
        }
        self.pages.page.finish(self.pages.lost);
        Some((self.pages.page.bytes().to_vec(), self.consumer.read()))
    }
}

fn conversion(khz: u32, offset: u64) -> Conversion {
    let sample = ClockSample {
        before: 0,
        ns: offset,
        after: 0,
    };
    let scale = Scale::from_khz(khz).expect("a rate");
    Conversion::fit(scale, [sample].into_iter())
        .expect("a sample")
        .0
}

/// Makes pages both ways, and returns how many functions came in a row.
fn same_pages(
    (subbufs, subbuf_bits): (usize, u32),
    page_bytes: usize,
    to_time: &dyn Fn(u64) -> u64,
    steps: &[Step],
) -> usize {
    let cpu = Cpu {
        ring: support::ring(subbufs, 1 << subbuf_bits),
        now: Cell::new(1 << 33),
        pid: Cell::new(1),
        serial: Cell::new(0),
    };
    let mut quick = Way::<true>::new(&cpu, page_bytes, to_time);
    let mut general = Way::<false>::new(&cpu, page_bytes, to_time);
    let mut compare = || {
        let page = general.next(&cpu);
        assert_eq!(quick.next(&cpu), page);
        page.is_some()
    };
    for step in steps {
        cpu.apply(step);
        if matches!(step, Step::Page) {
            compare();
        }
    }
    while compare() {}
    assert_eq!(general.pages.in_row, 0);
    quick.pages.in_row
}

/// Most functions of a full page come in a row.
#[test]
fn in_a_row() {
    let steps = vec![Step::Functions(200); 10];
    let in_row = same_pages((4, 10), 4096, &|stamp| stamp, &steps);
    // But for the first of each of 14 pages, and of each of two sub-buffers.
    assert_eq!(in_row, 2000 - 14 - 2 + 1);
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn same_bytes(
        geometry in (2..6usize, 5..10u32),
        page_bytes in prop_oneof![(50..200usize).prop_map(|words| 4 * words), Just(4096)],
        rate in prop::option::of((1_000..8_000_000u32, any::<u32>())),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        match rate {
            None => same_pages(geometry, page_bytes, &|stamp| stamp, &steps),
            Some((khz, offset)) => {
                let conversion = conversion(khz, offset.into());
                same_pages(geometry, page_bytes, &|stamp| conversion.to_ns(stamp), &steps)
            }
        };
    }
}
