// SPDX-License-Identifier: GPL-2.0

//! Waiting for code that runs with preemption off.

use kernel::bindings;

/// Returns when every CPU has left what it ran with preemption off at the time of the call, be it
/// in idle or wherever else RCU is not watching.
pub(crate) fn synchronize_preempt_off() {
    // SAFETY: Has no preconditions but that the caller may sleep.
    unsafe { bindings::synchronize_rcu_tasks_rude() };
}
