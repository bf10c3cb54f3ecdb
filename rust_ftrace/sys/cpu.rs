// SPDX-License-Identifier: GPL-2.0

//! The CPUs of the machine: their numbers, masks of them, and calls on them.
//!
//! C headers: [`include/linux/cpumask.h`](srctree/include/linux/cpumask.h),
//! [`include/linux/cpu.h`](srctree/include/linux/cpu.h)

use kernel::bindings;
use kernel::cpu::{nr_cpu_ids, CpuId};
use kernel::cpumask::Cpumask;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::types::NotThreadSafe;

use super::context::{PreemptGuard, PreemptOff};
use super::{ffi, lockdep};

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
    /// Understands what people write as a mask: hex digits, groups of up to eight with commas
    /// between.
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

    /// Returns whether `cpu` is one of them.
    pub(crate) fn contains(&self, cpu: CpuId) -> bool {
        let number = cpu.as_u32();
        let word = self.0.get((number / c_ulong::BITS) as usize);
        word.is_some_and(|word| (word >> (number % c_ulong::BITS)) & 1 != 0)
    }
}

/// No CPU comes or goes while this is there.
///
/// # Invariants
///
/// The task that made it holds the CPUs' lock for reading.
pub(crate) struct ReadLock(NotThreadSafe);

impl ReadLock {
    /// Takes the lock, which many tasks may have, but none twice. No lock that
    /// [hotplug](super::hotplug) takes may be held then: those are taken after it.
    pub(crate) fn new() -> Self {
        lockdep::waits();
        // SAFETY: Has no preconditions but that the caller may sleep.
        unsafe { bindings::cpus_read_lock() };
        // INVARIANT: Just taken; the value does not go to other tasks.
        Self(NotThreadSafe)
    }

    /// Has `cpu` call `user` in an interrupt, and waits for the end of it. False if the CPU is not
    /// online. May be called with locks held that hotplug takes, as none goes on meanwhile.
    pub(crate) fn call<F: FnMut(PreemptOff<'_>) + Send>(&self, cpu: CpuId, user: &mut F) -> bool {
        /// # Safety
        ///
        /// `user` points to an `F` that is valid during the call, and that nothing else uses.
        unsafe extern "C" fn call<F: FnMut(PreemptOff<'_>) + Send>(user: *mut c_void) {
            // SAFETY: `user` points to an `F` that is valid during the call and is used by nothing
            // else, by caller precondition.
            let user = unsafe { &mut *user.cast::<F>() };
            user(PreemptGuard::new().token());
        }
        // CAST: CPU numbers are small.
        let number = cpu.as_u32() as c_int;
        let user: *mut F = user;
        // The result is an int before Linux 7.3, and a bool since.
        #[allow(clippy::useless_conversion)]
        // SAFETY: Interrupts are on. `call` gets `user`, which outlives the call and is not used
        // here meanwhile, as it is waited for.
        let result = unsafe {
            bindings::smp_call_function_single(number, Some(call::<F>), user.cast(), true.into())
        };
        result == 0
    }
}

impl Drop for ReadLock {
    fn drop(&mut self) {
        // SAFETY: By the type's invariants this task holds the lock, which is let go of only here.
        unsafe { bindings::cpus_read_unlock() };
    }
}

/// Calls `user` while all other CPUs stand still: nothing runs beside it but NMIs, and none of them
/// is in code that runs with preemption off. Needs no memory. No lock that
/// [hotplug](super::hotplug) takes may be held.
pub(crate) fn with_all_stopped<F: Fn() + Sync>(user: &F) {
    /// # Safety
    ///
    /// `user` points to an `F` that is valid during the call.
    unsafe extern "C" fn call<F: Fn() + Sync>(user: *mut c_void) -> c_int {
        // SAFETY: `user` points to an `F` that is valid during the call, by caller precondition; it
        // is only shared.
        let user = unsafe { &*user.cast_const().cast::<F>() };
        user();
        0
    }
    lockdep::waits();
    let user: *const F = user;
    let data = user.cast_mut().cast();
    // SAFETY: `call` gets `user`, which outlives the call; without CPUs that are named any one
    // calls it.
    let _ = unsafe { ffi::stop_machine(Some(call::<F>), data, core::ptr::null()) };
}

/// The NUMA node of `cpu`'s memory, or `NUMA_NO_NODE`.
pub(crate) fn node_of(cpu: CpuId) -> i32 {
    #[cfg(CONFIG_USE_PERCPU_NUMA_NODE_ID)]
    {
        let offsets = &raw const bindings::__per_cpu_offset;
        // SAFETY: The array has an offset for each possible CPU, constant after boot.
        let offset = unsafe { (*offsets).get(cpu.as_u32() as usize).copied() };
        let node = (&raw const bindings::numa_node).wrapping_byte_add(offset.unwrap_or(0));
        // SAFETY: `node` is the CPU's instance of the per-CPU variable.
        unsafe { node.read_volatile() }
    }
    #[cfg(not(CONFIG_USE_PERCPU_NUMA_NODE_ID))]
    {
        let _ = cpu;
        bindings::NUMA_NO_NODE
    }
}
