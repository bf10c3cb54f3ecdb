// SPDX-License-Identifier: GPL-2.0

//! The kernel's tracepoints.
//!
//! C header: [`include/linux/tracepoint.h`](srctree/include/linux/tracepoint.h)

use core::marker::PhantomData;
use core::ptr::NonNull;

use kernel::bindings;
use kernel::error::to_result;
use kernel::prelude::*;

use super::{faults, lockdep};

/// The kernel's tracepoint of that name.
fn find(name: &'static CStr) -> Option<NonNull<bindings::tracepoint>> {
    struct Search {
        name: &'static CStr,
        found: Option<NonNull<bindings::tracepoint>>,
    }
    /// # Safety
    ///
    /// - `tracepoint` points to a tracepoint that is valid during the call, with a name that stays.
    /// - `search` points to a `Search` that nothing else uses during the call.
    unsafe extern "C" fn look(tracepoint: *mut bindings::tracepoint, search: *mut c_void) {
        // SAFETY: `search` points to a `Search` that nothing else uses during the call, by caller
        // precondition.
        let search = unsafe { &mut *search.cast::<Search>() };
        // SAFETY: `tracepoint` is valid during the call, by caller precondition.
        let name = unsafe { (*tracepoint).name };
        // SAFETY: A tracepoint's name is a string that stays.
        if unsafe { CStr::from_char_ptr(name) } == search.name {
            search.found = NonNull::new(tracepoint);
        }
    }
    let mut search = Search { name, found: None };
    let pointer: *mut Search = &mut search;
    // SAFETY: `look` gets each tracepoint and the pointer, which is valid until the end of the
    // call.
    unsafe { bindings::for_each_kernel_tracepoint(Some(look), pointer.cast()) };
    search.found
}

/// A function that a tracepoint calls.
///
/// # Examples
///
/// ```ignore
/// use kernel::bindings;
/// use kernel::prelude::*;
/// use kernel::sync::atomic::{Atomic, Relaxed};
///
/// use crate::sys::tracepoint::{self, Registration};
///
/// /// Counts tasks that are freed.
/// ///
/// /// # Safety
/// ///
/// /// `count` points to an `Atomic<u64>` that is valid during the call.
/// unsafe extern "C" fn freed(count: *mut c_void, _task: *mut bindings::task_struct) {
///     // SAFETY: `count` points to one that is valid during the call, by caller precondition; it
///     // is only shared.
///     let count = unsafe { &*count.cast_const().cast::<Atomic<u64>>() };
///     count.add(1_u64, Relaxed);
/// }
///
/// /// Returns how many tasks are freed while `body` runs.
/// fn freed_within(body: impl FnOnce()) -> Result<u64> {
///     let count = KBox::new(Atomic::<u64>::new(0), GFP_KERNEL)?;
///     let data: *const Atomic<u64> = &*count;
///     let probe = freed as *mut c_void;
///     // SAFETY:
///     // - `freed` is declared as this tracepoint calls it.
///     // - `count` goes after `wait` below.
///     let registration =
///         unsafe { Registration::new(c"sched_process_free", probe, data.cast_mut().cast())? };
///     body();
///     registration.end();
///     tracepoint::wait();
///     Ok(count.load(Relaxed))
/// }
/// ```
///
/// # Invariants
///
/// `probe` is registered with `tracepoint` for `data`.
pub(super) struct Registration {
    tracepoint: NonNull<bindings::tracepoint>,
    probe: *mut c_void,
    data: *mut c_void,
}

impl Registration {
    /// Has the tracepoint of that name call `probe` from now on.
    ///
    /// # Errors
    ///
    /// - `ENODEV` if the kernel has no such tracepoint.
    /// - `ENOMEM` if there is no memory.
    ///
    /// # Safety
    ///
    /// `probe` is a function that takes `data` and what this tracepoint gives, and may be called so
    /// until [`Registration::end`] has returned and calls that had begun have ended, for which
    /// [`wait`] waits.
    pub(super) unsafe fn new(
        name: &'static CStr,
        probe: *mut c_void,
        data: *mut c_void,
    ) -> Result<Self> {
        let tracepoint = find(name).ok_or(ENODEV)?;
        faults::here("tracepoint_probe_register")?;
        // SAFETY:
        // - It is a tracepoint of the kernel, which stays.
        // - `probe` may be called with `data`, and what this tracepoint gives, until it was
        //   unregistered and waited for, by caller precondition.
        to_result(unsafe {
            bindings::tracepoint_probe_register(tracepoint.as_ptr(), probe, data)
        })?;
        // INVARIANT: It was just registered.
        Ok(Self {
            tracepoint,
            probe,
            data,
        })
    }

