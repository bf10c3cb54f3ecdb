// SPDX-License-Identifier: GPL-2.0

//! The list of functions that can be traced, without those of modules that go.

use core::ops::Range;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_mutex, Mutex};

use super::going::GoingModules;
use crate::engine::catalog::{BadLine, Catalog};
use crate::sys::private::{read_lines, KernelFile};

/// The list of functions that can be traced, as it was read.
#[pin_data]
pub(super) struct CatalogCache {
    /// The list, read when it is first needed, and again after a module came or went.
    #[pin]
    catalog: Mutex<Option<Catalog>>,
    /// The number of times that the list was forgotten.
    generation: Atomic<u64>,
}

impl CatalogCache {
    /// Creates the state in which nothing was read yet.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            catalog <- new_mutex!(None),
            generation: Atomic::new(0),
        })
    }

    /// Calls `user` with the list, without the functions of the modules `going`.
    ///
    /// # Errors
    ///
    /// Those of [`Machine::with_catalog`](super::Machine::with_catalog).
    pub(super) fn with_catalog<R>(
        &self,
        going: &GoingModules,
        user: impl FnOnce(&Catalog) -> Result<R>,
    ) -> Result<R> {
        let mut slot = self.catalog.lock();
        if slot.is_none() {
            *slot = Some(going.with(read_catalog)?);
        }
        user(slot.as_ref().ok_or(ENODEV)?)
    }

    /// Forgets the list, as a module came or went.
    pub(super) fn forget(&self) {
        let old = self.catalog.lock().take();
        self.generation.fetch_add(1_u64, Relaxed);
        drop(old);
    }

    /// Returns the number of the list, which is another one after it was forgotten.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Relaxed)
    }

    /// Returns the bytes of memory that the list takes now.
    pub(super) fn bytes(&self) -> usize {
        self.catalog.lock().as_ref().map_or(0, Catalog::bytes)
    }
}

/// Reads the functions that can be traced from tracefs, without those whose ftrace location is in
/// `left_out`. Of these ranges only those stay which tracefs still lists something of.
fn read_catalog(left_out: &mut KVec<Range<usize>>) -> Result<Catalog> {
    let mut catalog = Catalog::new();
    read_lines(KernelFile::FilterFunctions, |line| {
        catalog.add(line).map_err(|bad| match bad {
            BadLine::Form => EINVAL,
            BadLine::NoMemory => ENOMEM,
        })
    })?;
    // The ranges before this index stay.
    let mut listed = 0;
    catalog.finish(|ip| {
        let found = left_out.iter().position(|range| range.contains(&ip));
        if let Some(at) = found.filter(|at| *at >= listed) {
            left_out.swap(at, listed);
            listed += 1;
        }
        found.is_some()
    });
    left_out.truncate(listed);
    Ok(catalog)
}
