// SPDX-License-Identifier: GPL-2.0

//! Limits that the kernel sets to modules like this: lockdown, and debugfs switched off.

use kernel::bindings;
use kernel::prelude::*;

/// Acts that a lockdown can forbid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockdownReason {
    /// Files of debugfs that can be written.
    Debugfs,
    /// Tracing.
    Tracefs,
}

/// Asks whether the kernel is locked down so far that `reason` is forbidden.
///
/// # Errors
///
/// `EPERM` if it is.
#[cfg(CONFIG_SECURITY)]
pub(crate) fn allows(reason: LockdownReason) -> Result {
    let reason = match reason {
        LockdownReason::Debugfs => bindings::lockdown_reason_LOCKDOWN_DEBUGFS,
        LockdownReason::Tracefs => bindings::lockdown_reason_LOCKDOWN_TRACEFS,
    };
    // SAFETY: `security_locked_down()` takes a number of the enum, and `reason` is one.
    kernel::error::to_result(unsafe { bindings::security_locked_down(reason) })
}

/// Allows everything: a kernel without security modules cannot be locked down.
///
/// # Errors
///
/// None.
#[cfg(not(CONFIG_SECURITY))]
pub(crate) fn allows(_reason: LockdownReason) -> Result {
    Ok(())
}

/// Returns whether debugfs is there.
pub(crate) fn has_debugfs() -> bool {
    // SAFETY: `debugfs_initialized()` takes nothing, and only reads a variable.
    unsafe { bindings::debugfs_initialized() }
}
