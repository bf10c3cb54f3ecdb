// SPDX-License-Identifier: GPL-2.0

//! The account of every event, whatever happens: written = read + present + overwritten, and an
//! event that is not written is counted by its reason.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use proptest::prelude::*;

use super::cpu::{check_events, Cpu};
use super::{cases, interrupted};
use crate::engine::account::{Account, Counts, Elsewhere, Growth};
use crate::engine::consumer::{Consumer, TakenSlots};
use crate::engine::decode::{DecodedGroup, Event};
use crate::engine::slot::{SlotWords, Task};
use crate::raw_decoder::{decode, RawEvent, Record};
use crate::support::{copy_space, raw_record, task};

/// A CPU's ring, the consumer of its events, and what is known of both from outside.
struct Ground {
    cpu: Rc<Cpu>,
    consumer: Rc<RefCell<Consumer<Vec<SlotWords>>>>,
    account: Account,
    taken: Rc<Taken>,
    discard: bool,
    /// Counts from outside at the time when the CPU's counts began anew, and in earlier rings
    /// since.
    base: Counts,
    earlier: Counts,
}

/// The events that were taken out of a ring.
#[derive(Default)]
struct Taken {
    events: Cell<u64>,
    /// The index after the last event.
    next: Cell<u64>,
    /// True if the buffer was cleared since: then the next event need not tell of losses.
    cleared: Cell<bool>,
    time: Cell<u64>,
}

impl Taken {
    /// Checks an event, after all that were taken before.
    fn event(&self, cpu: &Cpu, index: u64, event: &Event) {
        let Event { lost, time, .. } = *event;
        let next = self.next.get();
        match self.cleared.take() {
            true => assert!(index >= next + lost, "event {index}, {lost} lost before it"),
            false => assert_eq!(index, next + lost, "{lost} events lost"),
        }
        assert!(time >= self.time.get(), "time goes backwards");
        check_events(&[(index, Event { lost: 0, ..*event })], &cpu.written());
        self.time.set(time);
        self.next.set(index + 1);
        self.events.set(self.events.get() + 1);
    }
}

/// Takes at most `most` events one by one.
fn take(cpu: &Cpu, consumer: &RefCell<Consumer<Vec<SlotWords>>>, taken: &Taken, most: u64) -> u64 {
    for count in 0..most {
        let Some((index, event)) = consumer.borrow_mut().peek(&cpu.ring) else {
            return count;
        };
        // It stays until it is taken, and is taken once.
        let again = consumer.borrow_mut().peek(&cpu.ring);
        assert_eq!(again, Some((index, event)));
        assert!(!consumer.borrow_mut().take(index + 1));
        assert!(consumer.borrow_mut().take(index));
        assert!(!consumer.borrow_mut().take(index));
        taken.event(cpu, index, &event);
    }
    most
}

/// Returns the raw record of `chunk` as another program decodes it.
fn as_decoded(chunk: &TakenSlots, slots: &[SlotWords]) -> Record {
    let mut records = decode(&raw_record(chunk, 3, slots)).expect("a record");
    assert_eq!(records.len(), 1);
    records.remove(0)
}

fn as_raw(event: &Event) -> RawEvent {
    let mut comm = [0; 16];
    comm[..8].copy_from_slice(&event.task.comm[0].to_le_bytes());
    comm[8..].copy_from_slice(&event.task.comm[1].to_le_bytes());
    RawEvent {
        time: event.time,
        ip: event.ip,
        parent_ip: event.parent_ip,
        context: event.context.0,
        pid: event.task.ids as u32,
        tgid: (event.task.ids >> 32) as u32,
        comm,
        ..RawEvent::default()
    }
}

