// SPDX-License-Identifier: GPL-2.0

//! The surroundings of the engine in the kernel: memory, atomics, fences; the host's twin is
//! `host.rs`.
//!
//! The kernel's own atomics are out-of-line calls wherever the kernel is built with GCC, and the
//! fast path must not call. So this file, and no other, makes its own, as LKMM has them on x86-64:
//! volatile loads and stores, which the compiler keeps in program order (an interrupt may come
//! between any two), and which the processor does not reorder where acquire and release forbid it.
//! The exchange is an instruction of its own, since `core` has it only with a lock prefix. For
//! words that many CPUs write, core's atomics are taken: fully ordered operations of LKMM are those
//! of core with `SeqCst`, which are instructions with a lock prefix, and so full barriers on
//! x86-64.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::convert::Infallible;
use core::sync::atomic::{compiler_fence, fence};

use kernel::alloc::{flags::GFP_NOWAIT, Flags};
use kernel::prelude::*;

// For what hooks read and count beside `Word`s: all else takes those of `kernel::sync::atomic`.
// Relaxed, acquire and release are to core what they are to LKMM on x86-64; what is to be fully
// ordered, which core has nothing for, is a `Word`.
pub use core::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU64, Ordering};
pub use kernel::alloc::AllocError;

/// A 64-bit word of memory that other CPUs may read.
#[repr(transparent)]
pub struct Word(UnsafeCell<u64>);

// SAFETY: All accesses are volatile and of a whole, aligned machine word, which LKMM takes for
// marked: they do not tear, and racing with each other is defined.
unsafe impl Sync for Word {}

impl Word {
    /// A word with this value.
    pub const fn new(value: u64) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// As `READ_ONCE()`.
    #[inline(always)]
    pub fn load_relaxed(&self) -> u64 {
        // SAFETY: The word is valid and aligned; see `Sync` above for races.
        unsafe { self.0.get().read_volatile() }
    }

    /// As `smp_load_acquire()`: x86 does not reorder loads, so only the compiler must be told.
    #[inline(always)]
    pub fn load_acquire(&self) -> u64 {
        let value = self.load_relaxed();
        compiler_fence(Ordering::Acquire);
        value
    }

    /// As `WRITE_ONCE()`.
    #[inline(always)]
    pub fn store_relaxed(&self, value: u64) {
        // SAFETY: The word is valid and aligned; see `Sync` above for races.
        unsafe { self.0.get().write_volatile(value) };
    }

    /// As `smp_store_release()`: x86 does not reorder a store with what comes before it.
    #[inline(always)]
    pub fn store_release(&self, value: u64) {
        compiler_fence(Ordering::Release);
        self.store_relaxed(value);
    }

    /// Stores bits 0-31: only for a word that nobody looks at before another one was stored with
    /// [`Word::store_release`].
    #[inline(always)]
    pub fn store_low(&self, low: u32) {
        let half = self.0.get().cast::<u32>();
        // SAFETY: The lower half of a valid word comes first in memory; see `Sync` above for races.
        unsafe { half.write_volatile(low) };
    }

    /// Stores bits 32-63, likewise.
    #[inline(always)]
    pub fn store_high(&self, high: u32) {
        // SAFETY: A word has two halves of this type, so the second one is within it.
        let half = unsafe { self.0.get().cast::<u32>().add(1) };
        // SAFETY: The upper half of a valid word is valid and aligned; see `Sync` above for races.
        unsafe { half.write_volatile(high) };
    }

    /// Replaces `old` by `new`, atomic towards interrupts of this CPU only; whether it was `old`.
    #[inline(always)]
    pub fn local_exchange(&self, old: u64, new: u64) -> bool {
        // SAFETY: `self` is a valid, aligned word of memory. One instruction, so an interrupt comes
        // before or after it. By the contract of this function no other CPU writes the word.
        unsafe {
            asm!(
                "cmpxchg qword ptr [{word}], {new}",
                "jne {other}",
                word = in(reg) self.0.get(),
                new = in(reg) new,
                inout("rax") old => _,
                other = label { return false },
                options(nostack),
            );
        }
        true
    }

    /// Turns the bits `BITS`, of the lower half, after all stores before it. Nobody else writes the
    /// word.
    #[inline(always)]
    pub fn toggle_release<const BITS: u64>(&self) {
        const { assert!(BITS <= u32::MAX as u64) };
        // SAFETY: The lower half of a valid word comes first in memory; a store like others, which
        // x86 does not reorder with what comes before it.
        unsafe {
            asm!(
                "xor dword ptr [{word}], {bits}",
                word = in(reg) self.0.get(),
                bits = const BITS as u32 as i32,
                options(nostack),
            );
        }
    }

