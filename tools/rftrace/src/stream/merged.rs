// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The events of all CPUs, in the order of time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rftrace_engine::engine::decode::Event;
use rftrace_engine::engine::merge::{Merge, Source};

use super::cpu::{Blocks, CpuEvents};
use super::{Beside, Error, Events, Item};

/// A CPU's events; an error ends them, and is kept for all.
struct Fallible<B> {
    events: CpuEvents<B>,
    error: Rc<RefCell<Option<Error>>>,
    /// CPUs whose next event comes after a loss.
    losing: Rc<Cell<usize>>,
}

impl<B: Blocks> Source for Fallible<B> {
    fn cpu(&self) -> u32 {
        self.events.cpu()
    }

    fn next(&mut self) -> Option<Event> {
        match self.events.next() {
            Ok(event) => {
                if event.is_some_and(|event| event.lost != 0) {
                    self.losing.set(self.losing.get() + 1);
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

/// Merges the events of CPUs.
pub struct Merged<B> {
    merge: Merge<Fallible<B>>,
    error: Rc<RefCell<Option<Error>>>,
    losing: Rc<Cell<usize>>,
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
            losing: Rc::default(),
            beside: Beside::default(),
        };
        for events in cpus {
            let error = merged.error.clone();
            let losing = merged.losing.clone();
            let source = Fallible {
                events,
                error,
                losing,
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
            if event.lost != 0 {
                self.losing.set(self.losing.get().saturating_sub(1));
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

    fn is_losing(&self) -> bool {
        self.losing.get() != 0
    }
}
