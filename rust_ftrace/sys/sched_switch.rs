// SPDX-License-Identifier: GPL-2.0

//! Callbacks when a CPU goes from one task to another.
//!
//! C headers: [`include/linux/tracepoint.h`](srctree/include/linux/tracepoint.h),
//! `include/trace/events/sched.h`

use kernel::bindings;
use kernel::prelude::*;

use super::context::PreemptOff;
pub(crate) use super::private::shadow_stacks::{need_queues, ShadowStack};
use super::tracepoint::Probes;

/// Called when tasks change.
pub(crate) trait SwitchHandler: Send + Sync + 'static {
    /// `prev` stops running, and does not sleep if `is_queued`, and `next` goes on, whose shadow
    /// stacks are these. Interrupts are off.
    fn switched(
        &self,
        prev: ShadowStack<'_>,
        is_queued: bool,
        next: ShadowStack<'_>,
        token: PreemptOff<'_>,
    );
}

/// A handler that is called, or not.
pub(crate) struct Switches<T: SwitchHandler>(Probes<T, 1>);

impl<T: SwitchHandler> Switches<T> {
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
        let probes = [(c"sched_switch", probe::<T> as *mut c_void)];
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

/// Passes a switch of tasks to the handler: the tracepoint's callback.
///
/// # Safety
///
/// - `handler` points to a `T` that is valid during the call.
/// - `prev` and `next` point to tasks that are valid during the call.
/// - Interrupts are off during the call.
unsafe extern "C" fn probe<T: SwitchHandler>(
    handler: *mut c_void,
    preempt: bool,
    prev: *mut bindings::task_struct,
    next: *mut bindings::task_struct,
    prev_state: c_uint,
) {
    // SAFETY: `handler` points to a `T` that is valid during the call, by caller precondition; it
    // is only shared.
    let handler = unsafe { &*handler.cast_const().cast::<T>() };
    // SAFETY: `prev` points to a task that is valid during the call, by caller precondition.
    let prev = unsafe { ShadowStack::of(prev) };
    // SAFETY: `next` points to a task that is valid during the call, by caller precondition.
    let next = unsafe { ShadowStack::of(next) };
    // SAFETY: Interrupts are off during the call, by caller precondition, so nothing is preempted.
    let token = unsafe { PreemptOff::assume() };
    // A task that is preempted does not sleep, whatever it was about to do.
    handler.switched(prev, preempt || prev_state == 0, next, token);
}
