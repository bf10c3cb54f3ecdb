// SPDX-License-Identifier: GPL-2.0

//! The time that writing an event takes, measured once.

use core::ops::Range;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};

use crate::tracer::cost;

/// The time that writing an event takes, in picoseconds; 0 until it is measured.
pub(super) struct WritingCost(Atomic<u64>);

impl WritingCost {
    /// Creates the state in which nothing was measured yet.
    pub(super) const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Measures the time, if that was not done yet, with a function in `text`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn find(&self, text: &Range<u64>) -> Result {
        if self.ps() == 0 {
            self.0.store(cost::writing_ps(text)?, Relaxed);
        }
        Ok(())
    }

    /// Returns the time, in picoseconds; 0 if it was not measured.
    pub(super) fn ps(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
