// SPDX-License-Identifier: GPL-2.0

//! Cgroups of the unified hierarchy, callbacks when tasks come into them and go, and the running
//! task as its container knows it.
//!
//! C headers: [`include/linux/cgroup.h`](srctree/include/linux/cgroup.h),
//! [`include/linux/cgroup-defs.h`](srctree/include/linux/cgroup-defs.h),
//! `include/trace/events/cgroup.h`, `include/trace/events/sched.h`,
//! `include/trace/events/task.h`

#[cfg(CONFIG_CGROUPS)]
mod hierarchy;
#[cfg(not(CONFIG_CGROUPS))]
mod no_hierarchy;

use core::mem::offset_of;

use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::rcu;

#[cfg(CONFIG_CGROUPS)]
pub(crate) use self::hierarchy::{find, Cgroup};
#[cfg(CONFIG_CGROUPS)]
use self::hierarchy::{id_of, is_in};
#[cfg(not(CONFIG_CGROUPS))]
pub(crate) use self::no_hierarchy::{find, Cgroup};
#[cfg(not(CONFIG_CGROUPS))]
use self::no_hierarchy::{id_of, is_in};
use super::context::Current;
use super::private::tasks;
use super::tracepoint::Probes;
use crate::engine::slot::Container;

/// Calls `user` with the ID of every task but idle ones.
pub(crate) fn for_each_task(user: &mut dyn FnMut(u32)) {
    let _reader = rcu::read_lock();
    // SAFETY: Tasks stay to a reader, as this is.
    let mut with_task = |task: *const bindings::task_struct| user(unsafe { pid_of(task) });
    // SAFETY: This is a reader, and uses tasks only during the call.
    unsafe { tasks::for_each(&mut with_task) };
}

/// Returns whether task `pid` is in one of these cgroups, or below one, at this moment; false if
/// there is no such task, or it is idle.
pub(crate) fn has_task(cgroups: &[Cgroup], pid: u32) -> bool {
    let _reader = rcu::read_lock();
    let everywhere = &raw mut bindings::init_pid_ns;
    // CAST: IDs are below 2^31.
    let pid = pid as c_int;
    // SAFETY: The namespace is the kernel's own, and what is found stays to a reader, as this is.
    let found = unsafe { bindings::find_pid_ns(pid, everywhere) };
    // SAFETY: What was found stays to a reader, and null is allowed.
    let task = unsafe { bindings::pid_task(found, bindings::pid_type_PIDTYPE_PID) };
    // SAFETY: A task that has an ID is live to a reader.
    !task.is_null() && unsafe { is_in(task, cgroups) }
}

/// Returns the container of the running task, at this moment. For the hook: it calls nothing.
pub(crate) fn container_of(current: &Current<'_>) -> Container {
    let task = current.as_ptr();
    // SAFETY: The running task is live, and preemption is off as long as `current` is there.
    let cgroup = unsafe { id_of(task) };
    // SAFETY: The running task is live.
    let thread = unsafe { &raw const (*task).thread_pid };
    // SAFETY: The running task is live, and its signals are, which are freed after it.
    let group = unsafe { &raw const (*(*task).signal).pids };
    // CAST: A small number.
    const TGID: usize = bindings::pid_type_PIDTYPE_TGID as usize;
    let group = group.cast::<*mut bindings::pid>().wrapping_add(TGID);
    let number = |number: *const *mut bindings::pid| {
        // SAFETY: Of both, a live, aligned pointer, which is set to null when the task, or its
        // leader, is released: a volatile load does not tear.
        let number = unsafe { number.read_volatile() };
        // SAFETY: It is null, or stays until all CPUs have left the code that they run with
        // preemption off, as this one does as long as `current` is there.
        unsafe { innermost(number) }
    };
    Container::new(cgroup, number(thread), number(group))
}

/// Returns the number that `pid` has in the innermost of its namespaces, as `pid_nr_ns()` of
/// `ns_of_pid()` does; 0 if it is null.
///
/// # Safety
///
/// It is null or live.
unsafe fn innermost(pid: *const bindings::pid) -> u32 {
    if pid.is_null() {
        return 0;
    }
    // SAFETY: It is live, by caller precondition, and this does not change.
    let level = unsafe { (*pid).level };
    let numbers = pid.wrapping_byte_add(offset_of!(bindings::pid, numbers));
    // CAST: The depth of namespaces is 32 at most.
    let number = numbers
        .cast::<bindings::upid>()
        .wrapping_add(level as usize);
    // SAFETY: At its end a `struct pid` has one number for each level from the outermost namespace
    // to its own, which stay.
    let number = unsafe { (*number).nr };
    // CAST: IDs are not negative.
    number as u32
}

/// Called when tasks come into cgroups and go.
pub(crate) trait MemberHandler: Send + Sync + 'static {
    /// The task with ID `pid` is new, is in another cgroup than before, or is another one, or none.
    /// Must not sleep.
    fn changed(&self, pid: u32);
}

