// SPDX-License-Identifier: GPL-2.0

//! The names of tasks whose events were given out as pages of the kernel's format, which have their pids only:
//! `saved_cmdlines` and `saved_tgids`.

use kernel::prelude::*;
use kernel::rbtree::RBTree;

use crate::engine::slot::Task;

/// So many are kept at least: those that were noted last.
const KEPT: usize = 1 << 15;

/// A task as it was when an event of it was recorded, in ticks of the recording clock.
#[derive(Clone, Copy)]
pub(crate) struct SeenTask {
    pub(crate) time: u64,
    pub(crate) task: Task,
}

/// Tasks by pid, the last name of each.
pub(super) struct Comms {
    pub(super) recent: RBTree<i32, SeenTask>,
    /// The number of those in `recent`.
    count: usize,
    /// Those that were there before `recent` was begun.
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

    /// Makes all that was seen, before another clock ran, older than all that will be.
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

/// Returns whether the task is among these, which then have its last name: CPUs are read one after the other.
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
