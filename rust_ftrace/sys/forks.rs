// SPDX-License-Identifier: GPL-2.0

//! Callbacks when tasks come and go.
//!
//! C header: `include/trace/events/sched.h`

use kernel::bindings;
use kernel::prelude::*;

use super::tracepoint::Probes;

/// Called when tasks come and go.
pub(crate) trait ForkHandler: Send + Sync + 'static {
    /// Task `parent` has made task `child`, which has not run yet. Must not sleep.
    fn forked(&self, parent: u32, child: u32);

    /// Called when task `pid` is freed, and its pid means no task any more. Must not sleep.
    fn freed(&self, pid: u32);
}

/// A handler that is called, or not.
pub(crate) struct Forks<T: ForkHandler>(Probes<T, 2>);

impl<T: ForkHandler> Forks<T> {
    /// Nothing is called.
    pub(crate) const fn new() -> Self {
        Self(Probes::new())
    }

    /// Has `handler` called from now on.
    ///
    /// # Errors
    ///
    /// Nothing is called then. `ENODEV` if the kernel has no such tracepoints, `ENOMEM` if there is
    /// no memory.
    ///
    /// # Safety
    ///
    /// `handler` stays valid until [`Forks::clear`].
    pub(crate) unsafe fn call(&mut self, handler: *const T) -> Result {
        let probes = [
            (c"sched_process_fork", forked::<T> as *mut c_void),
            (c"sched_process_free", freed::<T> as *mut c_void),
        ];
        // SAFETY:
        // - Each is declared as its tracepoint calls it.
        // - The handler stays valid until `clear`, by caller precondition.
        unsafe { self.0.call(probes, handler) }
    }

    /// Returns once the handler is not called any more.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// # Safety
///
/// `task` points to a task that is valid during the call.
unsafe fn pid_of(task: *const bindings::task_struct) -> u32 {
    // SAFETY: `task` is valid, by caller precondition, and its ID does not change any more.
    let pid: bindings::pid_t = unsafe { (*task).pid };
    // CAST: IDs are not negative.
    pid as u32
}

/// Passes a new task to the handler: fork's callback.
///
/// # Safety
///
/// - `handler` points to a `T` that is valid during the call.
/// - `parent` and `child` point to tasks that are valid during the call.
unsafe extern "C" fn forked<T: ForkHandler>(
    handler: *mut c_void,
    parent: *mut bindings::task_struct,
    child: *mut bindings::task_struct,
) {
    // SAFETY: `handler` points to a `T` that is valid during the call, by caller precondition; it
    // is only shared.
    let handler = unsafe { &*handler.cast_const().cast::<T>() };
    // SAFETY: `parent` points to a task that is valid during the call, by caller precondition.
    let parent = unsafe { pid_of(parent) };
    // SAFETY: `child` points to a task that is valid during the call, by caller precondition.
    let child = unsafe { pid_of(child) };
    handler.forked(parent, child);
}

/// Passes the end of a task to the handler.
///
/// # Safety
///
/// - `handler` points to a `T` that is valid during the call.
/// - `task` points to a task that is valid during the call.
unsafe extern "C" fn freed<T: ForkHandler>(handler: *mut c_void, task: *mut bindings::task_struct) {
    // SAFETY: `handler` points to a `T` that is valid during the call, by caller precondition; it
    // is only shared.
    let handler = unsafe { &*handler.cast_const().cast::<T>() };
    // SAFETY: `task` points to a task that is valid during the call, by caller precondition.
    handler.freed(unsafe { pid_of(task) });
}
