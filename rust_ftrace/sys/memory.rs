// SPDX-License-Identifier: GPL-2.0

//! The memory of a ring: virtually contiguous, zeroed, on its CPU's node.
//!
//! C headers: [`include/linux/oom.h`](srctree/include/linux/oom.h),
//! [`include/linux/vmalloc.h`](srctree/include/linux/vmalloc.h)

use core::alloc::Layout;
use core::ptr::{null, NonNull};

use kernel::alloc::allocator::Vmalloc;
use kernel::alloc::{AllocError, Allocator};
use kernel::bindings;
use kernel::page::PAGE_SIZE;

use super::{faults, ffi};
use crate::engine::ring::Slot;
use crate::engine::slot::SLOT_BYTES;

const _: () = assert!(core::mem::size_of::<Slot>() == SLOT_BYTES);

/// Slots in vmalloc memory.
///
/// # Invariants
///
/// `slots` points to `length` slots that are ours alone, allocated by `Vmalloc` with `layout`
/// unless that is empty.
pub(crate) struct SlotMemory {
    slots: NonNull<Slot>,
    length: usize,
    layout: Layout,
}

// SAFETY: Owns its memory, which holds atomics only.
unsafe impl Sync for SlotMemory {}
// SAFETY: Owns its memory, which any thread may use and free.
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
    /// [`AllocError`] if there is no memory that can be had without a task being killed for it, or
    /// the caller is being killed.
    pub(crate) fn new(length: usize, node: i32, _room: &Room) -> Result<Self, AllocError> {
        let layout = Layout::array::<Slot>(length).map_err(|_| AllocError)?;
        let slots = allocate(layout, ffi::RUST_CONST_GFP_RING, node)?.cast();
        // INVARIANT: Zeroes are valid slots.
        Ok(Self {
            slots,
            length,
            layout,
        })
    }
}

/// Allocates as `Vmalloc::alloc` does, with flags that the kernel crate does not have.
fn allocate(layout: Layout, flags: bindings::gfp_t, node: i32) -> Result<NonNull<u8>, AllocError> {
    let (size, align) = (layout.size(), layout.align());
    if size == 0 {
        return Err(AllocError);
    }
    faults::here("vrealloc_node_align").map_err(|_| AllocError)?;
    // SAFETY: There is no memory before, and the size is not 0. It may sleep.
    let memory = unsafe { bindings::vrealloc_node_align(null(), size, align, flags, node) };
    NonNull::new(memory.cast()).ok_or(AllocError)
}

/// Most bytes that are left to others when rings are allocated.
const MAX_CUSHION: usize = 32 << 20;

/// Room in memory for some rings, which are allocated while this lives.
///
/// As in `__rb_allocate_pages()` of kernel/trace/ring_buffer.c nothing is begun that obviously
/// cannot be, and what is allocated waits for memory that others can give back, but has no task
/// killed; if others need memory meanwhile that there is not, the task that allocates the rings is
/// killed for it. Beyond that, some memory is held until the rings are there: so they have not
/// taken the last of it, and no task is killed afterwards.
///
/// # Invariants
///
/// The memory of `cushion`, if any, was allocated with its layout, and is used for nothing.
pub(crate) struct Room {
    cushion: Option<(NonNull<u8>, Layout)>,
    /// The task's process is to be killed first.
    _origin: Option<OomOrigin>,
}

impl Room {
    /// Room for `bytes`, which are to replace others: if these are many more, that gives memory
    /// back, and is tried whatever there is.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is none.
    pub(crate) fn new(bytes: usize, replaced: usize) -> Result<Self, AllocError> {
        let mut room = Self {
            cushion: None,
            _origin: OomOrigin::set(),
        };
        if bytes <= replaced / 8 {
            return Ok(room);
        }
        let cushion = (bytes / 8).clamp(PAGE_SIZE, MAX_CUSHION);
        // SAFETY: Has no preconditions.
        let available = unsafe { bindings::si_mem_available() };
        let pages = bytes.saturating_add(cushion).div_ceil(PAGE_SIZE);
        if pages > usize::try_from(available).unwrap_or(0) {
            return Err(AllocError);
        }
        let layout = Layout::array::<u8>(cushion).map_err(|_| AllocError)?;
        let memory = allocate(layout, ffi::RUST_CONST_GFP_CUSHION, bindings::NUMA_NO_NODE)?;
        // INVARIANT: Just allocated so.
        room.cushion = Some((memory, layout));
        Ok(room)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some((memory, layout)) = self.cushion.take() {
            // SAFETY: By the type's invariants it was allocated with this layout, and is not used.
            unsafe { Vmalloc::free(memory, layout) };
        }
    }
}

/// Has the OOM killer take the task's process before any other, as `set_current_oom_origin()`.
///
/// # Invariants
///
/// It is that of the task that set it, which alone drops the value, and the flag is set.
struct OomOrigin(NonNull<bindings::signal_struct>);

impl OomOrigin {
    /// `None` for a thread of the kernel's, and if that is so already.
    fn set() -> Option<Self> {
        let task = kernel::current!().as_ptr();
        // SAFETY: The current task is live as long as it runs.
        if unsafe { (*task).mm }.is_null() {
            return None;
        }
        // SAFETY: The current task is live as long as it runs; what the field points to lives as
        // long as that.
        let signal = NonNull::new(unsafe { (*task).signal })?;
        // SAFETY: The signals of the current task are live as long as it runs. (Others may read and
        // write it: see `set_current_oom_origin()`)
        let flag = unsafe { &raw mut (*signal.as_ptr()).oom_flag_origin };
        // SAFETY: A live byte that is true or false; others may write it meanwhile, as a whole.
        if unsafe { flag.read_volatile() } {
            return None;
        }
        // SAFETY: A live byte; others may read it meanwhile, as a whole.
        unsafe { flag.write_volatile(true) };
        // INVARIANT: It is the current task's.
        Some(Self(signal))
    }
}

impl Drop for OomOrigin {
    fn drop(&mut self) {
        // SAFETY: By the type's invariants it is the current task's, and live as long as that runs.
        let flag = unsafe { &raw mut (*self.0.as_ptr()).oom_flag_origin };
        // SAFETY: A live byte; others may read it meanwhile, as a whole.
        unsafe { flag.write_volatile(false) };
    }
}

impl SlotMemory {
    /// The slots: the same while `self` lives, and they do not move with it.
    pub(crate) fn slots(&self) -> &[Slot] {
        // SAFETY: By the type's invariants `slots` points to `length` slots that are ours, or to
        // none; they stay as long as `self`, and are only shared.
        unsafe { core::slice::from_raw_parts(self.slots.as_ptr(), self.length) }
    }
}

impl Drop for SlotMemory {
    fn drop(&mut self) {
        if self.layout.size() == 0 {
            return;
        }
        // SAFETY: By the type's invariants; nothing uses the slots any more.
        unsafe { Vmalloc::free(self.slots.cast(), self.layout) };
    }
}
