// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Platform, the host: memory, atomics and fences for the engine outside the kernel. The module has
//! `kernel.rs` instead.
//!
//! With the feature `simulation` every operation on a [`Word`] first passes a preemption point, at
//! which a test may let an interrupt happen, and memory can run out. Under `--cfg loom` the words
//! are loom's, so that all orders of memory accesses are tried.

#[cfg(loom)]
use std::cell::Cell;
use std::sync::OnceLock;

#[cfg(loom)]
use loom::sync::atomic::{fence, AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{fence, AtomicU64, Ordering};

/// The error of an allocation that found no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocError;

/// A 64-bit word of memory that other CPUs may read.
pub struct Word(AtomicU64);

impl Word {
    /// Makes a word with this value.
    pub fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    /// Loads the word, in no order with other words.
    pub fn load_relaxed(&self) -> u64 {
        preempt::point();
        self.0.load(Ordering::Relaxed)
    }

    /// Loads the word, before all accesses after it.
    pub fn load_acquire(&self) -> u64 {
        preempt::point();
        self.0.load(match weakened(Part::LoadAcquire) {
            false => Ordering::Acquire,
            true => Ordering::Relaxed,
        })
    }

    /// Stores the word, in no order with other words.
    pub fn store_relaxed(&self, value: u64) {
        preempt::point();
        self.0.store(value, Ordering::Relaxed);
    }

    /// Stores the word, after all accesses before it.
    pub fn store_release(&self, value: u64) {
        preempt::point();
        let order = match weakened(Part::StoreRelease) {
            false => Ordering::Release,
            true => Ordering::Relaxed,
        };
        self.0.store(value, order);
    }

    /// Stores bits 0-31 of a word that no reader looks at before another word was stored with
    /// [`Word::store_release`].
    pub fn store_low(&self, low: u32) {
        preempt::point();
        // loom knows no halves, and no other CPU writes the word.
        let high = self.0.load(Ordering::Relaxed) >> 32 << 32;
        self.0.store(high | u64::from(low), Ordering::Relaxed);
    }

    /// Stores bits 32-63, of a word as for [`Word::store_low`].
    pub fn store_high(&self, high: u32) {
        preempt::point();
        let low = self.0.load(Ordering::Relaxed) as u32;
        self.0
            .store(u64::from(low) | (u64::from(high) << 32), Ordering::Relaxed);
    }

    /// Replaces `old` by `new`, atomically towards interrupts of this CPU; no other CPU may write
    /// the word. Returns whether the word was `old`.
    pub fn local_exchange(&self, old: u64, new: u64) -> bool {
        preempt::point();
        self.0
            .compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Toggles the bits `BITS`, of the lower half, after all stores before it. No other CPU may
    /// write the word.
    pub fn toggle_release<const BITS: u64>(&self) {
        preempt::point();
        let value = self.0.load(Ordering::Relaxed) ^ BITS;
        let order = match weakened(Part::ToggleRelease) {
            false => Ordering::Release,
            true => Ordering::Relaxed,
        };
        self.0.store(value, order);
    }

    /// Sets bits, atomically towards all CPUs.
    pub fn set_bits(&self, bits: u64) {
        preempt::point();
        self.0.fetch_or(bits, Ordering::Relaxed);
    }

    /// Clears bits, atomically towards all CPUs.
    pub fn clear_bits(&self, bits: u64) {
        preempt::point();
        self.0.fetch_and(!bits, Ordering::Relaxed);
    }

    /// Replaces `old` by `new`, atomically towards all CPUs. Returns whether the word was `old`.
    pub fn exchange(&self, old: u64, new: u64) -> bool {
        preempt::point();
        let order = Ordering::SeqCst;
        self.0.compare_exchange(old, new, order, order).is_ok()
    }

    /// Adds one, atomically towards interrupts of this CPU; no other CPU may write the word.
    pub fn local_increment(&self) {
        self.local_add(1);
    }

    /// Sets bits, atomically towards interrupts of this CPU; no other CPU may write the word.
    pub fn local_or(&self, bits: u64) {
        preempt::point();
        self.0.fetch_or(bits, Ordering::Relaxed);
    }

    /// Clears bits, atomically towards interrupts of this CPU; no other CPU may write the word.
    pub fn local_clear(&self, bits: u64) {
        preempt::point();
        self.0.fetch_and(!bits, Ordering::Relaxed);
    }

    /// Adds a value, atomically towards interrupts of this CPU; no other CPU may write the word.
    pub fn local_add(&self, value: u64) {
        preempt::point();
        self.0.fetch_add(value, Ordering::Relaxed);
    }
}

/// Adds to the second and third of these numbers, each atomically towards interrupts of this CPU.
/// No other CPU may write the words.
pub fn local_add_behind(words: &[Word; 3], second: u64, third: u64) {
    words[1].local_add(second);
    words[2].local_add(third);
}

/// Adds to two numbers of one word, and to a third of two words, the lower first: each atomically
/// towards interrupts of this CPU. One that comes between the two halves adds its own carry. No
/// other CPU may write the words.
pub fn local_add_sums(words: &[Word; 4], first: u64, second: u64, wide: u128) {
    words[0].local_add(first);
    words[1].local_add(second);
    preempt::point();
    let low = wide as u64;
    let before = words[2].0.fetch_add(low, Ordering::Relaxed);
    let carry = u64::from(before.checked_add(low).is_none());
    preempt::point();
    let high = ((wide >> 64) as u64).wrapping_add(carry);
    words[3].0.fetch_add(high, Ordering::Relaxed);
}

/// Returns the number of the highest bit that is set, at least 3.
pub const fn highest_bit(value: u64) -> u32 {
    (value | 8).ilog2()
}

/// Orders stores before the fence before stores after it.
pub fn fence_release() {
    if !weakened(Part::FenceRelease) {
        fence(Ordering::Release);
    }
}

/// Orders loads before the fence before loads after it.
pub fn fence_acquire() {
    if !weakened(Part::FenceAcquire) {
        fence(Ordering::Acquire);
    }
}

/// Orders all accesses before the fence before all accesses after it.
pub fn fence_full() {
    if !weakened(Part::FenceFull) {
        fence(Ordering::SeqCst);
    }
}

/// A part of the ordering that a model can leave out, to show that it fails without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The order of [`Word::load_acquire`].
    LoadAcquire,
    /// The order of [`Word::store_release`].
    StoreRelease,
    /// The order of [`Word::toggle_release`].
    ToggleRelease,
    /// [`fence_release`].
    FenceRelease,
    /// [`fence_acquire`].
    FenceAcquire,
    /// [`fence_full`].
    FenceFull,
    /// A grace period, which is the models' own: nothing here waits for writers to end.
    GracePeriod,
}

#[cfg(loom)]
thread_local! {
    static WEAKENED: Cell<Option<Part>> = const { Cell::new(None) };
}

/// Takes `part` from this thread and the threads of its models, from now on.
#[cfg(loom)]
pub fn weaken(part: Part) {
    WEAKENED.set(Some(part));
}

/// Returns whether this thread lacks `part`.
#[cfg(loom)]
pub fn weakened(part: Part) -> bool {
    WEAKENED.get() == Some(part)
}

#[cfg(not(loom))]
const fn weakened(_part: Part) -> bool {
    false
}

/// Tells the processor that a loop waits for a writer.
pub fn spin_hint() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::hint::spin_loop();
}

