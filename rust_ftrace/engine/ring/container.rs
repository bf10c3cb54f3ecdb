// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Containers: they are announced beside their tasks, if that is wanted.
//!
//! A task that the ring knows already may be moved to another container meanwhile, by whatever CPU,
//! and is to be announced again then. So `containers` counts such changes:
//!
//! | a writer that announces the task          | the one that has changed its container       |
//! |-------------------------------------------|----------------------------------------------|
//! | loads `containers`                        | changes the container                        |
//! | looks at the container                    | counts in `containers`                       |
//! | stores that the ring knows the task       | full fence                                   |
//! | full fence                                | if the ring knows the task, makes it forget  |
//! | forgets it if `containers` has changed    |                                              |
//!
//! Either the writer sees the count, or the other sees that the ring knows the task.
//! tests/litmus/container.litmus has this.

use super::group::FoundTask;
use super::{EventContext, Ring, Storage};
use crate::platform::fence_full;

/// The bit of `containers` that says that they are announced. Those above count changes.
const WANTED: u64 = 1;
/// One change.
const CHANGE: u64 = 2;

/// IDs that no task has.
const NOBODY: u64 = u64::MAX;

impl<S: Storage> Ring<S> {
    /// Sets whether tasks are announced with their containers, from the next announcement on. One
    /// that is under way may still be as before.
    pub fn set_containers(&self, wanted: bool) {
        loop {
            let before = self.readers.containers.load_relaxed();
            let after = before & !WANTED | u64::from(wanted);
            if self.readers.containers.exchange(before, after) {
                return;
            }
        }
    }

    /// Has the next event announce its task.
    pub fn forget_task(&self) {
        self.task[0].store_relaxed(NOBODY);
    }

    /// Has the next event of task `pid`, whose container has changed or which is another task now,
    /// announce it. To be called after the change, on any CPU.
    pub fn forget_container(&self, pid: u32) {
        loop {
            let before = self.readers.containers.load_relaxed();
            if before & WANTED == 0 {
                return;
            }
            if (self.readers.containers).exchange(before, before.wrapping_add(CHANGE)) {
                break;
            }
        }
        fence_full();
        if self.task_word(0) as u32 == pid {
            self.forget_task();
        }
    }

    /// Returns the task that runs, and its container if that is wanted.
    pub(super) fn find_task(&self, ctx: &impl EventContext) -> FoundTask {
        let containers = self.readers.containers.load_acquire();
        FoundTask {
            task: ctx.task(),
            containers,
            container: (containers & WANTED != 0).then(|| ctx.container()),
        }
    }

    /// Notes that the task was announced.
    pub(super) fn remember_task(&self, found: &FoundTask) {
        self.task[0].store_relaxed(found.task.ids);
        self.task[1].store_relaxed(found.task.comm[0]);
        self.task[2].store_relaxed(found.task.comm[1]);
        if found.container.is_some() {
            fence_full();
            if self.readers.containers.load_relaxed() != found.containers {
                self.forget_task();
            }
        }
    }
}
