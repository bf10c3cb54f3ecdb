// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A copy of a ring's events, in less memory.

use super::{Head, Ring, Storage};
use crate::engine::reader::Extent;
use crate::engine::slot::{SlotWords, PARITY};

impl<S: Storage> Ring<S> {
    /// Number of sub-buffers that hold the events from index `from` on.
    pub fn subbufs_from(&self, from: u64) -> u64 {
        let extent = self.extent();
        if from >= extent.end_event {
            return 0;
        }
        let first = self.subbuf_of(&extent, from);
        extent.newest.saturating_sub(first).saturating_add(1)
    }

    /// Makes a ring in `storage` that holds copies of the newest sub-buffers of `from`, as many as
    /// there is room for. Their events keep their indices; events that `from` has lost are not
    /// counted here. Both rings are only read from now on.
    ///
    /// Returns `None` if `storage` does not fit, as for [`Ring::new`], or `from` holds nothing.
    pub fn kept<O: Storage>(storage: S, from: &Ring<O>) -> Option<Self> {
        let size = from.subbuf_slots();
        let ring = Self::new(storage, size)?;
        let Extent { oldest, newest, .. } = from.extent();
        if newest == 0 {
            return None;
        }
        let oldest = oldest.max(newest.saturating_sub(ring.subbufs() - 1));
        let last_place = from.place_of(newest);
        let used = from.head().slot().checked_sub(last_place)?;
        for (seq, old_seq) in (1..).zip(oldest..=newest) {
            let parity = super::parity_of(old_seq, from.subbufs());
            let old_place = from.place_of(old_seq);
            let place = ring.place_of(seq);
            let old = from.slots().get(old_place..old_place + size)?;
            let new = ring.slots().get(place..place + size)?;
            let ((old_header, old), (header, new)) = (old.split_first()?, new.split_first()?);
            for (old, new) in old.iter().zip(new) {
                let words = SlotWords(old.0.load_acquire(), old.1.load_relaxed());
                if words.is_complete(parity) {
                    let words = words.with_parity(PARITY);
                    new.1.store_relaxed(words.1);
                    new.0.store_relaxed(words.0);
                }
            }
            header.1.store_relaxed(old_header.1.load_relaxed());
            header.0.store_relaxed(seq);
        }
        let others = from.head().others() as usize;
        let last = ring.place_of(newest - oldest + 1);
        // INVARIANT: The head is behind as many slots of the newest sub-buffer as it was there, one
        // at least, in the first lap.
        let head = Head::compose(last + used, others, ring.head().next_lap());
        ring.head.store_relaxed(head.0);
        Some(ring)
    }
}
