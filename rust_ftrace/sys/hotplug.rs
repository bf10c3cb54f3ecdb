// SPDX-License-Identifier: GPL-2.0

//! Callbacks when CPUs come and go.
//!
//! All that they call runs with the CPUs' lock held for writing: a lock that it takes must never be
//! held by a task that waits for CPUs, RCU, or user memory
//! ([`lockdep::waits`](super::lockdep::waits)).
//!
//! C header: [`include/linux/cpuhotplug.h`](srctree/include/linux/cpuhotplug.h)

use core::marker::{PhantomData, PhantomPinned};

use kernel::bindings;
use kernel::cpu::CpuId;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::types::Opaque;

use super::{faults, irq_work};

/// Is told of CPUs that come and go. None of it can fail: a CPU is neither kept away nor kept for
/// our sake.
pub(crate) trait CpuWatcher: Send + Sync {
    /// `cpu` is about to come online; nothing runs on it yet.
    fn prepare(&self, cpu: CpuId);

    /// `cpu` is online, and serves irq_works from now on: what was asked for on it before is to be
    /// handed on. Also said of each CPU that is online when watching begins, and of one that was to
    /// go and stays after all.
    fn online(&self, cpu: CpuId);

    /// `cpu`, which this runs on, is about to go, or not to be watched any more. It serves no
    /// irq_works that are queued from now on; those queued before are to be waited for.
    fn going(&self, cpu: CpuId);

    /// `cpu` is gone, or did not come after [`CpuWatcher::prepare`]: what was asked for on it at
    /// last is to be handed on.
    fn gone(&self, cpu: CpuId);
}

/// A state of hotplug: the callbacks, and when they are called.
trait Stage<T>: 'static {
    const STATE: bindings::cpuhp_state;

    /// Says whether they are also called for CPUs that are there when watching begins and ends.
    const INVOKE: bool;

    /// The CPU gets here on its way up.
    fn up(target: &T, cpu: CpuId);

    /// The CPU gets here on its way down.
    fn down(target: &T, cpu: CpuId);
}

/// Before a CPU runs, and after.
struct PrepareStage;

impl<T: CpuWatcher> Stage<T> for PrepareStage {
    const STATE: bindings::cpuhp_state = bindings::cpuhp_state_CPUHP_BP_PREPARE_DYN;
    const INVOKE: bool = false;

    fn up(target: &T, cpu: CpuId) {
        irq_work::set_gone(cpu, false);
        target.prepare(cpu);
    }

    fn down(target: &T, cpu: CpuId) {
        irq_work::set_gone(cpu, true);
        target.gone(cpu);
    }
}

/// While a CPU runs threads of its own.
struct OnlineStage;

impl<T: CpuWatcher> Stage<T> for OnlineStage {
    const STATE: bindings::cpuhp_state = bindings::cpuhp_state_CPUHP_AP_ONLINE_DYN;
    const INVOKE: bool = true;

    fn up(target: &T, cpu: CpuId) {
        irq_work::serve(cpu, true);
        target.online(cpu);
    }

    fn down(target: &T, cpu: CpuId) {
        irq_work::serve(cpu, false);
        target.going(cpu);
    }
}

/// Has a target told of all CPUs that come and go, until dropped.
///
/// # Examples
///
/// ```ignore
/// use kernel::cpu::CpuId;
/// use kernel::prelude::*;
/// use kernel::sync::Arc;
///
/// use crate::sys::hotplug::{CpuWatcher, Hotplug};
///
/// /// Logs CPUs that come and go.
/// struct Log;
///
/// impl CpuWatcher for Log {
///     fn prepare(&self, _cpu: CpuId) {}
///
///     fn online(&self, cpu: CpuId) {
///         pr_info!("CPU {} is online\n", cpu.as_u32());
///     }
///
///     fn going(&self, cpu: CpuId) {
///         pr_info!("CPU {} goes\n", cpu.as_u32());
///     }
///
///     fn gone(&self, _cpu: CpuId) {}
/// }
///
/// /// Logs until what it returns is dropped.
/// fn log() -> Result<Pin<KBox<Hotplug<Log>>>> {
///     let log = Arc::new(Log, GFP_KERNEL)?;
///     KBox::pin_init(Hotplug::new(log), GFP_KERNEL)
/// }
/// ```
#[pin_data]
pub(crate) struct Hotplug<T: CpuWatcher + 'static> {
    // Field order is teardown order.
    #[pin]
    _online: StateInstance<T, OnlineStage>,
    #[pin]
    _prepared: StateInstance<T, PrepareStage>,
}

impl<T: CpuWatcher + 'static> Hotplug<T> {
    /// Begins to watch.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if the kernel has no dynamic state left.
    pub(crate) fn new(target: Arc<T>) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _prepared <- StateInstance::new(c"rftrace:prepare", target.clone()),
            _online <- StateInstance::new(c"rftrace:online", target),
        }? Error)
    }
}

