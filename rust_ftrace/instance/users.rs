// SPDX-License-Identifier: GPL-2.0

//! The users of an instance, which is not removed while it has any.

use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Relaxed, Release};

/// The bit that is set in [`Users`] when the instance is being removed.
const GOING: usize = 1 << (usize::BITS - 1);

/// The number of an instance's files that are open.
pub(crate) struct Users(Atomic<usize>);

impl Users {
    /// Creates the count of no users.
    pub(crate) const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Adds a user.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the instance is being removed.
    pub(crate) fn enter(&self) -> Result {
        let mut count = self.0.load(Relaxed);
        while count & GOING == 0 {
            match self.0.cmpxchg(count, count.wrapping_add(1), Acquire) {
                Ok(_) => return Ok(()),
                Err(other) => count = other,
            }
        }
        Err(ENODEV)
    }

    /// Removes a user, which the caller was.
    pub(crate) fn leave(&self) {
        // Release: pairs with `end`, after which what the user has looked at goes.
        self.0.fetch_sub(1_usize, Release);
    }

    /// Refuses users from now on.
    ///
    /// # Errors
    ///
    /// `EBUSY` if there are users.
    pub(crate) fn end(&self) -> Result {
        // Acquire: pairs with `leave`.
        let result = self.0.cmpxchg(0, GOING, Acquire);
        result.map(|_| ()).map_err(|_| EBUSY)
    }
}
