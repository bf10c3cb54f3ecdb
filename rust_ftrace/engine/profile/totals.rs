// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Profile, the counts as they are read.

use crate::engine::waiting::Waker;

/// Bits of a longest time; those above count the clears before it.
pub const MAX_BITS: u32 = 48;

/// Returns the upper bits of a longest time after so many clears: never 0, which stands for no
/// time. After 65,534 clears it is that since the last of these.
pub const fn epoch(clears: u64) -> u64 {
    const LAST: u64 = (1 << (64 - MAX_BITS)) - 1;
    let number = clears.saturating_add(1);
    (if number < LAST { number } else { LAST }) << MAX_BITS
}

/// Returns the word for a longest time in an [`epoch`].
pub const fn longest(epoch: u64, time: u64) -> u64 {
    let most = (1 << MAX_BITS) - 1;
    epoch | if time < most { time } else { most }
}

/// The counts of a function, times in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionTotals {
    /// Times that the function was entered.
    pub hits: u64,
    /// Time of all its calls that have returned, that of calls within them included.
    pub total: u64,
    /// The part of it that was in calls within them.
    pub within: u64,
    /// The part of it that the options said not to count when they returned.
    pub uncounted: u64,
    /// The squares of the times that count, added up.
    pub squares: u128,
    /// The time of the longest, as [`longest`] has it.
    pub longest: u64,
    /// The time for which the task did not run, if that was counted.
    pub slept: u64,
    /// The part of it in run queues, in ns.
    pub queued: u64,
    /// The longest time for which the task did not run in a call, as [`longest`] has it; 0 if what
    /// woke it is not known.
    pub longest_sleep: u64,
    /// Its waker.
    pub waker: Waker,
}

impl FunctionTotals {
    /// Adds the counts of `other`.
    pub fn plus(self, other: Self) -> Self {
        let (longest_sleep, waker) = match self.longest_sleep < other.longest_sleep {
            true => (other.longest_sleep, other.waker),
            false => (self.longest_sleep, self.waker),
        };
        Self {
            longest_sleep,
            waker,
            hits: self.hits.wrapping_add(other.hits),
            total: self.total.wrapping_add(other.total),
            within: self.within.wrapping_add(other.within),
            uncounted: self.uncounted.wrapping_add(other.uncounted),
            squares: self.squares.wrapping_add(other.squares),
            longest: self.longest.max(other.longest),
            slept: self.slept.wrapping_add(other.slept),
            queued: self.queued.wrapping_add(other.queued),
        }
    }

    /// Takes away the counts of `other`, which were read before, and longest times of less than
    /// `clears` clears.
    pub fn since(self, other: Self, clears: u64) -> Self {
        let (longest_sleep, waker) = match self.longest_sleep >= epoch(clears) {
            true => (self.longest_sleep, self.waker),
            false => (0, Waker::default()),
        };
        Self {
            longest_sleep,
            waker,
            hits: self.hits.wrapping_sub(other.hits),
            total: self.total.wrapping_sub(other.total),
            within: self.within.wrapping_sub(other.within),
            uncounted: self.uncounted.wrapping_sub(other.uncounted),
            squares: self.squares.wrapping_sub(other.squares),
            longest: match self.longest >= epoch(clears) {
                true => self.longest,
                false => 0,
            },
            slept: self.slept.wrapping_sub(other.slept),
            queued: self.queued.wrapping_sub(other.queued),
        }
    }

    /// Returns whether nothing was counted.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The time of the longest call that has returned.
    pub const fn max(&self) -> u64 {
        self.longest & ((1 << MAX_BITS) - 1)
    }

    /// The time that was not in calls within its calls.
    pub fn own(&self) -> u64 {
        // A reader may see one of the two before the other.
        self.total.saturating_sub(self.within)
    }

    /// The time that counts, by the options.
    pub fn time(&self) -> u64 {
        self.total.saturating_sub(self.uncounted)
    }

    /// The time that a call took on average, of the time that counts.
    pub fn average(&self) -> u64 {
        self.time().checked_div(self.hits).unwrap_or(0)
    }

    /// The time that a call took on average, that of calls within it included.
    pub fn average_total(&self) -> u64 {
        self.total.checked_div(self.hits).unwrap_or(0)
    }

    /// The sample variance: `1/(n * (n-1)) * (n * sum of squares - square of sum)`.
    pub fn variance(&self) -> u128 {
        let (Some(mean), Some(rest)) = (
            self.time().checked_div(self.hits),
            self.time().checked_rem(self.hits),
        ) else {
            return 0;
        };
        // The square of the sum, divided by n, in parts that do not overflow.
        let (time, rest) = (u128::from(self.time()), u128::from(rest));
        let of_mean = u128::from(mean).saturating_mul(time.wrapping_add(rest));
        let of_rest = divide(rest.wrapping_mul(rest), self.hits);
        // The sums may be a call apart, so the differences saturate.
        let spread = self.squares.saturating_sub(of_mean).saturating_sub(of_rest);
        divide(spread, self.hits.wrapping_sub(1))
    }
}

/// Returns `value / by`, which the kernel has no function for; 0 if `by` is 0.
pub(super) fn divide(value: u128, by: u64) -> u128 {
    let (high, low) = ((value >> 64) as u64, value as u64);
    let (Some(top), Some(mut rest)) = (high.checked_div(by), high.checked_rem(by)) else {
        return 0;
    };
    let top = u128::from(top) << 64;
    if rest == 0 {
        return top | u128::from(low.checked_div(by).unwrap_or(0));
    }
    let mut quotient = 0;
    for bit in (0..64).rev() {
        let carry = rest >> 63;
        rest = (rest << 1) | ((low >> bit) & 1);
        if carry != 0 || rest >= by {
            rest = rest.wrapping_sub(by);
            quotient |= 1 << bit;
        }
    }
    top | quotient
}
