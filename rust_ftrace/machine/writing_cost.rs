// SPDX-License-Identifier: GPL-2.0

//! The time that writing an event takes.

use core::ops::Range;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};

use crate::tracer::cost;

/// The time, in picoseconds; 0 until it is measured.
pub(super) struct WritingCost(Atomic<u64>);

impl WritingCost {
    /// Not measured yet.
    pub(super) const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Measures it, if that was not done yet, with a function in `text`.
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

    /// The time, in picoseconds; 0 if it was not measured.
    pub(super) fn ps(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
