// SPDX-License-Identifier: GPL-2.0

//! Task lists of a recorder, the data: the tasks that are traced and not, and what CPUs remember of
//! them.

use kernel::alloc::AllocError;

use crate::engine::outsider::Outsider;
use crate::engine::pids::PidSet;
use crate::platform::{fence_full, AtomicU64};
use crate::sys::cpu;
use crate::sys::percpu::PerCpu;
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
pub(super) struct TaskLists {
    pub(super) traced: PidSet,
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
            not_traced: PidSet::new()?,
            outsiders: PerCpu::new(|_| Outsider::new())?,
            forks_missed: AtomicU64::new(0),
        })
    }

    #[inline(always)]
    pub(super) fn get(&self, list: PidList) -> &PidSet {
        match list {
            PidList::Traced => &self.traced,
            PidList::NotTraced => &self.not_traced,
        }
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
