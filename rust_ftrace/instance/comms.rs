// SPDX-License-Identifier: GPL-2.0

//! The names of tasks whose events were given out as pages of the kernel's format, which have their pids only:
//! `saved_cmdlines` and `saved_tgids`.

use kernel::prelude::*;
use kernel::rbtree::RBTree;

use super::buffer::SubbufCopy;
use super::buffers::Which;
use super::Instance;
use crate::engine::reader::Cursor;
use crate::engine::slot::Task;

/// So many are kept at least: those that were noted last.
const KEPT: usize = 1 << 15;

/// Tasks by pid, the last name of each.
pub(super) struct Comms {
    recent: RBTree<i32, Task>,
    /// How many there are in `recent`.
    count: usize,
    /// Those that were there before `recent` was begun.
    older: RBTree<i32, Task>,
}

impl Comms {
    pub(super) fn new() -> Self {
        Self {
            recent: RBTree::new(),
            count: 0,
            older: RBTree::new(),
        }
    }

    fn note(&mut self, task: Task) -> Result {
        if renamed(&mut self.recent, task) {
            return Ok(());
        }
        if self.count >= KEPT {
            self.older = core::mem::replace(&mut self.recent, RBTree::new());
            self.count = 0;
        }
        self.recent
            .try_create_and_insert(task.pid(), task, GFP_KERNEL)?;
        self.count = self.count.saturating_add(1);
        Ok(())
    }
}

/// Gives the task its last name, if it is among these.
fn renamed(tasks: &mut RBTree<i32, Task>, task: Task) -> bool {
    match tasks.get_mut(&task.pid()) {
        Some(known) => {
            *known = task;
            true
        }
        None => false,
    }
}

impl Instance {
    /// Keeps the names of tasks. Without memory they are not kept.
    pub(crate) fn note_tasks(&self, tasks: &[Task]) {
        let mut comms = self.comms.lock();
        for task in tasks {
            if comms.note(*task).is_err() {
                return;
            }
        }
    }

    /// Calls `user` with each task whose name is kept, or that has events in the buffers.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; those of `user`.
    pub(crate) fn for_each_task(&self, mut user: impl FnMut(&Task) -> Result) -> Result {
        // (not `comms`, which would be locked while all buffers are read)
        let mut there = RBTree::new();
        for source in self.sources(None, Which::Live)? {
            let ring = source.buffer.ring();
            let mut cursor = Cursor::new(ring, SubbufCopy::new(ring)?, source.buffer.position());
            let mut last = None;
            while let Some(event) = cursor.next(ring) {
                let task = event.task;
                if last.replace(task) != Some(task) && !renamed(&mut there, task) {
                    there.try_create_and_insert(task.pid(), task, GFP_KERNEL)?;
                }
            }
        }
        let mut comms = self.comms.lock();
        for task in there.values() {
            comms.note(*task)?;
        }
        let Comms { recent, older, .. } = &*comms;
        for task in recent.values() {
            user(task)?;
        }
        for task in older.values() {
            if recent.get(&task.pid()).is_none() {
                user(task)?;
            }
        }
        Ok(())
    }
}
