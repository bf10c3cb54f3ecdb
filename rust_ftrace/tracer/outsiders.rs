// SPDX-License-Identifier: GPL-2.0

//! The lists of tasks that are traced and that are not, and what each CPU remembers of them.

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
    /// Tasks that are traced; all if there are none.
    Traced,
    /// Tasks that are not, whatever the other list says.
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
    /// The task that is remembered by a CPU on which the caller is during the call. It need not stay
    /// there.
    #[inline(always)]
    pub(super) fn peek(&self) -> u32 {
        // SAFETY: An `Outsider` is a `Word`, as it is `repr(transparent)`.
        unsafe { self.peek_low() }
    }
}

/// Tells the tasks that are left out from others.
pub(super) struct TaskLists {
    pub(super) traced: PidSet,
    pub(super) not_traced: PidSet,
    /// Of each CPU, the last task that it found to be left out.
    pub(super) outsiders: PerCpu<Outsider>,
    pub(super) forks_missed: AtomicU64,
}

impl TaskLists {
    /// Nothing in either.
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

    /// Has all CPUs forget what the lists said before they were changed.
    pub(super) fn forget(&self) {
        fence_full();
        cpu::possible().for_each(|cpu| self.outsiders.get(cpu).forget());
    }

    /// Has them forget what the lists said of one task.
    pub(super) fn forget_task(&self, pid: u32) {
        fence_full();
        cpu::possible().for_each(|cpu| self.outsiders.get(cpu).forget_task(pid));
    }
}
