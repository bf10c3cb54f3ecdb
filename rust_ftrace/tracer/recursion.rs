// SPDX-License-Identifier: GPL-2.0

//! Keeps hooks from what they are doing already: a guard for functions that are traced themselves.

use crate::platform::Word;
use crate::sys::context::PreemptOff;

/// The contexts of a CPU that are within something, and how often they came to it once more.
pub(super) struct Recursion {
    /// A bit for each context that is within.
    within: Word,
    /// Times that a context which was within came once more.
    count: Word,
}

impl Recursion {
    /// None is within.
    pub(super) const fn new() -> Self {
        Self {
            within: Word::new(0),
            count: Word::new(0),
        }
    }

    /// Returns whether the context that runs is within already; that is counted.
    pub(super) fn is_within(&self, token: PreemptOff<'_>) -> bool {
        let is_within = self.within.load_relaxed() & token.context_level() != 0;
        if is_within {
            self.count.local_add(1);
        }
        is_within
    }

    /// Enters, in a context that is [not within](Self::is_within).
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

    /// The times that were counted, ever.
    pub(super) fn count(&self) -> u64 {
        self.count.load_relaxed()
    }
}

/// A context is within, until dropped.
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
