// SPDX-License-Identifier: GPL-2.0

//! The memory of a ring: virtually contiguous, zeroed, on its CPU's node.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use kernel::alloc::allocator::Vmalloc;
use kernel::alloc::flags::{GFP_KERNEL, __GFP_NOWARN, __GFP_ZERO};
use kernel::alloc::{AllocError, Allocator, NumaNode};

use crate::engine::ring::{Slot, Storage};
use crate::engine::slot::SLOT_BYTES;

const _: () = assert!(core::mem::size_of::<Slot>() == SLOT_BYTES);

/// Slots in vmalloc memory.
///
/// # Invariants
///
/// `slots` points to `length` slots that are ours alone, allocated by `Vmalloc` with `layout` unless
/// that is empty.
pub(crate) struct SlotMemory {
    slots: NonNull<Slot>,
    length: usize,
    layout: Layout,
    /// Events that were not written for want of memory.
    missed: AtomicU64,
}

// SAFETY: Owns its memory, which holds atomics only.
unsafe impl Sync for SlotMemory {}
// SAFETY: vmalloc memory belongs to no thread.
unsafe impl Send for SlotMemory {}

impl SlotMemory {
    /// No memory.
    pub(crate) fn none() -> Self {
        // INVARIANT: There are no slots.
        Self {
            slots: NonNull::dangling(),
            length: 0,
            layout: Layout::new::<()>(),
            missed: AtomicU64::new(0),
        }
    }

    /// Allocates `length` zeroed slots, preferably on `node`.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub(crate) fn new(length: usize, node: NumaNode) -> Result<Self, AllocError> {
        let layout = Layout::array::<Slot>(length).map_err(|_| AllocError)?;
        // People may ask for more than there is: that is their error, not the kernel's to warn of.
        let flags = GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN;
        let slots = Vmalloc::alloc(layout, flags, node)?.cast();
        // INVARIANT: Zeroes are valid slots.
        Ok(Self {
            slots,
            length,
            layout,
            missed: AtomicU64::new(0),
        })
    }
}

impl SlotMemory {
    /// Events that were not written because there is no memory.
    pub(crate) fn count_missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }
}

// SAFETY: The memory is the same while `self` lives, and does not move with it.
unsafe impl Storage for SlotMemory {
    fn slots(&self) -> &[Slot] {
        // SAFETY: By the type's invariants.
        unsafe { core::slice::from_raw_parts(self.slots.as_ptr(), self.length) }
    }

    fn missed(&self) {
        self.missed.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for SlotMemory {
    fn drop(&mut self) {
        if self.layout.size() == 0 {
            return;
        }
        // SAFETY: By the type's invariants; nobody uses the slots any more.
        unsafe { Vmalloc::free(self.slots.cast(), self.layout) };
    }
}