/// The memory of a build without simulation, which does not run out.
#[cfg(not(feature = "simulation"))]
mod memory {
    pub(super) fn allocate() -> Result<(), super::AllocError> {
        Ok(())
    }
}

/// The memory of a simulation, which a test can let run out.
#[cfg(feature = "simulation")]
pub mod memory {
    use std::cell::Cell;

    use super::AllocError;

    thread_local! {
        static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
    }

    /// Runs `body` with memory for no more than `left` allocations of vectors that grow.
    pub fn with_allocations<R>(left: usize, body: impl FnOnce() -> R) -> R {
        let before = LEFT.replace(left);
        let result = body();
        LEFT.set(before);
        result
    }

    pub(super) fn allocate() -> Result<(), AllocError> {
        let left = LEFT.get().checked_sub(1).ok_or(AllocError)?;
        LEFT.set(left);
        Ok(())
    }
}

/// A vector whose growth can fail.
pub struct Vec<T>(std::vec::Vec<T>);

impl<T> Vec<T> {
    /// Makes an empty vector, without memory.
    pub const fn new() -> Self {
        Self(std::vec::Vec::new())
    }

    /// Adds a value at the end. Fails with `ENOMEM` without memory.
    pub fn push(&mut self, value: T) -> Result<(), AllocError> {
        if self.0.len() == self.0.capacity() {
            memory::allocate()?;
        }
        self.0.push(value);
        Ok(())
    }

    /// Makes room for `count` values more. Fails with `ENOMEM` without memory.
    pub fn reserve(&mut self, count: usize) -> Result<(), AllocError> {
        if self.0.capacity() - self.0.len() < count {
            memory::allocate()?;
        }
        self.0.reserve_exact(count);
        Ok(())
    }

    /// Inserts a value at `index`, and moves those behind it. Fails with `ENOMEM` without memory.
    pub fn insert(&mut self, index: usize, value: T) -> Result<(), AllocError> {
        self.0.insert(index, value);
        Ok(())
    }

    /// Adds copies of values at the end. Fails with `ENOMEM` without memory.
    pub fn extend_from_slice(&mut self, values: &[T]) -> Result<(), AllocError>
    where
        T: Copy,
    {
        if self.0.capacity() - self.0.len() < values.len() {
            memory::allocate()?;
        }
        self.0.extend_from_slice(values);
        Ok(())
    }

