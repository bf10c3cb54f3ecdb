// SPDX-License-Identifier: GPL-2.0

//! Cgroups as users have named them.

use kernel::prelude::*;

use crate::engine::cgroups::{CgroupName, CgroupWord};
use crate::sys::cgroup::{self, Cgroup};

/// A cgroup that was named.
pub(crate) struct NamedCgroup {
    cgroup: Cgroup,
    /// Its path at that time.
    path: KVec<u8>,
}

impl NamedCgroup {
    /// Returns a copy.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn duplicate(&self) -> Result<Self> {
        let mut path = KVec::new();
        path.extend_from_slice(&self.path, GFP_KERNEL)?;
        Ok(Self { path, ..*self })
    }

    /// Returns the cgroup.
    pub(super) fn cgroup(&self) -> Cgroup {
        self.cgroup
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// Returns whether the cgroup was removed.
    pub(crate) fn is_removed(&self) -> bool {
        !self.cgroup.is_there()
    }

    fn is_named(&self, name: CgroupName<'_>) -> bool {
        match name {
            CgroupName::Path(path) => *self.path == *path,
            CgroupName::Id(id) => self.cgroup.id() == id,
        }
    }
}

/// The cgroups that were named.
pub(crate) type NamedCgroups = KVec<NamedCgroup>;

/// Carries a word out; false if there is no such cgroup.
///
/// # Errors
///
/// - `EOPNOTSUPP` if the kernel has no cgroups.
/// - `ENOMEM` if there is no memory.
pub(super) fn edit(list: &mut NamedCgroups, word: CgroupWord<'_>) -> Result<bool> {
    let found = cgroup::find(word.name)?;
    if !word.remove {
        let Some((cgroup, path)) = found else {
            return Ok(false);
        };
        if !list.iter().any(|named| named.cgroup == cgroup) {
            list.push(NamedCgroup { cgroup, path }, GFP_KERNEL)?;
        }
        return Ok(true);
    }
    // One that was removed may have had the path that another has now.
    let is_meant = |named: &NamedCgroup| {
        let is_found = found
            .as_ref()
            .is_some_and(|(cgroup, _)| named.cgroup == *cgroup);
        is_found || named.is_named(word.name)
    };
    let before = list.len();
    list.retain(|named| !is_meant(named));
    Ok(found.is_some() || list.len() != before)
}
