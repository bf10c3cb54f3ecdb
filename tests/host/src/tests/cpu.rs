// SPDX-License-Identifier: GPL-2.0

//! A CPU with a ring, that knows what a reader of the ring must find.

use std::cell::{Cell, RefCell};

use crate::engine::context::Context;
use crate::engine::reader::{Cursor, Event, Extent};
use crate::engine::ring::{Outcome, Ring};
use crate::engine::slot::{Task, Words};
use crate::shim::preempt;
use crate::support::{self, copy_space, entry, Heap};

pub(crate) type HeapCursor = Cursor<Vec<Words>>;

pub(crate) struct Cpu {
    pub(crate) ring: Ring<Heap>,
    pub(crate) task: Cell<Task>,
    now: Cell<u64>,
    /// By how much the clock goes on whenever it is read.
    tick: u64,
    serial: Cell<u64>,
    written: RefCell<Vec<Event>>,
    overrun: Cell<u64>,
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
            overrun: Cell::new(0),
        }
    }

    /// Lets time pass.
    pub(crate) fn advance(&self, ticks: u64) {
        self.now.set(self.now.get() + ticks);
    }

    /// Writes an event that no other is like.
    pub(crate) fn write(&self, wide: bool) -> Outcome {
        let serial = self.serial.get();
        self.serial.set(serial + 1);
        let entry = entry(serial, wide);
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
        let outcome = unsafe { self.ring.write(&entry, &task, clock) };
        match outcome {
            Outcome::Written => self.written.borrow_mut().push(Event {
                time: time.get(),
                ip: entry.ip,
                parent_ip: entry.parent_ip,
                context: Context(entry.context),
                task,
                lost: 0,
            }),
            Outcome::Overrun => self.overrun.set(self.overrun.get() + 1),
        }
        outcome
    }

    /// All that was written, in the order in which the ring has it: by time.
    pub(crate) fn written(&self) -> Vec<Event> {
        let mut events = self.written.borrow().clone();
        events.sort_by_key(|event| event.time);
        events
    }

    pub(crate) fn overrun(&self) -> u64 {
        self.overrun.get()
    }

    pub(crate) fn cursor(&self, from: u64) -> HeapCursor {
        Cursor::new(&self.ring, copy_space(&self.ring), from)
    }

    /// Reads all that `cursor` has, and gives each event its index.
    pub(crate) fn read(&self, cursor: &mut HeapCursor, start: u64) -> Vec<(u64, Event)> {
        let mut index = start;
        std::iter::from_fn(|| {
            let event = cursor.next(&self.ring)?;
            let found = index + event.lost;
            index = found + 1;
            Some((found, Event { lost: 0, ..event }))
        })
        .collect()
    }

    /// Whether the ring, at rest, accounts for every write and holds what it must.
    pub(crate) fn check(&self) {
        let written = self.written();
        let extent = self.ring.extent();
        assert_eq!(extent.end_event, written.len() as u64, "events written");
        assert_eq!(self.ring.overrun(), self.overrun(), "events overrun");
        check_extent(&self.ring, &extent);
        let read = self.read(&mut self.cursor(0), extent.first_event);
        let present = extent.end_event - extent.first_event;
        assert_eq!(read.len() as u64, present, "events present");
        check_events(&read, &written);
    }
}

/// Whether each event read is the one written at its index.
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
