// SPDX-License-Identifier: GPL-2.0

//! The memory of a CPU's ring: its slots, and what is told of writes to them.

use kernel::sync::Arc;

use super::budget::Budget;
use super::waker::Waker;
use crate::engine::ring::{Slot, Storage};
use crate::platform::{AtomicU64, Ordering, Word};
use crate::sys::context::{PreemptGuard, PreemptOff};
use crate::sys::memory::SlotMemory;

/// The slots of a ring, and what is told of events in them.
pub(crate) struct RingMemory {
    slots: SlotMemory,
    observers: Option<Observers>,
    /// The number of entries that the budget has counted.
    counted: Word,
    /// The number of events that were not written because there are no slots.
    missed: AtomicU64,
    /// The number of returns among those events.
    missed_returns: AtomicU64,
    /// The index before which all events were taken out or cleared, as last noted.
    position: Word,
}

/// Parts that a ring tells of what is written to it.
pub(crate) struct Observers {
    pub(crate) waker: Arc<Waker>,
    pub(crate) budget: Arc<Budget>,
}

impl RingMemory {
    /// Creates a memory without slots.
    pub(crate) fn none() -> Self {
        Self::alone(SlotMemory::none())
    }

    /// Creates a memory that tells nothing of its events.
    pub(crate) fn alone(slots: SlotMemory) -> Self {
        Self {
            slots,
            observers: None,
            counted: Word::new(0),
            missed: AtomicU64::new(0),
            missed_returns: AtomicU64::new(0),
            position: Word::new(0),
        }
    }

    /// Creates a memory that tells `observers` of its events.
    pub(crate) fn new(slots: SlotMemory, observers: Observers) -> Self {
        Self {
            observers: Some(observers),
            ..Self::alone(slots)
        }
    }

    /// Notes the index before which all events were taken out or cleared, for readers that may not
    /// wait for the consumer, which knows it.
    pub(crate) fn note_position(&self, position: u64) {
        self.position.store_relaxed(position);
    }

    /// Returns the index that was noted last.
    pub(crate) fn noted_position(&self) -> u64 {
        self.position.load_relaxed()
    }

    /// Tells readers that wait for the next event that one was written.
    pub(crate) fn written(&self, token: PreemptOff<'_>) {
        if let Some(Observers { waker, .. }) = &self.observers {
            waker.written(token);
        }
    }

    /// Returns the number of events that were not written because there are no slots.
    pub(crate) fn count_missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Returns the number of returns among those events.
    pub(crate) fn count_missed_returns(&self) -> u64 {
        self.missed_returns.load(Ordering::Relaxed)
    }
}

// SAFETY: `SlotMemory::slots` returns the same slice while the memory lives, as long as `self`; it
// is elsewhere, so it does not move with `self`.
unsafe impl Storage for RingMemory {
    fn slots(&self) -> &[Slot] {
        self.slots.slots()
    }

    fn reached(&self) {
        if let Some(Observers { waker, .. }) = &self.observers {
            // A writer has preemption off already.
            waker.wake_soon(PreemptGuard::new().token());
        }
    }

    fn counted(&self, hits: u64, room: u64) {
        if let Some(Observers { budget, .. }) = &self.observers {
            let calls = hits.saturating_sub(self.counted.load_relaxed());
            self.counted.store_relaxed(hits);
            // As above, preemption is off already.
            budget.count(PreemptGuard::new().token(), calls, room);
        }
    }

    fn missed(&self) {
        self.missed.fetch_add(1, Ordering::Relaxed);
    }

    fn missed_return(&self) {
        self.missed_returns.fetch_add(1, Ordering::Relaxed);
    }
}
