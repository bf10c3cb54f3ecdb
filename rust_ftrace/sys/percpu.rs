// SPDX-License-Identifier: GPL-2.0

//! Memory of which every possible CPU has its own instance.
//!
//! C header: [`include/linux/percpu.h`](srctree/include/linux/percpu.h)

use core::ptr::NonNull;

use kernel::alloc::AllocError;
use kernel::bindings;
use kernel::cpu::CpuId;
use kernel::prelude::*;

use super::context::PreemptOff;
use super::faults;
use crate::platform::AtomicPtr;

/// A `T` for every possible CPU, each on its CPU's node.
///
/// Shared access only; what CPUs change must be atomic or their own.
///
/// # Examples
///
/// ```ignore
/// use kernel::alloc::AllocError;
///
/// use crate::platform::Word;
/// use crate::sys::context::PreemptGuard;
/// use crate::sys::percpu::PerCpu;
///
/// /// Counts on each CPU by itself.
/// struct Events(PerCpu<Word>);
///
/// impl Events {
///     fn new() -> Result<Self, AllocError> {
///         Ok(Self(PerCpu::new(|_| Word::new(0))?))
///     }
///
///     /// Adds one, in any context.
///     fn count(&self) {
///         let guard = PreemptGuard::new();
///         self.0.this(guard.token()).local_add(1);
///     }
///
///     fn total(&self) -> u64 {
///         self.0.sum(Word::load_relaxed)
///     }
/// }
/// ```
///
/// # Invariants
///
/// `base` was allocated by `pcpu_alloc_noprof` for a `T`, and holds one for each possible CPU.
pub(crate) struct PerCpu<T> {
    base: NonNull<T>,
}

// SAFETY: Only shared references are given out, of values that are `Sync`.
unsafe impl<T: Sync> Sync for PerCpu<T> {}
// SAFETY: It owns the values, which may be sent; per-CPU memory is bound to no thread.
unsafe impl<T: Send> Send for PerCpu<T> {}

impl<T> PerCpu<T> {
    /// Allocates, and initialises every CPU's instance by `init`.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub(crate) fn new(mut init: impl FnMut(CpuId) -> T) -> Result<Self, AllocError> {
        faults::here("pcpu_alloc_noprof").map_err(|_| AllocError)?;
        // SAFETY: Has no preconditions; returns NULL or the base of per-CPU memory.
        let base = unsafe {
            bindings::pcpu_alloc_noprof(
                core::mem::size_of::<T>(),
                core::mem::align_of::<T>(),
                false,
                bindings::GFP_KERNEL,
            )
        };
        let base = NonNull::new(base.cast::<T>()).ok_or(AllocError)?;
        for cpu in super::cpu::possible() {
            let instance = Self::instance(base, cpu);
            // SAFETY: `instance` is this CPU's memory for a `T`, which nothing else knows of yet.
            unsafe { instance.write(init(cpu)) };
        }
        // INVARIANT: Just allocated and filled.
        Ok(Self { base })
    }

    fn instance(base: NonNull<T>, cpu: CpuId) -> *mut T {
        let offsets = &raw const bindings::__per_cpu_offset;
        // SAFETY: The array has an offset for each possible CPU, constant after boot.
        let offset = unsafe { (*offsets).get(cpu.as_u32() as usize).copied() };
        base.as_ptr().wrapping_byte_add(offset.unwrap_or_default())
    }

    /// The instance of `cpu`.
    pub(crate) fn get(&self, cpu: CpuId) -> &T {
        // SAFETY: By the type's invariant there is an instance for each possible CPU, and no
        // `&mut`.
        unsafe { &*Self::instance(self.base, cpu) }
    }

    /// The sum of a number of all instances, which wraps. It is not of one moment: CPUs may count
    /// meanwhile.
    pub(crate) fn sum(&self, number: impl Fn(&T) -> u64) -> u64 {
        let numbers = super::cpu::possible().map(|cpu| number(self.get(cpu)));
        numbers.fold(0, u64::wrapping_add)
    }

    /// This CPU's instance.
    pub(crate) fn this<'a>(&'a self, token: PreemptOff<'a>) -> &'a T {
        let instance = self.base.as_ptr().wrapping_byte_add(token.cpu_offset());
        // SAFETY: By the type's invariant there is an instance for each possible CPU, this one
        // among them, and no `&mut`.
        unsafe { &*instance }
    }

    /// Reads the lower half of the word that an instance begins with, of a CPU on which the caller
    /// is during the call. It need not stay there.
    ///
    /// # Safety
    ///
    /// A `T` begins with a [`Word`](crate::platform::Word).
    #[inline(always)]
    pub(crate) unsafe fn peek_low(&self) -> u32 {
        let low: u32;
        // SAFETY: `gs` leads to the instance of the CPU that executes this, where a word is, by
        // caller precondition. Its lower half comes first in memory, and a load of that is what
        // `this_cpu_read()` is.
        unsafe {
            core::arch::asm!(
                "mov {low:e}, dword ptr gs:[{base}]",
                low = out(reg) low,
                base = in(reg) self.base.as_ptr(),
                options(nostack, readonly, preserves_flags),
            );
        }
        low
    }
}

impl<T> PerCpu<AtomicPtr<T>> {
    /// This CPU's pointer.
    #[inline(always)]
    pub(crate) fn load(&self, _token: PreemptOff<'_>) -> *const T {
        let pointer: *const T;
        // SAFETY: `gs` leads to this CPU's instance, as in `this_cpu_read()`; the CPU stays.
        // A load of a pointer is atomic, and x86 does not reorder it with later ones.
        unsafe {
            core::arch::asm!(
                "mov {pointer}, qword ptr gs:[{base}]",
                pointer = out(reg) pointer,
                base = in(reg) self.base.as_ptr(),
                options(nostack, readonly, preserves_flags),
            );
        }
        pointer
    }
}

impl<T> Drop for PerCpu<T> {
    fn drop(&mut self) {
        for cpu in super::cpu::possible() {
            // SAFETY: By the type's invariant there is an instance, and it is not used any more.
            unsafe { Self::instance(self.base, cpu).drop_in_place() };
        }
        // SAFETY: By the type's invariant `base` was allocated by `pcpu_alloc_noprof`, and is freed
        // only here.
        unsafe { bindings::free_percpu(self.base.as_ptr().cast()) };
    }
}
