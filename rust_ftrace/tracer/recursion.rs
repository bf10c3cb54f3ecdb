// SPDX-License-Identifier: GPL-2.0

//! A recursion guard for hooks, which call functions that are traced themselves.

use crate::platform::Word;
use crate::sys::context::PreemptOff;

/// The contexts of a CPU that are within something, and the number of times that they came once
/// more.
pub(super) struct Recursion {
    /// A bit for each context that is within.
    within: Word,
    /// The number of times that a context came once more.
    count: Word,
}

impl Recursion {
    /// Creates a guard that no context is within.
    pub(super) const fn new() -> Self {
        Self {
            within: Word::new(0),
            count: Word::new(0),
        }
    }

    /// Returns whether the running context is within already; if so, counts that.
    pub(super) fn is_within(&self, token: PreemptOff<'_>) -> bool {
        let is_within = self.within.load_relaxed() & token.context_level() != 0;
        if is_within {
            self.count.local_add(1);
        }
        is_within
    }

    /// Enters the running context, which is [not within](Self::is_within).
    pub(super) fn enter<'a>(&'a self, token: PreemptOff<'a>) -> Within<'a> {
        let level = token.context_level();
        // Interrupts leave the word as they found it, so loads and stores will do.
        let within = self.within.load_relaxed();
        self.within.store_relaxed(within | level);
        Within {
            recursion: self,
            level,
        }
    }

    /// Returns the number of times that were ever counted.
    pub(super) fn count(&self) -> u64 {
        self.count.load_relaxed()
    }
}

/// A context that is within, until this is dropped.
pub(super) struct Within<'a> {
    recursion: &'a Recursion,
    level: u64,
}

impl Drop for Within<'_> {
    fn drop(&mut self) {
        let within = self.recursion.within.load_relaxed();
        self.recursion.within.store_relaxed(within & !self.level);
    }
}