/// Takes a chunk of at most `most` slots, which decodes alone.
fn take_chunk(
    cpu: &Cpu,
    consumer: &RefCell<Consumer<Vec<SlotWords>>>,
    taken: &Taken,
    most: usize,
) -> u64 {
    let mut consumer = consumer.borrow_mut();
    let mut slots = copy_space(&cpu.ring);
    let Some(chunk) = consumer.take_chunk(&cpu.ring, most, &mut slots) else {
        return 0;
    };
    assert!(chunk.slots.len() <= most);
    let (first, mut lost, mut decoder) = (chunk.first_event, chunk.lost, chunk.decoder);
    let slots = &slots[chunk.slots.clone()];
    let mut group = DecodedGroup::default();
    let events: Vec<_> = (slots.iter())
        .filter_map(|words| decoder.decode(*words, &mut group))
        .collect();
    assert_eq!(events.len() as u64, chunk.events);
    assert!(!events.is_empty());
    let record = as_decoded(&chunk, slots);
    assert_eq!(
        (record.cpu, record.first_event, record.lost),
        (3, first, lost)
    );
    assert!(record.events.iter().cloned().eq(events.iter().map(as_raw)));
    for (index, event) in (first..).zip(&events) {
        let lost = std::mem::take(&mut lost);
        taken.event(cpu, index, &Event { lost, ..*event });
    }
    events.len() as u64
}

impl Ground {
    fn new((subbufs, subbuf_slots): Geometry) -> Self {
        Self::of(Cpu::new(subbufs, subbuf_slots, 1))
    }

    fn of(cpu: Cpu) -> Self {
        let consumer = Consumer::new(copy_space(&cpu.ring));
        Self {
            cpu: Rc::new(cpu),
            consumer: Rc::new(RefCell::new(consumer)),
            account: Account::default(),
            taken: Rc::default(),
            discard: false,
            base: Counts::default(),
            earlier: Counts::default(),
        }
    }

    /// Returns the counts as the ring and its consumer tell them.
    fn said(&self) -> (Counts, u64) {
        let consumer = self.consumer.borrow();
        let extent = self.cpu.ring.extent();
        let counts = Counts {
            written: extent.end_event,
            read: consumer.read(),
            commit_overrun: self.cpu.ring.commit_overrun(),
            dropped: self.cpu.ring.dropped(),
            markers: self.cpu.ring.markers(),
            returns: self.cpu.ring.returns(),
        };
        (counts, consumer.present(&extent))
    }

    /// Returns the counts of the ring as they are.
    fn happened(&self) -> Counts {
        Counts {
            written: self.cpu.written().len() as u64,
            read: self.taken.events.get(),
            commit_overrun: self.cpu.commit_overrun(),
            dropped: self.cpu.dropped(),
            markers: 0,
            returns: 0,
        }
    }

    /// Returns the counts of the CPU since they began anew.
    fn since(&self) -> Counts {
        let now = self.happened();
        let difference = |now: u64, base: u64, earlier: u64| now - base + earlier;
        Counts {
            written: difference(now.written, self.base.written, self.earlier.written),
            read: difference(now.read, self.base.read, self.earlier.read),
            commit_overrun: difference(
                now.commit_overrun,
                self.base.commit_overrun,
                self.earlier.commit_overrun,
            ),
            dropped: difference(now.dropped, self.base.dropped, self.earlier.dropped),
            markers: 0,
            returns: 0,
        }
    }

    /// Checks, at rest, that all counts are true.
    fn check(&self) {
        let (said, present) = self.said();
        assert_eq!(said, self.happened());
        let counts = self.account.counts(said);
        assert_eq!(counts, self.since());
        assert_eq!(
            counts.written,
            counts.read + present + counts.overwritten(present)
        );
        // The events that a reader which takes nothing out finds from the consumer's place on.
        let position = self.consumer.borrow().position();
        let extent = self.cpu.ring.extent();
        let found: Vec<_> = self.cpu.read_all(position);
        let indices = found.iter().map(|&(index, _)| index);
        assert!(indices.eq(position.max(extent.first_event)..extent.end_event));
        assert!(found.len() as u64 <= present);
    }

    /// Takes all events: just those that were said to be present.
    fn drain(&self) {
        let (_, present) = self.said();
        assert_eq!(
            take(&self.cpu, &self.consumer, &self.taken, u64::MAX),
            present
        );
        let (said, present) = self.said();
        assert_eq!(present, 0);
        assert_eq!(said, self.happened());
        self.check();
    }

    fn clear(&mut self) {
        let extent = self.cpu.ring.extent();
        (self.consumer.borrow_mut()).clear(&self.cpu.ring, extent.end_event, extent.newest);
        self.taken.cleared.set(true);
        self.account.clear(self.said().0);
        self.base = self.happened();
        self.earlier = Counts::default();
        assert_eq!(self.said().1, 0);
    }

