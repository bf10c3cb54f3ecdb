// SPDX-License-Identifier: GPL-2.0

//! Users of an instance, so that it is not removed meanwhile.

use core::sync::atomic::{AtomicUsize, Ordering};

use kernel::prelude::*;

/// Set in [`Users`] when the instance is being removed.
const GOING: usize = 1 << (usize::BITS - 1);

/// The number of an instance's files that are open.
pub(crate) struct Users(AtomicUsize);

impl Users {
    /// None.
    pub(crate) const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// There is one more.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the instance is being removed.
    pub(crate) fn enter(&self) -> Result {
        let add = |count: usize| (count & GOING == 0).then(|| count.wrapping_add(1));
        let result = (self.0).fetch_update(Ordering::Acquire, Ordering::Relaxed, add);
        result.map(|_| ()).map_err(|_| ENODEV)
    }

    /// There is one less; the caller was one.
    pub(crate) fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Lets nobody in any more.
    ///
    /// # Errors
    ///
    /// `EBUSY` if there are any.
    pub(crate) fn end(&self) -> Result {
        let result = (self.0).compare_exchange(0, GOING, Ordering::Acquire, Ordering::Relaxed);
        result.map(|_| ()).map_err(|_| EBUSY)
    }
}
