// SPDX-License-Identifier: GPL-2.0

//! The clocks that events can be stamped with.

use kernel::bindings;

use super::context::{cycles, PreemptGuard, PreemptOff};
use super::ffi;
use crate::engine::clock::{ClockSample, Conversion, Scale};

/// The number of comparisons of the clocks that a calibration makes.
pub(crate) const SAMPLES: usize = 64;
/// And how many will do to see that an earlier one still holds.
pub(crate) const FEW_SAMPLES: usize = 8;

/// The kernel's `local` trace clock, in ns since boot.
///
/// May be called in any context; it is not traced.
pub(crate) fn local_ns() -> u64 {
    // SAFETY: `trace_clock_local()` takes nothing, and may be called in any context.
    unsafe { bindings::trace_clock_local() }
}

/// Makes a clock that is read by a function of the kernel, which may be called in any context.
macro_rules! clocks {
    ($($(#[$doc:meta])* $name:ident = $function:ident;)*) => {
        $(
            $(#[$doc])*
            pub(crate) fn $name() -> u64 {
                // SAFETY: It takes nothing, and keeps no lock that its caller could hold.
                unsafe { bindings::$function() }
            }
        )*
    };
}

clocks! {
    /// The `global` trace clock, in ns. Not traced.
    global_ns = trace_clock_global;
    /// The `uptime` trace clock, in ticks of USER_HZ. Not traced.
    uptime = trace_clock_jiffies;
    /// CLOCK_MONOTONIC, in ns. It ends in the clocksource's function, which may be traced.
    mono_ns = ktime_get_mono_fast_ns;
    /// CLOCK_MONOTONIC_RAW, in ns. As for [`mono_ns`].
    mono_raw_ns = ktime_get_raw_fast_ns;
    /// CLOCK_BOOTTIME, in ns. As for [`mono_ns`].
    boot_ns = ktime_get_boot_fast_ns;
    /// CLOCK_TAI, in ns. As for [`mono_ns`]; it goes back when the time is set back.
    tai_ns = ktime_get_tai_fast_ns;
}

/// The `perf` trace clock, in ns: what `local_clock()` gives.
///
/// May be called in any context. That function itself is traced, but does the same as this one for
/// the CPU that it runs on (kernel/sched/clock.c).
pub(crate) fn perf_ns(token: PreemptOff<'_>) -> u64 {
    // SAFETY: It is the number of a CPU.
    unsafe { ffi::sched_clock_cpu(token.cpu_number()) }
}

/// Compares the time stamp counter with the `local` clock: the conversion of one into the other,
/// and its greatest error in ns. `None` if the counter's rate is not known.
pub(crate) fn calibrate(samples: usize) -> Option<(Conversion, u64)> {
    // SAFETY: The variable is set at boot, and read once here.
    let khz = unsafe { (&raw const bindings::tsc_khz).read_volatile() };
    let scale = Scale::from_khz(khz)?;
    // Samples that an interrupt stretched are not the closest, and are not taken.
    let samples = (0..samples).map(|_| {
        let _guard = PreemptGuard::new();
        let before = cycles();
        let ns = local_ns();
        let after = cycles();
        ClockSample { before, ns, after }
    });
    Conversion::fit(scale, samples)
}
