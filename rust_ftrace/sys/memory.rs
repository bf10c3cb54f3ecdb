// SPDX-License-Identifier: GPL-2.0

//! The memory of a ring: virtually contiguous, zeroed, on its CPU's node.

use core::alloc::Layout;
use core::ptr::NonNull;

use kernel::alloc::allocator::Vmalloc;
use kernel::alloc::flags::{GFP_KERNEL, __GFP_NOWARN, __GFP_ZERO};
use kernel::alloc::{AllocError, Allocator, NumaNode};
use kernel::bindings;
use kernel::page::PAGE_SIZE;

use crate::engine::ring::Slot;
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
        }
    }

    /// Allocates `length` zeroed slots, preferably on `node`.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is not as much memory that can be had without somebody being killed for it, as in
    /// `__rb_allocate_pages()` of kernel/trace/ring_buffer.c.
    pub(crate) fn new(length: usize, node: NumaNode) -> Result<Self, AllocError> {
        let layout = Layout::array::<Slot>(length).map_err(|_| AllocError)?;
        // SAFETY: May be called where one may sleep, as vmalloc must be.
        let available = unsafe { bindings::si_mem_available() };
        if layout.size().div_ceil(PAGE_SIZE) > usize::try_from(available).unwrap_or(0) {
            return Err(AllocError);
        }
        // People may ask for more than there is: that is their error, not the kernel's to warn of.
        let flags = GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN;
        let slots = Vmalloc::alloc(layout, flags, node)?.cast();
        // INVARIANT: Zeroes are valid slots.
        Ok(Self {
            slots,
            length,
            layout,
        })
    }
}

impl SlotMemory {
    /// The slots: the same while `self` lives, and they do not move with it.
    pub(crate) fn slots(&self) -> &[Slot] {
        // SAFETY: By the type's invariants.
        unsafe { core::slice::from_raw_parts(self.slots.as_ptr(), self.length) }
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
