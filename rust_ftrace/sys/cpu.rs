// SPDX-License-Identifier: GPL-2.0

//! Which CPUs there are, and when one comes.
//!
//! C headers: [`include/linux/cpumask.h`](srctree/include/linux/cpumask.h),
//! [`include/linux/cpuhotplug.h`](srctree/include/linux/cpuhotplug.h)

use core::marker::PhantomPinned;

use kernel::alloc::NumaNode;
use kernel::bindings;
use kernel::cpu::{nr_cpu_ids, CpuId};
use kernel::cpumask::Cpumask;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::types::{NotThreadSafe, Opaque};

use super::context::{PreemptGuard, PreemptOff};

fn among(mask: *const bindings::cpumask) -> impl Iterator<Item = CpuId> {
    // SAFETY: The kernel's masks of CPUs live for ever. Their bits may change meanwhile; each is
    // read once, atomically.
    let mask = unsafe { Cpumask::from_raw(mask) };
    (0..nr_cpu_ids())
        .filter_map(CpuId::from_u32)
        .filter(move |cpu| mask.test(*cpu))
}

/// The CPUs that may ever be there.
pub(crate) fn possible() -> impl Iterator<Item = CpuId> {
    among(&raw const bindings::__cpu_possible_mask)
}

/// One more than the largest number that a CPU can have.
pub(crate) fn end() -> u32 {
    nr_cpu_ids()
}

/// The CPUs that are online now.
pub(crate) fn online() -> impl Iterator<Item = CpuId> {
    among(&raw const bindings::__cpu_online_mask)
}

/// The CPU of that number, if there may ever be one.
pub(crate) fn from_number(number: u32) -> Option<CpuId> {
    possible().find(|cpu| cpu.as_u32() == number)
}

/// Some of the CPUs.
pub(crate) struct Mask(KVec<c_ulong>);

impl Mask {
    /// Understands what people write as a mask: hex digits, groups of up to eight with commas between.
    ///
    /// # Errors
    ///
    /// - `EINVAL` if it is none.
    /// - `EOVERFLOW` if a number is too large.
    /// - `ENOMEM` if there is no memory.
    pub(crate) fn parse(text: &[u8]) -> Result<Self> {
        let words = nr_cpu_ids().div_ceil(c_ulong::BITS) as usize;
        let mut mask = KVec::from_elem(0, words, GFP_KERNEL)?;
        // SAFETY: `text` has so many bytes, and `mask` so many bits.
        let result = unsafe {
            bindings::bitmap_parse(
                text.as_ptr().cast(),
                u32::try_from(text.len())?,
                mask.as_mut_ptr(),
                c_int::try_from(nr_cpu_ids())?,
            )
        };
        to_result(result)?;
        Ok(Self(mask))
    }

    /// Whether `cpu` is one of them.
    pub(crate) fn contains(&self, cpu: CpuId) -> bool {
        let number = cpu.as_u32();
        let word = self.0.get((number / c_ulong::BITS) as usize);
        word.is_some_and(|word| (word >> (number % c_ulong::BITS)) & 1 != 0)
    }
}

/// No CPU comes or goes while this is there.
pub(crate) struct ReadLock(NotThreadSafe);

impl ReadLock {
    /// Takes the lock, which many may have. Who prepares for CPUs must not be waited for with it.
    pub(crate) fn new() -> Self {
        // SAFETY: Has no preconditions but that the caller may sleep.
        unsafe { bindings::cpus_read_lock() };
        Self(NotThreadSafe)
    }

    /// Has `cpu` call `user` in an interrupt, and waits for the end of it. False if the CPU is not online.
    pub(crate) fn call<F: Fn(PreemptOff<'_>) + Sync>(&self, cpu: CpuId, user: &F) -> bool {
        /// # Safety
        ///
        /// `user` points to an `F`.
        unsafe extern "C" fn call<F: Fn(PreemptOff<'_>) + Sync>(user: *mut c_void) {
            // SAFETY: The caller promises it.
            let user = unsafe { &*user.cast_const().cast::<F>() };
            user(PreemptGuard::new().token());
        }
        // CAST: CPU numbers are small.
        let number = cpu.as_u32() as c_int;
        let user: *const F = user;
        // (what says so is an int before Linux 7.3, and a bool since)
        #[allow(clippy::useless_conversion)]
        // SAFETY: Interrupts are on. `call` gets `user`, which outlives the call, as it is waited for.
        let result = unsafe {
            bindings::smp_call_function_single(
                number,
                Some(call::<F>),
                user.cast_mut().cast(),
                true.into(),
            )
        };
        result == 0
    }
}

impl Drop for ReadLock {
    fn drop(&mut self) {
        // SAFETY: Taken in `new`, by the same task.
        unsafe { bindings::cpus_read_unlock() };
    }
}

