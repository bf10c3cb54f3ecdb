// SPDX-License-Identifier: GPL-2.0

//! A CPU with a ring, that knows what a reader of the ring must find.

use std::cell::{Cell, RefCell};
use std::ops::RangeInclusive;

use crate::engine::context::ContextWord;
use crate::engine::decode::Event;
use crate::engine::reader::{Cursor, Extent};
use crate::engine::ring::{Ring, WriteOutcome};
use crate::engine::slot::{SlotWords, Task};
use crate::platform::preempt;
use crate::support::{self, call, copy_space, FixedContext, Heap};

/// A cursor that knows the index of the next event that it reads.
pub(crate) struct Reader {
    cursor: Cursor<Vec<SlotWords>>,
    /// Index of the next event; several if a writer was at work while the cursor was made.
    next: RangeInclusive<u64>,
}

pub(crate) struct Cpu {
    pub(crate) ring: Ring<Heap>,
    pub(crate) task: Cell<Task>,
    now: Cell<u64>,
    /// Ticks by which the clock advances whenever it is read.
    tick: u64,
    serial: Cell<u64>,
    written: RefCell<Vec<Event>>,
    commit_overrun: Cell<u64>,
    dropped: Cell<u64>,
}

impl Cpu {
    pub(crate) fn new(subbufs: usize, subbuf_slots: usize, tick: u64) -> Self {
        Self {
            ring: support::ring(subbufs, subbuf_slots),
            task: Cell::new(support::task(1, 1, "init")),
            now: Cell::new(0),
            tick,
            serial: Cell::new(0),
            written: RefCell::default(),
            commit_overrun: Cell::new(0),
            dropped: Cell::new(0),
        }
    }

    /// Returns a copy of the CPU with another ring, which counts from 0.
    pub(crate) fn with_ring(&self, subbufs: usize, subbuf_slots: usize) -> Self {
        let cpu = Self::new(subbufs, subbuf_slots, self.tick);
        cpu.task.set(self.task.get());
        cpu.now.set(self.now.get());
        cpu.serial.set(self.serial.get());
        cpu
    }

    /// Lets time pass.
    pub(crate) fn advance(&self, ticks: u64) {
        self.now.set(self.now.get() + ticks);
    }

    /// Writes an event unlike all others.
    pub(crate) fn write(&self, wide: bool) -> WriteOutcome {
        let serial = self.serial.get();
        self.serial.set(serial + 1);
        let (call, context) = call(serial, wide);
        let task = self.task.get();
        // The clock's last reading is the event's time.
        let time = Cell::new(0);
        let clock = || {
            preempt::point();
            self.advance(self.tick);
            time.set(self.now.get());
            time.get()
        };
        // SAFETY: The thread is this CPU, and what interrupts it does so by function calls.
        let outcome = unsafe {
            self.ring.write(
                call,
                FixedContext {
                    context,
                    task,
                    clock: &clock,
                },
            )
        };
        match outcome {
            WriteOutcome::Written => self.written.borrow_mut().push(Event {
                time: time.get(),
                ip: call.ip,
                parent_ip: call.parent_ip,
                context: ContextWord(context),
                task,
                ..Event::default()
            }),
            WriteOutcome::CommitOverrun => self.commit_overrun.set(self.commit_overrun.get() + 1),
            WriteOutcome::Full => self.dropped.set(self.dropped.get() + 1),
            WriteOutcome::Closed => unreachable!("a ring with memory"),
        }
        outcome
    }

    /// Writes plain events.
    pub(crate) fn writes(&self, count: u32) {
        for _ in 0..count {
            self.write(false);
        }
    }

    /// Returns all events that were written, in the order in which the ring has them: by time.
    pub(crate) fn written(&self) -> Vec<Event> {
        let mut events = self.written.borrow().clone();
        events.sort_by_key(|event| event.time);
        events
    }

    /// Returns the number of calls in vain because a writer below was not finished.
    pub(crate) fn commit_overrun(&self) -> u64 {
        self.commit_overrun.get()
    }

    /// Returns the number of calls in vain because the ring was full.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.get()
    }

    /// Returns a reader of the events that are there now, from index `from` on.
    pub(crate) fn reader(&self, from: u64) -> Reader {
        let start = || from.max(self.ring.extent().first_event);
        let earliest = start();
        let cursor = Cursor::new(&self.ring, copy_space(&self.ring), from);
        Reader {
            cursor,
            next: earliest..=start(),
        }
    }

    /// Returns the next event of `reader` and its index.
    pub(crate) fn read(&self, reader: &mut Reader) -> Option<(u64, Event)> {
        let event = reader.cursor.next(&self.ring)?;
        let (earliest, latest) = (reader.next.start(), reader.next.end());
        let possible = earliest + event.lost..=latest + event.lost;
        let index = if earliest == latest {
            *possible.start()
        } else {
            let written = self.written();
            let index = written.iter().position(|other| other.ip == event.ip);
            index.expect("an event that was written") as u64
        };
        assert!(possible.contains(&index), "{} events lost", event.lost);
        reader.next = index + 1..=index + 1;
        Some((index, Event { lost: 0, ..event }))
    }

    /// Returns all events that are there, from index `from` on.
    pub(crate) fn read_all(&self, from: u64) -> Vec<(u64, Event)> {
        let mut reader = self.reader(from);
        std::iter::from_fn(|| self.read(&mut reader)).collect()
    }

    /// Checks that the ring, at rest, accounts for every write and holds what it must.
    pub(crate) fn check(&self) {
        let written = self.written();
        let extent = self.ring.extent();
        assert_eq!(extent.end_event, written.len() as u64, "events written");
        assert_eq!(
            self.ring.commit_overrun(),
            self.commit_overrun(),
            "events overrun"
        );
        assert_eq!(self.ring.dropped(), self.dropped(), "events dropped");
        check_extent(&self.ring, &extent);
        let read = self.read_all(0);
        let indices: Vec<_> = read.iter().map(|&(index, _)| index).collect();
        let present: Vec<_> = (extent.first_event..extent.end_event).collect();
        assert_eq!(indices, present, "events present");
        check_events(&read, &written);
    }
}

/// Checks that each event read is the one written at its index.
pub(crate) fn check_events(read: &[(u64, Event)], written: &[Event]) {
    for (index, event) in read {
        assert_eq!(Some(event), written.get(*index as usize), "event {index}");
    }
}

fn check_extent(ring: &Ring<Heap>, extent: &Extent) {
    if extent.end_event == 0 {
        assert_eq!(*extent, Extent::default());
        return;
    }
    assert!(extent.oldest >= 1);
    assert_eq!(
        extent.newest - extent.oldest + 1,
        extent.newest.min(ring.subbufs())
    );
    assert!(extent.first_event < extent.end_event);
    assert_eq!(extent.first_event == 0, extent.oldest == 1);
}
