// SPDX-License-Identifier: GPL-2.0

//! `function_graph`, the settings: how deep calls are recorded, which of them, and with what.

use kernel::prelude::*;

use super::flags::{impl_flag, FlagSet, SharedFlags};
use super::seat::OwnSeat;
use crate::engine::errno::{ErrnoSet, SET_WORDS};
use crate::engine::errno_chain::ErrnoLinks;
use crate::engine::shared_frame::Seat;
use crate::platform::{AtomicPtr, Ordering, Word};
use crate::sys::{cpu, random};

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
    /// Errors that callers have handled, too.
    Handled = 1 << 6,
}

impl_flag!(Want);

/// The settings of how calls are recorded.
///
/// # Invariants
///
/// `links` is null, or the pointer of a box that stays as long as the settings.
pub(crate) struct GraphSettings {
    wants: SharedFlags<Want>,
    /// Calls at this depth and below are not recorded.
    depth_limit: Word,
    /// Calls that take less time are not recorded; in ticks of the clock.
    thresh: Word,
    /// The errors whose calls are recorded, a bit each; and 2 if all are, 1 if only these, 0 if
    /// calls are recorded whatever they return.
    errnos: [Word; SET_WORDS],
    asks_for_errnos: Word,
    /// Room for calls that have returned errors; null until it is needed, and then for good.
    links: AtomicPtr<ErrnoLinks>,
    /// The random word that tags are made of: see [`Self::session`].
    session: Word,
    /// The seat in calls that others watch, too.
    pub(super) seat: OwnSeat,
}

impl GraphSettings {
    /// Creates settings by which all calls are recorded, with nothing beyond the usual.
    pub(crate) fn new() -> Self {
        Self {
            wants: SharedFlags::new(FlagSet::NONE),
            depth_limit: Word::new(u64::MAX),
            thresh: Word::new(0),
            errnos: [const { Word::new(0) }; SET_WORDS],
            asks_for_errnos: Word::new(0),
            links: AtomicPtr::new(core::ptr::null_mut()),
            session: Word::new(random::word()),
            seat: OwnSeat::new(),
        }
    }

    /// Gives the tracer a seat in calls that others watch, too, whose tags are made with `secret`,
    /// or takes it away.
    pub(super) fn set_seat(&self, seat: Option<Seat>, secret: u64) {
        self.seat.set(seat, secret);
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

    /// Sets the errors whose calls are recorded.
    pub(crate) fn set_errnos(&self, errnos: &ErrnoSet) {
        let asks = match errnos.all {
            true => 2,
            false => u64::from(!errnos.is_empty()),
        };
        self.asks_for_errnos.store_relaxed(asks);
        for (word, bits) in self.errnos.iter().zip(errnos.words) {
            word.store_relaxed(bits);
        }
    }

    /// Returns whether calls that return `errno` are recorded.
    #[inline(always)]
    pub(super) fn asks_for(&self, errno: u64) -> bool {
        let word = self.errnos.get((errno / 64) as usize);
        self.asks_for_errnos.load_relaxed() == 2
            || word.is_some_and(|word| word.load_relaxed() >> (errno % 64) & 1 != 0)
    }

    /// Returns whether calls are recorded for the errors that they return.
    pub(super) fn asks_for_any(&self) -> bool {
        self.asks_for_errnos.load_relaxed() != 0
    }

    /// Makes room for calls that have returned errors, if there is none. Callers exclude each
    /// other.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn make_links(&self) -> Result {
        if self.links().is_none() {
            let links = KBox::new(ErrnoLinks::new(cpu::end())?, GFP_KERNEL)?;
            // INVARIANT: It is a box's, and replaces no other, as callers exclude each other.
            self.links.store(KBox::into_raw(links), Ordering::Release);
        }
        Ok(())
    }

    /// Returns the room for calls that have returned errors, if there is any.
    #[inline(always)]
    pub(crate) fn links(&self) -> Option<&ErrnoLinks> {
        // SAFETY: By the type's invariants the pointer is null, or a box's that stays as long as
        // this does.
        unsafe { self.links.load(Ordering::Acquire).as_ref() }
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

impl Drop for GraphSettings {
    fn drop(&mut self) {
        let links = *self.links.get_mut();
        if !links.is_null() {
            // SAFETY: By the type's invariants the pointer is a box's, and no reference to it is
            // left.
            drop(unsafe { KBox::from_raw(links) });
        }
    }
}
