// SPDX-License-Identifier: GPL-2.0

//! Stands for the hierarchy of cgroups in a kernel that has none.

use kernel::bindings;
use kernel::prelude::*;

use crate::engine::cgroups::CgroupName;

/// A cgroup, of which there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cgroup {}

impl Cgroup {
    /// Returns its ID.
    pub(crate) fn id(&self) -> u64 {
        match *self {}
    }

    /// Returns whether it is the root.
    pub(crate) fn is_root(&self) -> bool {
        match *self {}
    }

    /// Returns whether it is still there.
    pub(crate) fn is_there(&self) -> bool {
        match *self {}
    }
}

/// Finds no cgroup.
///
/// # Errors
///
/// `EOPNOTSUPP`, always.
pub(crate) fn find(_name: CgroupName<'_>) -> Result<Option<(Cgroup, KVec<u8>)>> {
    Err(EOPNOTSUPP)
}

/// Returns that a task is in no cgroup.
///
/// # Safety
///
/// None is needed; where there are cgroups, the task is to be live.
pub(super) unsafe fn is_in(_task: *const bindings::task_struct, _cgroups: &[Cgroup]) -> bool {
    false
}

/// Returns that a task is in no cgroup.
///
/// # Safety
///
/// None is needed; where there are cgroups, the task is to be live.
pub(super) unsafe fn id_of(_task: *const bindings::task_struct) -> u64 {
    0
}
