// SPDX-License-Identifier: GPL-2.0

//! Platform, the kernel: memory, atomics and fences for the engine in the module. The host has
//! `host.rs` instead.
//!
//! The kernel's own atomics are out-of-line calls if the kernel is built with GCC, and the fast
//! path must not call. So this file, and no other, makes its own, as LKMM has them on x86-64:
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

// These are for variables that hooks read or count in, other than `Word`s; all else takes those of
// `kernel::sync::atomic`. Relaxed, acquire and release are to core what they are to LKMM on x86-64.
// Core has nothing for fully ordered accesses; for those there is `Word`.
pub use core::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU64, Ordering};
pub use kernel::alloc::AllocError;

use super::set_aside::Growth;

/// A 64-bit word of memory that other CPUs may read.
#[repr(transparent)]
pub struct Word(UnsafeCell<u64>);

// SAFETY: All accesses are volatile and of a whole, aligned machine word, which LKMM takes for
// marked: they do not tear, and racing with each other is defined.
unsafe impl Sync for Word {}

impl Word {
    /// Makes a word with this value.
    pub const fn new(value: u64) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Returns words as such that interrupts of this CPU may change meanwhile.
    #[inline(always)]
    pub fn array_of<const N: usize>(words: &mut [u64; N]) -> &[Self; N] {
        let words: *mut [u64; N] = words;
        // SAFETY:
        // - A `Word` is laid out as a `u64`, of which it is transparent.
        // - The words are valid and aligned for as long as they are borrowed, and nothing else is
        //   given access to them by this type's user meanwhile but as `Word`s.
        unsafe { &*words.cast::<[Self; N]>() }
    }

    /// Loads the word, as `READ_ONCE()`.
    #[inline(always)]
    pub fn load_relaxed(&self) -> u64 {
        // SAFETY: The word is valid and aligned; see `Sync` above for races.
        unsafe { self.0.get().read_volatile() }
    }

    /// Loads the word, as `smp_load_acquire()`: x86 does not reorder loads, so only the compiler
    /// must be told.
    #[inline(always)]
    pub fn load_acquire(&self) -> u64 {
        let value = self.load_relaxed();
        compiler_fence(Ordering::Acquire);
        value
    }

    /// Stores the word, as `WRITE_ONCE()`.
    #[inline(always)]
    pub fn store_relaxed(&self, value: u64) {
        // SAFETY: The word is valid and aligned; see `Sync` above for races.
        unsafe { self.0.get().write_volatile(value) };
    }

    /// Stores the word, as `smp_store_release()`: x86 does not reorder a store with accesses before
    /// it.
    #[inline(always)]
    pub fn store_release(&self, value: u64) {
        compiler_fence(Ordering::Release);
        self.store_relaxed(value);
    }

    /// Stores bits 0-31 of a word that no reader looks at before another word was stored with
    /// [`Word::store_release`].
    #[inline(always)]
    pub fn store_low(&self, low: u32) {
        let half = self.0.get().cast::<u32>();
        // SAFETY: The lower half of a valid word comes first in memory; see `Sync` above for races.
        unsafe { half.write_volatile(low) };
    }

    /// Stores bits 32-63, of a word as for [`Word::store_low`].
    #[inline(always)]
    pub fn store_high(&self, high: u32) {
        // SAFETY: A word has two halves of this type, so the second one is within it.
        let half = unsafe { self.0.get().cast::<u32>().add(1) };
        // SAFETY: The upper half of a valid word is valid and aligned; see `Sync` above for races.
        unsafe { half.write_volatile(high) };
    }

