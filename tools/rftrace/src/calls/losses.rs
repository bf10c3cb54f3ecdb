// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Times in which events were lost.

use std::collections::VecDeque;

/// Maximum number of losses that are remembered. Calls that were open across older ones count as
/// open across the oldest.
const MAX_LOSSES: usize = 4096;

/// A time in which events were lost, on any CPU.
#[derive(Clone, Copy, Debug)]
struct Loss {
    /// Time at which the loss began.
    begin: u64,
    /// Number of the last item that came in it, or ended it.
    last: u64,
}

/// The losses of a stream, by the numbers of its items.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// Losses in order of time.
    losses: VecDeque<Loss>,
    /// Number of the last item of the last loss.
    last: u64,
}

impl Losses {
    /// Adds a loss from `begin` on up to item number `last`; one that goes on has the same begin,
    /// or an earlier one if another loss was added meanwhile.
    #[cold]
    pub(super) fn add(&mut self, begin: u64, last: u64) {
        while self.losses.back().is_some_and(|back| back.begin >= begin) {
            self.losses.pop_back();
        }
        self.losses.push_back(Loss { begin, last });
        self.last = last;
        if self.losses.len() > MAX_LOSSES {
            let oldest = self.losses.pop_front();
            if let (Some(oldest), Some(next)) = (oldest, self.losses.front_mut()) {
                next.begin = oldest.begin;
            }
        }
    }

    /// Returns whether anything was lost after item number `item`.
    #[inline]
    pub(super) fn any_since(&self, item: u64) -> bool {
        item < self.last
    }

    /// Returns whether anything was lost after item number `item` and before the time `end`.
    #[inline]
    pub(super) fn any_between(&self, item: u64, end: u64) -> bool {
        self.any_since(item) && self.begins_before(item, end)
    }

    #[cold]
    fn begins_before(&self, item: u64, end: u64) -> bool {
        let first = self.losses.partition_point(|loss| loss.last <= item);
        self.losses.get(first).is_some_and(|loss| loss.begin < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_by_when_they_were_open() {
        let mut losses = Losses::default();
        assert!(!losses.any_since(1));
        losses.add(100, 4);
        losses.add(100, 5);
        losses.add(300, 9);
        assert!(losses.any_since(5) && losses.any_since(8) && !losses.any_since(9));
        assert!(losses.any_between(3, 101) && !losses.any_between(3, 100));
        assert!(losses.any_between(5, 301) && !losses.any_between(5, 300));
        assert!(!losses.any_between(9, u64::MAX));
    }

    #[test]
    fn what_is_forgotten_counts_as_older() {
        let mut losses = Losses::default();
        for number in 0..2 * MAX_LOSSES as u64 {
            losses.add(1000 + number * 10, number * 10);
        }
        assert_eq!(losses.losses.len(), MAX_LOSSES);
        assert!(losses.any_between(0, 1001));
    }
}
