// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Streams, all CPUs: merges their events in the order of time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rftrace_engine::engine::merge::{EventSource, Merge};

use super::cpu::{Blocks, CpuEvents};
use super::{end_of, Error, Events, Item, OwnedExtras, SeenEvent};

/// News of the sources besides their next events.
#[derive(Default)]
struct Unusual {
    /// True if there is news.
    is_any: Cell<bool>,
    error: RefCell<Option<Error>>,
    /// CPUs whose next event comes after a loss, with the time since when.
    ahead: RefCell<Vec<(u32, u64)>>,
}

impl Unusual {
    #[cold]
    fn failed(&self, error: Error) {
        self.error.borrow_mut().get_or_insert(error);
        self.is_any.set(true);
    }

    #[cold]
    fn lost(&self, cpu: u32, since: u64) {
        self.ahead.borrow_mut().push((cpu, since));
        self.is_any.set(true);
    }

    /// Returns the time since when something was lost, if it was. `told` is the CPU whose loss is
    /// reported now.
    #[cold]
    fn look(&self, told: Option<u32>) -> Result<Option<u64>, Error> {
        // An error is returned before any event that is later than the ones it stands for.
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let mut ahead = self.ahead.borrow_mut();
        let since = ahead.iter().map(|(_, since)| *since).min();
        if let Some(told) = told {
            ahead.retain(|(cpu, _)| *cpu != told);
        }
        self.is_any.set(!ahead.is_empty());
        Ok(since)
    }
}

/// A CPU's events; an error ends them, and is kept for all.
struct Fallible<B> {
    events: CpuEvents<B>,
    unusual: Rc<Unusual>,
    /// Time of the CPU's last event.
    last: u64,
}

impl<B: Blocks> EventSource for Fallible<B> {
    type Event = u64;

    fn cpu(&self) -> u32 {
        self.events.cpu()
    }

    #[inline(always)]
    fn next(&mut self) -> Option<u64> {
        match self.events.advance() {
            Ok(true) => {
                let event = self.events.event();
                if event.lost != 0 {
                    // It was read before its time.
                    self.unusual.lost(self.events.cpu(), self.last);
                }
                self.last = end_of(event);
                Some(event.time)
            }
            Ok(false) => None,
            Err(error) => {
                self.unusual.failed(error);
                None
            }
        }
    }
}

/// Merges the events of CPUs.
pub struct MergedEvents<B: Blocks> {
    merge: Merge<Fallible<B>>,
    unusual: Rc<Unusual>,
    lost_since: Option<u64>,
    owned_extras: OwnedExtras,
}

impl<B: Blocks> MergedEvents<B> {
    /// Merges events of CPUs, each from its blocks.
    ///
    /// # Errors
    ///
    /// [`Error`] if the first ones cannot be had.
    pub fn new(cpus: impl IntoIterator<Item = CpuEvents<B>>) -> Result<Self, Error> {
        let mut merged = Self {
            merge: Merge::new(),
            unusual: Rc::default(),
            lost_since: None,
            owned_extras: OwnedExtras::default(),
        };
        for events in cpus {
            let source = Fallible {
                events,
                unusual: merged.unusual.clone(),
                last: 0,
            };
            merged.merge.add(source).map_err(|_| Error::NoMemory)?;
        }
        let error = merged.unusual.error.take();
        error.map_or(Ok(merged), Err)
    }

    /// Returns the next event.
    #[inline(always)]
    fn step(&mut self) -> Result<Option<SeenEvent<'_>>, Error> {
        let next = self.merge.next().map(|(source, _)| &source.events);
        self.lost_since = None;
        if self.unusual.is_any.get() {
            let told = next.filter(|events| events.event().lost != 0);
            self.lost_since = self.unusual.look(told.map(CpuEvents::cpu))?;
        }
        Ok(next.map(|events| {
            let event = events.event();
            if event.has_extras {
                self.owned_extras.clone_from(events.owned_extras());
            }
            SeenEvent {
                cpu: events.cpu(),
                event,
                owned_extras: &self.owned_extras,
                lost_since: self.lost_since,
            }
        }))
    }
}

impl<B: Blocks> Events for MergedEvents<B> {
    fn next(&mut self) -> Result<Option<Item>, Error> {
        Ok(self.step()?.map(|seen| Item {
            cpu: seen.cpu,
            event: *seen.event,
        }))
    }

    fn for_each(&mut self, mut each: impl FnMut(SeenEvent<'_>)) -> Result<(), Error> {
        while let Some(seen) = self.step()? {
            each(seen);
        }
        Ok(())
    }

    fn owned_extras(&self) -> &OwnedExtras {
        &self.owned_extras
    }

    fn lost_since(&self) -> Option<u64> {
        self.lost_since
    }
}