    /// Makes the vector `length` long, with copies of `value` at the end. `ENOMEM` without memory.
    pub fn resize(&mut self, length: usize, value: T) -> Result<(), AllocError>
    where
        T: Copy,
    {
        if self.0.capacity() < length {
            memory::allocate()?;
        }
        self.0.resize(length, value);
        Ok(())
    }

    /// Returns the number of values that there is room for.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Frees memory that is not used, if that is possible.
    pub fn shrink(&mut self) {
        self.0.shrink_to_fit();
    }

    /// Removes the last value, and returns it.
    pub fn pop(&mut self) -> Option<T> {
        self.0.pop()
    }

    /// Keeps the values for which `keep` returns true, in their order.
    pub fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.0.retain(keep);
    }

    /// Removes all values, and keeps the memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl<T> std::ops::Deref for Vec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> std::ops::DerefMut for Vec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

/// A boxed array.
pub struct Table<T, const N: usize>(Box<[T; N]>);

impl<T, const N: usize> Table<T, N> {
    /// Makes an array of values that `make` returns. Fails with `ENOMEM` without memory.
    pub fn new(make: impl Fn() -> T) -> Result<Self, AllocError> {
        let values: Box<[T]> = (0..N).map(|_| make()).collect();
        values.try_into().map(Self).map_err(|_| AllocError)
    }
}

impl<T, const N: usize> std::ops::Deref for Table<T, N> {
    type Target = [T; N];

    fn deref(&self) -> &[T; N] {
        &self.0
    }
}

/// Number of words of a [`LazyWords`].
pub const LAZY_WORDS: usize = 64;

/// Words that take no memory while they are all zero. Once made they stay as long as this lives.
pub struct LazyWords(OnceLock<Table<Word, LAZY_WORDS>>);

impl LazyWords {
    /// Makes words that are all zero, without memory.
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Returns the word at `index`, which wraps.
    pub fn load(&self, index: usize) -> u64 {
        preempt::point();
        let word = |words: &[Word; LAZY_WORDS]| words[index % LAZY_WORDS].load_relaxed();
        self.get().map_or(0, word)
    }

    /// Returns the words, if they have been made.
    pub fn get(&self) -> Option<&[Word; LAZY_WORDS]> {
        self.0.get().map(|words| &**words)
    }

    /// Returns the words, and makes them if there are none.
    pub fn get_or_make(&self) -> Result<&[Word; LAZY_WORDS], AllocError> {
        if self.0.get().is_none() {
            // Another thread may have made them first.
            let _ = self.0.set(Table::new(|| Word::new(0))?);
        }
        self.get().ok_or(AllocError)
    }

    /// Does as [`get_or_make`](Self::get_or_make), for callers that may not sleep.
    pub fn get_or_make_now(&self) -> Result<&[Word; LAZY_WORDS], AllocError> {
        self.get_or_make()
    }
}

/// Lets other threads run in the middle of anything: all of a model's threads store to a word that
/// none reads.
///
/// That orders nothing, but makes each step depend on the others' for loom, which remembers only
/// the last access to a word and takes a writer's load of the head for the end of all races on it.
#[cfg(loom)]
pub mod preempt {
    use super::{AtomicU64, Ordering};

    loom::lazy_static! {
        static ref STEP: AtomicU64 = AtomicU64::new(0);
    }

    pub(super) fn point() {
        STEP.store(0, Ordering::Relaxed);
    }
}

/// Does nothing, since nothing comes between.
#[cfg(not(any(loom, feature = "simulation")))]
mod preempt {
    pub(super) const fn point() {}
}

/// Interrupts that a test makes in the middle of anything.
#[cfg(all(not(loom), feature = "simulation"))]
pub mod preempt {
    use std::cell::RefCell;

    type Handler = Box<dyn FnMut()>;

    thread_local! {
        static HANDLER: RefCell<Option<Handler>> = const { RefCell::new(None) };
    }

    /// Puts the earlier handler back, even when a test panics.
    struct Restore(Option<Handler>);

    impl Drop for Restore {
        fn drop(&mut self) {
            HANDLER.set(self.0.take());
        }
    }

    /// Runs `body`, with `handler` at every preemption point of it.
    ///
    /// The handler's own points are not among them; a handler that wants those calls this function
    /// itself.
    pub fn with_handler<R>(handler: impl FnMut() + 'static, body: impl FnOnce() -> R) -> R {
        let _restore = Restore(HANDLER.replace(Some(Box::new(handler))));
        body()
    }

    /// Passes a point at which an interrupt may happen.
    pub fn point() {
        if let Some(mut handler) = HANDLER.take() {
            handler();
            HANDLER.set(Some(handler));
        }
    }
}
