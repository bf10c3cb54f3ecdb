// SPDX-License-Identifier: GPL-2.0

//! Rings that are not interrupted, and readers of them while they are written.

mod call;
mod container;
mod kept;

use std::cell::RefCell;
use std::rc::Rc;

use proptest::prelude::*;

use super::cpu::{check_events, Cpu, Reader};
use super::{cases, interrupted, points, some_under_miri};
use crate::engine::reader::{Cursor, Extent};
use crate::engine::ring::{Ring, Slot, WriteOutcome, LAPS, MAX_SUBBUF_SLOTS, MIN_SUBBUF_SLOTS};
use crate::engine::slot::{Task, SLOT_BYTES};
use crate::platform::preempt;
use crate::support::{call, copy_space, ring, task, FixedContext, Heap};

#[test]
fn geometries() {
    let good = |slots, subbuf_slots| Ring::new(Heap::zeroed(slots), subbuf_slots).is_some();
    assert!(good(2 * MIN_SUBBUF_SLOTS, MIN_SUBBUF_SLOTS));
    assert!(good(3 * 64, 64));
    // No power of two, out of bounds, one sub-buffer, no multiple, nothing.
    assert!(!good(2 * 24, 24));
    assert!(!good(8, 4));
    assert!(!good(64, 64));
    assert!(!good(3 * 64 + 1, 64));
    assert!(!good(0, 64));
    assert!(!good(64, 0));
    // They take Miri minutes.
    if !cfg!(miri) {
        assert!(good(2 * MAX_SUBBUF_SLOTS, MAX_SUBBUF_SLOTS));
        assert!(!good(4 * MAX_SUBBUF_SLOTS, 2 * MAX_SUBBUF_SLOTS));
    }
}

#[test]
fn size() {
    let ring = ring(4, 64);
    assert_eq!((ring.subbufs(), ring.subbuf_slots()), (4, 64));
    assert!((4 * 64 * 16..4 * 64 * 16 + 512).contains(&ring.bytes()));
}

#[test]
fn nothing_written() {
    let cpu = Cpu::new(2, 8, 1);
    assert_eq!(cpu.ring.extent(), Extent::default());
    cpu.check();
}

#[test]
fn largest_subbuf() {
    let slots = if cfg!(miri) { 64 } else { MAX_SUBBUF_SLOTS };
    let cpu = Cpu::new(2, slots, 1);
    for _ in 0..slots - 4 {
        cpu.write(false);
    }
    cpu.check();
    assert_eq!(cpu.ring.extent().newest, 1);
    // Then one full of slots that are no events, as far as that goes.
    for _ in 0..slots {
        cpu.advance(1 << 32);
        cpu.write(true);
    }
    cpu.check();
}

#[test]
fn slots_per_event() {
    let cpu = Cpu::new(2, 64, 1);
    let slots = |wide| {
        let before = cpu.ring.head().slot();
        cpu.write(wide);
        cpu.ring.head().slot() - before
    };
    cpu.write(false);
    assert_eq!(slots(false), 1);
    assert_eq!(slots(true), 2);
    cpu.advance(1 << 32);
    assert_eq!(slots(false), 2);
    cpu.task.set(task(2, 2, "kthreadd"));
    assert_eq!(slots(false), 3);
    // A new name is a new task, and so is a new tgid.
    cpu.task.set(task(2, 2, "renamed"));
    assert_eq!(slots(false), 3);
    cpu.task.set(task(2, 3, "renamed"));
    assert_eq!(slots(false), 3);
    assert_eq!(slots(false), 1);
    cpu.check();
}

#[test]
fn last_slots_are_used() {
    let cpu = Cpu::new(2, 8, 1);
    cpu.writes(2);
    // Slots 6 and 7.
    cpu.write(true);
    assert_eq!((cpu.ring.head().slot(), cpu.ring.extent().newest), (8, 1));
    // One slot too few.
    let cpu = Cpu::new(2, 8, 1);
    cpu.writes(3);
    cpu.write(true);
    assert_eq!((cpu.ring.head().slot(), cpu.ring.extent().newest), (14, 2));
    cpu.check();
}

