// SPDX-License-Identifier: GPL-2.0

//! Calls for which the shadow stacks of tasks had no room.
//!
//! fgraph counts them for each task, for all its users together, in `trace_overrun`, which only
//! grows from when the task gets its shadow stack until it is freed. So the sum is what all tasks
//! have, and what those had that are freed.
//!
//! C: `kernel/trace/fgraph.c`,
//! [`include/linux/sched/signal.h`](srctree/include/linux/sched/signal.h)

use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::rcu;

use super::private::tasks;
use super::tracepoint::Probes;
use crate::platform::fence_acquire;

/// The sum over all tasks.
pub(crate) struct Overruns {
    /// Of tasks that were freed since `freed` is registered.
    gone: KBox<Atomic<u64>>,
    freed: Probes<Atomic<u64>, 1>,
}

impl Overruns {
    /// Tasks that are freed are not known of.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            gone: KBox::new(Atomic::new(0), GFP_KERNEL)?,
            freed: Probes::new(),
        })
    }

    /// Has sums include what tasks have that are freed from now on.
    ///
    /// # Errors
    ///
    /// - `ENODEV` if the kernel has no such tracepoint.
    /// - `ENOMEM` if there is no memory.
    pub(crate) fn begin(&mut self) -> Result {
        let probes = [(c"sched_process_free", freed as *mut c_void)];
        // SAFETY:
        // - The function is declared as this tracepoint calls it.
        // - `gone` does not move with its box, which goes after `end`.
        unsafe { self.freed.call(probes, &*self.gone) }
    }

    /// Has them include no more of such.
    pub(crate) fn end(&mut self) {
        self.freed.clear();
    }

    /// The sum. A task that is just ending may be left out until it is freed, some milliseconds
    /// later, and so are the idle tasks of CPUs other than 0 where the kernel lists no symbols of
    /// data. No task counts twice.
    pub(crate) fn total(&self) -> u64 {
        let mut total = 0_u64;
        let mut add = |task| {
            // SAFETY: Idle tasks stay; others do as long as the guard below is there, which is as
            // long as they come.
            total = total.wrapping_add(unsafe { overrun_of(task) }.into());
        };
        tasks::for_each_idle(&mut add);
        let _guard = rcu::read_lock();
        // SAFETY: The guard is there, and `add` keeps nothing.
        unsafe { tasks::for_each(&mut add) };
        // None of those that were found can have been freed by now: that takes a grace period after
        // it was taken out of the list. So none is in both.
        total.wrapping_add(self.gone.load(Relaxed))
    }
}

impl Drop for Overruns {
    fn drop(&mut self) {
        self.end();
    }
}

/// Calls of `task` that its shadow stack had no room for: none if it has no shadow stack.
///
/// # Safety
///
/// `task` points to a task that is valid during the call.
unsafe fn overrun_of(task: *const bindings::task_struct) -> u32 {
    // SAFETY: `task` is valid, by caller precondition.
    let stack: *const *mut c_ulong = unsafe { &raw const (*task).ret_stack };
    // SAFETY: A live, aligned pointer, which fgraph writes meanwhile: a volatile load does not
    // tear.
    if unsafe { stack.read_volatile() }.is_null() {
        return 0;
    }
    // fgraph sets the count to 0 before it gives the task a stack. (until then it may be the
    // parent's)
    fence_acquire();
    // SAFETY: `task` is valid, by caller precondition.
    let count: *const c_int = unsafe { &raw const (*task).trace_overrun.counter };
    // SAFETY: A live, aligned int, which fgraph counts up meanwhile: a volatile load does not tear.
    (unsafe { count.read_volatile() }) as u32
}

/// Called before a task is freed, which does not run any more.
///
/// # Safety
///
/// - `gone` points to a count that is valid during the call.
/// - `task` points to a task that is valid during the call.
unsafe extern "C" fn freed(gone: *mut c_void, task: *mut bindings::task_struct) {
    // SAFETY: `gone` points to a count that is valid during the call, by caller precondition; it is
    // only shared.
    let gone = unsafe { &*gone.cast_const().cast::<Atomic<u64>>() };
    // SAFETY: `task` points to a task that is valid during the call, by caller precondition.
    let overrun = unsafe { overrun_of(task) };
    gone.add(u64::from(overrun), Relaxed);
}
