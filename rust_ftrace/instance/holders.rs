// SPDX-License-Identifier: GPL-2.0

//! The open files that hold what an instance records: see [`free_buffer`](super::free_buffer).

use super::reserve::Reserve;

/// The open files that hold what is recorded, and what is set aside for the end of it.
#[derive(Default)]
pub(super) struct Holders {
    pub(super) count: usize,
    /// Memory for the end of the recording, as long as there are holders.
    pub(super) reserve: Option<Reserve>,
}

impl Holders {
    /// Returns whether there are any.
    pub(super) fn any(&self) -> bool {
        self.count != 0
    }

    /// Takes one away that is not the last; returns whether it did.
    pub(super) fn leave_others(&mut self) -> bool {
        let others = self.count > 1;
        if others {
            self.count -= 1;
        }
        others
    }
}
