// SPDX-License-Identifier: GPL-2.0

//! Random numbers.
//!
//! C header: [`include/linux/random.h`](srctree/include/linux/random.h)

use kernel::bindings;

/// Returns a random word that cannot be guessed, and that hardly comes twice.
pub(crate) fn word() -> u64 {
    // SAFETY: Has no preconditions.
    unsafe { bindings::get_random_u64() }
}
