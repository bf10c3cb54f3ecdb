// SPDX-License-Identifier: GPL-2.0

//! Whether the kernel lets us do what we are for.

use kernel::bindings;
use kernel::error::to_result;
use kernel::prelude::*;

/// Fails with `EPERM` if the kernel is locked down so far that debugfs cannot be used.
pub(crate) fn allows_debugfs() -> Result {
    // SAFETY: Has no preconditions.
    to_result(unsafe {
        bindings::security_locked_down(bindings::lockdown_reason_LOCKDOWN_DEBUGFS)
    })
}

/// Fails with `EPERM` if the kernel is locked down so far that tracing is refused.
pub(crate) fn allows_tracing() -> Result {
    // SAFETY: Has no preconditions.
    to_result(unsafe {
        bindings::security_locked_down(bindings::lockdown_reason_LOCKDOWN_TRACEFS)
    })
}

/// Whether debugfs is there.
pub(crate) fn has_debugfs() -> bool {
    // SAFETY: Has no preconditions.
    unsafe { bindings::debugfs_initialized() }
}
