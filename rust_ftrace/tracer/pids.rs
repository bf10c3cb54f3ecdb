// SPDX-License-Identifier: GPL-2.0

//! Task lists of a recorder, hook side: leaves tasks out, and follows forks.

use kernel::alloc::AllocError;

use crate::engine::pids::{PidSet, PID_LIMIT};
use crate::platform::Ordering;
use crate::sys::context::{running_pid, PreemptOff};
use crate::sys::forks::ForkHandler;
use crate::tracer::hook_flags::HookFlag;
use crate::tracer::outsiders::PidList;
use crate::tracer::recorder::Recorder;

impl Recorder {
    /// Returns one of the lists of tasks.
    pub(crate) fn pids(&self, list: PidList) -> &PidSet {
        self.lists.named(list)
    }

    /// Makes a list the same as `new`; if it was `base` when that was made, what forks have added
    /// and removed since stays so. Callers exclude each other.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory; nothing is changed then.
    pub(crate) fn set_pids(
        &self,
        list: PidList,
        base: Option<&PidSet>,
        new: &PidSet,
    ) -> Result<(), AllocError> {
        let change = || match base {
            Some(base) => self.pids(list).change(base, new),
            None => self.pids(list).assign(new),
        };
        if list == PidList::Traced {
            self.lists.traced.make_room_for(new)?;
            change()?;
            let is_any = !new.is_empty();
            self.lists.has_chosen.store(is_any, Ordering::Relaxed);
            self.settle_traced();
            return Ok(());
        }
        // The flag is clear while the list is empty.
        if new.is_empty() {
            self.set_flag(list.flag(), false);
        }
        change()?;
        if !new.is_empty() {
            self.set_flag(list.flag(), true);
        }
        self.lists.forget();
        Ok(())
    }

    /// Has the hook let those tasks through that the lists say. Tasks that are to be let through
    /// are so before others are not, so that at no moment all are left out.
    pub(super) fn settle_traced(&self) {
        let lists = &self.lists;
        if !lists.is_in_force() {
            self.set_flag(HookFlag::Pids, false);
        }
        for list in [&lists.chosen, &lists.members] {
            list.for_each(|pid| {
                if lists.lets_through(pid) {
                    self.settle_task(pid);
                }
            });
        }
        lists.traced.for_each(|pid| self.settle_task(pid));
        if lists.is_in_force() {
            self.set_flag(HookFlag::Pids, true);
        }
        lists.forget();
    }

    /// Returns whether a list is in force.
    pub(crate) fn has_pids(&self, list: PidList) -> bool {
        match list {
            PidList::Traced => self.lists.has_chosen.load(Ordering::Relaxed),
            PidList::NotTraced => self.has_flag(list.flag()),
        }
    }

    /// Counts a task that is missing in a list for want of memory.
    pub(super) fn count_missed_fork(&self) {
        self.lists.forks_missed.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of tasks that a list lacks for want of memory, though their parents are
    /// in it.
    pub(crate) fn forks_missed(&self) -> u64 {
        self.lists.forks_missed.load(Ordering::Relaxed)
    }

    /// Returns whether the running task is in a list.
    #[inline(always)]
    pub(super) fn is_in(&self, list: PidList, token: PreemptOff<'_>) -> bool {
        self.lists.get(list).contains(token.current().pid())
    }

    /// Returns whether this CPU remembers that the running task is left out. If the task moves to
    /// another CPU meanwhile, what that one remembers is as good: it is asked for the task's ID.
    #[inline(always)]
    pub(super) fn knows_outsider(&self) -> bool {
        self.lists.outsiders.peek() == running_pid()
    }

    /// Has this CPU remember the running task, which a list has just said is left out.
    #[cold]
    #[inline(never)]
    pub(super) fn remember_outsider(&self, token: PreemptOff<'_>) {
        let pid = token.current().pid();
        (self.lists.outsiders.this(token)).remember(pid, || self.leaves_out(pid));
    }

    /// Returns whether the lists leave task `pid` out.
    fn leaves_out(&self, pid: u32) -> bool {
        (self.has_flag(HookFlag::Pids) && !self.lists.traced.contains(pid))
            || (self.has_flag(HookFlag::NotPids) && self.lists.not_traced.contains(pid))
    }
}

impl ForkHandler for Recorder {
    fn forked(&self, parent: u32, child: u32) {
        if parent >= PID_LIMIT || child >= PID_LIMIT {
            return;
        }
        for list in [PidList::Traced, PidList::NotTraced] {
            if self.pids(list).forked(parent, child).is_err() {
                self.count_missed_fork();
            }
        }
        if self.lists.chosen.contains(child) {
            // Without room it is counted below.
            let _ = self.lists.traced.make_room_now(child);
        }
        self.settle_task(child);
    }

    fn freed(&self, pid: u32) {
        if pid >= PID_LIMIT {
            return;
        }
        self.lists.chosen.freed(pid);
        self.settle_task(pid);
        if self.lists.not_traced.contains(pid) {
            self.lists.not_traced.freed(pid);
            self.lists.forget_task(pid);
        }
    }
}