/// Has a target called at a stage.
///
/// # Invariants
///
/// `state` is a multi-instance state of our own, and `node` is in its list.
#[pin_data(PinnedDrop)]
struct StateInstance<T: 'static, S: Stage<T>> {
    #[pin]
    node: Opaque<bindings::hlist_node>,
    target: Arc<T>,
    state: bindings::cpuhp_state,
    _stage: PhantomData<fn(S)>,
    /// The kernel's list points here.
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: `node` is only touched by the kernel, under its own lock, and the target may be shared.
unsafe impl<T: Send + Sync, S: Stage<T>> Sync for StateInstance<T, S> {}
// SAFETY: Nothing in it belongs to a thread.
unsafe impl<T: Send + Sync, S: Stage<T>> Send for StateInstance<T, S> {}

/// A callback of a multi-instance state.
type Callback = unsafe extern "C" fn(c_uint, *mut bindings::hlist_node) -> c_int;

/// Makes a callback one that `__cpuhp_setup_state()` takes.
fn plain(callback: Callback) -> unsafe extern "C" fn(c_uint) -> c_int {
    // SAFETY: A multi-instance state's functions are stored in a union and called with the node, so
    // the cast is what the C macros do too.
    unsafe { core::mem::transmute::<Callback, unsafe extern "C" fn(c_uint) -> c_int>(callback) }
}

impl<T, S: Stage<T>> StateInstance<T, S> {
    fn new(name: &'static CStr, target: Arc<T>) -> impl PinInit<Self, Error> {
        try_pin_init!(&this in Self {
            node: Opaque::zeroed(),
            target,
            state: Self::set_up(name)?,
            _stage: PhantomData,
            _: {
                // SAFETY: `this` points to the value being initialised; the node is in place.
                let node = unsafe { &raw mut (*this.as_ptr()).node };
                // SAFETY: The node is zeroed, pinned, and all that the callbacks touch is there.
                let add = || to_result(unsafe {
                    bindings::__cpuhp_state_add_instance(*state, node.cast(), S::INVOKE)
                });
                let result = faults::here("__cpuhp_state_add_instance").and_then(|()| add());
                if let Err(error) = result {
                    // SAFETY: `state` was set up above, is ours, and has no instance, as adding it
                    // failed.
                    unsafe { bindings::__cpuhp_remove_state(*state, false) };
                    return Err(error);
                }
            },
            _pin: PhantomPinned,
        }? Error)
    }

    fn set_up(name: &'static CStr) -> Result<bindings::cpuhp_state> {
        faults::here("__cpuhp_setup_state")?;
        // SAFETY: `name` and the functions live as long as the module; the state goes before it.
        let state = unsafe {
            bindings::__cpuhp_setup_state(
                S::STATE,
                name.as_char_ptr(),
                false,
                Some(plain(Self::up)),
                Some(plain(Self::down)),
                true,
            )
        };
        to_result(state.min(0))?;
        Ok(state as bindings::cpuhp_state)
    }

    /// # Safety
    ///
    /// `node` is the `node` of a `StateInstance<T, S>` that is valid during the call.
    unsafe fn call(cpu: c_uint, node: *mut bindings::hlist_node, user: fn(&T, CpuId)) -> c_int {
        let node = node.cast::<Opaque<bindings::hlist_node>>();
        // SAFETY: `node` is that of a `StateInstance<T, S>` that is valid during the call, by
        // caller precondition; it is only shared.
        let registered = unsafe { &*kernel::container_of!(node, Self, node) };
        if let Some(cpu) = CpuId::from_u32(cpu) {
            user(&registered.target, cpu);
        }
        0
    }

    /// # Safety
    ///
    /// `node` is the `node` of a `StateInstance<T, S>` that is valid during the call.
    unsafe extern "C" fn up(cpu: c_uint, node: *mut bindings::hlist_node) -> c_int {
        // SAFETY: `node` is that of a `StateInstance<T, S>` that is valid during the call, by
        // caller precondition.
        unsafe { Self::call(cpu, node, S::up) }
    }

    /// # Safety
    ///
    /// `node` is the `node` of a `StateInstance<T, S>` that is valid during the call.
    unsafe extern "C" fn down(cpu: c_uint, node: *mut bindings::hlist_node) -> c_int {
        // SAFETY: `node` is that of a `StateInstance<T, S>` that is valid during the call, by
        // caller precondition.
        unsafe { Self::call(cpu, node, S::down) }
    }
}

#[pinned_drop]
impl<T, S: Stage<T>> PinnedDrop for StateInstance<T, S> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type's invariants the node is in the state's list.
        unsafe {
            bindings::__cpuhp_state_remove_instance(self.state, self.node.get(), S::INVOKE);
        }
        // SAFETY: The state is ours and has no nodes any more. Waits for a CPU that is coming or
        // going.
        unsafe { bindings::__cpuhp_remove_state(self.state, false) };
    }
}
