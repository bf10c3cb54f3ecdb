// SPDX-License-Identifier: GPL-2.0

//! Callbacks when a CPU goes from one task to another.
//!
//! C headers: [`include/linux/tracepoint.h`](srctree/include/linux/tracepoint.h),
//! `include/trace/events/sched.h`

use core::ptr::NonNull;

use kernel::bindings;
use kernel::error::to_result;
use kernel::prelude::*;

use super::context::PreemptOff;
pub(crate) use super::private::shadow_stacks::ShadowStack;
use super::tracepoint::find;
use super::{faults, rcu};

/// Called when tasks change.
pub(crate) trait SwitchHandler: Send + Sync + 'static {
    /// `prev` stops running and `next` goes on, whose shadow stacks are these. Interrupts are off.
    fn switched(&self, prev: ShadowStack<'_>, next: ShadowStack<'_>, token: PreemptOff<'_>);
}

/// A handler that is called, or not.
///
/// # Invariants
///
/// `registered` has the tracepoint and the handler that it was registered for, which is valid.
pub(crate) struct Switches<T: SwitchHandler> {
    registered: Option<(NonNull<bindings::tracepoint>, *const T)>,
}

// SAFETY: It is only changed under exclusive access, and `T` may be shared.
unsafe impl<T: SwitchHandler> Send for Switches<T> {}
// SAFETY: Shared references change nothing, and `T` may be shared.
unsafe impl<T: SwitchHandler> Sync for Switches<T> {}

impl<T: SwitchHandler> Switches<T> {
    /// Nothing is called.
    pub(crate) const fn new() -> Self {
        Self { registered: None }
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
        let tracepoint = find(c"sched_switch").ok_or(ENODEV)?;
        faults::here("tracepoint_probe_register, sched_switch")?;
        // SAFETY: A tracepoint of the kernel, whose probes are called as `probe` is declared. The
        // caller promises that the handler stays.
        to_result(unsafe {
            bindings::tracepoint_probe_register(
                tracepoint.as_ptr(),
                probe::<T> as *mut c_void,
                handler.cast_mut().cast(),
            )
        })?;
        // INVARIANT: It was just registered.
        self.registered = Some((tracepoint, handler));
        Ok(())
    }

    /// Returns once the handler is not called any more.
    pub(crate) fn clear(&mut self) {
        let Some((tracepoint, handler)) = self.registered.take() else {
            return;
        };
        // SAFETY: By the type's invariant it was registered so.
        let result = to_result(unsafe {
            bindings::tracepoint_probe_unregister(
                tracepoint.as_ptr(),
                probe::<T> as *mut c_void,
                handler.cast_mut().cast(),
            )
        });
        if let Err(error) = result {
            pr_err!("cannot unregister from sched_switch: {error:?}\n");
        }
        // The scheduler calls it with interrupts off.
        rcu::synchronize_preempt_off();
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
    _preempt: bool,
    prev: *mut bindings::task_struct,
    next: *mut bindings::task_struct,
    _prev_state: c_uint,
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
    handler.switched(prev, next, token);
}
