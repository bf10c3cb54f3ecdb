// SPDX-License-Identifier: GPL-2.0

//! Arguments and stacks beside events.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use proptest::prelude::*;

use super::{cases, interrupted, points, some_under_miri};
use crate::engine::consumer::Consumer;
use crate::engine::decode::{DecodedGroup, Decoder};
use crate::engine::extras::{stack_at, StackRoom, StackSlots, ARGS, STACK_ENTRIES, STACK_SLOTS};
use crate::engine::reader::Cursor;
use crate::engine::ring::{Ring, WriteOutcome};
use crate::engine::slot::{SlotKind, SlotWords, PARITY};
use crate::platform::{preempt, Word};
use crate::raw_decoder::decode;
use crate::support::{self, call, copy_space, raw_record, task, FixedContext, Heap};

fn text(low: u32) -> u64 {
    0xffff_ffff_8000_0000 | u64::from(low)
}

/// Returns values as registers have them: addresses, small numbers of either sign, and anything.
fn value() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        any::<u32>().prop_map(|low| 0xff11_0000_0000_0000 | u64::from(low)),
        any::<u32>().prop_map(text),
        any::<i16>().prop_map(|small| small as u64),
        (0..64u32).prop_map(|bit| 1 << bit),
        (0..64u32).prop_map(|bit| u64::MAX << bit),
    ]
}