/// The NUMA node of `cpu`'s memory.
pub(crate) fn node_of(cpu: CpuId) -> NumaNode {
    #[cfg(CONFIG_USE_PERCPU_NUMA_NODE_ID)]
    {
        let offsets = &raw const bindings::__per_cpu_offset;
        // SAFETY: The array has an offset for each possible CPU, constant after boot.
        let offset = unsafe { (*offsets).get(cpu.as_u32() as usize).copied() };
        let node = (&raw const bindings::numa_node).wrapping_byte_add(offset.unwrap_or(0));
        // SAFETY: `node` is the CPU's instance of the per-CPU variable.
        let node = unsafe { node.read_volatile() };
        NumaNode::new(node).unwrap_or(NumaNode::NO_NODE)
    }
    #[cfg(not(CONFIG_USE_PERCPU_NUMA_NODE_ID))]
    {
        let _ = cpu;
        NumaNode::NO_NODE
    }
}

/// What is done before a CPU comes online.
pub(crate) trait Prepare: Send + Sync {
    /// Prepares for `cpu`. It cannot fail: a CPU is not kept away for our sake.
    fn prepare(&self, cpu: CpuId);
}

/// Has a target prepare for every CPU that comes online, until dropped.
///
/// # Invariants
///
/// `state` is a multi-instance state of our own, and `node` is in its list.
#[pin_data(PinnedDrop)]
pub(crate) struct Hotplug<T: Prepare> {
    #[pin]
    node: Opaque<bindings::hlist_node>,
    target: Arc<T>,
    state: bindings::cpuhp_state,
    /// The kernel's list points here.
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: `node` is only touched by the kernel, under its own lock.
unsafe impl<T: Prepare> Sync for Hotplug<T> {}
// SAFETY: Nothing in it belongs to a thread.
unsafe impl<T: Prepare> Send for Hotplug<T> {}

impl<T: Prepare> Hotplug<T> {
    /// Begins to watch.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if the kernel has no dynamic state left.
    pub(crate) fn new(name: &'static CStr, target: Arc<T>) -> impl PinInit<Self, Error> {
        try_pin_init!(&this in Self {
            node: Opaque::zeroed(),
            target,
            state: Self::set_up(name)?,
            _: {
                // SAFETY: `this` points to the value being initialised; the node is in place.
                let node = unsafe { &raw mut (*this.as_ptr()).node };
                // SAFETY: The node is zeroed, pinned, and all that the callback touches is there.
                let result = to_result(unsafe {
                    bindings::__cpuhp_state_add_instance(*state, node.cast(), false)
                });
                if let Err(error) = result {
                    // SAFETY: The state was set up above.
                    unsafe { bindings::__cpuhp_remove_state(*state, false) };
                    return Err(error);
                }
            },
            _pin: PhantomPinned,
        }? Error)
    }

    fn set_up(name: &'static CStr) -> Result<bindings::cpuhp_state> {
        let callback: unsafe extern "C" fn(c_uint, *mut bindings::hlist_node) -> c_int =
            prepare_callback::<T>;
        // SAFETY: A multi-instance state's functions are stored in a union and called with the
        // node, so the cast is what the C macros do too.
        let callback = unsafe {
            core::mem::transmute::<
                unsafe extern "C" fn(c_uint, *mut bindings::hlist_node) -> c_int,
                unsafe extern "C" fn(c_uint) -> c_int,
            >(callback)
        };
        // SAFETY: `name` and the function live as long as the module; the state goes before it.
        let state = unsafe {
            bindings::__cpuhp_setup_state(
                bindings::cpuhp_state_CPUHP_BP_PREPARE_DYN,
                name.as_char_ptr(),
                false,
                Some(callback),
                None,
                true,
            )
        };
        to_result(state.min(0))?;
        Ok(state as bindings::cpuhp_state)
    }
}

#[pinned_drop]
impl<T: Prepare> PinnedDrop for Hotplug<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type's invariants the node is in the state's list.
        unsafe {
            bindings::__cpuhp_state_remove_instance(self.state, self.node.get(), false);
        }
        // SAFETY: The state is ours and has no nodes any more. Waits for a CPU that is coming.
        unsafe { bindings::__cpuhp_remove_state(self.state, false) };
    }
}

/// # Safety
///
/// `node` is the `node` of a live `Hotplug<T>`.
unsafe extern "C" fn prepare_callback<T: Prepare>(
    cpu: c_uint,
    node: *mut bindings::hlist_node,
) -> c_int {
    let node = node.cast::<Opaque<bindings::hlist_node>>();
    // SAFETY: The caller promises where the node lies.
    let hotplug = unsafe { &*kernel::container_of!(node, Hotplug<T>, node) };
    if let Some(cpu) = CpuId::from_u32(cpu) {
        hotplug.target.prepare(cpu);
    }
    0
}
