// SPDX-License-Identifier: GPL-2.0

//! `function_graph`, the settings: how deep calls are recorded, which of them, and with what.

use kernel::prelude::*;

use super::flags::{impl_flag, FlagSet, SharedFlags};
use super::seat::OwnSeat;
use crate::engine::errno::{ErrnoSet, SET_WORDS};
use crate::engine::errno_chain::ErrnoLinks;
use crate::engine::shared_frame::Seat;
use crate::engine::wakers::Wakers;
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
    /// Only calls below a [`GraphRole::Root`](super::call_role::CallRole::Root).
    Rooted = 1 << 5,
    /// Errors that callers have handled, too.
    Handled = 1 << 6,
    /// Durations without the time for which tasks did not run.
    NoSleep = 1 << 7,
}

impl_flag!(Want);

/// The state of `tracing_errno`.
struct Errors {
    /// The errors whose calls are recorded, a bit each.
    errnos: [Word; SET_WORDS],
    /// Room for calls that have returned errors.
    links: ErrnoLinks,
}

/// The settings of how calls are recorded.
///
/// # Invariants
///
/// `errors` and `wakers` are null, or the pointers of boxes that stay as long as the settings.
pub(crate) struct GraphSettings {
    wants: SharedFlags<Want>,
    /// Calls at this depth and below are not recorded.
    depth_limit: Word,
    /// Calls that take less time are not recorded; in ticks of the clock.
    thresh: Word,
    /// The errors whose calls are recorded: 2 for all, 1 for those in `errors`, 0 if calls are
    /// recorded whatever they return.
    asks_for_errnos: Word,
    /// Null until it is needed, and then for good.
    errors: AtomicPtr<Errors>,
    /// The last wakers of tasks; null until it is needed, and then for good.
    wakers: AtomicPtr<Wakers>,
    /// Is 1 if it is recorded what tasks wait for.
    waits: Word,
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
            asks_for_errnos: Word::new(0),
            errors: AtomicPtr::new(core::ptr::null_mut()),
            wakers: AtomicPtr::new(core::ptr::null_mut()),
            waits: Word::new(0),
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
        // There is room if any are asked for.
        let errors = self.errors();
        let words = errors.into_iter().flat_map(|errors| &errors.errnos);
        for (word, bits) in words.zip(errnos.words) {
            word.store_relaxed(bits);
        }
    }

    /// Returns whether calls that return `errno` are recorded.
    #[inline(always)]
    pub(super) fn asks_for(&self, errno: u64) -> bool {
        let is_among = |errors: &Errors| {
            let word = errors.errnos.get((errno / 64) as usize);
            word.is_some_and(|word| word.load_relaxed() >> (errno % 64) & 1 != 0)
        };
        self.asks_for_errnos.load_relaxed() == 2 || self.errors().is_some_and(is_among)
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
        if self.errors().is_none() {
            let errors = Errors {
                errnos: [const { Word::new(0) }; SET_WORDS],
                links: ErrnoLinks::new(cpu::end())?,
            };
            let errors = KBox::new(errors, GFP_KERNEL)?;
            // INVARIANT: It is a box's, and replaces no other, as callers exclude each other.
            self.errors.store(KBox::into_raw(errors), Ordering::Release);
        }
        Ok(())
    }

    #[inline(always)]
    fn errors(&self) -> Option<&Errors> {
        // SAFETY: By the type's invariants the pointer is null, or a box's that stays as long as
        // this does.
        unsafe { self.errors.load(Ordering::Acquire).as_ref() }
    }

    /// Returns the room for calls that have returned errors, if there is any.
    #[inline(always)]
    pub(crate) fn links(&self) -> Option<&ErrnoLinks> {
        Some(&self.errors()?.links)
    }

    /// Makes room for the wakers of tasks, if there is none. Callers exclude each other.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn make_wakers(&self) -> Result {
        if self.wakers.load(Ordering::Relaxed).is_null() {
            let wakers = KBox::new(Wakers::new()?, GFP_KERNEL)?;
            // INVARIANT: It is a box's, and replaces no other, as callers exclude each other.
            self.wakers.store(KBox::into_raw(wakers), Ordering::Release);
        }
        Ok(())
    }

    /// Returns the bytes of memory that these take.
    pub(crate) fn waker_bytes(&self) -> usize {
        self.kept_wakers().map_or(0, Wakers::bytes)
    }

    /// Returns the number of sleeps whose waker was lost; `None` if none were ever asked for.
    pub(crate) fn lost_wakers(&self) -> Option<u64> {
        self.kept_wakers().map(Wakers::lost)
    }

    /// Sets whether it is recorded what tasks wait for.
    pub(crate) fn set_waits(&self, waits: bool) {
        let begins = waits && self.waits.load_relaxed() == 0;
        if let Some(wakers) = self.kept_wakers().filter(|_| begins) {
            wakers.clear();
        }
        self.waits.store_relaxed(waits.into());
    }

    /// Returns the last wakers of tasks, if it is recorded what these wait for.
    #[inline(always)]
    pub(super) fn wakers(&self) -> Option<&Wakers> {
        self.kept_wakers()
            .filter(|_| self.waits.load_relaxed() != 0)
    }

    #[inline(always)]
    fn kept_wakers(&self) -> Option<&Wakers> {
        // SAFETY: By the type's invariants the pointer is null, or a box's that stays as long as
        // this does.
        unsafe { self.wakers.load(Ordering::Acquire).as_ref() }
    }

    /// Sets what is wanted, and the greatest depth; `None` for any depth. Returns whether that is
    /// anything but the usual.
    pub(crate) fn set(&self, wants: FlagSet<Want>, max_depth: Option<u32>) -> bool {
        self.wants.store(wants);
        let limit = max_depth.map_or(u64::MAX, u64::from);
        self.depth_limit.store_relaxed(limit);
        !wants.with(Want::NoSleep, false).is_empty() || max_depth.is_some()
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
        let errors = *self.errors.get_mut();
        if !errors.is_null() {
            // SAFETY: By the type's invariants the pointer is a box's, and no reference to it is
            // left.
            drop(unsafe { KBox::from_raw(errors) });
        }
        let wakers = *self.wakers.get_mut();
        if !wakers.is_null() {
            // SAFETY: As above.
            drop(unsafe { KBox::from_raw(wakers) });
        }
    }
}
