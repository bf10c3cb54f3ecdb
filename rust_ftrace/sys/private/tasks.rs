// SPDX-License-Identifier: GPL-2.0

//! All tasks there are.
//!
//! C headers: [`include/linux/sched/signal.h`](srctree/include/linux/sched/signal.h),
//! [`include/linux/rculist.h`](srctree/include/linux/rculist.h)

use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use kernel::bindings;

use super::part::Part;
use crate::sys::cpu;

/// Where `idle_threads` of kernel/smpboot.c lies, a pointer for each CPU; 0 if that is not known.
static IDLE_THREADS: AtomicU64 = AtomicU64::new(0);

/// Makes known where idle tasks are found: at `idle_threads` of kernel/smpboot.c, if the kernel says where that is.
///
/// # Safety
///
/// That is its address.
pub(crate) unsafe fn set_idle_threads(idle_threads: Option<u64>) {
    IDLE_THREADS.store(idle_threads.unwrap_or(0), Ordering::Relaxed);
}

/// Calls `user` with every task but idle ones, as `for_each_process_thread()` does.
///
/// # Safety
///
/// The caller is a reader of RCU, and uses tasks only as long as it is.
pub(in crate::rust_ftrace::sys) unsafe fn for_each(
    user: &mut dyn FnMut(*const bindings::task_struct),
) {
    const TASKS: usize = offset_of!(bindings::task_struct, tasks);
    const NODE: usize = offset_of!(bindings::task_struct, thread_node);
    const SIGNAL: usize = offset_of!(bindings::task_struct, signal);
    const THREADS: usize = offset_of!(bindings::signal_struct, thread_head);
    let init = (&raw const bindings::init_task).cast::<u8>();
    let processes = init.wrapping_byte_add(TASKS).cast();
    let mut of_process = |tasks: *const bindings::list_head| {
        let process = tasks.cast::<u8>().wrapping_byte_sub(TASKS);
        let signal = process.wrapping_byte_add(SIGNAL).cast::<*const u8>();
        // SAFETY: The process is there while the caller reads, and the field does not change.
        let signal = unsafe { signal.read_volatile() };
        let threads = signal.wrapping_byte_add(THREADS).cast();
        let mut of_thread = |node: *const bindings::list_head| {
            user(node.cast::<u8>().wrapping_byte_sub(NODE).cast());
        };
        // SAFETY: The head of the list of the process's threads, which goes after the process.
        unsafe { for_each_in_list(threads, &mut of_thread) };
    };
    // SAFETY: The head of the list of processes. The caller promises the rest.
    unsafe { for_each_in_list(processes, &mut of_process) };
}

/// Calls `user` with every node of a list but its head.
///
/// # Safety
///
/// `head` is that of a list that is changed as RCU asks, and the caller is a reader, to which all nodes stay.
unsafe fn for_each_in_list(
    head: *const bindings::list_head,
    user: &mut dyn FnMut(*const bindings::list_head),
) {
    // SAFETY: The caller promises it of the head and of each node.
    let next = |node: *const bindings::list_head| unsafe { next_of(node) };
    let mut node = next(head);
    while node != head {
        user(node);
        node = next(node);
    }
}

/// The next node of a list.
///
/// # Safety
///
/// `node` is one.
unsafe fn next_of(node: *const bindings::list_head) -> *const bindings::list_head {
    let next = node.cast::<u8>();
    let next = next.wrapping_byte_add(offset_of!(bindings::list_head, next));
    // SAFETY: The caller promises that it is there; a pointer, aligned.
    let next = unsafe { AtomicPtr::from_ptr(next.cast::<*mut bindings::list_head>().cast_mut()) };
    // Acquire: what the node was filled with before it came into the list.
    next.load(Ordering::Acquire)
}

/// Calls `user` with the idle task of every CPU that had one; they stay for good. False if only that of CPU 0 can be
/// found, as the kernel does not list symbols of data.
pub(in crate::rust_ftrace::sys) fn for_each_idle(
    user: &mut dyn FnMut(*const bindings::task_struct),
) -> bool {
    let threads = IDLE_THREADS.load(Ordering::Relaxed) as *mut u8;
    if threads.is_null() || !Part::IdleTasks.is_as_known() {
        user(&raw const bindings::init_task);
        return false;
    }
    let offsets = &raw const bindings::__per_cpu_offset;
    for cpu in cpu::possible() {
        // SAFETY: The array has an offset for each possible CPU, constant after boot.
        let offset = unsafe { (*offsets).get(cpu.as_u32() as usize).copied() };
        let place = threads.wrapping_byte_add(offset.unwrap_or_default());
        // SAFETY: By the contract of `set_idle_threads`, this CPU's instance of a pointer.
        let place = unsafe { AtomicPtr::from_ptr(place.cast::<*mut bindings::task_struct>()) };
        let task = place.load(Ordering::Acquire);
        if !task.is_null() {
            user(task);
        }
    }
    true
}
