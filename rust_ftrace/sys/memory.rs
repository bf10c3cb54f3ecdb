// SPDX-License-Identifier: GPL-2.0

//! The memory of a ring: virtually contiguous, zeroed, on its CPU's node.

use core::ptr::NonNull;

use kernel::alloc::AllocError;
use kernel::prelude::*;

use super::ffi;
use crate::engine::ring::{Slot, Storage};
use crate::engine::slot::SLOT_BYTES;

const _: () = assert!(core::mem::size_of::<Slot>() == SLOT_BYTES);

/// Slots from `vzalloc_node()`.
///
/// # Invariants
///
/// `slots` points to `length` slots that are ours alone, allocated by `vzalloc_node`.
pub(crate) struct SlotMemory {
    slots: NonNull<Slot>,
    length: usize,
}

// SAFETY: Owns its memory, which holds atomics only.
unsafe impl Sync for SlotMemory {}
// SAFETY: vmalloc memory belongs to no thread.
unsafe impl Send for SlotMemory {}

impl SlotMemory {
    /// Allocates `length` zeroed slots, preferably on NUMA node `node` (-1 for any).
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory, or `length` is 0.
    pub(crate) fn new(length: usize, node: i32) -> Result<Self, AllocError> {
        let bytes = length.checked_mul(SLOT_BYTES).ok_or(AllocError)?;
        // SAFETY: Has no preconditions; a size of 0 gives NULL.
        let slots = unsafe { ffi::vzalloc_node_noprof(bytes as c_ulong, node) };
        // INVARIANT: Zeroes are valid slots; vmalloc memory is aligned to pages.
        Ok(Self {
            slots: NonNull::new(slots.cast()).ok_or(AllocError)?,
            length,
        })
    }
}

// SAFETY: The memory is the same while `self` lives, and does not move with it.
unsafe impl Storage for SlotMemory {
    fn slots(&self) -> &[Slot] {
        // SAFETY: By the type's invariants.
        unsafe { core::slice::from_raw_parts(self.slots.as_ptr(), self.length) }
    }
}

impl Drop for SlotMemory {
    fn drop(&mut self) {
        // SAFETY: By the type's invariants; nobody uses the slots any more.
        unsafe { ffi::vfree(self.slots.as_ptr().cast()) };
    }
}
