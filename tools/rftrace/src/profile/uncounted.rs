// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Profile, what is missing: the lines of `status` on calls that are not among those counted, or
//! not in all of the counts.

/// Calls that the profile has not, or not in all of its files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uncounted {
    /// Calls on CPUs that had no memory for a table.
    pub without_memory: u64,
    /// Calls for which a shadow stack had no room for what is kept of them.
    pub missed: u64,
    /// Calls for which it had no room at all; those that others missed may be among them.
    pub too_deep: u64,
    /// Calls of functions that found no histogram left: they have no percentiles.
    pub without_histogram: u64,
    /// Calls whose contexts found no room: they are in `[other]`.
    pub without_context: u64,
    /// Sleeps in calls whose waker was lost, with waits.
    pub lost_wakers: u64,
}

impl Uncounted {
    /// Takes the numbers from the text of `status`; those that it does not have are 0.
    pub fn of_status(status: &str) -> Self {
        let number = |key: &str| {
            let value = status.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                (name == key).then_some(value)
            });
            // A remark may follow.
            let digits = value.and_then(|value| value.split(' ').next());
            digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
        };
        Self {
            without_memory: number("profile lost"),
            missed: number("profile missed"),
            too_deep: number("profile too deep"),
            without_histogram: number("profile rest"),
            without_context: number("profile other contexts"),
            lost_wakers: number("profile lost wakers"),
        }
    }

    /// Returns the number of calls that are not counted at all.
    pub fn lost(&self) -> u64 {
        let of_stacks = self.missed.saturating_add(self.too_deep);
        self.without_memory.saturating_add(of_stacks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_by_their_keys() {
        let status = "calls too deep: 99\nprofile: ended, 2 functions\nprofile lost: 1\n\
                      profile histograms: 16 of 4096 on a CPU\nprofile rest: 2\n\
                      profile contexts: 7 of 49152\nprofile other contexts: 3\nprofile lost wakers: 6\n\
                      profile missed: 4\n\
                      profile too deep: 5 (at most: others' are among them)\nmemory: 8 KiB\n";
        let uncounted = Uncounted::of_status(status);
        assert_eq!(
            uncounted,
            Uncounted {
                without_memory: 1,
                missed: 4,
                too_deep: 5,
                without_histogram: 2,
                without_context: 3,
                lost_wakers: 6,
            }
        );
        assert_eq!(uncounted.lost(), 10);
        assert_eq!(
            Uncounted::of_status("profile: none\nprofile missed: \n"),
            Uncounted::default()
        );
    }
}
