// SPDX-License-Identifier: GPL-2.0

//! The names of tasks whose events were read as pages of the kernel's format, which have only pids:
//! `saved_cmdlines` and `saved_tgids`.

use kernel::prelude::*;
use kernel::rbtree::RBTree;

use crate::engine::slot::Task;

/// The number of tasks that are kept at least, those noted last.
const KEPT: usize = 1 << 15;

/// A task as it was when an event of it was recorded, in ticks of the recording clock.
#[derive(Clone, Copy)]
pub(crate) struct SeenTask {
    pub(crate) time: u64,
    pub(crate) task: Task,
}

/// Tasks by pid, each with its last name.
pub(super) struct Comms {
    pub(super) recent: RBTree<i32, SeenTask>,
    /// The number of tasks in `recent`.
    count: usize,
    /// The tasks from before `recent` was begun.
    pub(super) older: RBTree<i32, SeenTask>,
}

impl Comms {
    pub(super) fn new() -> Self {
        Self {
            recent: RBTree::new(),
            count: 0,
            older: RBTree::new(),
        }
    }

    /// Makes all tasks seen so far, by another clock, older than all that will be seen.
    pub(super) fn forget_time(&mut self) {
        for seen in self.recent.values_mut() {
            seen.time = 0;
        }
    }

    pub(super) fn note(&mut self, seen: SeenTask) -> Result {
        if is_known(&mut self.recent, seen) {
            return Ok(());
        }
        if self.count >= KEPT {
            self.older = core::mem::replace(&mut self.recent, RBTree::new());
            self.count = 0;
        }
        self.recent
            .try_create_and_insert(seen.task.pid(), seen, GFP_KERNEL)?;
        self.count = self.count.saturating_add(1);
        Ok(())
    }
}

/// Returns whether the task is among `tasks`; if so, gives it its last name, as CPUs are read one
/// after the other.
pub(super) fn is_known(tasks: &mut RBTree<i32, SeenTask>, seen: SeenTask) -> bool {
    match tasks.get_mut(&seen.task.pid()) {
        Some(known) => {
            if known.time <= seen.time {
                *known = seen;
            }
            true
        }
        None => false,
    }
}