/// The head counts laps in a few bits; that they wrap must not be noticed.
#[test]
#[cfg_attr(
    miri,
    ignore = "it writes half a million events, which takes Miri hours"
)]
fn laps_wrap() {
    let ring = ring(2, 8);
    let who = FixedContext {
        context: 0,
        task: task(1, 1, "init"),
        clock: || 0,
    };
    // 4 plain events fill a sub-buffer.
    let in_lap = 2 * 4;
    let write = |index: u64| {
        // SAFETY: This thread alone writes, without interrupts.
        let outcome = unsafe { ring.write(call(index, false).0, who) };
        assert_eq!(outcome, WriteOutcome::Written);
    };
    let start = LAPS * in_lap - 2 * in_lap;
    (0..start).for_each(write);
    for index in start..start + 4 * in_lap {
        write(index);
        let extent = ring.extent();
        assert_eq!(extent.end_event, index + 1);
        assert_eq!(extent.newest, index / 4 + 1);
        assert_eq!(extent.first_event, (index / 4 - 1) * 4);
        let mut cursor = Cursor::new(&ring, copy_space(&ring), 0);
        for index in extent.first_event..=index {
            let event = cursor.next(&ring).expect("an event");
            assert_eq!((event.ip, event.lost), (call(index, false).0.ip, 0));
        }
        assert_eq!(cursor.next(&ring), None);
    }
}

/// Another CPU reads everything at each step of the writer.
#[test]
fn reader_at_every_step_of_a_writer() {
    for (subbufs, subbuf_slots) in [(2, 8), (3, 8), (2, 16)] {
        let cpu = Rc::new(Cpu::new(subbufs, subbuf_slots, 1));
        let read = Rc::new(RefCell::new(Vec::new()));
        let extents = Rc::new(RefCell::new(Vec::new()));
        let handler = {
            let (cpu, read, extents) = (cpu.clone(), read.clone(), extents.clone());
            move || {
                extents.borrow_mut().push(cpu.ring.extent());
                read.borrow_mut().extend(cpu.read_all(0));
            }
        };
        for step in 0..60 {
            cpu.task.set(task(step / 7 + 1, 1, "init"));
            cpu.advance(if step % 11 == 10 { 1 << 32 } else { 0 });
            preempt::with_handler(handler.clone(), || cpu.write(step % 5 == 4));
        }
        cpu.check();
        assert!(!read.borrow().is_empty());
        check_events(&read.borrow(), &cpu.written());
        // A moment's extent never goes back, and never shows a ring in use as empty.
        for pair in extents.borrow().windows(2) {
            assert!(pair[0].first_event <= pair[1].first_event, "{pair:?}");
            assert!(pair[0].end_event <= pair[1].end_event, "{pair:?}");
            assert!(pair[1].first_event < pair[1].end_event || pair[1].end_event == 0);
        }
    }
}

/// Another CPU writes a lot at one step of a reader.
#[test]
fn writer_at_every_step_of_a_reader() {
    for (subbufs, subbuf_slots, earlier) in [(2, 8, 3), (2, 8, 11), (3, 8, 12), (3, 16, 40)] {
        for burst in some_under_miri([1, 3, 4, 5, 8, 9, 13, 50].into_iter(), 3) {
            for point in points() {
                let cpu = Rc::new(Cpu::new(subbufs, subbuf_slots, 1));
                cpu.writes(earlier);
                let other = cpu.clone();
                let mut read = Vec::new();
                let came = interrupted(
                    [point],
                    move |_| other.writes(burst),
                    || read = cpu.read_all(0),
                );
                check_events(&read, &cpu.written());
                cpu.check();
                if !came {
                    // Nothing was written: nothing was lost.
                    let extent = cpu.ring.extent();
                    assert_eq!(read.len() as u64, extent.end_event - extent.first_event);
                    break;
                }
            }
        }
    }
}

/// The extent is read while it changes.
#[test]
fn writer_at_every_step_of_an_extent() {
    for (subbufs, subbuf_slots, earlier) in [(2, 8, 3), (2, 8, 11), (3, 8, 14)] {
        for burst in some_under_miri(1..40, 13) {
            for point in points() {
                let cpu = Rc::new(Cpu::new(subbufs, subbuf_slots, 1));
                cpu.writes(earlier);
                let before = cpu.ring.extent();
                let other = cpu.clone();
                let mut extent = Extent::default();
                let came = interrupted(
                    [point],
                    move |_| other.writes(burst),
                    || extent = cpu.ring.extent(),
                );
                let after = cpu.ring.extent();
                assert!((before.first_event..=after.first_event).contains(&extent.first_event));
                assert!((before.end_event..=after.end_event).contains(&extent.end_event));
                assert!(extent.first_event < extent.end_event);
                if !came {
                    break;
                }
            }
        }
    }
}

/// A reader that finds a sub-buffer being opened goes on with those after it.
#[test]
fn overtaken_while_opening() {
    let cpu = Rc::new(Cpu::new(3, 8, 1));
    cpu.writes(12);
    let reader = Rc::new(RefCell::new(cpu.reader(0)));
    let read = Rc::new(RefCell::new(Vec::new()));
    let handler = {
        let (cpu, reader, read) = (cpu.clone(), reader, read.clone());
        move || {
            if cpu.ring.slots()[0].0.load_relaxed() == 0 {
                read.borrow_mut()
                    .extend(std::iter::from_fn(|| cpu.read(&mut reader.borrow_mut())));
            }
        }
    };
    preempt::with_handler(handler, || cpu.write(false));
    // Sub-buffer 1 is being overwritten; 2 is read as long as it is there.
    let indices: Vec<_> = read.borrow().iter().map(|&(index, _)| index).collect();
    assert_eq!(indices, [4, 5, 6, 7, 8, 9, 10, 11]);
    check_events(&read.borrow(), &cpu.written());
}

