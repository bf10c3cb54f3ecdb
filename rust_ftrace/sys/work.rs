// SPDX-License-Identifier: GPL-2.0

//! Work put off to a thread of the kernel's, which may sleep.
//!
//! Unlike `kernel::workqueue`, the work belongs to the value that it works for: when that goes, the
//! work is cancelled and waited for, so nothing of a module that is removed runs any more.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use core::marker::{PhantomData, PhantomPinned};

use kernel::bindings;
use kernel::prelude::*;
use kernel::types::Opaque;

/// A type with such work.
///
/// # Safety
///
/// `OFFSET` is that of a field of type `Work<Self>`, the only one of that type.
pub(crate) unsafe trait HasWork: Sized + Send + Sync {
    /// The offset of the field in the type, in bytes.
    const OFFSET: usize;

    /// The work. May sleep; never runs twice at once.
    fn run(&self);
}

/// Work of the `T` that this is a field of. It must be dropped before what it uses.
///
/// # Examples
///
/// ```ignore
/// use core::mem::offset_of;
///
/// use kernel::prelude::*;
/// use kernel::sync::Arc;
///
/// use crate::sys::work::{HasWork, Work};
///
/// /// Says that it was rung.
/// #[pin_data]
/// struct Bell {
///     #[pin]
///     work: Work<Self>,
/// }
///
/// // SAFETY: `OFFSET` is that of `work`, the only field of type `Work<Self>`.
/// unsafe impl HasWork for Bell {
///     const OFFSET: usize = offset_of!(Self, work);
///
///     fn run(&self) {
///         pr_info!("it rings\n");
///     }
/// }
///
/// fn ring() -> Result {
///     let bell = Arc::pin_init(pin_init!(Bell { work <- Work::new() }), GFP_KERNEL)?;
///     bell.work.queue();
///     // (when `bell` goes here, the work is cancelled, or waited for)
///     Ok(())
/// }
/// ```
///
/// # Invariants
///
/// `work` is initialised, and pinned with the `T` around it.
#[pin_data(PinnedDrop)]
pub(crate) struct Work<T: HasWork> {
    #[pin]
    work: Opaque<bindings::work_struct>,
    _of: PhantomData<fn(&T)>,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: The kernel's functions may be called for it from any CPU.
unsafe impl<T: HasWork> Sync for Work<T> {}
// SAFETY: Neither the work nor a pointer to it is bound to the thread that made it.
unsafe impl<T: HasWork> Send for Work<T> {}

impl<T: HasWork> Work<T> {
    /// Work that is not asked for.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            work <- Opaque::ffi_init(|work| {
                let key = kernel::static_lock_class!();
                // SAFETY: `work` points to memory for one, which stays in place; name and key live
                // as long as the module.
                unsafe {
                    bindings::init_work_with_key(
                        work,
                        Some(callback::<T>),
                        false,
                        c"rftrace".as_char_ptr(),
                        key.as_ptr(),
                    );
                }
            }),
            _of: PhantomData,
            _pin: PhantomPinned,
        })
    }

    /// Has the work done soon, unless that is asked for already.
    pub(crate) fn queue(&self) {
        // SAFETY: A static of the kernel, which is set at boot, before any module, and never
        // changed.
        let queue = unsafe { (&raw const bindings::system_dfl_wq).read() };
        // SAFETY: By the type's invariants `work` is initialised and pinned; its drop waits for it,
        // so it stays while it is queued. `queue` is live, and the constant means any CPU.
        unsafe {
            bindings::queue_work_on(
                bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
                queue,
                self.work.get(),
            );
        }
    }
}

#[pinned_drop]
impl<T: HasWork> PinnedDrop for Work<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type's invariants `work` is initialised. Nothing can queue it again, as
        // `self` goes; the caller may sleep.
        unsafe { bindings::cancel_work_sync(self.work.get()) };
    }
}

/// # Safety
///
/// `work` is the `work` of the `Work<T>` in a `T` that is valid during the call.
unsafe extern "C" fn callback<T: HasWork>(work: *mut bindings::work_struct) {
    let work = work.cast_const().cast::<Opaque<bindings::work_struct>>();
    // SAFETY: `work` is that of a `Work<T>`, by caller precondition.
    let field = unsafe { kernel::container_of!(work, Work<T>, work) };
    // SAFETY: The `Work<T>` is the field at `OFFSET` of a `T`, by caller precondition and the
    // contract of `HasWork`, so the `T` begins there.
    let owner = unsafe { field.byte_sub(T::OFFSET) };
    // SAFETY: The `T` is valid during the call, by caller precondition: the drop of its field waits
    // for the work. It is only shared.
    let owner = unsafe { &*owner.cast::<T>() };
    owner.run();
}
