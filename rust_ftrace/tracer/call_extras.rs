// SPDX-License-Identifier: GPL-2.0

//! The extra slots of an entry or a return that is about to be written.

use crate::engine::ring::MAX_CALL_EXTRAS;
use crate::engine::slot::SlotWords;

/// The extra slots of a call.
pub(super) struct CallExtras {
    slots: [SlotWords; MAX_CALL_EXTRAS],
    length: usize,
}

impl CallExtras {
    /// Makes none.
    pub(super) const fn none() -> Self {
        Self {
            slots: [SlotWords::PAD; MAX_CALL_EXTRAS],
            length: 0,
        }
    }

    /// Adds a slot; there is room for all that a call can have.
    pub(super) fn push(&mut self, words: SlotWords) {
        if let Some(slot) = self.slots.get_mut(self.length) {
            *slot = words;
            self.length = self.length.wrapping_add(1);
        }
    }

    /// Returns the slots, in their order.
    pub(super) fn slots(&self) -> &[SlotWords] {
        self.slots.get(..self.length).unwrap_or_default()
    }
}
