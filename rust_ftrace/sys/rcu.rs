// SPDX-License-Identifier: GPL-2.0

//! Waiting for code that runs with preemption off.

use kernel::bindings;

use super::lockdep;

/// Returns when every CPU has left what it ran with preemption off at the time of the call, in a
/// function that can be traced.
pub(crate) fn synchronize_preempt_off() {
    lockdep::waits();
    // Code with preemption off is a read side of RCU, as long as RCU is watching.
    //
    // SAFETY: Has no preconditions but that the caller may sleep.
    unsafe { bindings::synchronize_rcu() };
    // On architectures where functions can be traced while RCU is not watching (in idle, say), this
    // one waits for those CPUs. On the others, x86 among them, it does nothing.
    //
    // SAFETY: Has no preconditions but that the caller may sleep.
    unsafe { bindings::synchronize_rcu_tasks_rude() };
}

/// Returns when every task has slept, or left the kernel, of its own will since the call: none is
/// left in the middle of anything, though it may have been preempted there.
pub(crate) fn synchronize_tasks() {
    lockdep::waits();
    #[cfg(CONFIG_TASKS_RCU)]
    // SAFETY: Has no preconditions but that the caller may sleep.
    unsafe {
        bindings::synchronize_rcu_tasks();
    }
    // Nothing is preempted in the kernel then.
    #[cfg(not(CONFIG_TASKS_RCU))]
    // SAFETY: Has no preconditions but that the caller may sleep.
    unsafe {
        bindings::synchronize_rcu();
    }
}

/// Returns when all that waited for RCU at the time of the call has been done, `call_rcu()`'s.
pub(crate) fn barrier() {
    lockdep::waits();
    // SAFETY: Has no preconditions but that the caller may sleep.
    unsafe { bindings::rcu_barrier() };
}
