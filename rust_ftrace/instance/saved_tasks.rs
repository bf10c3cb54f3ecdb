// SPDX-License-Identifier: GPL-2.0

//! The tasks that a recording knows by name: those of events that were read, and those in the
//! buffers.

use kernel::prelude::*;
use kernel::rbtree::RBTree;

use super::buffer::SubbufCopy;
use super::buffers::BufferKind;
use super::comms::{is_known, Comms, SeenTask};
use super::recording::Recording;
use crate::engine::reader::Cursor;
use crate::engine::slot::Task;

impl Recording {
    /// Keeps the names of tasks. Without memory they are not kept.
    pub(crate) fn note_tasks(&self, tasks: &[SeenTask]) {
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
        // These are not put into `comms`, which would be locked while all buffers are read.
        let mut there = RBTree::new();
        for source in self.sources(None, BufferKind::Live)? {
            let ring = source.buffer.ring();
            let mut cursor = Cursor::new(ring, SubbufCopy::new(ring)?, source.buffer.position());
            let mut last = None;
            while let Some(event) = cursor.next(ring) {
                let (time, task) = (event.time, event.task);
                let seen = SeenTask { time, task };
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
        for SeenTask { task, .. } in older.values() {
            if recent.get(&task.pid()).is_none() {
                user(task)?;
            }
        }
        Ok(())
    }
}
