// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Profile, the waits: for how long tasks did not run in calls.

use crate::platform::{AllocError, Vec, Word};

/// The waits on a CPU, by a number: for how long the task did not run, in ticks, and the part of it
/// in run queues, in ns. Written by that CPU only.
pub struct Waits(Vec<[Word; 2]>);

impl Waits {
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