    /// Replaces the ring by one of another size. A writer may still be in the old one when its
    /// counts are asked for; its event is added when it has ended.
    fn resize(&mut self, (subbufs, subbuf_slots): Geometry, late: u32) {
        self.consumer.borrow_mut().close();
        assert_eq!(take(&self.cpu, &self.consumer, &self.taken, 1), 0);
        let end = self.said().0;
        self.account.replace(end);
        self.cpu.writes(late);
        self.account.add_late(end, self.said().0);
        let earlier = self.since();

        let cpu = self.cpu.with_ring(subbufs, subbuf_slots);
        cpu.ring.set_discard(self.discard);
        let time = self.taken.time.get();
        *self = Self {
            account: self.account,
            discard: self.discard,
            earlier,
            ..Self::of(cpu)
        };
        self.taken.time.set(time);
    }

    fn set_discard(&mut self, discard: bool) {
        self.discard = discard;
        self.cpu.ring.set_discard(discard);
    }
}

type Geometry = (usize, usize);

#[derive(Clone, Debug)]
enum Step {
    Write {
        wide: bool,
        times: u8,
    },
    /// A write, at one point of it others, and at a point of those still others.
    Nested {
        points: [u32; 2],
        times: [u8; 2],
    },
    /// A write, at one point of which another CPU takes events.
    TakenFrom {
        point: u32,
        most: u8,
    },
    Advance(u64),
    Switch(usize),
    Take(u8),
    Chunk(u8),
    /// Taking, at one point of which the CPU writes.
    Overtaken {
        point: u32,
        times: u8,
        chunk: bool,
    },
    Drain,
    Clear,
    Resize(Geometry, u32),
    Discard(bool),
}

fn geometry() -> impl Strategy<Value = Geometry> {
    (2..5usize, 3..6u32).prop_map(|(subbufs, bits)| (subbufs, 1 << bits))
}

fn step() -> impl Strategy<Value = Step> {
    let times = || prop_oneof![4 => 1..6u8, 1 => 1..80u8];
    let point = || 0..90u32;
    let ticks = prop_oneof![
        1..1000u64,
        Just((1 << 32) - 1),
        Just(1 << 32),
        Just(1 << 41)
    ];
    prop_oneof![
        8 => (prop::bool::weighted(0.2), times())
            .prop_map(|(wide, times)| Step::Write { wide, times }),
        3 => ([point(), point()], [times(), times()])
            .prop_map(|(points, times)| Step::Nested { points, times }),
        2 => (point(), 0..20u8).prop_map(|(point, most)| Step::TakenFrom { point, most }),
        2 => ticks.prop_map(Step::Advance),
        3 => (0..4usize).prop_map(Step::Switch),
        3 => times().prop_map(Step::Take),
        2 => (5..40u8).prop_map(Step::Chunk),
        2 => (point(), times(), any::<bool>())
            .prop_map(|(point, times, chunk)| Step::Overtaken { point, times, chunk }),
        1 => Just(Step::Drain),
        1 => Just(Step::Clear),
        1 => (geometry(), 0..3u32).prop_map(|(geometry, late)| Step::Resize(geometry, late)),
        1 => any::<bool>().prop_map(Step::Discard),
    ]
}

fn tasks() -> [Task; 4] {
    [
        task(0, 0, "swapper/0"),
        task(7, 7, "sh"),
        task(7, 7, "sixteen bytes..."),
        task(8, 7, "sh"),
    ]
}

fn nested(cpu: &Rc<Cpu>, points: [u32; 2], times: [u8; 2]) {
    let (irq, nmi) = (cpu.clone(), cpu.clone());
    let [first, second] = points;
    interrupted(
        [first],
        move |_| {
            let nmi = nmi.clone();
            interrupted(
                [second],
                move |_| nmi.writes(times[1].into()),
                || irq.writes(times[0].into()),
            );
        },
        || cpu.writes(1),
    );
}

