// SPDX-License-Identifier: GPL-2.0

//! The clocks that events can be stamped with.

use kernel::bindings;

use super::context::{cycles, PreemptGuard};
use crate::engine::clock::{Conversion, Sample, Scale};

/// How many comparisons of the clocks a calibration makes.
const SAMPLES: usize = 64;

/// The kernel's `local` trace clock, in ns since boot.
///
/// May be called in any context; it is not traced.
pub(crate) fn local_ns() -> u64 {
    // SAFETY: Has no preconditions.
    unsafe { bindings::trace_clock_local() }
}

/// Compares the time stamp counter with the `local` clock: the conversion of one into the other,
/// and its greatest error in ns. `None` if the counter's rate is not known.
pub(crate) fn calibrate() -> Option<(Conversion, u64)> {
    // SAFETY: The variable is set at boot, and read once here.
    let khz = unsafe { (&raw const bindings::tsc_khz).read_volatile() };
    let scale = Scale::from_khz(khz)?;
    // Samples that an interrupt stretched are not the closest, and are not taken.
    let samples = (0..SAMPLES).map(|_| {
        let _guard = PreemptGuard::new();
        let before = cycles();
        let ns = local_ns();
        let after = cycles();
        Sample { before, ns, after }
    });
    Conversion::fit(scale, samples)
}
