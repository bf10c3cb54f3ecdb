// SPDX-License-Identifier: GPL-2.0

//! Callbacks when a task is woken.
//!
//! C headers: [`include/linux/tracepoint.h`](srctree/include/linux/tracepoint.h),
//! `include/trace/events/sched.h`

use kernel::bindings;
use kernel::prelude::*;

use super::context::PreemptOff;
use super::tracepoint::Probes;

/// Called when a task is woken.
pub(crate) trait WakeHandler: Send + Sync + 'static {
    /// The running code wakes the task with this ID, which may be running still. Preemption is off,
    /// and locks of the scheduler are held.
    fn woken(&self, pid: u32, token: PreemptOff<'_>);
}

/// A handler that is called, or not.
pub(crate) struct Wakeups<T: WakeHandler>(Probes<T, 1>);

impl<T: WakeHandler> Wakeups<T> {
    /// Nothing is called.
    pub(crate) const fn new() -> Self {
        Self(Probes::new())
    }

    /// Returns whether a handler is called.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_on()
    }

    /// Has `handler` called from now on.
    ///
    /// # Errors
    ///
    /// - `ENODEV` if the kernel has no such tracepoint.
    /// - `ENOMEM` if there is no memory.
    ///
    /// # Safety
    ///
    /// `handler` stays valid until [`Self::clear`].
    pub(crate) unsafe fn call(&mut self, handler: *const T) -> Result {
        let probes = [(c"sched_waking", probe::<T> as *mut c_void)];
        // SAFETY:
        // - `probe` is declared as this tracepoint calls it.
        // - The handler stays valid until `clear`, by caller precondition.
        unsafe { self.0.call(probes, handler) }
    }

    /// Returns once the handler is not called any more.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Passes a task that is woken to the handler: the tracepoint's callback.
///
/// # Safety
///
/// - `handler` points to a `T` that is valid during the call.
/// - `task` points to a task that is valid during the call.
/// - Preemption is off during the call.
unsafe extern "C" fn probe<T: WakeHandler>(handler: *mut c_void, task: *mut bindings::task_struct) {
    // SAFETY: `handler` points to a `T` that is valid during the call, by caller precondition; it
    // is only shared.
    let handler = unsafe { &*handler.cast_const().cast::<T>() };
    // SAFETY: `task` is valid, by caller precondition, and its ID does not change any more.
    let pid: bindings::pid_t = unsafe { (*task).pid };
    // SAFETY: Preemption is off during the call, by caller precondition.
    let token = unsafe { PreemptOff::assume() };
    // CAST: IDs are not negative.
    handler.woken(pid as u32, token);
}
