// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The events of all CPUs, in the order of time.

use std::cell::RefCell;
use std::rc::Rc;

use rftrace_engine::engine::decode::Event;
use rftrace_engine::engine::merge::{Merge, Source};

use super::cpu::{Blocks, CpuEvents};
use super::{end_of, Beside, Error, Events, Item};

/// CPUs whose next event comes after a loss, and since when.
type Ahead = RefCell<Vec<(u32, u64)>>;

/// A CPU's events; an error ends them, and is kept for all.
struct Fallible<B> {
    events: CpuEvents<B>,
    error: Rc<RefCell<Option<Error>>>,
    ahead: Rc<Ahead>,
    /// Time of the CPU's last event.
    last: u64,
}

impl<B: Blocks> Source for Fallible<B> {
    fn cpu(&self) -> u32 {
        self.events.cpu()
    }

    fn next(&mut self) -> Option<Event> {
        match self.events.next_event() {
            Ok(event) => {
                if let Some(event) = &event {
                    self.look(event);
                }
                event
            }
            Err(error) => {
                self.error.borrow_mut().get_or_insert(error);
                None
            }
        }
    }
}

impl<B: Blocks> Fallible<B> {
    /// Looks at an event that was had before its time.
    #[inline]
    fn look(&mut self, event: &Event) {
        if event.lost != 0 {
            let cpu = self.events.cpu();
            self.ahead.borrow_mut().push((cpu, self.last));
        }
        self.last = end_of(event);
    }
}

/// Merges the events of CPUs.
pub struct Merged<B> {
    merge: Merge<Fallible<B>>,
    error: Rc<RefCell<Option<Error>>>,
    ahead: Rc<Ahead>,
    lost_since: Option<u64>,
    beside: Beside,
}

impl<B: Blocks> Merged<B> {
    /// Events of CPUs, each from its blocks.
    ///
    /// # Errors
    ///
    /// [`Error`] if the first ones cannot be had.
    pub fn new(cpus: impl IntoIterator<Item = CpuEvents<B>>) -> Result<Self, Error> {
        let mut merged = Self {
            merge: Merge::new(),
            error: Rc::default(),
            ahead: Rc::default(),
            lost_since: None,
            beside: Beside::default(),
        };
        for events in cpus {
            let error = merged.error.clone();
            let ahead = merged.ahead.clone();
            let source = Fallible {
                events,
                error,
                ahead,
                last: 0,
            };
            merged.merge.add(source).map_err(|_| Error::NoMemory)?;
        }
        let error = merged.error.take();
        error.map_or(Ok(merged), Err)
    }
}

impl<B: Blocks> Events for Merged<B> {
    fn next(&mut self) -> Result<Option<Item>, Error> {
        let next = self.merge.next();
        // (one that broke off is told before anything comes that is later than what it would have had)
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        Ok(next.map(|(source, event)| {
            let mut ahead = self.ahead.borrow_mut();
            self.lost_since = ahead.iter().map(|(_, since)| *since).min();
            if event.lost != 0 {
                ahead.retain(|(cpu, _)| *cpu != source.events.cpu());
            }
            drop(ahead);
            if event.has_extras {
                self.beside.clone_from(source.events.beside());
            }
            Item {
                cpu: source.events.cpu(),
                event: *event,
            }
        }))
    }

    fn beside(&self) -> &Beside {
        &self.beside
    }

    fn lost_since(&self) -> Option<u64> {
        self.lost_since
    }
}
