// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Profile, the tasks of which it is known that no call is open that was not seen.
//!
//! A task that was in the kernel when the profile began has callers that are not in the tree, until
//! it has left the kernel. Once it was seen without such callers it has none ever after. That is
//! kept here, for as many tasks as there is room for: of two that have the same place the last is
//! known, and the other is looked at again.

use crate::platform::{AllocError, Table, Word};

/// The number of places.
const PLACES: usize = 8192;

/// No task has this ID.
const NO_TASK: u64 = u64::MAX;

/// The tasks, by their ID.
pub struct CleanTasks(Table<Word, PLACES>);

impl CleanTasks {
    /// Makes a set of none.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn new() -> Result<Self, AllocError> {
        Ok(Self(Table::new(|| Word::new(NO_TASK))?))
    }

    #[inline(always)]
    fn place(&self, pid: u32) -> &Word {
        // In bounds by the remainder, which costs a mask.
        &self.0[pid as usize % PLACES]
    }

    /// Returns whether it is known of a task.
    #[inline(always)]
    pub fn has(&self, pid: u32) -> bool {
        self.place(pid).load_relaxed() == u64::from(pid)
    }

    /// Notes it of the task that runs. The idle tasks have one ID, 0, and so none of them is known.
    pub fn add(&self, pid: u32) {
        if pid != 0 {
            self.place(pid).store_relaxed(pid.into());
        }
    }

    /// Forgets it of the task that runs: a call was not seen.
    pub fn forget(&self, pid: u32) {
        // Another task may take the place meanwhile; what that one loses is looked at again.
        if self.has(pid) {
            self.place(pid).store_relaxed(NO_TASK);
        }
    }

    /// Forgets all.
    pub fn clear(&self) {
        for place in self.0.iter() {
            place.store_relaxed(NO_TASK);
        }
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}