    /// Sets bits or clears them, as `fetch_or()` and `fetch_andnot()` of the kernel's `atomic64_t`,
    /// fully ordered. Returns the word as it was.
    pub fn change_bits(&self, bits: u64, set: bool) -> u64 {
        match set {
            true => self.shared().fetch_or(bits, Ordering::SeqCst),
            false => self.shared().fetch_and(!bits, Ordering::SeqCst),
        }
    }

    /// Puts another value in place of the one that there is, which is returned, as `xchg()`: fully
    /// ordered.
    pub fn swap(&self, value: u64) -> u64 {
        self.shared().swap(value, Ordering::SeqCst)
    }

    /// Sets bits, atomic towards all CPUs.
    pub fn set_bits(&self, bits: u64) {
        self.shared().fetch_or(bits, Ordering::Relaxed);
    }

    /// Clears bits, atomic towards all CPUs.
    pub fn clear_bits(&self, bits: u64) {
        self.shared().fetch_and(!bits, Ordering::Relaxed);
    }

    /// Replaces `old` by `new`, atomic towards all CPUs, as `cmpxchg()`; whether it was `old`.
    pub fn exchange(&self, old: u64, new: u64) -> bool {
        let order = Ordering::SeqCst;
        (self.shared().compare_exchange(old, new, order, order)).is_ok()
    }

    fn shared(&self) -> &AtomicU64 {
        // SAFETY: Valid and aligned as long as `self`; all accesses are atomic.
        unsafe { AtomicU64::from_ptr(self.0.get()) }
    }

    /// Adds, atomic towards interrupts of this CPU only.
    #[inline(always)]
    pub fn local_add(&self, value: u64) {
        // SAFETY: `self` is a valid, aligned word of memory. One instruction, so an interrupt comes
        // before or after it. By the contract of this function no other CPU writes the word.
        unsafe {
            asm!(
                "add qword ptr [{word}], {value}",
                word = in(reg) self.0.get(),
                value = in(reg) value,
                options(nostack),
            );
        }
    }
}

/// Adds to a number of two words, the lower first, atomic towards interrupts of this CPU only:
/// whoever comes between the two halves carries for itself. Another CPU may see the carry missing
/// for a moment.
#[inline(always)]
pub fn local_add_wide(number: &[Word; 2], value: u128) {
    // SAFETY: Two valid, aligned words, one behind the other, which no other CPU writes by the
    // contract of this function. The carry is in the flags, which interrupts leave as they are.
    unsafe {
        asm!(
            "add qword ptr [{number}], {low}",
            "adc qword ptr [{number} + 8], {high}",
            number = in(reg) number.as_ptr(),
            low = in(reg) value as u64,
            high = in(reg) (value >> 64) as u64,
            options(nostack),
        );
    }
}

/// Stores before it are seen no later than stores after it: `smp_wmb()`, nothing on x86.
#[inline(always)]
pub fn fence_release() {
    compiler_fence(Ordering::Release);
}

/// Loads before it are done no later than loads after it: `smp_rmb()`, nothing on x86.
#[inline(always)]
pub fn fence_acquire() {
    compiler_fence(Ordering::Acquire);
}

/// All accesses before it are done before all after it: `smp_mb()`.
pub fn fence_full() {
    fence(Ordering::SeqCst);
}

/// Called in loops that wait for a writer.
pub fn spin_hint() {
    core::hint::spin_loop();
}

/// A vector whose growth can fail.
pub struct Vec<T>(KVVec<T>);

impl<T> Vec<T> {
    /// An empty one, without memory.
    pub const fn new() -> Self {
        Self(KVVec::new())
    }

    /// Adds a value at the end. `ENOMEM` without memory.
    pub fn push(&mut self, value: T) -> Result<(), AllocError> {
        self.0.push(value, GFP_KERNEL)
    }

    /// Adds a value at `index`, and moves those behind it. `ENOMEM` without memory.
    pub fn insert(&mut self, index: usize, value: T) -> Result<(), AllocError> {
        self.0.reserve(1, GFP_KERNEL)?;
        self.0
            .insert_within_capacity(index, value)
            .map_err(|_| AllocError)
    }

