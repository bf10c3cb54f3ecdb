// SPDX-License-Identifier: GPL-2.0

//! The way calls are recorded.

use crate::platform::Word;
use crate::sys::random;

/// Data and limits of calls, beside what every call has. Bits of [`GraphSettings::wants`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Want {
    /// Their return values.
    Retval = 1 << 0,
    /// Where they came from, for all.
    Retaddr = 1 << 1,
    /// Their arguments.
    Args = 1 << 2,
    /// The number of those that were too deep.
    Overrun = 1 << 3,
    /// None of hardware interrupts.
    NoIrqs = 1 << 4,
    /// Only those below a [`Role::Root`].
    Rooted = 1 << 5,
}

/// The way calls are recorded.
pub(crate) struct GraphSettings {
    wants: Word,
    /// Calls at this depth and below are not recorded.
    depth_limit: Word,
    /// Calls that take less time are not recorded; in ticks of the clock.
    thresh: Word,
    /// See [`Self::session`].
    session: Word,
}

impl GraphSettings {
    /// All calls, with nothing beside.
    pub(crate) fn new() -> Self {
        Self {
            wants: Word::new(0),
            depth_limit: Word::new(u64::MAX),
            thresh: Word::new(0),
            session: Word::new(random::word()),
        }
    }

    /// Forgets all calls that are tagged.
    pub(crate) fn forget_tags(&self) {
        self.session.store_relaxed(random::word());
    }

    /// Says which calls are too short to be recorded, in ticks of the clock; 0 for none.
    pub(crate) fn set_thresh(&self, ticks: u64) {
        self.thresh.store_relaxed(ticks);
    }

    pub(super) fn thresh(&self) -> u64 {
        self.thresh.load_relaxed()
    }

    /// Says what is wanted, and how deep; `None` for any depth. Whether that is anything but the usual.
    pub(crate) fn set(&self, wants: u64, max_depth: Option<u32>) -> bool {
        self.wants.store_relaxed(wants);
        let limit = max_depth.map_or(u64::MAX, u64::from);
        self.depth_limit.store_relaxed(limit);
        wants != 0 || max_depth.is_some()
    }

    pub(super) fn wants(&self, want: Want) -> bool {
        self.wants.load_relaxed() & want as u64 != 0
    }

    /// Calls at this depth and below are not recorded.
    pub(super) fn depth_limit(&self) -> u64 {
        self.depth_limit.load_relaxed()
    }

    /// See [`shadow::secret`](crate::engine::shadow::secret).
    pub(super) fn session(&self) -> u64 {
        self.session.load_relaxed()
    }
}
