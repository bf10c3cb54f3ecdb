// SPDX-License-Identifier: GPL-2.0

//! The settings of an instance that are read without waiting for changes.

use kernel::sync::atomic::{Atomic, Relaxed};

use crate::engine::lists::FunctionList;
use crate::engine::options::Options;
use crate::engine::settings::{Settings, Tracer};

/// The settings that readers, and a dying machine, look at, as they are now. Written with the
/// instance's `control` held, which a change that hooks all functions holds for seconds.
pub(super) struct Shown {
    /// The bits of [`Options`].
    options: Atomic<u64>,
    /// The number of the tracer.
    tracer: Atomic<u32>,
    /// The filter is not empty, so that it does not stand for all functions.
    filtered: Atomic<bool>,
}

impl Shown {
    /// Creates those of an instance that is new.
    pub(super) fn new() -> Self {
        Self {
            options: Atomic::new(Options::new().0),
            tracer: Atomic::new(Tracer::Nop as u32),
            filtered: Atomic::new(false),
        }
    }

    /// Returns the options that are on.
    pub(super) fn options(&self) -> Options {
        Options(self.options.load(Relaxed))
    }

    /// Sets the options.
    pub(super) fn set_options(&self, options: Options) {
        self.options.store(options.0, Relaxed);
    }

    /// Returns the tracer.
    pub(super) fn tracer(&self) -> Tracer {
        let number = self.tracer.load(Relaxed);
        let mut all = Tracer::ALL.into_iter();
        all.find(|tracer| *tracer as u32 == number)
            .unwrap_or(Tracer::Nop)
    }

    /// Sets the tracer, and whether there is a filter.
    pub(super) fn set<C>(&self, settings: &Settings<C>) {
        self.tracer.store(settings.tracer as u32, Relaxed);
        let filter = settings.lists.get(FunctionList::Filter);
        self.filtered.store(filter.is_some(), Relaxed);
    }

    /// Returns whether the filter is not empty, so that it does not stand for all functions.
    pub(super) fn is_filtered(&self) -> bool {
        self.filtered.load(Relaxed)
    }
}
