// SPDX-License-Identifier: GPL-2.0

//! What has become of every event of a CPU, over all rings that it had.
//!
//! A ring counts from when it was made. A CPU's counts begin when its buffer was cleared last, and go on
//! when the ring is replaced by one of another size.

/// What a ring has counted, or a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Events written.
    pub(crate) written: u64,
    /// Events taken out by readers.
    pub(crate) read: u64,
    /// Events not written: an interrupted writer stood in the way.
    pub(crate) overrun: u64,
    /// Events not written: the buffer was full, in discard mode.
    pub(crate) dropped: u64,
    /// Of events written or not: marks of programs.
    pub(crate) marks: u64,
}

impl Counts {
    fn with(self, other: Self, sum: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            written: sum(self.written, other.written),
            read: sum(self.read, other.read),
            overrun: sum(self.overrun, other.overrun),
            dropped: sum(self.dropped, other.dropped),
            marks: sum(self.marks, other.marks),
        }
    }

    /// Both together.
    pub(crate) fn plus(self, other: Self) -> Self {
        self.with(other, u64::wrapping_add)
    }

    fn minus(self, other: Self) -> Self {
        self.with(other, u64::wrapping_sub)
    }

    /// Events that were not written.
    pub(crate) fn lost(&self) -> u64 {
        self.overrun.wrapping_add(self.dropped)
    }

    /// Entries and returns of functions, recorded or not.
    pub(crate) fn hits(&self) -> u64 {
        (self.written.wrapping_add(self.lost())).wrapping_sub(self.marks)
    }

    /// Events whose place was taken, if `present` are still there.
    pub(crate) fn overwritten(&self, present: u64) -> u64 {
        self.written
            .saturating_sub(self.read)
            .saturating_sub(present)
    }
}

/// Where a CPU's counts began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// What rings before this one have counted since then.
    earlier: Counts,
    /// What this ring had counted then.
    base: Counts,
}

impl Account {
    /// The CPU's counts, if its ring has counted `now`.
    pub(crate) fn counts(&self, now: Counts) -> Counts {
        self.earlier.plus(now.minus(self.base))
    }

    /// Begins anew.
    pub(crate) fn clear(&mut self, now: Counts) {
        self.earlier = Counts::default();
        self.base = now;
    }

    /// Goes on with a new ring; `end` is what the old one has counted
    /// so far; see [`Account::add_late`].
    pub(crate) fn replace(&mut self, end: Counts) {
        self.earlier = self.counts(end);
        self.base = Counts::default();
    }

    /// Adds what the old ring has counted after it was said to be at `end`: writers that were in it then
    /// have finished.
    pub(crate) fn add_late(&mut self, end: Counts, finished: Counts) {
        self.earlier = self.earlier.plus(finished.minus(end));
    }
}