#[derive(Clone, Debug)]
enum Step {
    Write {
        wide: bool,
        times: u8,
    },
    /// A write with others in the middle of it.
    Interrupted {
        point: u32,
        times: u8,
    },
    Advance(u64),
    Switch(usize),
    /// Reads all there is.
    Read,
    /// Makes a reader that stays.
    Open(usize),
    /// Reads a few events with it.
    Continue(usize, u8),
    Clear,
}

const READERS: usize = 3;

fn step() -> impl Strategy<Value = Step> {
    let times = prop_oneof![4 => 1..4u8, 1 => 1..60u8];
    let wide = prop::bool::weighted(0.2);
    let ticks = prop_oneof![
        Just(0),
        1..1000u64,
        Just((1 << 32) - 1),
        Just(1 << 32),
        Just(1 << 33),
        Just(1 << 41),
    ];
    prop_oneof![
        8 => (wide, times.clone()).prop_map(|(wide, times)| Step::Write { wide, times }),
        2 => (0..60u32, times.clone())
            .prop_map(|(point, times)| Step::Interrupted { point, times }),
        3 => ticks.prop_map(Step::Advance),
        3 => (0..5usize).prop_map(Step::Switch),
        1 => Just(Step::Read),
        1 => (0..READERS).prop_map(Step::Open),
        3 => (0..READERS, times).prop_map(|(reader, times)| Step::Continue(reader, times)),
        1 => Just(Step::Clear),
    ]
}

fn tasks() -> [Task; 5] {
    [
        task(0, 0, "swapper/0"),
        task(7, 7, "sh"),
        task(7, 7, "sixteen bytes..."),
        task(8, 7, "sh"),
        task(4_194_304, 4_194_304, ""),
    ]
}

/// Runs `steps`; at each, the ring must agree with the list of all events that were written.
fn run(cpu: &Rc<Cpu>, steps: &[Step]) {
    let mut from = 0;
    let mut readers: [Option<Reader>; READERS] = Default::default();
    for step in steps {
        match *step {
            Step::Write { wide, times } => (0..times).for_each(|_| {
                cpu.write(wide);
            }),
            Step::Interrupted { point, times } => {
                let other = cpu.clone();
                interrupted(
                    [point],
                    move |_| other.writes(times.into()),
                    || cpu.writes(1),
                );
            }
            Step::Advance(ticks) => cpu.advance(ticks),
            Step::Switch(index) => cpu.task.set(tasks()[index]),
            Step::Read => {
                cpu.check();
                let extent = cpu.ring.extent();
                let indices = cpu.read_all(from).into_iter().map(|(index, _)| index);
                let wanted = from.max(extent.first_event)..extent.end_event;
                assert!(indices.eq(wanted), "events since the ring was cleared");
            }
            Step::Open(index) => readers[index] = Some(cpu.reader(from)),
            Step::Continue(index, times) => {
                if let Some(reader) = &mut readers[index] {
                    let read = (0..times).map_while(|_| cpu.read(reader));
                    check_events(&read.collect::<Vec<_>>(), &cpu.written());
                }
            }
            Step::Clear => from = cpu.ring.extent().end_event,
        }
    }
    cpu.check();
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn agrees_with_a_list(
        subbufs in 2..5usize,
        subbuf_bits in 3..7u32,
        start in prop_oneof![Just(0u64), Just(1 << 63)],
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let cpu = Rc::new(Cpu::new(subbufs, 1 << subbuf_bits, 1));
        cpu.advance(start);
        run(&cpu, &steps);
    }

    /// The ring agrees with a list with several events in one tick of the clock.
    #[test]
    fn agrees_with_a_list_on_a_coarse_clock(steps in prop::collection::vec(step(), 1..120)) {
        let cpu = Rc::new(Cpu::new(2, 8, 0));
        let steps: Vec<_> = steps
            .into_iter()
            .filter(|step| !matches!(step, Step::Interrupted { .. }))
            .collect();
        run(&cpu, &steps);
    }
}

/// An event takes 16 bytes: the reason for slots of that size.
#[test]
fn slot_size() {
    assert_eq!(std::mem::size_of::<Slot>(), SLOT_BYTES);
    // The words that each event touches share a cache line.
    assert_eq!(std::mem::align_of::<Ring<Heap>>(), 64);
}
