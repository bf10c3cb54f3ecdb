// SPDX-License-Identifier: GPL-2.0

//! Cgroups of a recorder: follows the tasks that are in them, and has rings forget the containers
//! of tasks that are moved.
//!
//! A task is looked at when it is made, moved, executes a program, and ends; never at a call, nor
//! when CPUs go from one task to another.

use kernel::prelude::*;

use crate::engine::pids::PID_LIMIT;
use crate::platform::Ordering;
use crate::sys::cgroup::{self, Cgroup, MemberHandler};
use crate::sys::context::PreemptGuard;
use crate::sys::cpu;
use crate::tracer::cgroups_pointer::Cgroups;
use crate::tracer::recorder::Recorder;

/// Most tasks that are without room in the lists before some is made.
const WITHOUT_ROOM: usize = 64;

impl Recorder {
    /// Traces the tasks in `cgroups` only, and of these those that `pid` names, if it names any.
    /// The handler must be told of tasks already. Callers exclude each other.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; nothing is changed then.
    pub(crate) fn set_cgroups(&self, cgroups: Cgroups) -> Result {
        let cgroups = KBox::new(cgroups, GFP_KERNEL)?;
        self.make_room_for_tasks()?;
        let has_root = cgroups.iter().any(Cgroup::is_root);
        self.lists.cgroups.replace(Some(cgroups));
        // Of those that were in others, some may be in no list of tasks any more.
        self.lists.members.for_each(|pid| self.follow_task(pid));
        cgroup::for_each_task(&mut |pid| self.follow_task(pid));
        // Idle tasks are in no list of tasks, and in no other cgroup.
        let _ = self.lists.members.follow(0, || has_root);
        self.lists.has_members.store(true, Ordering::Relaxed);
        self.settle_traced();
        Ok(())
    }

    /// Traces tasks wherever they are. Callers exclude each other.
    pub(crate) fn forget_cgroups(&self) {
        self.lists.has_members.store(false, Ordering::Relaxed);
        self.lists.cgroups.replace(None);
        self.settle_traced();
        self.lists.members.clear();
    }

    /// Returns the number of tasks in the cgroups.
    pub(crate) fn count_members(&self) -> usize {
        self.lists.members.len()
    }

    /// Returns the bytes of memory of what follows from cgroups.
    pub(crate) fn member_bytes(&self) -> usize {
        self.lists.members.bytes() + self.lists.traced.bytes()
    }

    /// Makes room in the lists for all tasks that there are.
    fn make_room_for_tasks(&self) -> Result {
        let lists = [&self.lists.members, &self.lists.traced];
        loop {
            let mut without = [0; WITHOUT_ROOM];
            let mut count = 0;
            let mut look = |pid| {
                let has_room = pid >= PID_LIMIT || lists.iter().all(|list| list.has_room(pid));
                if let (false, Some(place)) = (has_room, without.get_mut(count)) {
                    *place = pid;
                    count += 1;
                }
            };
            look(0);
            cgroup::for_each_task(&mut look);
            if count == 0 {
                return Ok(());
            }
            for &pid in without.iter().take(count) {
                for list in lists {
                    list.make_room(pid)?;
                }
            }
        }
    }

    /// Notes whether task `pid` is in the cgroups now.
    fn follow_task(&self, pid: u32) {
        if pid == 0 || pid >= PID_LIMIT {
            return;
        }
        let lists = &self.lists;
        if lists.cgroups.are_any() {
            // This needs locks, which a kernel with PREEMPT_RT does not take with preemption off.
            // Without room, and if that is needed, it is counted below.
            for list in [&lists.members, &lists.traced] {
                let _ = list.make_room_now(pid);
            }
        }
        let guard = PreemptGuard::new();
        let cgroups = lists.cgroups.get(guard.token());
        let followed = (lists.members).follow(pid, || cgroup::has_task(cgroups, pid));
        if followed.is_err() {
            self.count_missed_fork();
        }
        self.settle_task(pid);
    }

    /// Notes that a task is traced or not by what the lists say of it now.
    pub(super) fn settle_task(&self, pid: u32) {
        let result = self
            .lists
            .traced
            .follow(pid, || self.lists.lets_through(pid));
        match result {
            // A CPU may remember that it is left out, or another task that had the same ID.
            Ok(true) => self.lists.forget_task(pid),
            Ok(false) => {}
            Err(_) => self.count_missed_fork(),
        }
    }
}

impl MemberHandler for Recorder {
    fn changed(&self, pid: u32) {
        self.follow_task(pid);
        let guard = PreemptGuard::new();
        for cpu in cpu::possible() {
            if let Some(ring) = self.ring_of(guard.token(), cpu) {
                ring.forget_container(pid);
            }
        }
    }
}
