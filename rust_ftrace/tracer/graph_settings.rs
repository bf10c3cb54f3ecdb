// SPDX-License-Identifier: GPL-2.0

//! `function_graph`, the settings: how deep calls are recorded, which of them, and with what.

use super::flags::{impl_flag, FlagSet, SharedFlags};
use crate::platform::Word;
use crate::sys::random;

/// Data and limits of calls, beyond those of every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Want {
    /// The return values of calls.
    Retval = 1 << 0,
    /// The addresses that calls came from, for all calls.
    Retaddr = 1 << 1,
    /// The arguments of calls.
    Args = 1 << 2,
    /// The number of calls that were too deep.
    Overrun = 1 << 3,
    /// No calls of hardware interrupts.
    NoIrqs = 1 << 4,
    /// Only calls below a [`GraphRole::Root`](super::graph::GraphRole::Root).
    Rooted = 1 << 5,
}

impl_flag!(Want);

/// The settings of how calls are recorded.
pub(crate) struct GraphSettings {
    wants: SharedFlags<Want>,
    /// Calls at this depth and below are not recorded.
    depth_limit: Word,
    /// Calls that take less time are not recorded; in ticks of the clock.
    thresh: Word,
    /// The random word that tags are made of: see [`Self::session`].
    session: Word,
}

impl GraphSettings {
    /// Creates settings by which all calls are recorded, with nothing beyond the usual.
    pub(crate) fn new() -> Self {
        Self {
            wants: SharedFlags::new(FlagSet::NONE),
            depth_limit: Word::new(u64::MAX),
            thresh: Word::new(0),
            session: Word::new(random::word()),
        }
    }

    /// Forgets all calls that are tagged.
    pub(crate) fn forget_tags(&self) {
        self.session.store_relaxed(random::word());
    }

    /// Sets the time, in ticks of the clock, below which calls are too short to be recorded; 0 for
    /// none.
    pub(crate) fn set_thresh(&self, ticks: u64) {
        self.thresh.store_relaxed(ticks);
    }

    pub(super) fn thresh(&self) -> u64 {
        self.thresh.load_relaxed()
    }

    /// Sets what is wanted, and the greatest depth; `None` for any depth. Returns whether that is
    /// anything but the usual.
    pub(crate) fn set(&self, wants: FlagSet<Want>, max_depth: Option<u32>) -> bool {
        self.wants.store(wants);
        let limit = max_depth.map_or(u64::MAX, u64::from);
        self.depth_limit.store_relaxed(limit);
        !wants.is_empty() || max_depth.is_some()
    }

    pub(super) fn wants(&self, want: Want) -> bool {
        self.wants.has(want)
    }

    /// Returns the depth from which on calls are not recorded.
    pub(super) fn depth_limit(&self) -> u64 {
        self.depth_limit.load_relaxed()
    }

    /// Returns the word that tags are made of: see
    /// [`shadow::secret`](crate::engine::shadow::secret).
    pub(super) fn session(&self) -> u64 {
        self.session.load_relaxed()
    }
}
