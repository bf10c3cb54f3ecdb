// SPDX-License-Identifier: GPL-2.0

//! Work put off until interrupts may come again: what any context, NMI included, can ask for.
//!
//! C header: [`include/linux/irq_work.h`](srctree/include/linux/irq_work.h)

use core::marker::{PhantomData, PhantomPinned};

use kernel::bindings;
use kernel::prelude::*;
use kernel::types::Opaque;

/// What has such work.
///
/// # Safety
///
/// `OFFSET` is that of a field of type `IrqWork<Self>`, the only one of that type.
pub(crate) unsafe trait HasIrqWork: Sized + Send + Sync {
    /// Where the field lies.
    const OFFSET: usize;

    /// The work. Runs in a hardirq, on PREEMPT_RT in a thread with preemption on; never twice at once.
    fn run(&self);
}

/// Work of the `T` that this is a field of.
///
/// # Invariants
///
/// `work` is initialised, and pinned with the `T` around it.
#[pin_data(PinnedDrop)]
pub(crate) struct IrqWork<T: HasIrqWork> {
    #[pin]
    work: Opaque<bindings::irq_work>,
    _of: PhantomData<fn(&T)>,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: The kernel's functions may be called for it from any CPU.
unsafe impl<T: HasIrqWork> Sync for IrqWork<T> {}
// SAFETY: It belongs to no thread.
unsafe impl<T: HasIrqWork> Send for IrqWork<T> {}

impl<T: HasIrqWork> IrqWork<T> {
    /// Work that is not asked for.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            work <- Opaque::ffi_init(|work: *mut bindings::irq_work| {
                let value = bindings::irq_work {
                    func: Some(callback::<T>),
                    ..Default::default()
                };
                // SAFETY: `work` points to memory for one. As IRQ_WORK_INIT(): all else is zero.
                unsafe { work.write(value) };
            }),
            _of: PhantomData,
            _pin: PhantomPinned,
        })
    }

    /// Has the work done soon, on this CPU, unless that is asked for already.
    pub(crate) fn queue(&self) {
        // SAFETY: By the type's invariants; whoever drops it waits for it.
        unsafe { bindings::irq_work_queue(self.work.get()) };
    }
}

#[pinned_drop]
impl<T: HasIrqWork> PinnedDrop for IrqWork<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type's invariants; nobody can ask for it any more.
        unsafe { bindings::irq_work_sync(self.work.get()) };
    }
}

/// # Safety
///
/// `work` is the `work` of an `IrqWork<T>` in a live `T`.
unsafe extern "C" fn callback<T: HasIrqWork>(work: *mut bindings::irq_work) {
    let work = work.cast_const().cast::<Opaque<bindings::irq_work>>();
    // SAFETY: The caller promises where it lies.
    let field = unsafe { kernel::container_of!(work, IrqWork<T>, work) };
    // SAFETY: By the contract of `HasIrqWork` the `T` begins there.
    let owner = unsafe { field.byte_sub(T::OFFSET) };
    // SAFETY: It is live, and only shared.
    let owner = unsafe { &*owner.cast::<T>() };
    owner.run();
}
