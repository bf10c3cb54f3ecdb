// SPDX-License-Identifier: GPL-2.0

//! Calls functions in a thread of the kernel's own, for which the calling task does not matter: it
//! has the kernel's credentials, and the namespaces and the root directory that the machine began
//! with. A task that is ending has none of its own any more, but closes files even then.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use core::cell::UnsafeCell;

use kernel::bindings;
use kernel::prelude::*;
use kernel::types::Opaque;

use super::faults;

/// A function, and what comes of it.
#[repr(C)]
struct ThreadCall<F, R> {
    // First, as the kernel gives its address back.
    work: Opaque<bindings::work_struct>,
    function: UnsafeCell<Option<F>>,
    result: UnsafeCell<Option<R>>,
}

/// Calls `function` in a thread of the kernel's, and waits until it has returned.
///
/// It must not need a lock that the caller holds.
///
/// # Errors
///
/// `ENOMEM` if there is no memory.
pub(crate) fn call<R: Send, F: FnOnce() -> R + Send>(function: F) -> Result<R> {
    let call = ThreadCall {
        work: Opaque::uninit(),
        function: UnsafeCell::new(Some(function)),
        result: UnsafeCell::new(None),
    };
    faults::here("a thread of the kernel's")?;
    let call = KBox::new(call, GFP_KERNEL)?;
    // SAFETY: The box does not move what is in it, and lives until the work was waited for. `run`
    // is for such a `ThreadCall`.
    unsafe { do_work(call.work.get(), run::<F, R>) };
    // SAFETY: Nothing else uses the result: the work was waited for.
    let result = unsafe { (*call.result.get()).take() };
    result.ok_or(EIO)
}

/// Has the work done, and waits for it.
///
/// # Safety
///
/// `work` points to memory for one, which stays valid and in place while it is done. `function` may
/// be called with it.
unsafe fn do_work(
    work: *mut bindings::work_struct,
    function: unsafe extern "C" fn(*mut bindings::work_struct),
) {
    // A key of its own: other work may wait for this.
    let key = kernel::static_lock_class!();
    // SAFETY: `work` points to memory for one, which stays in place, by caller precondition; name
    // and key live as long as the module.
    unsafe {
        bindings::init_work_with_key(
            work,
            Some(function),
            false,
            c"rftrace call".as_char_ptr(),
            key.as_ptr(),
        );
    }
    // SAFETY: A static of the kernel, which is set at boot, before any module, and never changed.
    let queue = unsafe { (&raw const bindings::system_dfl_wq).read() };
    // SAFETY: It is initialised, and nothing else has it. The constant means any CPU.
    unsafe {
        bindings::queue_work_on(
            bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
            queue,
            work,
        );
    }
    // SAFETY: `work` was initialised above and stays in place, by caller precondition; the caller
    // may sleep.
    unsafe { bindings::flush_work(work) };
}

/// # Safety
///
/// - `work` is that of a `ThreadCall<F, R>` that is valid during the call.
/// - Nothing else uses its other parts during the call.
unsafe extern "C" fn run<F: FnOnce() -> R, R>(work: *mut bindings::work_struct) {
    // SAFETY: `work` is that of a valid `ThreadCall<F, R>`, by caller precondition, which is
    // `repr(C)` and begins with it.
    let call = unsafe { &*work.cast_const().cast::<ThreadCall<F, R>>() };
    // SAFETY: Nothing else uses `function` during the call, by caller precondition.
    let function = unsafe { (*call.function.get()).take() };
    let result = function.map(|function| function());
    // SAFETY: Nothing else uses `result` during the call, by caller precondition.
    unsafe { *call.result.get() = result };
}
