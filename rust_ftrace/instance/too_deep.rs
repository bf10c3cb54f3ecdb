// SPDX-License-Identifier: GPL-2.0

//! The number of calls that were too deep for fgraph, as far as an instance needs it.

use kernel::prelude::*;
use kernel::sync::{new_mutex, Mutex};

pub(super) use crate::engine::account::Growth;
use crate::sys::rcu;
use crate::sys::too_deep::Overruns;

/// A part of an instance that has fgraph watch calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watcher {
    /// `function_graph`.
    Tracer,
    /// The profile.
    Profile,
}

/// The values that counts began with.
struct Baseline {
    overruns: Overruns,
    /// The growth of `overruns` for the tracer, as long as there is one that watches calls.
    tracer: Growth,
    /// The growth of `overruns` for the profile.
    profile: Growth,
}

impl Baseline {
    /// Creates counts that begin at 0.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    fn new() -> Result<Self> {
        Ok(Self {
            overruns: Overruns::new()?,
            tracer: Growth::default(),
            profile: Growth::default(),
        })
    }

    fn growth(&mut self, watcher: Watcher) -> &mut Growth {
        match watcher {
            Watcher::Tracer => &mut self.tracer,
            Watcher::Profile => &mut self.profile,
        }
    }

    /// Returns the sum over all tasks; 0 while no part of the instance counts.
    fn total(&self) -> u64 {
        match self.tracer.is_on() || self.profile.is_on() {
            true => self.overruns.total(),
            false => 0,
        }
    }
}

/// The counts of calls that were too deep.
///
/// Its lock is never held with those of buffers and profile, as it waits for CPUs.
#[pin_data]
pub(super) struct TooDeep {
    #[pin]
    begun: Mutex<Baseline>,
}

impl TooDeep {
    /// Creates the state in which nothing counts yet.
    pub(super) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            begun <- new_mutex!(Baseline::new()?),
        }? Error)
    }

    /// Begins to count calls of the tracer from 0.
    pub(super) fn clear(&self) {
        let mut begun = self.begun.lock();
        let total = begun.total();
        begun.tracer.clear(total);
    }

    /// Counts calls that are too deep from now on, for `watcher`; returns whether it did not
    /// before.
    ///
    /// # Errors
    ///
    /// Those of [`Overruns::begin`].
    pub(super) fn begin(&self, watcher: Watcher) -> Result<bool> {
        let mut begun = self.begun.lock();
        if begun.growth(watcher).is_on() {
            return Ok(false);
        }
        begun.overruns.begin()?;
        let total = begun.overruns.total();
        begun.growth(watcher).begin(total);
        Ok(true)
    }

    /// Ends counting for `watcher`.
    pub(super) fn end(&self, watcher: Watcher) {
        if self.begun.lock().growth(watcher).is_on() {
            // A task that has just ended counts again when it is freed.
            rcu::barrier();
        }
        let mut begun = self.begun.lock();
        let total = begun.total();
        begun.growth(watcher).end(total);
        if !begun.tracer.is_on() && !begun.profile.is_on() {
            begun.overruns.end();
        }
    }

    /// Forgets the count for the profile, which is ended, and returns it.
    pub(super) fn forget_profile(&self) -> Growth {
        core::mem::take(&mut self.begun.lock().profile)
    }

    /// Puts back the count before, as the profile was not begun after all.
    pub(super) fn put_back_profile(&self, growth: Growth) {
        self.end(Watcher::Profile);
        self.begun.lock().profile = growth;
    }

    /// Returns the number of calls that were too deep while `function_graph` was on, since all
    /// buffers were cleared; and while calls were counted, since that began. Calls that other users
    /// of fgraph have watched are among them.
    pub(super) fn counts(&self) -> (u64, u64) {
        let begun = self.begun.lock();
        let total = begun.total();
        (begun.tracer.count(total), begun.profile.count(total))
    }
}
