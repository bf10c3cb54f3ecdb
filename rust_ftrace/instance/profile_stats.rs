// SPDX-License-Identifier: GPL-2.0

//! Figures of the profile of an instance, for `status`.

use super::profile::contexts::ContextStats;
use super::profile::reading::HistogramStats;
use super::Instance;

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

impl ProfileStats {
    /// Returns the figures of the profile of `instance`.
    pub(crate) fn of(instance: &Instance) -> Self {
        let profiling = &instance.profiling;
        let (_, too_deep) = instance.too_deep.counts();
        let control = instance.control.lock();
        let (_, missed) = instance.machine.hooks().missed(instance.hooks.id());
        let (functions, bytes) = profiling.size();
        Self {
            on: control.settings.profile,
            functions,
            lost: profiling.profiler.lost(),
            missed: missed.wrapping_sub(control.missed_before),
            too_deep,
            bytes,
            histograms: profiling.histogram_stats(),
            lost_wakers: profiling.lost_wakers(),
            contexts: profiling.context_stats(),
        }
    }
}