    /// Has it called no more. Calls that have begun may still be going on; see [`wait`].
    pub(super) fn end(self) {
        let tracepoint = self.tracepoint.as_ptr();
        // SAFETY: By the type's invariants `probe` is registered with the tracepoint for `data`.
        let result = to_result(unsafe {
            bindings::tracepoint_probe_unregister(tracepoint, self.probe, self.data)
        });
        if let Err(error) = result {
            pr_err!("cannot unregister from a tracepoint: {error:?}\n");
        }
    }
}

/// A handler that tracepoints call, each by a function of its own, or none.
///
/// # Invariants
///
/// The handler of a registration is valid.
pub(super) struct Probes<T, const N: usize> {
    registered: [Option<Registration>; N],
    _handler: PhantomData<fn(&T)>,
}

// SAFETY: It is only changed under exclusive access, and `T` may be shared.
unsafe impl<T: Send + Sync, const N: usize> Send for Probes<T, N> {}
// SAFETY: Shared references change nothing, and `T` may be shared.
unsafe impl<T: Send + Sync, const N: usize> Sync for Probes<T, N> {}

impl<T, const N: usize> Probes<T, N> {
    /// Nothing is called.
    pub(super) const fn new() -> Self {
        Self {
            registered: [const { None }; N],
            _handler: PhantomData,
        }
    }

    /// Returns whether a handler is called.
    pub(super) fn is_on(&self) -> bool {
        self.registered.iter().any(Option::is_some)
    }

    /// Has `handler` called from now on, by these functions of the tracepoints with those names.
    ///
    /// # Errors
    ///
    /// Nothing is called then. `ENODEV` if the kernel has no such tracepoints, `ENOMEM` if there is
    /// no memory.
    ///
    /// # Safety
    ///
    /// - Each function takes a pointer to the handler and what its tracepoint gives.
    /// - `handler` stays valid until [`Self::clear`].
    pub(super) unsafe fn call(
        &mut self,
        probes: [(&'static CStr, *mut c_void); N],
        handler: *const T,
    ) -> Result {
        if self.is_on() {
            return Ok(());
        }
        let data: *mut c_void = handler.cast_mut().cast();
        for (slot, (name, probe)) in self.registered.iter_mut().zip(probes) {
            // SAFETY:
            // - `probe` takes the handler and what the tracepoint gives, by caller precondition.
            // - The handler stays valid until `clear`, by caller precondition, which ends the
            //   registration and waits.
            match unsafe { Registration::new(name, probe, data) } {
                // INVARIANT: Just registered, for a handler that is valid, by caller precondition.
                Ok(registration) => *slot = Some(registration),
                Err(error) => {
                    self.clear();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Returns once the handler is not called any more.
    pub(super) fn clear(&mut self) {
        if self.is_on() {
            let registered = self.registered.iter_mut().filter_map(Option::take);
            registered.for_each(Registration::end);
            wait();
        }
    }
}

impl<T, const N: usize> Drop for Probes<T, N> {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Has the tracepoint of that name not call `probe` with `data`, whether it does or not.
///
/// # Safety
///
/// `probe` is a function that takes `data` and what this tracepoint gives, and may be called so at
/// any time.
pub(super) unsafe fn leave_out(name: &'static CStr, probe: *mut c_void, data: *mut c_void) {
    let Some(tracepoint) = find(name) else {
        return;
    };
    let tracepoint = tracepoint.as_ptr();
    let priority = bindings::TRACEPOINT_DEFAULT_PRIO as c_int;
    // To end what is not registered would make the kernel warn. To register what is needs no
    // memory: so if there is none, it is not.
    //
    // SAFETY:
    // - It is a tracepoint of the kernel, which stays.
    // - `probe` may be called with `data`, and what this tracepoint gives, by caller precondition.
    let result = to_result(unsafe {
        bindings::tracepoint_probe_register_prio_may_exist(tracepoint, probe, data, priority)
    });
    if result.is_ok() || result == Err(EEXIST) {
        // SAFETY: It is registered with the tracepoint for `data`.
        unsafe { bindings::tracepoint_probe_unregister(tracepoint, probe, data) };
    }
}

/// Waits until no function is running any more that was called by a tracepoint before its
/// registration ended, as `tracepoint_synchronize_unregister()` does for tracepoints that cannot
/// fault.
fn wait() {
    lockdep::waits();
    // SAFETY: The kernel's own, initialised at boot; the caller may sleep.
    unsafe { bindings::synchronize_srcu(&raw mut bindings::tracepoint_srcu) };
}
