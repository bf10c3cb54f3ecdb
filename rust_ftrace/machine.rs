// SPDX-License-Identifier: GPL-2.0

//! What is the machine's and not an instance's: the list of functions, and the clock.

use kernel::prelude::*;
use kernel::sync::{new_mutex, Mutex};

use crate::catalog::Catalog;
use crate::engine::clock::Conversion;
use crate::engine::render::TimeUnit;
use crate::sys::clock;
use crate::sys::context::cycles;

/// How far two calibrations may differ, in ns beyond their own errors, for the time stamp counter
/// to be taken for what the `local` clock is made of.
const MAX_DRIFT_NS: u64 = 500;

/// What events are stamped with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockSource {
    /// Cycles of the time stamp counter.
    Cycles,
    /// The kernel's `local` clock, where the counter is not what it is made of.
    Local,
}

/// From stamps to the time that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timeline {
    /// The stamp is shown as it is.
    Plain(TimeUnit),
    /// Cycles are shown as time of the `local` clock.
    Converted(Conversion),
}

impl Timeline {
    /// The time of `stamp` and its unit.
    pub(crate) fn time(&self, stamp: u64) -> (u64, TimeUnit) {
        match self {
            Self::Plain(unit) => (stamp, *unit),
            Self::Converted(conversion) => (conversion.to_ns(stamp), TimeUnit::Nanoseconds),
        }
    }
}

/// What all instances share.
#[pin_data]
pub(crate) struct Machine {
    /// Read when first needed, and again after a module came or went.
    #[pin]
    catalog: Mutex<Option<Catalog>>,
    clock_source: ClockSource,
    /// The conversion in use, and its greatest error in ns.
    #[pin]
    conversion: Mutex<Option<(Conversion, u64)>>,
}

impl Machine {
    /// Looks at the clocks; nothing else is done yet.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            catalog <- new_mutex!(None),
            clock_source: Self::choose_clock(),
            conversion <- new_mutex!(None),
        }? Error)
    }

    fn choose_clock() -> ClockSource {
        let agrees = || {
            let (first, first_error) = clock::calibrate()?;
            kernel::time::delay::fsleep(kernel::time::Delta::from_millis(2));
            let (second, second_error) = clock::calibrate()?;
            let now = cycles();
            let tolerance = MAX_DRIFT_NS + first_error + second_error;
            Some(first.agrees_with(&second, now, tolerance))
        };
        match agrees() {
            Some(true) => ClockSource::Cycles,
            _ => ClockSource::Local,
        }
    }

    /// What events are stamped with.
    pub(crate) fn clock_source(&self) -> ClockSource {
        self.clock_source
    }

    /// The way from stamps to times: the same for every reader, until the kernel's clock was
    /// adjusted or has slept.
    pub(crate) fn timeline(&self) -> Timeline {
        match self.clock_source {
            ClockSource::Local => Timeline::Plain(TimeUnit::Nanoseconds),
            ClockSource::Cycles => match self.conversion() {
                Some(conversion) => Timeline::Converted(conversion),
                None => Timeline::Plain(TimeUnit::Counts),
            },
        }
    }

    fn conversion(&self) -> Option<Conversion> {
        let mut kept = self.conversion.lock();
        let (now, now_error) = clock::calibrate()?;
        match *kept {
            Some((before, error)) if before.agrees_with(&now, cycles(), error + now_error) => {
                Some(before)
            }
            _ => {
                *kept = Some((now, now_error));
                Some(now)
            }
        }
    }

    /// Calls `user` with the list of functions.
    ///
    /// # Errors
    ///
    /// Those of [`Catalog::read`], and of `user`.
    pub(crate) fn with_catalog<R>(&self, user: impl FnOnce(&Catalog) -> Result<R>) -> Result<R> {
        let mut slot = self.catalog.lock();
        if slot.is_none() {
            *slot = Some(Catalog::read()?);
        }
        user(slot.as_ref().ok_or(ENODEV)?)
    }

    /// Forgets the list of functions: a module came or went.
    pub(crate) fn forget_catalog(&self) {
        let old = self.catalog.lock().take();
        drop(old);
    }

    /// Bytes of memory that the list takes now.
    pub(crate) fn catalog_bytes(&self) -> usize {
        self.catalog.lock().as_ref().map_or(0, Catalog::bytes)
    }
}
