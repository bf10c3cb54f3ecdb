// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The surroundings of the engine on a host: memory, atomics, fences; the module's twin is
//! `kernel.rs`.
//!
//! With the feature `simulation` every operation on a [`Word`] first passes a preemption point,
//! where a test may let an interrupt happen, and memory can run out. Under `--cfg loom` the words
//! are loom's, so that all orders of memory accesses are tried.

#[cfg(loom)]
use std::cell::Cell;
use std::sync::OnceLock;

#[cfg(loom)]
use loom::sync::atomic::{fence, AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{fence, AtomicU64, Ordering};

/// There is no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocError;

/// A 64-bit word of memory that other CPUs may read.
pub struct Word(AtomicU64);

impl Word {
    /// A word with this value.
    pub fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    /// Loads, in no order with other words.
    pub fn load_relaxed(&self) -> u64 {
        preempt::point();
        self.0.load(Ordering::Relaxed)
    }

    /// Loads, before all accesses after it.
    pub fn load_acquire(&self) -> u64 {
        preempt::point();
        self.0.load(match weakened(Part::LoadAcquire) {
            false => Ordering::Acquire,
            true => Ordering::Relaxed,
        })
    }

    /// Stores, in no order with other words.
    pub fn store_relaxed(&self, value: u64) {
        preempt::point();
        self.0.store(value, Ordering::Relaxed);
    }

    /// Stores, after all accesses before it.
    pub fn store_release(&self, value: u64) {
        preempt::point();
        let order = match weakened(Part::StoreRelease) {
            false => Ordering::Release,
            true => Ordering::Relaxed,
        };
        self.0.store(value, order);
    }

    /// Stores bits 0-31: only for a word that nobody looks at before another one was stored with
    /// [`Word::store_release`].
    pub fn store_low(&self, low: u32) {
        preempt::point();
        // (loom knows no halves; nobody else writes the word)
        let high = self.0.load(Ordering::Relaxed) >> 32 << 32;
        self.0.store(high | u64::from(low), Ordering::Relaxed);
    }

    /// Stores bits 32-63, likewise.
    pub fn store_high(&self, high: u32) {
        preempt::point();
        let low = self.0.load(Ordering::Relaxed) as u32;
        self.0
            .store(u64::from(low) | (u64::from(high) << 32), Ordering::Relaxed);
    }

    /// Replaces `old` by `new`, atomic towards interrupts of this CPU only; whether it was `old`.
    pub fn local_exchange(&self, old: u64, new: u64) -> bool {
        preempt::point();
        self.0
            .compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Turns the bits `BITS`, of the lower half, after all stores before it. Nobody else writes the
    /// word.
    pub fn toggle_release<const BITS: u64>(&self) {
        preempt::point();
        let value = self.0.load(Ordering::Relaxed) ^ BITS;
        let order = match weakened(Part::ToggleRelease) {
            false => Ordering::Release,
            true => Ordering::Relaxed,
        };
        self.0.store(value, order);
    }

    /// Sets bits, atomic towards all CPUs.
    pub fn set_bits(&self, bits: u64) {
        preempt::point();
        self.0.fetch_or(bits, Ordering::Relaxed);
    }

    /// Clears bits, atomic towards all CPUs.
    pub fn clear_bits(&self, bits: u64) {
        preempt::point();
        self.0.fetch_and(!bits, Ordering::Relaxed);
    }

    /// Replaces `old` by `new`, atomic towards all CPUs; whether it was `old`.
    pub fn exchange(&self, old: u64, new: u64) -> bool {
        preempt::point();
        let order = Ordering::SeqCst;
        self.0.compare_exchange(old, new, order, order).is_ok()
    }

    /// Adds, atomic towards interrupts of this CPU only.
    pub fn local_add(&self, value: u64) {
        preempt::point();
        self.0.fetch_add(value, Ordering::Relaxed);
    }
}

/// Adds to a number of two words, the lower first, atomic towards interrupts of this CPU only:
/// whoever comes between the two halves carries for itself.
pub fn local_add_wide(number: &[Word; 2], value: u128) {
    preempt::point();
    let low = value as u64;
    let before = number[0].0.fetch_add(low, Ordering::Relaxed);
    let carry = u64::from(before.checked_add(low).is_none());
    preempt::point();
    let high = ((value >> 64) as u64).wrapping_add(carry);
    number[1].0.fetch_add(high, Ordering::Relaxed);
}

/// Stores before it are seen no later than stores after it.
pub fn fence_release() {
    if !weakened(Part::FenceRelease) {
        fence(Ordering::Release);
    }
}

/// Loads before it are done no later than loads after it.
pub fn fence_acquire() {
    if !weakened(Part::FenceAcquire) {
        fence(Ordering::Acquire);
    }
}

/// All accesses before it are done before all after it.
pub fn fence_full() {
    if !weakened(Part::FenceFull) {
        fence(Ordering::SeqCst);
    }
}

/// A part of the ordering that a model can do without, to show that it fails then.
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
    /// Of the models' own: nothing here waits for writers to end.
    GracePeriod,
}

#[cfg(loom)]
thread_local! {
    static WEAKENED: Cell<Option<Part>> = const { Cell::new(None) };
}

/// From now on this thread (and the threads of its models) lacks `part`.
#[cfg(loom)]
pub fn weaken(part: Part) {
    WEAKENED.set(Some(part));
}

/// Says that this thread lacks `part`.
#[cfg(loom)]
pub fn weakened(part: Part) -> bool {
    WEAKENED.get() == Some(part)
}

#[cfg(not(loom))]
const fn weakened(_part: Part) -> bool {
    false
}

/// Called in loops that wait for a writer.
pub fn spin_hint() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::hint::spin_loop();
}

