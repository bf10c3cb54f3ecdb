// SPDX-License-Identifier: GPL-2.0

//! Profile, hook side: calls that are counted only below those of some functions, or not below
//! those of others.
//!
//! It depends on the innermost open call that was taken, whose tag says whether it is one below
//! which nothing is counted, and what was served when it was entered: what an interrupt calls is
//! not below what it came into.

use super::{Counting, Profiler};
use crate::engine::shadow::SKIP;
use crate::sys::context::{level, PreemptOff};
use crate::tracer::call_role::CallRole;

/// The first bit of a tag's flags that say what was served.
const LEVEL_SHIFT: u32 = 1;

impl Profiler {
    /// Returns the flags for the tag of a call that is entered, and whose words lie at `address`:
    /// with [`SKIP`] if it is only to be found. `None` if it is not wanted.
    pub(in super::super) fn admits(
        &self,
        role: CallRole,
        address: *const u64,
        token: PreemptOff<'_>,
    ) -> Option<u64> {
        if !self.counting.has(Counting::Marked) {
            // Hooks are about to change if it is another.
            return (role != CallRole::Skip).then_some(0);
        }
        let current = token.current();
        let level = level(current.interrupts());
        let flags = (level as u64) << LEVEL_SHIFT;
        // An interrupt's count may end before its last functions do: these are within it.
        let is_within = |flags: &u64| level as u64 <= flags >> LEVEL_SHIFT;
        let outer = self.outer(&current, address).map(|outer| outer.flags());
        let outer = outer.filter(is_within);
        match role {
            _ if outer.is_some_and(|outer| outer & SKIP != 0) => None,
            CallRole::Skip => Some(flags | SKIP),
            CallRole::Plain if outer.is_none() && self.is_rooted() => None,
            CallRole::Plain | CallRole::Root => Some(flags),
        }
    }

    /// Returns whether only calls below roots are counted.
    pub(super) fn is_rooted(&self) -> bool {
        self.counting.has(Counting::Rooted)
    }
}
