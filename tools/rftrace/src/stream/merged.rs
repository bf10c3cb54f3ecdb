// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The events of all CPUs, in the order of time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rftrace_engine::engine::decode::{Event, What};
use rftrace_engine::engine::merge::{Merge, Source};

use super::cpu::{Blocks, CpuEvents};
use super::{Beside, Error, Events, Item};

/// Losses before events that are still to come.
#[derive(Debug, Default)]
struct Ahead {
    /// CPUs whose next event comes after a loss.
    cpus: Cell<usize>,
    /// The time since when there were any.
    since: Cell<u64>,
}

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
        match self.events.next() {
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

impl<B> Fallible<B> {
    /// Looks at an event that was had before its time.
    #[inline]
    fn look(&mut self, event: &Event) {
        let ahead = &self.ahead;
        if event.lost != 0 {
            let cpus = ahead.cpus.get();
            let since = match cpus {
                0 => self.last,
                _ => self.last.min(ahead.since.get()),
            };
            ahead.since.set(since);
            ahead.cpus.set(cpus + 1);
        }
        self.last = match event.what {
            What::Call => event.time.saturating_add(event.duration),
            _ => event.time,
        };
    }
}

/// Merges the events of CPUs.
pub struct Merged<B> {
    merge: Merge<Fallible<B>>,
    error: Rc<RefCell<Option<Error>>>,
    ahead: Rc<Ahead>,
    /// The last event came after a loss.
    has_lost: bool,
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
            has_lost: false,
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
            self.has_lost = event.lost != 0;
            if self.has_lost {
                let cpus = self.ahead.cpus.get();
                self.ahead.cpus.set(cpus.saturating_sub(1));
            }
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
        let is_lossy = self.has_lost || self.ahead.cpus.get() != 0;
        is_lossy.then(|| self.ahead.since.get())
    }
}
