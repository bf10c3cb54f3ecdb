// SPDX-License-Identifier: GPL-2.0

//! Clock, the machine's part: the calibration of the time stamp counter as the `local` clock.

use kernel::prelude::*;
use kernel::sync::{new_mutex, Mutex};

use crate::engine::clock::{ClockKind, Conversion, TimeUnit};
use crate::engine::timeline::Timeline;
use crate::sys::clock;
use crate::sys::context::cycles;

/// The greatest difference of two calibrations, in ns beyond their own errors, with which the
/// `local` clock is taken to be made of the time stamp counter.
const MAX_DRIFT_NS: u64 = 500;

/// The number of cycles (some milliseconds) after which the conversion is compared with the clock
/// again, as reads follow each other faster.
const LOOK_AGAIN: u64 = 1 << 24;

/// A conversion of cycles into times of the `local` clock.
#[derive(Clone, Copy)]
struct Calibration {
    conversion: Conversion,
    /// The greatest error in ns when it was made.
    error: u64,
    /// The greatest error in ns as seen at `at`.
    seen_error: u64,
    /// The time of the last comparison with the clock, in cycles.
    at: u64,
}

/// The clocks of the machine.
#[pin_data]
pub(super) struct Clocks {
    /// The kernel's `local` clock is made of the time stamp counter.
    local_is_counter: bool,
    /// The conversion in use.
    #[pin]
    conversion: Mutex<Option<Calibration>>,
}

impl Clocks {
    /// Creates the state, for which it looks at the clocks.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            local_is_counter: Self::look_at_clocks(),
            conversion <- new_mutex!(None),
        })
    }

    fn look_at_clocks() -> bool {
        let agrees = || {
            let (first, first_error) = clock::calibrate(clock::SAMPLES)?;
            kernel::time::delay::fsleep(kernel::time::Delta::from_millis(2));
            let (second, second_error) = clock::calibrate(clock::SAMPLES)?;
            let now = cycles();
            let tolerance = MAX_DRIFT_NS + first_error + second_error;
            Some(first.agrees_with(&second, now, tolerance))
        };
        agrees() == Some(true)
    }

    /// Returns whether events are stamped with cycles of the time stamp counter for this clock.
    pub(super) fn is_counter(&self, kind: ClockKind) -> bool {
        match kind {
            ClockKind::Local => self.local_is_counter,
            kind => kind == ClockKind::X86Tsc,
        }
    }

    /// Returns the way from stamps of a clock to times, the same for every reader until the
    /// kernel's clock was adjusted or has slept.
    pub(super) fn timeline(&self, kind: ClockKind) -> Timeline {
        self.timeline_by(kind, || self.conversion().map(|(conversion, _)| conversion))
    }

    /// Does as [`Clocks::timeline`] without a lock, if `known` is the conversion that was in use
    /// some time ago, and its greatest error.
    pub(super) fn timeline_by_known(
        &self,
        kind: ClockKind,
        known: Option<(Conversion, u64)>,
    ) -> Timeline {
        self.timeline_by(kind, || {
            let now = clock::calibrate(clock::FEW_SAMPLES);
            let (Some((known, known_error)), Some((conversion, error))) = (known, now) else {
                return now.map(|(conversion, _)| conversion);
            };
            let holds = known.agrees_with(&conversion, cycles(), known_error + error);
            Some(if holds { known } else { conversion })
        })
    }

    fn timeline_by(
        &self,
        kind: ClockKind,
        conversion: impl FnOnce() -> Option<Conversion>,
    ) -> Timeline {
        let to_timeline = match kind {
            ClockKind::Local if self.local_is_counter => Timeline::Converted,
            ClockKind::X86Tsc if self.local_is_counter => Timeline::Cycles,
            _ => return Timeline::Plain(kind.unit()),
        };
        conversion().map_or(Timeline::Plain(TimeUnit::Counts), to_timeline)
    }

    /// Returns the ticks of a clock that last `ns`; 1 for a clock that does not count time.
    pub(super) fn ticks(&self, kind: ClockKind, ns: u64) -> u64 {
        match self.is_counter(kind) {
            true => (self.conversion()).map_or(ns, |(conversion, _)| conversion.to_cycles(ns)),
            false if kind.unit() == TimeUnit::Nanoseconds => ns,
            false => ns.min(1),
        }
    }

    /// Returns the greatest difference of times from those of the kernel's own `local` clock at the
    /// same moment, in ns, if times are converted; `None` if not.
    pub(super) fn conversion_error(&self) -> Option<u64> {
        match self.local_is_counter {
            true => self.conversion().map(|(_, error)| error),
            false => None,
        }
    }

    /// Returns the conversion in use, and its greatest error when it was last looked at.
    pub(super) fn conversion(&self) -> Option<(Conversion, u64)> {
        let mut kept = self.conversion.lock();
        let at = cycles();
        let (samples, before) = match *kept {
            Some(ref before) if at.wrapping_sub(before.at) < LOOK_AGAIN => {
                return Some((before.conversion, before.seen_error));
            }
            Some(before) => (clock::FEW_SAMPLES, Some(before)),
            None => (clock::SAMPLES, None),
        };
        let (now, error) = clock::calibrate(samples)?;
        let looked_at = match before {
            Some(before)
                if before
                    .conversion
                    .agrees_with(&now, cycles(), before.error + error) =>
            {
                Calibration {
                    at,
                    seen_error: before.error + 2 * error,
                    ..before
                }
            }
            _ => Calibration {
                at,
                conversion: now,
                error,
                seen_error: error,
            },
        };
        *kept = Some(looked_at);
        Some((looked_at.conversion, looked_at.seen_error))
    }
}
