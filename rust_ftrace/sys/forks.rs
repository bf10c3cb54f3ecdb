// SPDX-License-Identifier: GPL-2.0

//! Callbacks when tasks come and go.
//!
//! C header: `include/trace/events/sched.h`

use kernel::bindings;
use kernel::prelude::*;

use super::tracepoint::{self, Registration};

/// Called when tasks come and go.
pub(crate) trait ForkHandler: Send + Sync + 'static {
    /// Task `parent` has made task `child`, which has not run yet. Must not sleep.
    fn forked(&self, parent: u32, child: u32);

    /// Called when task `pid` is freed, and its pid means no task any more. Must not sleep.
    fn freed(&self, pid: u32);
}

/// A handler that is called, or not.
///
/// # Invariants
///
/// The handler of a registration is valid.
pub(crate) struct Forks<T: ForkHandler> {
    registered: Option<[Registration; 2]>,
    _handler: core::marker::PhantomData<fn(&T)>,
}

// SAFETY: It is only changed under exclusive access, and `T` may be shared.
unsafe impl<T: ForkHandler> Send for Forks<T> {}

impl<T: ForkHandler> Forks<T> {
    /// Nothing is called.
    pub(crate) const fn new() -> Self {
        Self {
            registered: None,
            _handler: core::marker::PhantomData,
        }
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
        if self.registered.is_some() {
            return Ok(());
        }
        let data: *mut c_void = handler.cast_mut().cast();
        let forked = forked::<T> as *mut c_void;
        // SAFETY:
        // - `forked` is declared as this tracepoint calls it.
        // - The handler stays valid until `clear`, by caller precondition, which ends the
        //   registration and waits.
        let forks = unsafe { Registration::new(c"sched_process_fork", forked, data) }?;
        let freed = freed::<T> as *mut c_void;
        // SAFETY:
        // - `freed` is declared as this tracepoint calls it.
        // - The handler stays valid until `clear`, by caller precondition, which ends the
        //   registration and waits.
        match unsafe { Registration::new(c"sched_process_free", freed, data) } {
            // INVARIANT: Just registered, for a handler that is valid, by caller precondition.
            Ok(frees) => self.registered = Some([forks, frees]),
            Err(error) => {
                forks.end();
                tracepoint::wait();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Returns once the handler is not called any more.
    pub(crate) fn clear(&mut self) {
        if let Some(registered) = self.registered.take() {
            registered.map(Registration::end);
            tracepoint::wait();
        }
    }
}

impl<T: ForkHandler> Drop for Forks<T> {
    fn drop(&mut self) {
        self.clear();
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