/// Memory that does not run out.
#[cfg(not(feature = "simulation"))]
mod memory {
    pub(super) fn allocate() -> Result<(), super::AllocError> {
        Ok(())
    }
}

/// Memory that a test lets run out.
#[cfg(feature = "simulation")]
pub mod memory {
    use std::cell::Cell;

    use super::AllocError;

    thread_local! {
        static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
    }

    /// Runs `body` with memory for only so many allocations of vectors that grow.
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
    /// An empty one, without memory.
    pub const fn new() -> Self {
        Self(std::vec::Vec::new())
    }

    /// Adds a value at the end. `ENOMEM` without memory.
    pub fn push(&mut self, value: T) -> Result<(), AllocError> {
        if self.0.len() == self.0.capacity() {
            memory::allocate()?;
        }
        self.0.push(value);
        Ok(())
    }

    /// Adds a value at `index`, and moves those behind it. `ENOMEM` without memory.
    pub fn insert(&mut self, index: usize, value: T) -> Result<(), AllocError> {
        self.0.insert(index, value);
        Ok(())
    }

    /// Adds copies of values at the end. `ENOMEM` without memory.
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

    /// Values that there is room for.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Gives back memory that is not used, if that can be.
    pub fn shrink(&mut self) {
        self.0.shrink_to_fit();
    }

    /// Takes the last value off.
    pub fn pop(&mut self) -> Option<T> {
        self.0.pop()
    }

    /// Keeps the values that `keep` is true of, in their order.
    pub fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.0.retain(keep);
    }

    /// Takes all values off; the memory stays.
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
    /// An array of values that `make` makes. `ENOMEM` without memory.
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

/// Words that take no memory while they are all zero. Once made they stay as long as this does.
pub struct LazyWords(OnceLock<Table<Word, LAZY_WORDS>>);

impl LazyWords {
    /// Zeroes, without memory.
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// The value of the word at `index`, which wraps.
    pub fn load(&self, index: usize) -> u64 {
        preempt::point();
        let word = |words: &[Word; LAZY_WORDS]| words[index % LAZY_WORDS].load_relaxed();
        self.get().map_or(0, word)
    }

    /// The words, if they have been made.
    pub fn get(&self) -> Option<&[Word; LAZY_WORDS]> {
        self.0.get().map(|words| &**words)
    }

    /// The words, which are made if they are not there.
    pub fn get_or_make(&self) -> Result<&[Word; LAZY_WORDS], AllocError> {
        if self.0.get().is_none() {
            // (someone else's may come first)
            let _ = self.0.set(Table::new(|| Word::new(0))?);
        }
        self.get().ok_or(AllocError)
    }

    /// Does as [`get_or_make`](Self::get_or_make) where nobody may sleep.
    pub fn get_or_make_now(&self) -> Result<&[Word; LAZY_WORDS], AllocError> {
        self.get_or_make()
    }
}

/// Other threads in the middle of anything: all of a model's threads store to a word that none
/// reads.
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

/// Nothing comes between.
#[cfg(not(any(loom, feature = "simulation")))]
mod preempt {
    pub(super) const fn point() {}
}

/// Interrupts in the middle of anything.
#[cfg(all(not(loom), feature = "simulation"))]
pub mod preempt {
    use std::cell::RefCell;

    type Handler = Box<dyn FnMut()>;

    thread_local! {
        static HANDLER: RefCell<Option<Handler>> = const { RefCell::new(None) };
    }

    /// Puts the handler back that was there before, also when a test panics.
    struct Restore(Option<Handler>);

    impl Drop for Restore {
        fn drop(&mut self) {
            HANDLER.set(self.0.take());
        }
    }

    /// Runs `body`, and `handler` at every preemption point of it.
    ///
    /// The handler's own points are not among them; for those it calls this function itself.
    pub fn with_handler<R>(handler: impl FnMut() + 'static, body: impl FnOnce() -> R) -> R {
        let _restore = Restore(HANDLER.replace(Some(Box::new(handler))));
        body()
    }

    /// A place where an interrupt may happen.
    pub fn point() {
        if let Some(mut handler) = HANDLER.take() {
            handler();
            HANDLER.set(Some(handler));
        }
    }
}
