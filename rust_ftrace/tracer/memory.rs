// SPDX-License-Identifier: GPL-2.0

//! What a CPU's ring is made of: its slots, and who is told of what is written to them.

use core::sync::atomic::{AtomicU64, Ordering};

use kernel::sync::Arc;

use super::waker::Waker;
use crate::engine::ring::{Slot, Storage};
use crate::sys::context::{PreemptGuard, PreemptOff};
use crate::sys::memory::SlotMemory;

/// Slots, and who waits for events in them.
pub(crate) struct RingMemory {
    slots: SlotMemory,
    waker: Option<Arc<Waker>>,
    /// Events that were not written because there are no slots.
    missed: AtomicU64,
    /// Those among them that were returns.
    missed_returns: AtomicU64,
}

impl RingMemory {
    /// No slots.
    pub(crate) fn none() -> Self {
        Self {
            slots: SlotMemory::none(),
            waker: None,
            missed: AtomicU64::new(0),
            missed_returns: AtomicU64::new(0),
        }
    }

    /// Slots whose events `waker` tells of.
    pub(crate) fn new(slots: SlotMemory, waker: Arc<Waker>) -> Self {
        Self {
            slots,
            waker: Some(waker),
            missed: AtomicU64::new(0),
            missed_returns: AtomicU64::new(0),
        }
    }

    /// Tells those who wait for the next event that one was written.
    pub(crate) fn written(&self, token: PreemptOff<'_>) {
        if let Some(waker) = &self.waker {
            waker.written(token);
        }
    }

    /// Events that were not written because there are no slots.
    pub(crate) fn count_missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Those among them that were returns.
    pub(crate) fn count_missed_returns(&self) -> u64 {
        self.missed_returns.load(Ordering::Relaxed)
    }
}

// SAFETY: By what `SlotMemory::slots` says.
unsafe impl Storage for RingMemory {
    fn slots(&self) -> &[Slot] {
        self.slots.slots()
    }

    fn reached(&self) {
        if let Some(waker) = &self.waker {
            // (a writer has it off already)
            waker.wake_soon(PreemptGuard::new().token());
        }
    }

    fn missed(&self) {
        self.missed.fetch_add(1, Ordering::Relaxed);
    }

    fn missed_return(&self) {
        self.missed_returns.fetch_add(1, Ordering::Relaxed);
    }
}
