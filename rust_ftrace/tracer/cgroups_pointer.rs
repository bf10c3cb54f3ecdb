// SPDX-License-Identifier: GPL-2.0

//! The cgroups of a recorder, where handlers of tasks find them.

use kernel::prelude::*;

use crate::platform::{AtomicPtr, Ordering};
use crate::sys::cgroup::Cgroup;
use crate::sys::context::PreemptOff;
use crate::sys::rcu;

/// Cgroups, whose tasks are traced.
pub(crate) type Cgroups = KVec<Cgroup>;

/// The pointer by which handlers find the cgroups.
///
/// # Invariants
///
/// Null, or from a box, which lives until another was stored here and every CPU has left the code
/// that it ran with preemption off.
pub(super) struct CgroupsPointer(AtomicPtr<Cgroups>);

impl CgroupsPointer {
    /// Creates a pointer to no cgroups.
    pub(super) const fn none() -> Self {
        // INVARIANT: Null.
        Self(AtomicPtr::new(core::ptr::null_mut()))
    }

    /// Returns whether there are any.
    pub(super) fn are_any(&self) -> bool {
        !self.0.load(Ordering::Relaxed).is_null()
    }

    /// Returns the cgroups.
    pub(super) fn get<'a>(&'a self, _token: PreemptOff<'a>) -> &'a [Cgroup] {
        // SAFETY: By the type's invariants the pointer is null, or from a box that lives until
        // every CPU has left the code that it runs with preemption off, as this one does while the
        // token lives.
        let cgroups = unsafe { self.0.load(Ordering::Acquire).as_ref() };
        cgroups.map_or(&[], |cgroups| cgroups.as_slice())
    }

    /// Makes `cgroups` the ones in force from now on. Callers exclude each other.
    pub(super) fn replace(&self, cgroups: Option<KBox<Cgroups>>) {
        let new = cgroups.map_or(core::ptr::null_mut(), KBox::into_raw);
        // INVARIANT: From a box; what was there is freed below, when every CPU has left it.
        let old = self.0.swap(new, Ordering::AcqRel);
        rcu::synchronize_preempt_off();
        if !old.is_null() {
            // SAFETY: By the type's invariants the pointer is from a box, as it is not null. It was
            // taken out by the swap alone, and every CPU has left the code that may have found it
            // before.
            drop(unsafe { KBox::from_raw(old) });
        }
    }
}

impl Drop for CgroupsPointer {
    fn drop(&mut self) {
        let cgroups = *self.0.get_mut();
        if !cgroups.is_null() {
            // SAFETY: By the type's invariants the pointer is from a box, as it is not null.
            // References to it do not outlive `self`.
            drop(unsafe { KBox::from_raw(cgroups) });
        }
    }
}
