// SPDX-License-Identifier: GPL-2.0

//! The way calls are recorded.

use core::sync::atomic::{AtomicU64, Ordering};

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
    wants: AtomicU64,
    /// Calls at this depth and below are not recorded.
    depth_limit: AtomicU64,
    /// Calls that take less time are not recorded; in ticks of the clock.
    thresh: AtomicU64,
    /// See [`Self::session`].
    session: AtomicU64,
}

impl GraphSettings {
    /// All calls, with nothing beside.
    pub(crate) fn new() -> Self {
        Self {
            wants: AtomicU64::new(0),
            depth_limit: AtomicU64::new(u64::MAX),
            thresh: AtomicU64::new(0),
            session: AtomicU64::new(random::word()),
        }
    }

    /// Forgets all calls that are marked.
    pub(crate) fn forget_marks(&self) {
        self.session.store(random::word(), Ordering::Relaxed);
    }

    /// Says which calls are too short to be recorded, in ticks of the clock; 0 for none.
    pub(crate) fn set_thresh(&self, ticks: u64) {
        self.thresh.store(ticks, Ordering::Relaxed);
    }

    pub(super) fn thresh(&self) -> u64 {
        self.thresh.load(Ordering::Relaxed)
    }

    /// Says what is wanted, and how deep; `None` for any depth. Whether that is anything but the usual.
    pub(crate) fn set(&self, wants: u64, max_depth: Option<u32>) -> bool {
        self.wants.store(wants, Ordering::Relaxed);
        let limit = max_depth.map_or(u64::MAX, u64::from);
        self.depth_limit.store(limit, Ordering::Relaxed);
        wants != 0 || max_depth.is_some()
    }

    pub(super) fn wants(&self, want: Want) -> bool {
        self.wants.load(Ordering::Relaxed) & want as u64 != 0
    }

    /// Calls at this depth and below are not recorded.
    pub(super) fn depth_limit(&self) -> u64 {
        self.depth_limit.load(Ordering::Relaxed)
    }

    /// See [`shadow::secret`](crate::engine::shadow::secret).
    pub(super) fn session(&self) -> u64 {
        self.session.load(Ordering::Relaxed)
    }
}
