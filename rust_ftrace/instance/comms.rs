// SPDX-License-Identifier: GPL-2.0

//! The names of tasks whose events were given out as pages of the kernel's format, which have their pids only:
//! `saved_cmdlines` and `saved_tgids`.

use kernel::prelude::*;
use kernel::rbtree::RBTree;

use super::buffer::SubbufCopy;
use super::buffers::Which;
use super::recording::Recording;
use crate::engine::reader::Cursor;
use crate::engine::slot::Task;

/// So many are kept at least: those that were noted last.
const KEPT: usize = 1 << 15;

/// A task as it was when an event of it was recorded, in ticks of the recording clock.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) time: u64,
    pub(crate) task: Task,
}

/// Tasks by pid, the last name of each.
pub(super) struct Comms {
    recent: RBTree<i32, Seen>,
    /// The number of those in `recent`.
    count: usize,
    /// Those that were there before `recent` was begun.
    older: RBTree<i32, Seen>,
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

    fn note(&mut self, seen: Seen) -> Result {
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
fn is_known(tasks: &mut RBTree<i32, Seen>, seen: Seen) -> bool {
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

impl Recording {
    /// Keeps the names of tasks. Without memory they are not kept.
    pub(crate) fn note_tasks(&self, tasks: &[Seen]) {
        let mut comms = self.comms.lock();
        for seen in tasks {
            if comms.note(*seen).is_err() {
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
                let (time, task) = (event.time, event.task);
                let seen = Seen { time, task };
                if last.replace(task) != Some(task) && !is_known(&mut there, seen) {
                    there.try_create_and_insert(task.pid(), seen, GFP_KERNEL)?;
                }
            }
        }
        let mut comms = self.comms.lock();
        for seen in there.values() {
            comms.note(*seen)?;
        }
        let Comms { recent, older, .. } = &*comms;
        for seen in recent.values() {
            user(&seen.task)?;
        }
        for Seen { task, .. } in older.values() {
            if recent.get(&task.pid()).is_none() {
                user(task)?;
            }
        }
        Ok(())
    }
}