    /// Adds copies of values at the end. `ENOMEM` without memory.
    pub fn extend_from_slice(&mut self, values: &[T]) -> Result<(), AllocError>
    where
        T: Copy,
    {
        self.0.extend_from_slice(values, GFP_KERNEL)
    }

    /// Values that there is room for.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Gives back memory that is not used, if that can be.
    pub fn shrink(&mut self) {
        let _ = self.0.shrink_to(0, GFP_KERNEL);
    }

    /// Takes the last value off.
    pub fn pop(&mut self) -> Option<T> {
        self.0.pop()
    }

    /// Keeps the values that `keep` is true of, in their order.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.0.retain(|value| keep(value));
    }

    /// Takes all values off; the memory stays.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl<T> core::ops::Deref for Vec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> core::ops::DerefMut for Vec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

/// A boxed array.
pub struct Table<T, const N: usize>(KVBox<[T; N]>);

impl<T, const N: usize> Table<T, N> {
    /// An array of what `make` makes. It is filled in place: a stack may not have room for it.
    pub fn new(make: impl Fn() -> T) -> Result<Self, AllocError> {
        Self::with_flags(make, GFP_KERNEL)
    }

    fn with_flags(make: impl Fn() -> T, flags: Flags) -> Result<Self, AllocError> {
        let array = pin_init::init_array_from_fn(|_| make());
        let table = KVBox::init::<Infallible>(array, flags).map_err(|_| AllocError)?;
        Ok(Self(table))
    }
}

impl<T, const N: usize> core::ops::Deref for Table<T, N> {
    type Target = [T; N];

    #[inline(always)]
    fn deref(&self) -> &[T; N] {
        &self.0
    }
}

/// Number of words of a [`LazyWords`].
pub const LAZY_WORDS: usize = 64;

type Words = [Word; LAZY_WORDS];

/// Words that stand for those that have not been made. Never written.
static ZEROES: Words = [const { Word::new(0) }; LAZY_WORDS];

/// Words that take no memory while they are all zero. Once made they stay as long as this does.
///
/// # Invariants
///
/// The address of `ZEROES`, or of a box that this owns and that does not change any more.
pub struct LazyWords(AtomicPtr<Words>);

impl LazyWords {
    const fn none() -> *mut Words {
        (&raw const ZEROES).cast_mut()
    }

    /// Zeroes, without memory.
    pub const fn new() -> Self {
        // INVARIANT: The address of `ZEROES`.
        Self(AtomicPtr::new(Self::none()))
    }

    #[inline(always)]
    fn words(&self) -> &Words {
        // SAFETY: By the type's invariant; a box was filled before it was published.
        unsafe { &*self.0.load(Ordering::Acquire) }
    }

    /// The value of the word at `index`, which wraps.
    #[inline(always)]
    pub fn load(&self, index: usize) -> u64 {
        self.words()[index % LAZY_WORDS].load_relaxed()
    }

    /// The words, if they have been made.
    pub fn get(&self) -> Option<&Words> {
        let words = self.words();
        (!core::ptr::eq(words, Self::none())).then_some(words)
    }

    /// The words, which are made if they are not there.
    pub fn get_or_make(&self) -> Result<&Words, AllocError> {
        self.make(GFP_KERNEL)
    }

    /// Does as [`get_or_make`](Self::get_or_make) where nobody may sleep.
    pub fn get_or_make_now(&self) -> Result<&Words, AllocError> {
        self.make(GFP_NOWAIT)
    }

    fn make(&self, flags: Flags) -> Result<&Words, AllocError> {
        if let Some(words) = self.get() {
            return Ok(words);
        }
        let new = KVBox::into_raw(Table::with_flags(|| Word::new(0), flags)?.0);
        let order = Ordering::AcqRel;
        // INVARIANT: Just made, and replaces `ZEROES` only.
        if (self
            .0
            .compare_exchange(Self::none(), new, order, Ordering::Acquire))
        .is_err()
        {
            // SAFETY: From `into_raw`, and nobody else has seen it.
            drop(unsafe { KVBox::from_raw(new) });
        }
        Ok(self.words())
    }
}

impl Drop for LazyWords {
    fn drop(&mut self) {
        let words = *self.0.get_mut();
        if !core::ptr::eq(words, Self::none()) {
            // SAFETY: By the type's invariant it is a box's, and no reference to it is left.
            drop(unsafe { KVBox::from_raw(words) });
        }
    }
}
