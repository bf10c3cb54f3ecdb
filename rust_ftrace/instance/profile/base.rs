// SPDX-License-Identifier: GPL-2.0

//! Profile, the counts before a clear, which readers subtract.

use kernel::prelude::*;

use crate::engine::profile::histogram::{Counts, BUCKETS, CHUNK};
use crate::engine::profile::totals::FunctionTotals;
use crate::platform::Vec;

/// The counts of a CPU before a clear.
pub(super) struct Base {
    /// By a function's number.
    totals: Vec<FunctionTotals>,
    /// By the place of a histogram in the pool, [`BUCKETS`] of each.
    counts: Vec<u64>,
}

impl Base {
    /// Creates that of nothing.
    pub(super) const fn new() -> Self {
        Self {
            totals: Vec::new(),
            counts: Vec::new(),
        }
    }

    /// The counts of a function.
    pub(super) fn of_function(&self, number: usize) -> FunctionTotals {
        self.totals.get(number).copied().unwrap_or_default()
    }

    /// The counts of a histogram; none if nothing was counted there.
    pub(super) fn of_histogram(&self, place: usize) -> &[u64] {
        let from = place.saturating_mul(BUCKETS);
        let counts = self.counts.get(from..from.saturating_add(BUCKETS));
        counts.unwrap_or_default()
    }

    /// Returns the bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.totals).wrapping_add(size_of_val(&*self.counts))
    }

    /// Creates the counts of `count` functions, as `totals` has them, without histograms.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn of(count: usize, totals: impl Fn(usize) -> FunctionTotals) -> Result<Self> {
        let mut base = Self::new();
        base.totals.reserve(count)?;
        for number in 0..count {
            base.totals.push(totals(number))?;
        }
        Ok(base)
    }

    /// Makes room for so many `chunks` of histograms, of no counts.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn make_room(&mut self, chunks: usize) -> Result {
        let counts = chunks.saturating_mul(CHUNK * BUCKETS);
        Ok(self.counts.resize(counts, 0)?)
    }

    /// Copies the counts of a histogram at `place`, of the function with this number, and its
    /// `totals` with them.
    pub(super) fn copy(
        &mut self,
        place: usize,
        number: usize,
        counts: &Counts,
        totals: impl FnOnce() -> FunctionTotals,
    ) {
        let first = place.saturating_mul(BUCKETS);
        let copies = self.counts.get_mut(first..).unwrap_or_default();
        for (copy, count) in copies.iter_mut().zip(counts) {
            *copy = count.load_relaxed();
        }
        // Of two histograms of a function one has no counts: see `Record::note_longest`.
        if self.of_histogram(place).iter().any(|count| *count != 0) {
            if let Some(copy) = self.totals.get_mut(number) {
                *copy = totals();
            }
        }
    }
}
