// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Profile, the sleeps: since when tasks sleep in calls, and what wakes them.

use super::task_names::{TaskNames, WokenBy};
use crate::engine::waiting::{WakeContext, Waker};
use crate::engine::wakers::{Wakers, PLACES};
use crate::platform::{AllocError, Table, Word};

/// Tasks that sleep in calls. Wakers have numbers of names for IDs.
pub struct Sleeps {
    wakers: Wakers,
    /// The time at which the task with a place of `wakers` fell asleep, in ticks, and that which it
    /// had been in run queues in its life, in ns.
    stops: Table<[Word; 2], PLACES>,
    names: TaskNames,
}

/// A sleep that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleep {
    /// The time for which the task did not run, in ticks.
    pub slept: u64,
    /// The part of it in run queues, in ns.
    pub queued: u64,
    /// The waker, which may not be known.
    pub waker: Waker,
}

impl Sleeps {
    /// Makes a table of none.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn new() -> Result<Self, AllocError> {
        Ok(Self {
            wakers: Wakers::new()?,
            stops: Table::new(|| [0; 2].map(Word::new))?,
            names: TaskNames::new()?,
        })
    }

    /// Notes that the task with this ID falls asleep at `now`; it has been in run queues for `life`
    /// ns. To be called on its CPU.
    pub fn begin(&self, pid: u32, now: u64, life: u64) {
        // Of two with one place that do this at once one may have the time of the other, which is
        // the same but for that.
        let [stop, life_then] = &self.stops[Wakers::place(pid)];
        self.wakers.sleeps(pid);
        stop.store_relaxed(now);
        life_then.store_relaxed(life);
    }

    /// Notes that a task is woken by code in a context; the running task has this name.
    pub fn note(&self, pid: u32, context: WakeContext, name: impl FnOnce() -> [u64; 2]) {
        let number = match context {
            WakeContext::Task => match self.names.number(name()) {
                Some(number) => number,
                None => return self.wakers.lose(),
            },
            _ => 0,
        };
        self.wakers.note(pid, Waker::new(number, context));
    }

    /// Returns the sleep of a task that goes on at `now`; `None` if it did not sleep, or that is
    /// not known.
    pub fn end(&self, pid: u32, now: u64, life: u64) -> Option<Sleep> {
        let stop = &self.stops[Wakers::place(pid)];
        let [stop, life_then] = stop.each_ref().map(Word::load_relaxed);
        // Read before, so that they are the task's if the place still is.
        let waker = self.wakers.take(pid)?;
        Some(Sleep {
            slept: now.saturating_sub(stop),
            queued: life.saturating_sub(life_then),
            waker,
        })
    }

    /// Returns a waker as it is told.
    pub fn woken_by(&self, waker: Waker) -> WokenBy {
        self.names.woken_by(waker)
    }

    /// The number of sleeps whose waker was lost.
    pub fn lost(&self) -> u64 {
        self.wakers.lost()
    }

    /// Forgets which tasks sleep, and counts what is lost from 0; names stay.
    pub fn clear(&self) {
        self.wakers.clear();
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        let stops = size_of_val(&*self.stops);
        stops + self.wakers.bytes() + self.names.bytes()
    }
}
