// SPDX-License-Identifier: GPL-2.0

//! The unified hierarchy of cgroups.
//!
//! No reference to a cgroup is held: it is known by its ID, which no other gets as long as the
//! machine runs, and its depth. So it can be removed at any time.
//!
//! C headers: [`include/linux/cgroup.h`](srctree/include/linux/cgroup.h),
//! [`include/linux/cgroup-defs.h`](srctree/include/linux/cgroup-defs.h)

use core::mem::offset_of;

use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::rcu;

use crate::engine::cgroups::CgroupName;

/// Longest path, with the zero behind it.
const PATH_ROOM: usize = bindings::PATH_MAX as usize;

/// A cgroup of the unified hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cgroup {
    id: u64,
    /// Its depth, 0 for the root.
    level: c_int,
}

impl Cgroup {
    /// Returns the cgroup at `cgroup`.
    ///
    /// # Safety
    ///
    /// It is live.
    unsafe fn of(cgroup: *const bindings::cgroup) -> Self {
        // SAFETY: It is live, by caller precondition, and this does not change.
        let level = unsafe { (*cgroup).level };
        // SAFETY: As above.
        let node: *const bindings::kernfs_node = unsafe { (*cgroup).kn };
        Self {
            // SAFETY: A cgroup's node is live as long as it is, and its ID does not change.
            id: unsafe { (*node).id },
            level,
        }
    }

    /// Returns its ID.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns whether it is the root.
    pub(crate) fn is_root(&self) -> bool {
        self.level == 0
    }

    /// Returns whether it is still there.
    pub(crate) fn is_there(&self) -> bool {
        let mut found = false;
        for_each(&mut |cgroup| {
            // SAFETY: It is live during the call.
            found |= unsafe { Self::of(cgroup) } == *self;
            !found
        });
        found
    }

    /// Returns whether the cgroup at `cgroup` is this one, or lies below it.
    ///
    /// # Safety
    ///
    /// `cgroup` is live, and the caller a reader of RCU.
    unsafe fn holds(&self, cgroup: *const bindings::cgroup) -> bool {
        // SAFETY: It is live, by caller precondition, and this does not change.
        let level = unsafe { (*cgroup).level };
        let Ok(own) = usize::try_from(self.level) else {
            return false;
        };
        if level < self.level {
            return false;
        }
        let ancestors = cgroup.wrapping_byte_add(offset_of!(bindings::cgroup, __bindgen_anon_1));
        let ancestor = ancestors
            .cast::<*const bindings::cgroup>()
            .wrapping_add(own);
        // SAFETY: At its end a cgroup has one pointer for each level from the root to its own,
        // which stay.
        let ancestor = unsafe { ancestor.read() };
        // SAFETY: A cgroup's ancestors are live as long as it is.
        unsafe { Self::of(ancestor) }.id == self.id
    }
}

/// Calls `user` with each cgroup, from the root on, as long as it returns true; they are live
/// during the call.
fn for_each(user: &mut dyn FnMut(*const bindings::cgroup) -> bool) {
    const ROOT: usize =
        offset_of!(bindings::cgroup_root, cgrp) + offset_of!(bindings::cgroup, self_);
    let _reader = rcu::read_lock();
    let root = (&raw mut bindings::cgrp_dfl_root)
        .wrapping_byte_add(ROOT)
        .cast();
    let mut state = core::ptr::null_mut();
    loop {
        // SAFETY: `root` is the state of the root of the unified hierarchy, and `state` null or one
        // below that, which stays to a reader as this is.
        state = unsafe { bindings::css_next_descendant_pre(state, root) };
        if state.is_null() {
            return;
        }
        // SAFETY: It is live to a reader.
        let flags = unsafe { (&raw const (*state).flags).read_volatile() };
        // SAFETY: It is live to a reader, and this does not change.
        let cgroup = unsafe { (*state).cgroup };
        let is_online = flags & bindings::CSS_ONLINE as c_uint != 0;
        if is_online && !user(cgroup) {
            return;
        }
    }
}

/// Writes the path of a cgroup into `room`, and returns its length; `None` if there is no room.
///
/// # Safety
///
/// `cgroup` is live.
unsafe fn path_of(cgroup: *const bindings::cgroup, room: &mut [u8]) -> Option<usize> {
    // SAFETY: It is live, by caller precondition, and this does not change.
    let node = unsafe { (*cgroup).kn };
    let (start, length) = (room.as_mut_ptr().cast(), room.len());
    // SAFETY: The node is live as its cgroup is; `room` is as long.
    let written =
        unsafe { bindings::kernfs_path_from_node(node, core::ptr::null_mut(), start, length) };
    usize::try_from(written)
        .ok()
        .filter(|written| *written < length)
}

/// Finds a cgroup, and its path; `None` if there is none of that name.
///
/// # Errors
///
/// `ENOMEM` if there is no memory.
pub(crate) fn find(name: CgroupName<'_>) -> Result<Option<(Cgroup, KVec<u8>)>> {
    let mut room = KVec::from_elem(0, PATH_ROOM, GFP_KERNEL)?;
    let mut found = None;
    for_each(&mut |at| {
        // SAFETY: It is live during the call.
        let cgroup = unsafe { Cgroup::of(at) };
        if matches!(name, CgroupName::Id(id) if id != cgroup.id) {
            return true;
        }
        // SAFETY: It is live during the call.
        let Some(length) = (unsafe { path_of(at, &mut room) }) else {
            return true;
        };
        if matches!(name, CgroupName::Path(path) if room.get(..length) != Some(path)) {
            return true;
        }
        found = Some((cgroup, length));
        false
    });
    Ok(found.map(|(cgroup, length)| {
        room.truncate(length);
        (cgroup, room)
    }))
}

/// Returns the cgroup that a task is in at this moment.
///
/// # Safety
///
/// The task is live, and the caller is a reader of RCU, or has preemption off, as long as it uses
/// the cgroup.
unsafe fn cgroup_of(task: *const bindings::task_struct) -> *const bindings::cgroup {
    // SAFETY: It is live, by caller precondition. Others may write the pointer: a volatile load
    // does not tear, and what follows depends on it, as after `rcu_dereference()`.
    let set = unsafe { (&raw const (*task).cgroups).read_volatile() };
    // SAFETY: A task always has a set, which stays to a reader as the caller is; this does not
    // change.
    unsafe { (*set).dfl_cgrp }
}

/// Returns whether a task is in one of these cgroups, or below one, at this moment.
///
/// # Safety
///
/// The task is live.
pub(super) unsafe fn is_in(task: *const bindings::task_struct, cgroups: &[Cgroup]) -> bool {
    let _reader = rcu::read_lock();
    // SAFETY: The task is live, by caller precondition, and this is a reader.
    let cgroup = unsafe { cgroup_of(task) };
    // SAFETY: The cgroup is live to a reader.
    cgroups.iter().any(|own| unsafe { own.holds(cgroup) })
}

/// Returns the ID of the cgroup that a task is in at this moment.
///
/// # Safety
///
/// The task is live, and the caller is a reader of RCU, or has preemption off.
pub(super) unsafe fn id_of(task: *const bindings::task_struct) -> u64 {
    // SAFETY: As this function's.
    let cgroup = unsafe { cgroup_of(task) };
    // SAFETY: The cgroup is live to a reader.
    unsafe { Cgroup::of(cgroup) }.id
}
