// SPDX-License-Identifier: GPL-2.0

//! Parts of modules that are going, whose functions are not to be traced any more.

use core::ops::Range;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Release};
use kernel::sync::{new_mutex, Mutex};

/// The parts of modules that are going, and the number of modules that came.
#[pin_data]
pub(super) struct GoingModules {
    /// The addresses of functions of modules that were going when last heard of, and of those by
    /// which modules were loaded. ftrace lists them for some time yet.
    #[pin]
    leaving: Mutex<KVec<Range<usize>>>,
    /// The number of times that a module was loaded.
    loaded: Atomic<u64>,
}

impl GoingModules {
    /// Creates the state in which no module was heard of.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            leaving <- new_mutex!(KVec::new()),
            loaded: Atomic::new(0),
        })
    }

    /// Calls `user` with the addresses of what goes; it may take out what is gone.
    pub(super) fn with<R>(&self, user: impl FnOnce(&mut KVec<Range<usize>>) -> R) -> R {
        user(&mut self.leaving.lock())
    }

    /// Notes that functions at addresses `text` go.
    pub(super) fn leaves(&self, text: &[Range<usize>]) {
        let mut leaving = self.leaving.lock();
        for range in text.iter().filter(|range| !range.is_empty()) {
            if leaving.push(range.clone(), GFP_KERNEL).is_err() {
                pr_warn!("functions that a module no longer has are listed, for want of memory\n");
            }
        }
    }

    /// Notes that a module is being loaded at addresses `text`.
    pub(super) fn loads(&self, text: &[Range<usize>]) {
        let overlaps = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
        let mut leaving = self.leaving.lock();
        leaving.retain(|old| !text.iter().any(|new| overlaps(old, new)));
        drop(leaving);
        self.loaded.fetch_add(1_u64, Release);
    }

    /// Returns the number of times that a module was loaded.
    pub(super) fn loaded(&self) -> u64 {
        self.loaded.load(Acquire)
    }
}
