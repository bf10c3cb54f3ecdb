// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The clocks that events can be stamped with, by tracefs's names, and the conversion from cycles
//! of the time stamp counter to nanoseconds of the kernel's `local` clock.
//!
//! For `local` the hook stores raw cycles, if the kernel's clock is made of them, and readers turn
//! them into ns. The factor is the kernel's own, so both clocks run at exactly one rate, and only
//! the offset between them is measured: see [`Conversion::fit`] for the error.

use core::fmt;

use crate::platform::Word;

/// The unit that a trace clock counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Shown as seconds and microseconds.
    Nanoseconds,
    /// Shown as a plain number.
    Counts,
}

/// A clock (`trace_clocks[]` in kernel/trace/trace.c, and arch/x86/include/asm/trace_clock.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockKind {
    /// The CPU's own clock, which is fast.
    Local,
    /// A clock that is in step on all CPUs.
    Global,
    /// A count of stamps, which is no time at all.
    Counter,
    /// Hundredths of a second since boot (USER_HZ).
    Uptime,
    /// The clock that perf stamps its samples with.
    Perf,
    /// CLOCK_MONOTONIC.
    Mono,
    /// CLOCK_MONOTONIC_RAW.
    MonoRaw,
    /// CLOCK_BOOTTIME.
    Boot,
    /// CLOCK_TAI.
    Tai,
    /// Cycles of the time stamp counter.
    X86Tsc,
}

impl ClockKind {
    /// All clocks, in tracefs's order.
    pub const ALL: [Self; 10] = [
        Self::Local,
        Self::Global,
        Self::Counter,
        Self::Uptime,
        Self::Perf,
        Self::Mono,
        Self::MonoRaw,
        Self::Boot,
        Self::Tai,
        Self::X86Tsc,
    ];

    /// Returns the name that files use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Global => "global",
            Self::Counter => "counter",
            Self::Uptime => "uptime",
            Self::Perf => "perf",
            Self::Mono => "mono",
            Self::MonoRaw => "mono_raw",
            Self::Boot => "boot",
            Self::Tai => "tai",
            Self::X86Tsc => "x86-tsc",
        }
    }

    /// Returns the clock of this name.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name().as_bytes() == name)
    }

    /// Returns the unit that it counts in.
    pub const fn unit(self) -> TimeUnit {
        match self {
            Self::Counter | Self::Uptime | Self::X86Tsc => TimeUnit::Counts,
            _ => TimeUnit::Nanoseconds,
        }
    }

    /// Writes the line of all clocks, with brackets around this one.
    pub fn write_choice(self, out: &mut dyn fmt::Write) -> fmt::Result {
        for (index, kind) in Self::ALL.into_iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            let (open, close) = if kind == self { ("[", "]") } else { ("", "") };
            write!(out, "{space}{open}{}{close}", kind.name())?;
        }
        out.write_char('\n')
    }
}

/// Returns `now`, or the largest stamp so far if that is larger; `last` keeps it. A caller that is
/// interrupted here gets a stamp that is no smaller than those of the interrupts.
///
/// Only one CPU calls this for a `last`, with preemption off.
pub fn never_back(last: &Word, now: u64) -> u64 {
    loop {
        let before = last.load_relaxed();
        let stamp = now.max(before);
        if last.local_exchange(before, stamp) {
            return stamp;
        }
    }
}

/// `ns = cycles * mult >> shift`, as in arch/x86/kernel/tsc.c.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    mult: u32,
    shift: u32,
}

impl Scale {
    /// Returns the scale of a counter of `khz` kHz, bit for bit as `__set_cyc2ns_scale()` and
    /// `clocks_calc_mult_shift()` (kernel/time/clocksource.c, maxsec 0) compute it; `None` for 0.
    pub fn from_khz(khz: u32) -> Option<Self> {
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

    /// Returns the time of `cycles`, in ns, modulo 2^64.
    pub const fn to_ns(self, cycles: u64) -> u64 {
        // A shift is always below 64; the mask tells the compiler.
        ((cycles as u128 * self.mult as u128) >> (self.shift & 63)) as u64
    }
}

/// A scale and the difference between two clocks that run at its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conversion {
    scale: Scale,
    offset: u64,
}

/// One comparison of the clocks: cycles before, ns, cycles after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockSample {
    /// Counter before the clock was read.
    pub before: u64,
    /// The clock, in ns.
    pub ns: u64,
    /// Counter after that.
    pub after: u64,
}

impl Conversion {
    /// Returns the conversion that fits the closest of `samples` (the one whose readings lie
    /// nearest to each other), and half the distance of its readings in ns: the greatest possible
    /// error.
    pub fn fit(scale: Scale, samples: impl Iterator<Item = ClockSample>) -> Option<(Self, u64)> {
        let distance = |sample: &ClockSample| sample.after.wrapping_sub(sample.before);
        let best = samples.min_by_key(distance)?;
        let middle = best.before.wrapping_add(distance(&best) / 2);
        let offset = best.ns.wrapping_sub(scale.to_ns(middle));
        Some((
            Self { scale, offset },
            scale.to_ns(distance(&best)).div_ceil(2),
        ))
    }

    /// Returns whether both give the time of `cycles`, and all times near it, to within `tolerance`
    /// ns.
    pub fn agrees_with(&self, other: &Self, cycles: u64, tolerance: u64) -> bool {
        let difference = self.to_ns(cycles).wrapping_sub(other.to_ns(cycles)) as i64;
        self.scale == other.scale && difference.unsigned_abs() <= tolerance
    }

    /// Returns factor, shift and offset: ns = (cycles * mult >> shift) + offset.
    pub const fn parts(self) -> (u32, u32, u64) {
        (self.scale.mult, self.scale.shift, self.offset)
    }

    /// Returns the time that `cycles` last, in ns.
    pub const fn duration(self, cycles: u64) -> u64 {
        self.scale.to_ns(cycles)
    }

    /// Returns the cycles that `ns` last.
    pub const fn to_cycles(self, ns: u64) -> u64 {
        // The division has two steps, since the kernel divides no more than 64 bits.
        let (mult, shift) = (self.scale.mult as u64, self.scale.shift);
        match (ns.checked_div(mult), ns.checked_rem(mult)) {
            (Some(whole), Some(rest)) if shift <= 32 => {
                let whole = whole.saturating_mul(1 << shift);
                whole.saturating_add((rest << shift) / mult)
            }
            _ => ns,
        }
    }

    /// Returns the time of `cycles` on the other clock, in ns.
    pub const fn to_ns(self, cycles: u64) -> u64 {
        self.scale.to_ns(cycles).wrapping_add(self.offset)
    }
}
