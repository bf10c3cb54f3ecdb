// SPDX-License-Identifier: GPL-2.0

//! All tasks there are.
//!
//! C headers: [`include/linux/sched/signal.h`](srctree/include/linux/sched/signal.h),
//! [`include/linux/rculist.h`](srctree/include/linux/rculist.h)

use core::mem::offset_of;

use kernel::bindings;
use kernel::sync::atomic::{Atomic, Relaxed};

use super::part::PrivatePart;
use crate::sys::cpu;

/// The address of `idle_threads` of kernel/smpboot.c, a pointer for each CPU; 0 if that is not
/// known.
static IDLE_THREADS: Atomic<u64> = Atomic::new(0);

/// Makes known where idle tasks are found: at `idle_threads` of kernel/smpboot.c, if the kernel
/// says where that is. If that of CPU 0 is not the kernel's first task, the part is not as known.
///
/// # Safety
///
/// That is its address.
pub(crate) unsafe fn set_idle_threads(idle_threads: Option<u64>) {
    IDLE_THREADS.store(idle_threads.unwrap_or(0), Relaxed);
    let mut first = None;
    for_each_idle(&mut |task| {
        first.get_or_insert(task);
    });
    if first != Some(&raw const bindings::init_task) {
        PrivatePart::IdleTasks.is_not_as_known();
    }
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
    let init = (&raw const bindings::init_task).cast::<u8>();
    let processes = init.wrapping_byte_add(TASKS).cast();
    let mut of_process = |tasks: *const bindings::list_head| {
        let process = tasks
            .wrapping_byte_sub(TASKS)
            .cast::<bindings::task_struct>();
        // SAFETY: The node is that of a process, which is live while the caller reads.
        unsafe { for_each_thread(process, user) };
    };
    // SAFETY:
    // - `processes` is the head of the list of processes, which is changed as RCU asks.
    // - The caller is a reader, by caller precondition, so all nodes stay.
    unsafe { for_each_in_list(processes, &mut of_process) };
}

/// Calls `user` with every task of the process that `task` is of, as `for_each_thread()` does.
///
/// # Safety
///
/// - The task is live.
/// - The caller is a reader of RCU, and uses tasks only as long as it is.
pub(in crate::rust_ftrace::sys) unsafe fn for_each_thread(
    task: *const bindings::task_struct,
    user: &mut dyn FnMut(*const bindings::task_struct),
) {
    const NODE: usize = offset_of!(bindings::task_struct, thread_node);
    // SAFETY: The task is live, by caller precondition.
    let signal: *const *mut bindings::signal_struct = unsafe { &raw const (*task).signal };
    // SAFETY: A live, aligned pointer, which is not written as long as the task is there.
    let signal = unsafe { signal.read_volatile() };
    // SAFETY: A process's signals are freed after it, and so are live.
    let threads: *const bindings::list_head = unsafe { &raw const (*signal).thread_head };
    let mut of_thread = |node: *const bindings::list_head| {
        user(node.cast::<u8>().wrapping_byte_sub(NODE).cast());
    };
    // SAFETY:
    // - `threads` is the head of the list of the process's threads, which is changed as RCU asks.
    // - The caller is a reader, by caller precondition, so the process stays, and all nodes with
    //   it.
    unsafe { for_each_in_list(threads, &mut of_thread) };
}

/// Calls `user` with every node of a list but its head.
///
/// # Safety
///
/// `head` is that of a list that is changed as RCU asks, and the caller is a reader, to which all
/// nodes stay.
unsafe fn for_each_in_list(
    head: *const bindings::list_head,
    user: &mut dyn FnMut(*const bindings::list_head),
) {
    // SAFETY: `node` is the head or a node that was read of the list, which stay to a reader, by
    // caller precondition.
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
    // SAFETY: `node` is live, by caller precondition.
    let next: *const *mut bindings::list_head = unsafe { &raw const (*node).next };
    // As `rcu_dereference()`: all that the node was filled with before it came into the list is
    // seen by a reader that follows the pointer, as the access depends on it.
    //
    // SAFETY: A live, aligned pointer, which others may write meanwhile: a volatile load does not
    // tear.
    unsafe { next.read_volatile() }
}

/// Calls `user` with the idle task of every CPU that had one; they stay for good. False if only
/// that of CPU 0 can be found, as the kernel does not list symbols of data.
pub(in crate::rust_ftrace::sys) fn for_each_idle(
    user: &mut dyn FnMut(*const bindings::task_struct),
) -> bool {
    let threads = IDLE_THREADS.load(Relaxed) as *mut u8;
    if threads.is_null() || !PrivatePart::IdleTasks.is_as_known() {
        user(&raw const bindings::init_task);
        return false;
    }
    let offsets = &raw const bindings::__per_cpu_offset;
    for cpu in cpu::possible() {
        // SAFETY: The array has an offset for each possible CPU, constant after boot.
        let offset = unsafe { (*offsets).get(cpu.as_u32() as usize).copied() };
        let place = threads.wrapping_byte_add(offset.unwrap_or_default());
        let place = place.cast::<*mut bindings::task_struct>();
        // SAFETY: By the contract of `set_idle_threads`, this CPU's instance of a pointer, which is
        // aligned. It is written when the CPU is made ready for the first time: a volatile load
        // does not tear, and what follows depends on it, as after `rcu_dereference()`.
        let task = unsafe { place.read_volatile() };
        if !task.is_null() {
            user(task);
        }
    }
    true
}
