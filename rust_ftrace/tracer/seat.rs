// SPDX-License-Identifier: GPL-2.0

//! The seat of a part in calls that several parts watch, as its hooks know it.

use crate::engine::shadow::Shadow;
use crate::engine::shared_frame::Seat;
use crate::platform::Word;

/// The seat of a tracer or profile, if it has one.
pub(super) struct OwnSeat {
    /// The word of [`Seat`].
    seat: Word,
    /// The secret of the tags of shared calls.
    secret: Word,
}

impl OwnSeat {
    /// Creates the state without a seat.
    pub(super) const fn new() -> Self {
        Self {
            seat: Word::new(0),
            secret: Word::new(0),
        }
    }

    /// Gives it a seat in calls whose tags are made with `secret`, or takes it away.
    pub(super) fn set(&self, seat: Option<Seat>, secret: u64) {
        self.secret.store_relaxed(secret);
        self.seat.store_release(seat.map_or(0, Seat::word));
    }

    /// Returns the seat, and the secret of the tags of shared calls; `None` if there is none.
    #[inline(always)]
    pub(super) fn known(&self) -> Option<(Seat, u64)> {
        let seat = Seat::of(self.seat.load_acquire())?;
        Some((seat, self.secret.load_relaxed()))
    }

    /// Returns a shadow stack that knows the shared calls, too, that are this part's.
    pub(super) fn seated<'a>(&self, shadow: Shadow<'a>) -> Shadow<'a> {
        match self.known() {
            Some((seat, secret)) => shadow.seated(seat, secret),
            None => shadow,
        }
    }
}
