// SPDX-License-Identifier: GPL-2.0

//! From cycles of the time stamp counter to the nanoseconds of the kernel's `local` clock.
//!
//! The hook stores raw cycles; readers turn them into ns. The factor is the kernel's own, so the two
//! clocks run at the same rate exactly, and only the offset between them is measured.

/// `ns = cycles * mult >> shift`, as in arch/x86/kernel/tsc.c.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    mult: u32,
    shift: u32,
}

impl Scale {
    /// The scale of a counter of `khz` kHz, bit for bit as `__set_cyc2ns_scale()` and
    /// `clocks_calc_mult_shift()` (kernel/time/clocksource.c, maxsec 0) compute it; `None` for 0.
    pub(crate) fn from_khz(khz: u32) -> Option<Self> {
        const NS_PER_MS: u64 = 1_000_000;
        let khz = u64::from(khz);
        // The largest shift for which the factor, rounded to nearest, fits into 32 bits.
        let scaled = |shift: u32| ((NS_PER_MS << shift) + khz / 2).checked_div(khz);
        let shift = (1..=32)
            .rev()
            .find(|&shift| scaled(shift).is_some_and(|mult| mult >> 32 == 0))?;
        let mult = scaled(shift)? as u32;
        // perf cannot take a shift of 32, so the kernel never uses one.
        Some(match shift {
            32 => Self {
                mult: mult >> 1,
                shift: 31,
            },
            shift => Self { mult, shift },
        })
    }

    /// The time of `cycles`, in ns, modulo 2^64.
    pub(crate) const fn to_ns(self, cycles: u64) -> u64 {
        ((cycles as u128 * self.mult as u128) >> self.shift) as u64
    }
}

/// A scale and the difference between two clocks that run at its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conversion {
    scale: Scale,
    offset: u64,
}

/// One comparison of the clocks: cycles before, ns, cycles after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Counter before the clock was read.
    pub(crate) before: u64,
    /// The clock, in ns.
    pub(crate) ns: u64,
    /// Counter after that.
    pub(crate) after: u64,
}

impl Conversion {
    /// The conversion that fits the closest of `samples` (the one whose readings lie nearest to
    /// each other), and half the distance of its readings in ns: the greatest possible error.
    pub(crate) fn fit(scale: Scale, samples: impl Iterator<Item = Sample>) -> Option<(Self, u64)> {
        let distance = |sample: &Sample| sample.after.wrapping_sub(sample.before);
        let best = samples.min_by_key(distance)?;
        let middle = best.before.wrapping_add(distance(&best) / 2);
        let offset = best.ns.wrapping_sub(scale.to_ns(middle));
        Some((
            Self { scale, offset },
            scale.to_ns(distance(&best)).div_ceil(2),
        ))
    }

    /// Whether both give the time of `cycles`, and all times near it, to within `tolerance` ns.
    pub(crate) fn agrees_with(&self, other: &Self, cycles: u64, tolerance: u64) -> bool {
        let difference = self.to_ns(cycles).wrapping_sub(other.to_ns(cycles)) as i64;
        self.scale == other.scale && difference.unsigned_abs() <= tolerance
    }

    /// The time of `cycles` on the other clock, in ns.
    pub(crate) const fn to_ns(self, cycles: u64) -> u64 {
        self.scale.to_ns(cycles).wrapping_add(self.offset)
    }
}
