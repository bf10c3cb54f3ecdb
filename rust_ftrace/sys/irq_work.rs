// SPDX-License-Identifier: GPL-2.0

//! Work put off until interrupts may come again: what any context, NMI included, can ask for.
//!
//! A CPU that goes calls functions when it does not serve irq_works any more, and one that comes
//! before it does. An irq_work that is queued then is not run before the CPU comes again, if ever;
//! until then its `irq_work_sync()` waits, and as the CPU's list is not empty, no interrupt is
//! raised there for any other one. So only CPUs that are [served](serve) queue any.
//!
//! C header: [`include/linux/irq_work.h`](srctree/include/linux/irq_work.h)

use core::marker::{PhantomData, PhantomPinned};

use kernel::bindings;
use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::types::Opaque;

use super::context::PreemptOff;
use super::{lockdep, wait};
use crate::platform::Word;

const WORDS: usize = (bindings::NR_CPUS as usize).div_ceil(64);

/// A bit for each CPU. Hooks look at them, so they are the platform's words.
struct CpuBits([Word; WORDS]);

impl CpuBits {
    const fn new() -> Self {
        Self([const { Word::new(0) }; WORDS])
    }

    fn has(&self, cpu: u32) -> bool {
        let word = self.0.get(cpu as usize / 64);
        // Acquire: pairs with the full order of `put`.
        word.is_some_and(|word| word.load_acquire() & (1 << (cpu % 64)) != 0)
    }

    /// Sets that of `cpu`, fully ordered; returns it as it was.
    fn put(&self, cpu: u32, value: bool) -> bool {
        let Some(word) = self.0.get(cpu as usize / 64) else {
            return false;
        };
        let bit = 1 << (cpu % 64);
        word.change_bits(bit, value) & bit != 0
    }
}

/// CPUs on which irq_works may be queued.
static SERVED: CpuBits = CpuBits::new();
/// CPUs that are gone: work that is asked for there is not done any more.
static GONE: CpuBits = CpuBits::new();
/// CPUs that are at [`unless_gone`].
static ASKING: CpuBits = CpuBits::new();

/// Says whether irq_works may be queued on `cpu`. It is to run threads of its own as long as they
/// may, and to call this itself when they may not any more.
pub(super) fn serve(cpu: CpuId, is_served: bool) {
    SERVED.put(cpu.as_u32(), is_served);
}

/// Tells if this CPU serves irq_works.
pub(crate) fn is_served_here(token: PreemptOff<'_>) -> bool {
    SERVED.has(token.cpu_number().unsigned_abs())
}

/// Calls `user` on this CPU, unless it is gone and that was announced already. It goes on running
/// for a moment then, and calls functions.
pub(crate) fn unless_gone(token: PreemptOff<'_>, user: impl FnOnce()) {
    let cpu = token.cpu_number().unsigned_abs();
    if SERVED.has(cpu) {
        return user();
    }
    // Full, as in `set_gone`: of this store and the load after it, and those there, at least one
    // load sees the other's store. So either `user` is not called, or it is waited for.
    let is_nested = ASKING.put(cpu, true);
    if !GONE.has(cpu) {
        user();
    }
    if !is_nested {
        ASKING.put(cpu, false);
    }
}

/// Says whether `cpu` is gone, before any watcher is told. On return it is not at [`unless_gone`]
/// any more.
pub(super) fn set_gone(cpu: CpuId, is_gone: bool) {
    let cpu = cpu.as_u32();
    // Full: pairs with `unless_gone`.
    GONE.put(cpu, is_gone);
    // Gives up after a while: no machine is to hang for it.
    let mut left = 100;
    while is_gone && left > 0 && ASKING.has(cpu) {
        let _ = wait::nap();
        left -= 1;
    }
}

/// A type with such work.
///
/// # Safety
///
/// `OFFSET` is that of a field of type `IrqWork<Self>`, the only one of that type.
pub(crate) unsafe trait HasIrqWork: Sized + Send + Sync {
    /// The offset of the field in the type, in bytes.
    const OFFSET: usize;

    /// The work. Runs in a hardirq, on PREEMPT_RT in a thread with preemption on; never twice at
    /// once.
    fn run(&self);
}

/// Work of the `T` that this is a field of.
///
/// # Examples
///
/// ```ignore
/// use core::mem::offset_of;
///
/// use kernel::prelude::*;
/// use kernel::sync::Arc;
///
/// use crate::sys::context::PreemptGuard;
/// use crate::sys::irq_work::{HasIrqWork, IrqWork};
///
/// /// Says that it was rung.
/// #[pin_data]
/// struct Bell {
///     #[pin]
///     work: IrqWork<Self>,
/// }
///
/// // SAFETY: `OFFSET` is that of `work`, the only field of type `IrqWork<Self>`.
/// unsafe impl HasIrqWork for Bell {
///     const OFFSET: usize = offset_of!(Self, work);
///
///     fn run(&self) {
///         pr_info!("it rings\n");
///     }
/// }
///
/// fn ring() -> Result {
///     let bell = Arc::pin_init(pin_init!(Bell { work <- IrqWork::new() }), GFP_KERNEL)?;
///     if !bell.work.queue(PreemptGuard::new().token()) {
///         pr_info!("this CPU comes or goes\n");
///     }
///     // Waits for it, as its drop does.
///     bell.work.sync();
///     Ok(())
/// }
/// ```
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
// SAFETY: Neither the work nor a pointer to it is bound to the thread that made it.
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

    /// Has the work done soon, on this CPU, unless that is asked for already. False if this CPU
    /// serves none: when it is gone or online, [`hotplug::CpuWatcher`](super::hotplug::CpuWatcher)
    /// is told.
    pub(crate) fn queue(&self, token: PreemptOff<'_>) -> bool {
        let is_served = is_served_here(token);
        if is_served {
            // SAFETY: By the type's invariants `work` is initialised and pinned; its drop waits for
            // it, so it stays while it is queued.
            unsafe { bindings::irq_work_queue(self.work.get()) };
        }
        is_served
    }

    /// Waits for the end of what was asked for.
    pub(crate) fn sync(&self) {
        lockdep::waits();
        // SAFETY: By the type's invariants `work` is initialised; interrupts are on, and the caller
        // may sleep.
        unsafe { bindings::irq_work_sync(self.work.get()) };
    }
}

#[pinned_drop]
impl<T: HasIrqWork> PinnedDrop for IrqWork<T> {
    fn drop(self: Pin<&mut Self>) {
        // There is no reference left by which it could be asked for.
        self.sync();
    }
}

/// # Safety
///
/// `work` is the `work` of the `IrqWork<T>` in a `T` that is valid during the call.
unsafe extern "C" fn callback<T: HasIrqWork>(work: *mut bindings::irq_work) {
    let work = work.cast_const().cast::<Opaque<bindings::irq_work>>();
    // SAFETY: `work` is that of a `IrqWork<T>`, by caller precondition.
    let field = unsafe { kernel::container_of!(work, IrqWork<T>, work) };
    // SAFETY: The `IrqWork<T>` is the field at `OFFSET` of a `T`, by caller precondition and the
    // contract of `HasIrqWork`, so the `T` begins there.
    let owner = unsafe { field.byte_sub(T::OFFSET) };
    // SAFETY: The `T` is valid during the call, by caller precondition: the drop of its field waits
    // for the work. It is only shared.
    let owner = unsafe { &*owner.cast::<T>() };
    owner.run();
}