fn apply(ground: &mut Ground, step: &Step) {
    let (cpu, consumer, taken) = (
        ground.cpu.clone(),
        ground.consumer.clone(),
        ground.taken.clone(),
    );
    match *step {
        Step::Write { wide, times } => (0..times).for_each(|_| {
            cpu.write(wide);
        }),
        Step::Nested { points, times } => nested(&cpu, points, times),
        Step::TakenFrom { point, most } => {
            let other = cpu.clone();
            // The events that it finds are checked when the writer has ended: they are known then.
            let found = Rc::new(RefCell::new(Vec::new()));
            let finds = found.clone();
            interrupted(
                [point],
                move |_| {
                    for _ in 0..most {
                        let mut consumer = consumer.borrow_mut();
                        if let Some((index, event)) = consumer.peek(&other.ring) {
                            assert!(consumer.take(index));
                            finds.borrow_mut().push((index, event));
                        }
                    }
                },
                || cpu.writes(1),
            );
            for (index, event) in found.take() {
                taken.event(&cpu, index, &event);
            }
        }
        Step::Advance(ticks) => cpu.advance(ticks),
        Step::Switch(index) => cpu.task.set(tasks()[index]),
        Step::Take(most) => {
            take(&cpu, &consumer, &taken, most.into());
        }
        Step::Chunk(most) => {
            take_chunk(&cpu, &consumer, &taken, most.into());
        }
        Step::Overtaken {
            point,
            times,
            chunk,
        } => {
            let other = cpu.clone();
            interrupted(
                [point],
                move |_| other.writes(times.into()),
                || {
                    match chunk {
                        true => take_chunk(&cpu, &consumer, &taken, 20),
                        false => take(&cpu, &consumer, &taken, 3),
                    };
                },
            );
        }
        Step::Drain => ground.drain(),
        Step::Clear => ground.clear(),
        Step::Resize(geometry, late) => ground.resize(geometry, late),
        Step::Discard(discard) => ground.set_discard(discard),
    }
    ground.check();
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn every_event_is_accounted_for(
        geometry in geometry(),
        discard in any::<bool>(),
        steps in prop::collection::vec(step(), 1..if cfg!(miri) { 12 } else { 80 }),
    ) {
        let mut ground = Ground::new(geometry);
        ground.set_discard(discard);
        steps.iter().for_each(|step| apply(&mut ground, step));
        ground.drain();
    }

    /// In discard mode nothing is overwritten, whatever happens.
    #[test]
    fn discard_keeps_what_is_there(
        geometry in geometry(),
        steps in prop::collection::vec(step(), 1..if cfg!(miri) { 12 } else { 80 }),
    ) {
        let mut ground = Ground::new(geometry);
        ground.set_discard(true);
        for step in steps {
            if !matches!(step, Step::Clear | Step::Resize(..) | Step::Discard(_)) {
                apply(&mut ground, &step);
                let (said, present) = ground.said();
                assert_eq!(said.overwritten(present), 0);
            }
        }
        ground.drain();
    }
}

#[test]
fn what_came_to_no_ring_is_counted_from_the_clear_on() {
    let before = Elsewhere {
        without_buffer: 3,
        by_clock: u64::MAX,
        by_snapshot: 0,
        returns: 2,
    };
    let now = Elsewhere {
        without_buffer: 10,
        by_clock: 1,
        by_snapshot: 4,
        returns: 5,
    };
    let since = now.since(before);
    assert_eq!((since.lost(), since.returns, since.hits()), (13, 3, 10));
    assert_eq!(now.since(now), Elsewhere::default());
}

#[test]
fn a_total_of_others_counts_while_it_is_of_interest() {
    let mut growth = Growth::default();
    assert!(!growth.is_on());
    assert_eq!(growth.count(7), 0);
    growth.begin(7);
    // Another total is of interest.
    growth.begin(9);
    assert!(growth.is_on());
    assert_eq!((growth.count(7), growth.count(10)), (0, 3));
    // A task that is ending is left out.
    assert_eq!(growth.count(2), 0);
    growth.end(10);
    assert_eq!((growth.count(10), growth.count(50)), (3, 3));
    growth.end(60);
    assert_eq!(growth.count(60), 3);
    growth.begin(100);
    assert_eq!(growth.count(104), 7);
    growth.clear(105);
    assert!(growth.is_on());
    assert_eq!((growth.count(105), growth.count(106)), (0, 1));
    growth.end(106);
    growth.clear(200);
    assert!(!growth.is_on());
    assert_eq!(growth.count(300), 0);
}