/// A handler that is called, or not.
pub(crate) struct Members<T: MemberHandler>(Probes<T, 4>);

impl<T: MemberHandler> Members<T> {
    /// Nothing is called.
    pub(crate) const fn new() -> Self {
        Self(Probes::new())
    }

    /// Has `handler` called from now on.
    ///
    /// # Errors
    ///
    /// Nothing is called then. `ENODEV` if the kernel has no such tracepoints, `ENOMEM` if there is
    /// no memory.
    ///
    /// # Safety
    ///
    /// `handler` stays valid until [`Members::clear`].
    pub(crate) unsafe fn call(&mut self, handler: *const T) -> Result {
        let probes = [
            (c"task_newtask", created::<T> as *mut c_void),
            (c"sched_process_exec", executed::<T> as *mut c_void),
            (c"cgroup_attach_task", attached::<T> as *mut c_void),
            (c"sched_process_free", freed::<T> as *mut c_void),
        ];
        // SAFETY:
        // - Each is declared as its tracepoint calls it.
        // - The handler stays valid until `clear`, by caller precondition.
        unsafe { self.0.call(probes, handler) }
    }

    /// Returns once the handler is not called any more.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// # Safety
///
/// `task` points to a task that is valid during the call.
unsafe fn pid_of(task: *const bindings::task_struct) -> u32 {
    // SAFETY: `task` is valid, by caller precondition. An exec may write its ID, of which handlers
    // are told: a volatile load of an int does not tear.
    let pid = unsafe { (&raw const (*task).pid).read_volatile() };
    // CAST: IDs are not negative.
    pid as u32
}

/// Tells the handler of a task.
///
/// # Safety
///
/// - `handler` points to a `T` that is valid during the call.
/// - `task` points to a task that is valid during the call.
unsafe fn changed<T: MemberHandler>(handler: *mut c_void, task: *const bindings::task_struct) {
    // SAFETY: `handler` points to a `T` that is valid during the call, by caller precondition; it
    // is only shared.
    let handler = unsafe { &*handler.cast_const().cast::<T>() };
    // SAFETY: The task is valid during the call, by caller precondition.
    handler.changed(unsafe { pid_of(task) });
}

/// Passes a new task to the handler, be it a child, or a thread that the kernel makes for a process
/// (of which fork's tracepoint does not tell).
///
/// # Safety
///
/// - `handler` points to a `T` that is valid during the call.
/// - `task` points to a task that is valid during the call.
unsafe extern "C" fn created<T: MemberHandler>(
    handler: *mut c_void,
    task: *mut bindings::task_struct,
    _clone_flags: u64,
) {
    // SAFETY: Both are valid during the call, by caller precondition.
    unsafe { changed::<T>(handler, task) };
}

/// Passes a task that has executed another program to the handler, with its old ID: it may have
/// that of its process now.
///
/// # Safety
///
/// - `handler` points to a `T` that is valid during the call.
/// - `task` points to a task that is valid during the call.
unsafe extern "C" fn executed<T: MemberHandler>(
    handler: *mut c_void,
    task: *mut bindings::task_struct,
    old_pid: bindings::pid_t,
    _program: *mut bindings::linux_binprm,
) {
    // SAFETY: Both are valid during the call, by caller precondition.
    unsafe { changed::<T>(handler, task) };
    // SAFETY: `handler` points to a `T` that is valid during the call, by caller precondition; it
    // is only shared.
    let handler = unsafe { &*handler.cast_const().cast::<T>() };
    // CAST: IDs are not negative.
    handler.changed(old_pid as u32);
}

/// Passes tasks that were moved to the handler: one, or all of a process.
///
/// # Safety
///
/// - `handler` points to a `T` that is valid during the call.
/// - `task` points to a task that is valid during the call.
unsafe extern "C" fn attached<T: MemberHandler>(
    handler: *mut c_void,
    _cgroup: *mut c_void,
    _path: *const c_char,
    task: *mut bindings::task_struct,
    is_process: bool,
) {
    // SAFETY: Both are valid during the call, by caller precondition.
    unsafe { changed::<T>(handler, task) };
    if is_process {
        let _reader = rcu::read_lock();
        // SAFETY: Both are valid during the call: tasks stay to a reader, as this is.
        let mut with_thread = |thread| unsafe { changed::<T>(handler, thread) };
        // SAFETY: The task is valid, by caller precondition, and this is a reader, which uses
        // tasks only during the call.
        unsafe { tasks::for_each_thread(task, &mut with_thread) };
    }
}

/// Passes the end of a task to the handler. Another may have its ID already.
///
/// # Safety
///
/// - `handler` points to a `T` that is valid during the call.
/// - `task` points to a task that is valid during the call.
unsafe extern "C" fn freed<T: MemberHandler>(
    handler: *mut c_void,
    task: *mut bindings::task_struct,
) {
    // SAFETY: Both are valid during the call, by caller precondition.
    unsafe { changed::<T>(handler, task) };
}
