// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Profile, the waits: for how long tasks did not run in calls.

use super::totals::FunctionTotals;
use crate::engine::waiting::Waker;
use crate::platform::{AllocError, Vec, Word};

/// The waits on a CPU, by a number: for how long the task did not run, in ticks, and the part of it
/// in run queues, in ns. Written by that CPU only.
pub struct Waits(Vec<[Word; 2]>);

impl Waits {
    /// Makes room for numbers below `count`.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn new(count: usize) -> Result<Self, AllocError> {
        let mut sums = Vec::new();
        sums.reserve(count)?;
        for _ in 0..count {
            sums.push([0; 2].map(Word::new))?;
        }
        Ok(Self(sums))
    }

    /// Adds a wait for which there is room. To be called on the CPU, with preemption off.
    pub fn add(&self, number: usize, slept: u64, queued: u64) {
        if let Some([slept_sum, queued_sum]) = self.0.get(number) {
            slept_sum.local_add(slept);
            queued_sum.local_add(queued);
        }
    }

    /// Returns the sums, inexact while counting goes on; 0 if nothing is counted.
    pub fn sums(&self, number: usize) -> [u64; 2] {
        let load = |sums: &[Word; 2]| sums.each_ref().map(Word::load_relaxed);
        self.0.get(number).map_or([0; 2], load)
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

/// The waits on a CPU, by the number of a function: the two sums of [`Waits`], then the longest
/// time for which the task did not run in a call and was woken by something that is known, as
/// [`totals::longest`](super::totals::longest) has it, and the last [`Waker`] in that call. Written
/// by that CPU only.
pub struct FunctionWaits(Vec<[Word; 4]>);

impl FunctionWaits {
    /// Makes room for none: nothing is counted.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Makes room for numbers below `count`.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn new(count: usize) -> Result<Self, AllocError> {
        let mut waits = Vec::new();
        waits.reserve(count)?;
        for _ in 0..count {
            waits.push([0; 4].map(Word::new))?;
        }
        Ok(Self(waits))
    }

    /// Adds the waits in a call, for which there is room: `slept` ticks in which the task did not
    /// run, the part of them in run queues, in ns, and what woke it last. The word for such a time
    /// is `longest`. To be called on the CPU, with preemption off.
    pub fn add(&self, number: usize, slept: u64, queued: u64, longest: u64, waker: Waker) {
        let Some([slept_sum, queued_sum, most, by]) = self.0.get(number) else {
            return;
        };
        slept_sum.local_add(slept);
        queued_sum.local_add(queued);
        // Nothing comes in between that has slept: interrupts do not.
        if waker.is_known() && most.load_relaxed() < longest {
            most.store_relaxed(longest);
            by.store_relaxed(waker.0.into());
        }
    }

    /// Returns `totals` with the waits of a function, inexact while counting goes on.
    pub fn with(&self, totals: FunctionTotals, number: usize) -> FunctionTotals {
        let Some(waits) = self.0.get(number) else {
            return totals;
        };
        let [slept, queued, longest_sleep, by] = waits.each_ref().map(Word::load_relaxed);
        FunctionTotals {
            slept,
            queued,
            longest_sleep,
            waker: Waker::of_word(by),
            ..totals
        }
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}