    /// Replaces `old` by `new`, atomically towards interrupts of this CPU; no other CPU may write
    /// the word. Returns whether the word was `old`.
    #[inline(always)]
    pub fn local_exchange(&self, old: u64, new: u64) -> bool {
        // SAFETY: `self` is a valid, aligned word of memory. It is one instruction, so an interrupt
        // comes before or after it. By the contract of this function no other CPU writes the word.
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

    /// Toggles the bits `BITS`, of the lower half, after all stores before it. No other CPU may
    /// write the word.
    #[inline(always)]
    pub fn toggle_release<const BITS: u64>(&self) {
        const { assert!(BITS <= u32::MAX as u64) };
        // SAFETY: The lower half of a valid word comes first in memory. The instruction stores as
        // others do, and x86 does not reorder a store with accesses before it.
        unsafe {
            asm!(
                "xor dword ptr [{word}], {bits}",
                word = in(reg) self.0.get(),
                bits = const BITS as u32 as i32,
                options(nostack),
            );
        }
    }

    /// Sets or clears bits, as `fetch_or()` and `fetch_andnot()` of the kernel's `atomic64_t`,
    /// fully ordered. Returns the word as it was.
    pub fn change_bits(&self, bits: u64, set: bool) -> u64 {
        match set {
            true => self.shared().fetch_or(bits, Ordering::SeqCst),
            false => self.shared().fetch_and(!bits, Ordering::SeqCst),
        }
    }

    /// Replaces the word by `value`, as `xchg()`, fully ordered. Returns the word as it was.
    pub fn swap(&self, value: u64) -> u64 {
        self.shared().swap(value, Ordering::SeqCst)
    }

    /// Sets bits, atomically towards all CPUs.
    pub fn set_bits(&self, bits: u64) {
        self.shared().fetch_or(bits, Ordering::Relaxed);
    }

    /// Clears bits, atomically towards all CPUs.
    pub fn clear_bits(&self, bits: u64) {
        self.shared().fetch_and(!bits, Ordering::Relaxed);
    }

    /// Replaces `old` by `new`, atomically towards all CPUs, as `cmpxchg()`. Returns whether the
    /// word was `old`.
    pub fn exchange(&self, old: u64, new: u64) -> bool {
        let order = Ordering::SeqCst;
        (self.shared().compare_exchange(old, new, order, order)).is_ok()
    }

    fn shared(&self) -> &AtomicU64 {
        // SAFETY: The word is valid and aligned as long as `self` lives; all accesses are atomic.
        unsafe { AtomicU64::from_ptr(self.0.get()) }
    }

    /// Adds one, atomically towards interrupts of this CPU; no other CPU may write the word.
    #[inline(always)]
    pub fn local_increment(&self) {
        // SAFETY: `self` is a valid, aligned word of memory. It is one instruction, so an interrupt
        // comes before or after it. By the contract of this function no other CPU writes the word.
        unsafe {
            asm!(
                "inc qword ptr [{word}]",
                word = in(reg) self.0.get(),
                options(nostack),
            );
        }
    }

    /// Sets bits, atomically towards interrupts of this CPU; no other CPU may write the word.
    #[inline(always)]
    pub fn local_or(&self, bits: u64) {
        // SAFETY: `self` is a valid, aligned word of memory. It is one instruction, so an interrupt
        // comes before or after it. By the contract of this function no other CPU writes the word.
        unsafe {
            asm!(
                "or qword ptr [{word}], {bits}",
                word = in(reg) self.0.get(),
                bits = in(reg) bits,
                options(nostack),
            );
        }
    }

    /// Clears bits, atomically towards interrupts of this CPU; no other CPU may write the word.
    #[inline(always)]
    pub fn local_clear(&self, bits: u64) {
        // SAFETY: `self` is a valid, aligned word of memory. It is one instruction, so an interrupt
        // comes before or after it. By the contract of this function no other CPU writes the word.
        unsafe {
            asm!(
                "and qword ptr [{word}], {bits}",
                word = in(reg) self.0.get(),
                bits = in(reg) !bits,
                options(nostack),
            );
        }
    }

    /// Adds a value, atomically towards interrupts of this CPU; no other CPU may write the word.
    #[inline(always)]
    pub fn local_add(&self, value: u64) {
        // SAFETY: `self` is a valid, aligned word of memory. It is one instruction, so an interrupt
        // comes before or after it. By the contract of this function no other CPU writes the word.
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

/// Adds to the second and third of these numbers, each atomically towards interrupts of this CPU.
/// No other CPU may write the words.
#[inline(always)]
pub fn local_add_behind(words: &[Word; 3], second: u64, third: u64) {
    // SAFETY: The words are valid and aligned, one behind the other. Each gets its sum by one
    // instruction, so an interrupt comes before or after it. By the contract of this function no
    // other CPU writes them.
    unsafe {
        asm!(
            "add qword ptr [{words} + 8], {second}",
            "add qword ptr [{words} + 16], {third}",
            words = in(reg) words.as_ptr(),
            second = in(reg) second,
            third = in(reg) third,
            options(nostack),
        );
    }
}

/// Adds to two numbers of one word, and to a third of two words, the lower first: each atomically
/// towards interrupts of this CPU. One that comes between the two halves adds its own carry. No
/// other CPU may write the words. Another CPU may see the carry missing for a moment.
#[inline(always)]
pub fn local_add_sums(words: &[Word; 4], first: u64, second: u64, wide: u128) {
    // SAFETY: All words are valid and aligned, one behind the other, and no other CPU writes them
    // by the contract of this function. The carry is in the flags, which interrupts leave as they
    // are.
    unsafe {
        asm!(
            "add qword ptr [{words}], {first}",
            "add qword ptr [{words} + 8], {second}",
            "add qword ptr [{words} + 16], {low}",
            "adc qword ptr [{words} + 24], {high}",
            words = in(reg) words.as_ptr(),
            first = in(reg) first,
            second = in(reg) second,
            low = in(reg) wide as u64,
            high = in(reg) (wide >> 64) as u64,
            options(nostack),
        );
    }
}

/// Returns the number of the highest bit that is set, at least 3. (the compiler makes more of
/// `ilog2()` than this)
#[inline(always)]
pub fn highest_bit(value: u64) -> u32 {
    let highest: u64;
    // SAFETY: The instruction only sets the register and flags. Its result is defined, as bit 3 is
    // set.
    unsafe {
        asm!(
            "bsr {highest}, {value}",
            highest = out(reg) highest,
            value = in(reg) value | 8,
            options(pure, nomem, nostack),
        );
    }
    highest as u32
}

/// Orders stores before the fence before stores after it: `smp_wmb()`, nothing on x86.
#[inline(always)]
pub fn fence_release() {
    compiler_fence(Ordering::Release);
}

/// Orders loads before the fence before loads after it: `smp_rmb()`, nothing on x86.
#[inline(always)]
pub fn fence_acquire() {
    compiler_fence(Ordering::Acquire);
}

/// Orders all accesses before the fence before all accesses after it: `smp_mb()`.
pub fn fence_full() {
    fence(Ordering::SeqCst);
}

/// Tells the processor that a loop waits for a writer.
pub fn spin_hint() {
    core::hint::spin_loop();
}

/// A vector whose growth can fail.
pub struct Vec<T>(kernel::alloc::Vec<T, Growth>);

impl<T> Vec<T> {
    /// Makes an empty vector, without memory.
    pub const fn new() -> Self {
        Self(kernel::alloc::Vec::new())
    }

    /// Adds a value at the end. Fails with `ENOMEM` without memory.
    pub fn push(&mut self, value: T) -> Result<(), AllocError> {
        self.0.push(value, GFP_KERNEL)
    }

    /// Makes room for exactly `count` values more. Fails with `ENOMEM` without memory.
    pub fn reserve(&mut self, count: usize) -> Result<(), AllocError> {
        self.0.reserve(count, GFP_KERNEL)
    }

    /// Inserts a value at `index`, and moves those behind it. Fails with `ENOMEM` without memory.
    pub fn insert(&mut self, index: usize, value: T) -> Result<(), AllocError> {
        self.0.reserve(1, GFP_KERNEL)?;
        self.0
            .insert_within_capacity(index, value)
            .map_err(|_| AllocError)
    }

    /// Adds copies of values at the end. Fails with `ENOMEM` without memory.
    pub fn extend_from_slice(&mut self, values: &[T]) -> Result<(), AllocError>
    where
        T: Copy,
    {
        self.0.extend_from_slice(values, GFP_KERNEL)
    }

    /// Makes the vector `length` long, with copies of `value` at the end. `ENOMEM` without memory.
    pub fn resize(&mut self, length: usize, value: T) -> Result<(), AllocError>
    where
        T: Copy,
    {
        self.0.resize(length, value, GFP_KERNEL)
    }

    /// Returns the number of values that there is room for.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Frees memory that is not used, if that is possible.
    pub fn shrink(&mut self) {
        if Growth::is_lent() {
            return;
        }
        let whole = core::mem::replace(&mut self.0, kernel::alloc::Vec::new());
        let (start, length, capacity) = whole.into_raw_parts();
        // SAFETY: The parts are those of a vector, whose memory is of `KVmalloc`, as none is lent.
        let mut whole = unsafe { KVVec::from_raw_parts(start, length, capacity) };
        let _ = whole.shrink_to(0, GFP_KERNEL);
        let (start, length, capacity) = whole.into_raw_parts();
        // SAFETY: As above: `Growth` takes memory of `KVmalloc` for its own.
        self.0 = unsafe { kernel::alloc::Vec::from_raw_parts(start, length, capacity) };
    }

    /// Removes the last value, and returns it.
    pub fn pop(&mut self) -> Option<T> {
        self.0.pop()
    }

    /// Keeps the values for which `keep` returns true, in their order.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.0.retain(|value| keep(value));
    }

    /// Removes all values, and keeps the memory.
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
    /// Makes an array of values that `make` returns. It is filled in place, as a stack may not have
    /// room for it.
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

/// Zeroes that stand for words that have not been made. They are never written.
static ZEROES: Words = [const { Word::new(0) }; LAZY_WORDS];

/// Words that take no memory while they are all zero. Once made they stay as long as this lives.
///
/// # Invariants
///
/// The pointer is the address of `ZEROES`, or of a box that this owns; once it is a box's it does
/// not change.
pub struct LazyWords(AtomicPtr<Words>);

impl LazyWords {
    const fn none() -> *mut Words {
        (&raw const ZEROES).cast_mut()
    }

    /// Makes words that are all zero, without memory.
    pub const fn new() -> Self {
        // INVARIANT: The pointer is the address of `ZEROES`.
        Self(AtomicPtr::new(Self::none()))
    }

    #[inline(always)]
    fn words(&self) -> &Words {
        // SAFETY: By the type's invariant the pointer is valid; a box was filled before it was
        // published.
        unsafe { &*self.0.load(Ordering::Acquire) }
    }

    /// Returns the word at `index`, which wraps.
    #[inline(always)]
    pub fn load(&self, index: usize) -> u64 {
        self.words()[index % LAZY_WORDS].load_relaxed()
    }

    /// Returns the words, if they have been made.
    pub fn get(&self) -> Option<&Words> {
        let words = self.words();
        (!core::ptr::eq(words, Self::none())).then_some(words)
    }

    /// Returns the words, and makes them if there are none.
    pub fn get_or_make(&self) -> Result<&Words, AllocError> {
        self.make(GFP_KERNEL)
    }

    /// Does as [`get_or_make`](Self::get_or_make), for callers that may not sleep.
    pub fn get_or_make_now(&self) -> Result<&Words, AllocError> {
        self.make(GFP_NOWAIT)
    }

    fn make(&self, flags: Flags) -> Result<&Words, AllocError> {
        if let Some(words) = self.get() {
            return Ok(words);
        }
        let new = KVBox::into_raw(Table::with_flags(|| Word::new(0), flags)?.0);
        let order = Ordering::AcqRel;
        // INVARIANT: The box was just made, and replaces `ZEROES` only.
        if (self
            .0
            .compare_exchange(Self::none(), new, order, Ordering::Acquire))
        .is_err()
        {
            // SAFETY: The pointer is from `into_raw`, and nothing else has seen it.
            drop(unsafe { KVBox::from_raw(new) });
        }
        Ok(self.words())
    }
}

impl Drop for LazyWords {
    fn drop(&mut self) {
        let words = *self.0.get_mut();
        if !core::ptr::eq(words, Self::none()) {
            // SAFETY: By the type's invariant the pointer is a box's, and no reference to it is
            // left.
            drop(unsafe { KVBox::from_raw(words) });
        }
    }
}
