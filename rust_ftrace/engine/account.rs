// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The account of every event of a CPU, over all rings that it had.
//!
//! A ring counts from when it was made. A CPU's counts begin when its buffer was cleared last, and
//! go on when the ring is replaced by one of another size.

/// The counts of a ring, or of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events written.
    pub written: u64,
    /// Events taken out by readers.
    pub read: u64,
    /// Events not written: an interrupted writer stood in the way.
    pub commit_overrun: u64,
    /// Events not written: the buffer was full, in discard mode.
    pub dropped: u64,
    /// Of events written or not: markers of programs.
    pub markers: u64,
    /// Of events written or not: returns of calls. A call in which nothing else was recorded is one
    /// event, its entry.
    pub returns: u64,
}

impl Counts {
    fn with(self, other: Self, sum: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            written: sum(self.written, other.written),
            read: sum(self.read, other.read),
            commit_overrun: sum(self.commit_overrun, other.commit_overrun),
            dropped: sum(self.dropped, other.dropped),
            markers: sum(self.markers, other.markers),
            returns: sum(self.returns, other.returns),
        }
    }

    /// Returns the sum of both.
    pub fn plus(self, other: Self) -> Self {
        self.with(other, u64::wrapping_add)
    }

    /// Returns the difference of both.
    pub fn minus(self, other: Self) -> Self {
        self.with(other, u64::wrapping_sub)
    }

    /// Returns the number of events that were not written.
    pub fn lost(&self) -> u64 {
        self.commit_overrun.wrapping_add(self.dropped)
    }

    /// Returns the number of entries of functions, recorded or not.
    pub fn hits(&self) -> u64 {
        let events = self.written.wrapping_add(self.lost());
        events
            .saturating_sub(self.markers)
            .saturating_sub(self.returns)
    }

    /// Returns the number of events that later ones have overwritten, if `present` are still there.
    pub fn overwritten(&self, present: u64) -> u64 {
        self.written
            .saturating_sub(self.read)
            .saturating_sub(present)
    }
}

/// The baseline of a CPU's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// The counts of earlier rings, since the baseline.
    earlier: Counts,
    /// The counts of this ring at the baseline.
    base: Counts,
}

impl Account {
    /// Returns the CPU's counts, if its ring has counted `now`.
    pub fn counts(&self, now: Counts) -> Counts {
        self.earlier.plus(now.minus(self.base))
    }

    /// Begins anew, from a ring that has counted `now`.
    pub fn clear(&mut self, now: Counts) {
        self.earlier = Counts::default();
        self.base = now;
    }

    /// Goes on with a new ring; `end` is what the old one has counted so far. See
    /// [`Account::add_late`].
    pub fn replace(&mut self, end: Counts) {
        self.earlier = self.counts(end);
        self.base = Counts::default();
    }

    /// Adds the events that the old ring has counted since it was said to be at `end`: writers that
    /// were in it then have finished.
    pub fn add_late(&mut self, end: Counts, finished: Counts) {
        self.earlier = self.earlier.plus(finished.minus(end));
    }
}

/// Entries and returns that did not come as far as a ring that counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// Their CPU had no ring.
    pub without_buffer: u64,
    /// Reading the clock made them.
    pub by_clock: u64,
    /// A snapshot was to be taken.
    pub by_snapshot: u64,
    /// Those among them that were returns.
    pub returns: u64,
}

impl Elsewhere {
    /// Returns the counts since they were `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            without_buffer: self.without_buffer.wrapping_sub(before.without_buffer),
            by_clock: self.by_clock.wrapping_sub(before.by_clock),
            by_snapshot: self.by_snapshot.wrapping_sub(before.by_snapshot),
            returns: self.returns.wrapping_sub(before.returns),
        }
    }

    /// Returns the number of all of them.
    pub fn lost(&self) -> u64 {
        self.without_buffer
            .wrapping_add(self.by_clock)
            .wrapping_add(self.by_snapshot)
    }

    /// Returns the number of those that were entries.
    pub fn hits(&self) -> u64 {
        self.lost().saturating_sub(self.returns)
    }
}

/// The growth of a total that others count, during the times when it is of interest.
///
/// The total may shrink for a moment; growth is never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// The growth in earlier times of interest.
    earlier: u64,
    /// The total when it began to be of interest; `None` if it is not.
    base: Option<u64>,
}

impl Growth {
    /// Creates the state in which the total was never of interest.
    pub const fn new() -> Self {
        Self {
            earlier: 0,
            base: None,
        }
    }

    /// Returns whether the total is of interest.
    pub fn is_on(&self) -> bool {
        self.base.is_some()
    }

    /// Goes on from `total`, unless it is on.
    pub fn begin(&mut self, total: u64) {
        self.base.get_or_insert(total);
    }

    /// Stops at `total`.
    pub fn end(&mut self, total: u64) {
        self.earlier = self.count(total);
        self.base = None;
    }

    /// Counts from 0.
    pub fn clear(&mut self, total: u64) {
        self.earlier = 0;
        self.base = self.base.map(|_| total);
    }

    /// Returns the growth, if the total is `total` now.
    pub fn count(&self, total: u64) -> u64 {
        let now = self.base.map_or(0, |base| total.saturating_sub(base));
        self.earlier.wrapping_add(now)
    }
}
