// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The conversion of stamps of a clock to times.

use super::clock::{ClockKind, Conversion, TimeUnit};
use super::raw::TimeFormat;

/// The conversion of stamps to the times that are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeline {
    /// The stamp is shown as it is.
    Plain(TimeUnit),
    /// Cycles are shown as time of the `local` clock.
    Converted(Conversion),
    /// Cycles are shown as they are, but their duration is known.
    Cycles(Conversion),
}

impl Timeline {
    /// The time of `stamp` and its unit.
    #[inline]
    pub fn time(&self, stamp: u64) -> (u64, TimeUnit) {
        match self {
            Self::Plain(unit) => (stamp, *unit),
            Self::Converted(conversion) => (conversion.to_ns(stamp), TimeUnit::Nanoseconds),
            Self::Cycles(_) => (stamp, TimeUnit::Counts),
        }
    }

    /// The duration of `ticks` between two stamps, in ns; `None` if the clock has none.
    pub fn duration(&self, ticks: u64) -> Option<u64> {
        match self {
            Self::Plain(TimeUnit::Nanoseconds) => Some(ticks),
            Self::Plain(TimeUnit::Counts) => None,
            Self::Converted(conversion) | Self::Cycles(conversion) => {
                Some(conversion.duration(ticks))
            }
        }
    }

    /// The conversion of stamps of `clock` to times, for other programs to apply.
    pub fn format(&self, clock: ClockKind) -> TimeFormat {
        let (is_ns, (mult, shift, offset)) = match self {
            Self::Plain(unit) => (*unit == TimeUnit::Nanoseconds, (1, 0, 0)),
            Self::Converted(conversion) => (true, conversion.parts()),
            Self::Cycles(_) => (false, (1, 0, 0)),
        };
        TimeFormat {
            clock: clock as u32,
            is_ns,
            mult,
            shift,
            offset,
        }
    }
}
