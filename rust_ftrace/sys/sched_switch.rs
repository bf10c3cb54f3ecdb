// SPDX-License-Identifier: GPL-2.0

//! Callbacks when a CPU goes from one task to another.
//!
//! C headers: [`include/linux/tracepoint.h`](srctree/include/linux/tracepoint.h),
//! `include/trace/events/sched.h`

use core::marker::PhantomData;

use kernel::bindings;
use kernel::prelude::*;

use super::context::PreemptOff;
pub(crate) use super::private::shadow_stacks::{need_queues, ShadowStack};
use super::rcu;
use super::tracepoint::Registration;

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
///
/// # Invariants
///
/// The handler of a registration is valid.
pub(crate) struct Switches<T: SwitchHandler> {
    registered: Option<Registration>,
    _handler: PhantomData<fn(&T)>,
}

// SAFETY: It is only changed under exclusive access, and `T` may be shared.
unsafe impl<T: SwitchHandler> Send for Switches<T> {}
// SAFETY: Shared references change nothing, and `T` may be shared.
unsafe impl<T: SwitchHandler> Sync for Switches<T> {}

impl<T: SwitchHandler> Switches<T> {
    /// Nothing is called.
    pub(crate) const fn new() -> Self {
        Self {
            registered: None,
            _handler: PhantomData,
        }
    }

    /// Returns whether a handler is called.
    pub(crate) fn is_on(&self) -> bool {
        self.registered.is_some()
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
    /// `handler` stays valid until [`Switches::clear`].
    pub(crate) unsafe fn call(&mut self, handler: *const T) -> Result {
        if self.registered.is_some() {
            return Ok(());
        }
        let probe = probe::<T> as *mut c_void;
        let data: *mut c_void = handler.cast_mut().cast();
        // SAFETY:
        // - `probe` is declared as this tracepoint calls it.
        // - The handler stays valid until `clear`, by caller precondition, which ends the
        //   registration and waits.
        let registration = unsafe { Registration::new(c"sched_switch", probe, data) }?;
        // INVARIANT: Just registered, for a handler that is valid, by caller precondition.
        self.registered = Some(registration);
        Ok(())
    }

    /// Returns once the handler is not called any more.
    pub(crate) fn clear(&mut self) {
        if let Some(registration) = self.registered.take() {
            registration.end();
            // The scheduler calls it with interrupts off.
            rcu::synchronize_preempt_off();
        }
    }
}

impl<T: SwitchHandler> Drop for Switches<T> {
    fn drop(&mut self) {
        self.clear();
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
