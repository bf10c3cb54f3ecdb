// SPDX-License-Identifier: GPL-2.0

//! The owner of files, which is told of those that are open.

use kernel::prelude::*;
use kernel::sync::Arc;

/// The owner of files. It knows whether any are open.
pub(crate) trait Owner: Send + Sync + 'static {
    /// A file of it is being opened.
    ///
    /// # Errors
    ///
    /// Those that opening the file is to return; there will be no `closed` then.
    fn opened(&self) -> Result;

    /// A file of it was closed.
    fn closed(&self);
}

/// A file of the owner is open.
///
/// # Invariants
///
/// The owner was told of it.
pub(in crate::rust_ftrace::sys) struct Opened<C: Owner>(Arc<C>);

impl<C: Owner> Opened<C> {
    /// Tells the owner of it.
    ///
    /// # Errors
    ///
    /// Those of [`Owner::opened`].
    pub(in crate::rust_ftrace::sys) fn new(owner: &Arc<C>) -> Result<Self> {
        owner.opened()?;
        // INVARIANT: It was.
        Ok(Self(owner.clone()))
    }
}

impl<C: Owner> core::ops::Deref for Opened<C> {
    type Target = Arc<C>;

    fn deref(&self) -> &Arc<C> {
        &self.0
    }
}

impl<C: Owner> Drop for Opened<C> {
    fn drop(&mut self) {
        self.0.closed();
    }
}
