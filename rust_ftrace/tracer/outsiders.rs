// SPDX-License-Identifier: GPL-2.0

//! Task lists of a recorder, the data: the tasks that are traced and not, and what CPUs remember of
//! them.

use kernel::alloc::AllocError;

use crate::engine::outsider::Outsider;
use crate::engine::pids::PidSet;
use crate::platform::{fence_full, AtomicBool, AtomicU64, Ordering};
use crate::sys::cpu;
use crate::sys::percpu::PerCpu;
use crate::tracer::cgroups_pointer::CgroupsPointer;
use crate::tracer::hook_flags::HookFlag;

/// The lists of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PidList {
    /// Tasks that are traced; all tasks if it is empty.
    Traced,
    /// Tasks that are not traced, whatever the other list says.
    NotTraced,
}

impl PidList {
    pub(super) const fn flag(self) -> HookFlag {
        match self {
            Self::Traced => HookFlag::Pids,
            Self::NotTraced => HookFlag::NotPids,
        }
    }
}

impl PerCpu<Outsider> {
    /// Returns the task that is remembered by a CPU on which the caller is during the call. It need
    /// not stay there.
    #[inline(always)]
    pub(super) fn peek(&self) -> u32 {
        // SAFETY: An `Outsider` is a `Word`, as it is `repr(transparent)`.
        unsafe { self.peek_low() }
    }
}

/// The lists of tasks, and what each CPU remembers of them.
///
/// A task is let through if `pid` names it, or names none, and if it is in one of the cgroups, or
/// these are none. The hook looks at the outcome only, which is kept for each task: so a cgroup
/// costs what a list of tasks does.
pub(super) struct TaskLists {
    /// The tasks that are let through, while one of the two is in force.
    pub(super) traced: PidSet,
    /// The tasks that `pid` names.
    pub(super) chosen: PidSet,
    /// `pid` names some, though these may have ended.
    pub(super) has_chosen: AtomicBool,
    /// The tasks in the cgroups, while there are any.
    pub(super) members: PidSet,
    /// There are cgroups, and `members` is complete.
    pub(super) has_members: AtomicBool,
    /// The cgroups.
    pub(super) cgroups: CgroupsPointer,
    pub(super) not_traced: PidSet,
    /// The last task that each CPU found to be left out.
    pub(super) outsiders: PerCpu<Outsider>,
    pub(super) forks_missed: AtomicU64,
}

impl TaskLists {
    /// Creates empty lists.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub(super) fn new() -> Result<Self, AllocError> {
        Ok(Self {
            traced: PidSet::new()?,
            chosen: PidSet::new()?,
            has_chosen: AtomicBool::new(false),
            members: PidSet::new()?,
            has_members: AtomicBool::new(false),
            cgroups: CgroupsPointer::none(),
            not_traced: PidSet::new()?,
            outsiders: PerCpu::new(|_| Outsider::new())?,
            forks_missed: AtomicU64::new(0),
        })
    }

    /// Returns the tasks that the hook looks for.
    #[inline(always)]
    pub(super) fn get(&self, list: PidList) -> &PidSet {
        match list {
            PidList::Traced => &self.traced,
            PidList::NotTraced => &self.not_traced,
        }
    }

    /// Returns the tasks that users have named.
    pub(super) fn named(&self, list: PidList) -> &PidSet {
        match list {
            PidList::Traced => &self.chosen,
            PidList::NotTraced => &self.not_traced,
        }
    }

    /// Returns whether not all tasks are let through.
    pub(super) fn is_in_force(&self) -> bool {
        self.has_chosen.load(Ordering::Relaxed) || self.has_members.load(Ordering::Relaxed)
    }

    /// Returns whether task `pid` is to be in `traced`.
    pub(super) fn lets_through(&self, pid: u32) -> bool {
        let is_free = |limits: &AtomicBool| !limits.load(Ordering::Relaxed);
        self.is_in_force()
            && (is_free(&self.has_chosen) || self.chosen.contains(pid))
            && (is_free(&self.has_members) || self.members.contains(pid))
    }

    /// Has all CPUs forget what they remember of the lists before a change.
    pub(super) fn forget(&self) {
        fence_full();
        cpu::possible().for_each(|cpu| self.outsiders.get(cpu).forget());
    }

    /// Has all CPUs forget what they remember of one task.
    pub(super) fn forget_task(&self, pid: u32) {
        fence_full();
        cpu::possible().for_each(|cpu| self.outsiders.get(cpu).forget_task(pid));
    }
}
