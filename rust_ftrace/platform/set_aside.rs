// SPDX-License-Identifier: GPL-2.0

//! Memory that was set aside, for vectors that grow where no other can be had: while the trace goes
//! to the console of a machine that dies.
//!
//! That may be in an NMI, or with any lock held. So [`SetAside::lend`] has all vectors that the
//! running context makes get their memory from a piece that was allocated long before; those that
//! other tasks make meanwhile do not.
//!
//! There is one such use at a time. A task is told by the address of its `task_struct`, which is
//! its own wherever it runs. What interrupts it there makes no vectors: hooks and handlers of
//! interrupts allocate nothing.

use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::ptr::{null_mut, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use kernel::alloc::allocator::{KVmalloc, Vmalloc};
use kernel::alloc::flags::__GFP_NOWARN;
use kernel::alloc::{AllocError, Allocator, Flags, NumaNode};
use kernel::bindings;
use kernel::prelude::*;
use kernel::task::Task;

use super::blocks::Blocks;

/// The task that uses memory which was set aside: null for none, and [`broken`] for never again.
static USER: AtomicPtr<bindings::task_struct> = AtomicPtr::new(null_mut());

/// The memory that `USER` uses, if there is one.
static MEMORY: AtomicPtr<SetAside> = AtomicPtr::new(null_mut());

/// No task's address.
fn broken() -> *mut bindings::task_struct {
    NonNull::dangling().as_ptr()
}

/// Memory that was set aside.
pub struct SetAside {
    memory: kernel::alloc::Vec<u8, Vmalloc>,
    /// Changed by the context alone that the memory is lent to.
    blocks: UnsafeCell<Blocks>,
}

// SAFETY: `blocks` is used by one context at a time: the one that `USER` names.
unsafe impl Sync for SetAside {}
// SAFETY: The memory belongs to no thread.
unsafe impl Send for SetAside {}

impl SetAside {
    /// Sets so many bytes aside.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub fn new(bytes: usize) -> Result<Self, AllocError> {
        Ok(Self {
            memory: kernel::alloc::Vec::from_elem(0, bytes, GFP_KERNEL | __GFP_NOWARN)?,
            blocks: UnsafeCell::new(Blocks::new(bytes)),
        })
    }

    /// Returns the number of bytes.
    pub fn bytes(&self) -> usize {
        self.memory.len()
    }

    /// Calls `user`, whose vectors get their memory from here; `None` if other memory is lent now.
    /// If that is lent to what the caller has interrupted, `user` has gone wrong there: none is
    /// lent ever again then.
    ///
    /// # Safety
    ///
    /// - No vector that was made by `user` is there after it.
    /// - `user` neither drops vectors that were made before it, nor makes them grow.
    pub unsafe fn lend<R>(&self, user: impl FnOnce() -> R) -> Option<R> {
        let task = Task::current_raw();
        let order = Ordering::Acquire;
        if let Err(other) = USER.compare_exchange(null_mut(), task, order, Ordering::Relaxed) {
            if other == task {
                USER.store(broken(), Ordering::Relaxed);
            }
            return None;
        }
        // SAFETY: Only `USER` uses the blocks, which this is from above to below.
        unsafe { &mut *self.blocks.get() }.reset();
        MEMORY.store((&raw const *self).cast_mut(), Ordering::Relaxed);
        let result = user();
        MEMORY.store(null_mut(), Ordering::Relaxed);
        USER.store(null_mut(), Ordering::Release);
        Some(result)
    }

    /// Returns the memory that is lent to the running context, if any is.
    fn lent<'a>() -> Option<&'a Self> {
        let user = USER.load(Ordering::Relaxed);
        if user.is_null() || user != Task::current_raw() {
            return None;
        }
        // SAFETY: Null, or memory that is valid while it is lent to this task, which is in `lend`.
        unsafe { MEMORY.load(Ordering::Relaxed).as_ref() }
    }

    /// Does as [`Allocator::realloc`].
    ///
    /// # Safety
    ///
    /// - This memory is lent to the running context.
    /// - `before`, if any, has `old` bytes.
    unsafe fn realloc(
        &self,
        before: Option<NonNull<u8>>,
        layout: Layout,
        old: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: It is lent to this context, by caller precondition, and the reference ends before
        // this returns.
        let blocks = unsafe { &mut *self.blocks.get() };
        let before = before.filter(|_| old.size() != 0);
        let place_of = |block: NonNull<u8>| {
            let place = (block.as_ptr() as usize).wrapping_sub(self.memory.as_ptr() as usize);
            (place < self.memory.len()).then_some(place)
        };
        let place = before.and_then(place_of);
        if layout.size() == 0 {
            if let Some(place) = place {
                blocks.give_back(place, old.size());
            }
            let nothing = NonNull::new(layout.align() as *mut u8).ok_or(AllocError)?;
            return Ok(NonNull::slice_from_raw_parts(nothing, 0));
        }
        if let (Some(before), Some(_)) = (before, place) {
            if Blocks::are_alike(old.size(), layout.size()) {
                return Ok(NonNull::slice_from_raw_parts(before, layout.size()));
            }
        }
        let found = blocks.take(layout.size()).ok_or(AllocError)?;
        let room = self.memory.get(found..).ok_or(AllocError)?;
        let block = NonNull::new(room.as_ptr().cast_mut()).ok_or(AllocError)?;
        if let Some(before) = before {
            let length = old.size().min(layout.size());
            // SAFETY: Both are as long, and the new block was free until now.
            unsafe { before.copy_to_nonoverlapping(block, length) };
        }
        if let Some(place) = place {
            blocks.give_back(place, old.size());
        }
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }
}

/// The allocator of vectors: the kernel's, or memory that was set aside.
pub struct Growth;

impl Growth {
    /// Returns whether memory that was set aside is lent to the running context.
    pub(super) fn is_lent() -> bool {
        SetAside::lent().is_some()
    }
}

// SAFETY: What is lent is divided into blocks that do not overlap, and by the contract of
// `SetAside::lend` a block does not outlive the loan, during which only this is asked; all else is
// passed on to `KVmalloc`. Blocks of a page and more are aligned to a page, and smaller ones to
// their size, which is no less than their alignment.
unsafe impl Allocator for Growth {
    const MIN_ALIGN: usize = KVmalloc::MIN_ALIGN;

    #[inline]
    unsafe fn realloc(
        ptr: Option<NonNull<u8>>,
        layout: Layout,
        old_layout: Layout,
        flags: Flags,
        nid: NumaNode,
    ) -> Result<NonNull<[u8]>, AllocError> {
        match SetAside::lent() {
            // SAFETY: It is lent to this context, and `ptr` is as long as `old_layout` says, by
            // caller precondition.
            Some(memory) => unsafe { memory.realloc(ptr, layout, old_layout) },
            // SAFETY: All that is not lent is of `KVmalloc`, and the caller keeps its conditions.
            None => unsafe { KVmalloc::realloc(ptr, layout, old_layout, flags, nid) },
        }
    }
}
