// SPDX-License-Identifier: GPL-2.0

//! Notices of a machine that dies: of oopses, and of a panic.
//!
//! C headers: [`include/linux/kdebug.h`](srctree/include/linux/kdebug.h),
//! [`include/linux/panic_notifier.h`](srctree/include/linux/panic_notifier.h),
//! [`include/linux/nmi.h`](srctree/include/linux/nmi.h)

use core::marker::PhantomPinned;

use kernel::prelude::*;
use kernel::types::Opaque;

use super::context::{PreemptGuard, PreemptOff};
use super::{faults, ffi};

/// A way of dying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// A task, or an interrupt, has done what it must not. The machine may live on, and other CPUs
    /// run.
    Oops,
    /// The machine ends here. Other CPUs have been stopped, as far as that could be done.
    Panic,
}

/// Is told when the machine dies.
pub(crate) trait DyingWatcher: Send + Sync {
    /// The machine dies on this CPU, in whatever context that may be, an NMI too, and with whatever
    /// locks held: this must not lock, wait, nor allocate.
    fn dies(&self, token: PreemptOff<'_>, death: Death);
}

/// Has a watcher told of the machine's death until dropped, which waits for RCU.
///
/// # Invariants
///
/// Both blocks are registered.
#[pin_data(PinnedDrop)]
pub(crate) struct DeathNotice<T: DyingWatcher> {
    #[pin]
    oops: Opaque<ffi::notifier_block>,
    #[pin]
    panic: Opaque<ffi::notifier_block>,
    watcher: T,
    /// The kernel's chains lead here.
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: The blocks are only touched by the kernel, under the chains' locks.
unsafe impl<T: DyingWatcher> Sync for DeathNotice<T> {}
// SAFETY: Nothing in it belongs to a thread.
unsafe impl<T: DyingWatcher> Send for DeathNotice<T> {}

/// The function of a notifier.
type Notified = unsafe extern "C" fn(*mut ffi::notifier_block, c_ulong, *mut c_void) -> c_int;

/// Makes a notifier that is called as early as those of the kernel's tracer, behind them
/// (kernel/trace/trace.c).
fn block(notified: Notified) -> impl PinInit<Opaque<ffi::notifier_block>> {
    Opaque::ffi_init(move |block: *mut ffi::notifier_block| {
        let value = ffi::notifier_block {
            notifier_call: Some(notified),
            priority: c_int::MAX - 1,
            ..Default::default()
        };
        // SAFETY: `block` points to memory for the field.
        unsafe { block.write(value) };
    })
}

/// The chain of notifiers of a panic.
fn panic_chain() -> *mut ffi::atomic_notifier_head {
    &raw mut ffi::panic_notifier_list
}

impl<T: DyingWatcher> DeathNotice<T> {
    /// Begins to watch.
    ///
    /// # Errors
    ///
    /// Those of `register_die_notifier` and `atomic_notifier_chain_register`.
    pub(crate) fn new(watcher: T) -> impl PinInit<Self, Error> {
        try_pin_init!(&this in Self {
            oops <- block(oopsed::<T>),
            panic <- block(panicked::<T>),
            watcher,
            _pin: PhantomPinned,
            _: {
                faults::here("register_die_notifier")?;
                // SAFETY: `this` points to the value being initialised.
                let oops = unsafe { &raw mut (*this.as_ptr()).oops }.cast();
                // SAFETY: As above.
                let panic = unsafe { &raw mut (*this.as_ptr()).panic }.cast();
                // SAFETY: The block is initialised, pinned, and unregistered before it goes.
                kernel::error::to_result(unsafe { ffi::register_die_notifier(oops) })?;
                // SAFETY: As above; the chain is the kernel's own.
                let result = unsafe { ffi::atomic_notifier_chain_register(panic_chain(), panic) };
                if let Err(error) = kernel::error::to_result(result) {
                    // SAFETY: It was registered above.
                    unsafe { ffi::unregister_die_notifier(oops) };
                    return Err(error);
                }
            },
        }? Error)
    }

    /// Returns the watcher.
    pub(crate) fn watcher(&self) -> &T {
        &self.watcher
    }
}

#[pinned_drop]
impl<T: DyingWatcher> PinnedDrop for DeathNotice<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type's invariants the block is registered. This waits for a notice that is
        // being given, so it may go afterwards.
        unsafe { ffi::atomic_notifier_chain_unregister(panic_chain(), self.panic.get()) };
        // SAFETY: As above.
        unsafe { ffi::unregister_die_notifier(self.oops.get()) };
    }
}

/// # Safety
///
/// `block` is the `oops` of a live `DeathNotice<T>`.
unsafe extern "C" fn oopsed<T: DyingWatcher>(
    block: *mut ffi::notifier_block,
    event: c_ulong,
    _data: *mut c_void,
) -> c_int {
    if event == ffi::die_val_DIE_OOPS as c_ulong {
        let block = block.cast::<Opaque<ffi::notifier_block>>();
        // SAFETY: It is of a live `DeathNotice<T>`, by caller precondition; that is only shared.
        let notice = unsafe { &*kernel::container_of!(block, DeathNotice<T>, oops) };
        notice
            .watcher
            .dies(PreemptGuard::new().token(), Death::Oops);
    }
    ffi::NOTIFY_DONE as c_int
}

/// # Safety
///
/// `block` is the `panic` of a live `DeathNotice<T>`.
unsafe extern "C" fn panicked<T: DyingWatcher>(
    block: *mut ffi::notifier_block,
    _event: c_ulong,
    _data: *mut c_void,
) -> c_int {
    let block = block.cast::<Opaque<ffi::notifier_block>>();
    // SAFETY: It is of a live `DeathNotice<T>`, by caller precondition; that is only shared.
    let notice = unsafe { &*kernel::container_of!(block, DeathNotice<T>, panic) };
    notice
        .watcher
        .dies(PreemptGuard::new().token(), Death::Panic);
    ffi::NOTIFY_DONE as c_int
}

/// Has watchdogs of this CPU begin to count anew, as `touch_nmi_watchdog()` does: writing to a
/// console can take longer than they wait.
pub(crate) fn touch_watchdogs() {
    #[cfg(CONFIG_HARDLOCKUP_DETECTOR)]
    // SAFETY: It has no preconditions.
    unsafe {
        ffi::arch_touch_nmi_watchdog();
    }
    #[cfg(CONFIG_SOFTLOCKUP_DETECTOR)]
    // SAFETY: It has no preconditions.
    unsafe {
        ffi::touch_softlockup_watchdog();
    }
}
