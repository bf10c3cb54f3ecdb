// SPDX-License-Identifier: GPL-2.0

//! Profile of an instance, file side: on or off, and its figures for `status`.

use core::ops::Range;

use kernel::prelude::*;

use super::profile::contexts::ContextStats;
use super::profile::reading::HistogramStats;
use super::{Control, Instance};
use crate::engine::function_set::FunctionSet;
use crate::engine::lists::FunctionList;

/// The profile as `status` shows it.
pub(crate) struct ProfileStats {
    pub(crate) on: bool,
    /// The number of functions that have a number.
    pub(crate) functions: usize,
    /// The number of calls that are in no table.
    pub(crate) lost: u64,
    /// The number of calls that could not be watched, and were not counted.
    pub(crate) missed: u64,
    /// The number of calls that were too deep to be watched; those of other users of fgraph are
    /// among them.
    pub(crate) too_deep: u64,
    pub(crate) bytes: usize,
    pub(crate) histograms: HistogramStats,
    /// The number of sleeps whose waker was lost, if waits were counted.
    pub(crate) lost_wakers: Option<u64>,
    /// Those of contexts, if calls are counted by these.
    pub(crate) contexts: Option<ContextStats>,
}

impl Instance {
    /// Returns whether calls are being counted.
    pub(crate) fn is_profiling(&self) -> bool {
        self.control.lock().settings.profile
    }

    /// Begins to count from zero, or ends counting.
    ///
    /// # Errors
    ///
    /// Those of [`Self::change`]; all is as before then.
    pub(crate) fn set_profiling(&self, on: bool) -> Result {
        let mut control = self.control.lock();
        if control.settings.profile == on {
            return Ok(());
        }
        self.change(&mut control, |settings| {
            settings.profile = on;
            Ok(())
        })
    }

    /// Returns the functions in `filter`; `None` if it is empty, and so stands for all.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn filtered(&self) -> Result<Option<FunctionSet>> {
        let control = self.control.lock();
        let filter = control.settings.lists.get(FunctionList::Filter);
        Ok(filter.map(|filter| filter.duplicate()).transpose()?)
    }

    /// Notes that the functions at addresses `text` go. To be called while they still have names.
    pub(crate) fn profile_forgets(&self, text: &[Range<usize>]) {
        // A change that has the lock may be about to give them numbers.
        let _control = self.control.lock();
        self.profiling.forget(&self.machine, text);
    }

    /// Returns the figures of the profile for `status`.
    pub(crate) fn profile_stats(&self) -> ProfileStats {
        let (_, too_deep) = self.too_deep.counts();
        let control = self.control.lock();
        let (_, missed) = self.machine.hooks().missed(self.hooks.id());
        let (functions, bytes) = self.profiling.size();
        ProfileStats {
            on: control.settings.profile,
            functions,
            lost: self.profiling.profiler.lost(),
            missed: missed.wrapping_sub(control.missed_before),
            too_deep,
            bytes,
            histograms: self.profiling.histogram_stats(),
            lost_wakers: self.profiling.lost_wakers(),
            contexts: self.profiling.context_stats(),
        }
    }

    /// Frees the memory of the counts, unless counting goes on.
    pub(super) fn free_profile(&self, control: &Control) {
        if !control.settings.profile {
            self.profiling.clear();
        }
    }
}