proptest! {
    #[test]
    fn arguments(args in proptest::array::uniform6(value()), odd: bool) {
        let parity = if odd { PARITY } else { 0 };
        let packed = SlotWords::args_slots(&args);
        let fit = args.iter().all(|&arg| (arg as i64) << 5 >> 5 == arg as i64);
        prop_assert_eq!(packed.slots().len(), if fit { 3 } else { 4 });
        let (mut decoder, mut group) = (Decoder::default(), DecodedGroup::default());
        for words in packed.slots() {
            let words = words.with_parity(parity);
            prop_assert!(words.is_complete(parity) && !words.is_event());
            prop_assert_eq!(decoder.decode(words, &mut group), None);
        }
        prop_assert_eq!(group.extras.args, Some(args));
    }

    /// A stack is read safely from a sub-buffer with any contents.
    #[test]
    fn any_stack(slots: Vec<(u64, u64)>, place: usize, near in 0..8usize) {
        let kinds = [SlotKind::Stack, SlotKind::MoreStack].map(|kind| (kind as u64) << 24);
        let copy: Vec<_> = (slots.iter().enumerate())
            .map(|(index, &(a, b))| SlotWords(a, b & !0xff00_0000 | kinds[(index > 1) as usize]))
            .collect();
        prop_assert!(stack_at(&copy, place).count() <= 3 * copy.len());
        prop_assert!(stack_at(&copy, near).count() <= 255);
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Written {
    time: u64,
    args: Option<[u64; ARGS]>,
    stack: Vec<u64>,
}

/// A CPU that writes events with stacks, and knows them.
struct Cpu {
    ring: Ring<Heap>,
    /// Few for many stacks, but not too few.
    hints: [Word; 16],
    now: Cell<u64>,
    serial: Cell<u64>,
    written: RefCell<Vec<Written>>,
}

impl Cpu {
    fn new(subbufs: usize, subbuf_slots: usize) -> Self {
        Self {
            ring: support::ring(subbufs, subbuf_slots),
            hints: std::array::from_fn(|_| Word::new(0)),
            now: Cell::new(0),
            serial: Cell::new(0),
            written: RefCell::default(),
        }
    }

    /// Writes an event with that stack, each time with other arguments or none.
    fn write(&self, stack: &[u64]) -> WriteOutcome {
        let serial = self.serial.get();
        self.serial.set(serial + 1);
        let room = StackRoom::new();
        let mut writer = room.begin();
        for &address in stack {
            writer.push(address);
        }
        let (slots, hash) = writer.end();
        let stack_slots = StackSlots::new(slots, &self.hints[hash as usize % self.hints.len()]);
        let args = std::array::from_fn(|index| {
            let value = serial.wrapping_mul(0x9e37_79b9) << index;
            if serial % 5 == 1 {
                !value << 20
            } else {
                value
            }
        });
        let packed = SlotWords::args_slots(&args);
        let with_args = serial % 3 == 1;
        let time = Cell::new(0);
        let clock = || {
            preempt::point();
            self.now.set(self.now.get() + 1);
            time.set(self.now.get());
            time.get()
        };
        let (call, context) = call(serial, serial % 7 == 0);
        let who = FixedContext {
            context,
            task: task(1 + serial as u32 / 4, 1, "init"),
            clock: &clock,
        };
        let args_slots = if with_args { packed.slots() } else { &[] };
        // SAFETY: The thread is this CPU, and what interrupts it does so by function calls.
        let outcome =
            unsafe { (self.ring).write_with_extras(call, who, args_slots, Some(stack_slots)) };
        if outcome == WriteOutcome::Written {
            self.written.borrow_mut().push(Written {
                time: time.get(),
                args: with_args.then_some(args),
                stack: stack.to_vec(),
            });
        }
        outcome
    }

    /// Checks that the events are those that were written; returns their number.
    fn check(&self) -> usize {
        let mut written = self.written.borrow().clone();
        written.sort_by_key(|event| event.time);
        let mut cursor = Cursor::new(&self.ring, copy_space(&self.ring), 0);
        let mut read = vec![];
        while let Some(event) = cursor.next(&self.ring) {
            assert!(event.has_extras && cursor.extras().stack.is_some());
            read.push(Written {
                time: event.time,
                args: cursor.extras().args,
                stack: cursor.stack().collect(),
            });
        }
        assert_eq!(read, written[written.len() - read.len()..]);
        read.len()
    }

    /// Returns the number of stacks in the ring's slots.
    fn stacks(&self) -> usize {
        let slots = self.ring.slots().iter();
        slots
            .map(|slot| SlotWords(0, slot.1.load_relaxed()))
            .filter(|words| words.kind() == Some(SlotKind::Stack))
            .count()
    }
}

fn stack(first: u32, depth: usize) -> Vec<u64> {
    (first..).take(depth).map(text).collect()
}

#[test]
fn equal_stacks_are_kept_once_in_a_subbuffer() {
    let cpu = Cpu::new(4, 256);
    for _ in 0..20 {
        cpu.write(&stack(1, 10));
        cpu.write(&stack(100, 2));
    }
    assert_eq!(cpu.stacks(), 2);
    assert_eq!(cpu.check(), 40);
    // In the next one they are there again.
    for _ in 0..120 {
        cpu.write(&stack(1, 10));
    }
    assert_eq!(cpu.stacks(), 2 + cpu.ring.extent().newest as usize - 1);
    assert_eq!(cpu.check(), 160);
}

#[test]
fn deepest_stack() {
    let cpu = Cpu::new(2, 256);
    let room = StackRoom::new();
    let mut writer = room.begin();
    let pushed = (0..).take_while(|&low| writer.push(text(low))).count();
    assert_eq!(pushed + 1, STACK_ENTRIES);
    let (slots, _) = writer.end();
    assert_eq!(slots.len(), STACK_SLOTS);
    for first in 0..20 {
        assert_eq!(
            cpu.write(&stack(first, STACK_ENTRIES)),
            WriteOutcome::Written
        );
    }
    assert!(cpu.check() >= 5);
    // A sub-buffer that it cannot be in takes the event without it.
    let small = Cpu::new(2, 32);
    for first in 0..20 {
        assert_eq!(
            small.write(&stack(first, STACK_ENTRIES)),
            WriteOutcome::Written
        );
    }
    assert_eq!(small.stacks(), 0);
}

#[test]
fn taken_one_by_one() {
    let cpu = Cpu::new(4, 64);
    for index in 0..40 {
        cpu.write(&stack(index % 3, 7));
    }
    let mut consumer = Consumer::new(copy_space(&cpu.ring));
    let mut count = 0;
    while let Some((index, event)) = consumer.peek(&cpu.ring) {
        let found = Written {
            time: event.time,
            args: consumer.extras().args,
            stack: consumer.stack().collect(),
        };
        assert_eq!(found, cpu.written.borrow()[index as usize]);
        assert!(consumer.take(index));
        count += 1;
    }
    assert!(count >= 20);
}

/// The records are as the page on the raw format has them.
#[test]
fn raw() {
    let cpu = Cpu::new(8, 64);
    for index in 0..60 {
        cpu.write(&stack(index % 3, 7));
    }
    let mut consumer = Consumer::new(copy_space(&cpu.ring));
    let (mut slots, mut bytes) = (copy_space(&cpu.ring), vec![]);
    // In more than one record for each sub-buffer.
    while let Some(chunk) = consumer.take_chunk(&cpu.ring, 40, &mut slots) {
        bytes.extend(raw_record(&chunk, 0, &slots[chunk.slots.clone()]));
    }
    let records = decode(&bytes).expect("records");
    assert!(records.len() > cpu.ring.extent().newest as usize);
    let events = records.into_iter().flat_map(|record| record.events);
    let read: Vec<_> = events
        .map(|event| Written {
            time: event.time,
            args: event.args,
            stack: event.stack.expect("a stack"),
        })
        .collect();
    assert_eq!(read, *cpu.written.borrow());
}

/// A hint can lead anywhere, also to a stack that an interrupted writer has not finished.
#[test]
fn interrupts() {
    let mut tried = 0;
    for before in some_under_miri(0..24, 7) {
        for count in [1, 3, 12] {
            for point in points() {
                let cpu = Rc::new(Cpu::new(3, 32));
                for index in 0..before {
                    cpu.write(&stack(index % 5, 4));
                }
                let other = cpu.clone();
                let interrupt = move |_| {
                    for index in 0..count {
                        other.write(&stack(7 + index % 2, 4));
                    }
                };
                let came = interrupted([point], interrupt, || {
                    cpu.write(&stack(7, 4));
                });
                cpu.write(&stack(7, 4));
                cpu.check();
                if !came {
                    break;
                }
                tried += 1;
            }
        }
    }
    assert!(cfg!(miri) || tried > 1000, "{tried}");
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn any_stacks(stacks in proptest::collection::vec(proptest::collection::vec(0..3u32, 0..12), 1..200)) {
        let cpu = Cpu::new(3, 64);
        for stack in stacks {
            let stack: Vec<_> = stack.into_iter().map(text).collect();
            prop_assert_eq!(cpu.write(&stack), WriteOutcome::Written);
        }
        cpu.check();
    }
}
