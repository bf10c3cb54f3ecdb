// SPDX-License-Identifier: GPL-2.0

//! The functions that an instance hooks now, and the users of each: `enabled_functions`.

use kernel::prelude::*;

use super::Instance;
use crate::engine::function_set::FunctionSet;
use crate::engine::sort::sort_by_key;

/// The functions that are hooked, and their users.
pub(crate) struct Enabled {
    /// The functions that are hooked; `None` for all.
    pub(crate) functions: Option<FunctionSet>,
    /// The functions that tracer and commands hook; `None` for all.
    traced: Option<FunctionSet>,
    /// The functions that the profile hooks, if it does.
    counted: Option<FunctionSet>,
    /// The number of calls of these, by their addresses.
    hits: KVVec<(usize, u64)>,
}

impl Enabled {
    /// Returns the functions that `instance` hooks now, and their users.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn by(instance: &Instance) -> Result<Self> {
        let mut hits = KVVec::new();
        let (traced, counted) = {
            let control = instance.control.lock();
            let plan = &control.plan;
            let counted = plan.counted.as_ref();
            let counted = counted.map(|counted| counted.roles.hooked());
            (plan.traced()?, counted.transpose()?)
        };
        if counted.is_some() {
            for row in instance.profiling.rows(None)? {
                hits.push((row.ip, row.totals.hits), GFP_KERNEL)?;
            }
            sort_by_key(&mut hits, |(ip, _)| *ip);
        }
        let functions = match (&traced, &counted) {
            (Some(traced), Some(counted)) => Some(traced.union(counted)?),
            (Some(traced), None) => Some(traced.duplicate()?),
            (None, _) => None,
        };
        Ok(Self {
            functions,
            traced,
            counted,
            hits,
        })
    }

    /// Returns the number of users that hook the function at `ip`.
    pub(crate) fn count(&self, ip: usize) -> usize {
        let traced = (self.traced.as_ref()).is_none_or(|set| set.contains(ip));
        let counted = (self.counted.as_ref()).is_some_and(|set| set.contains(ip));
        usize::from(traced).wrapping_add(usize::from(counted))
    }

    /// Returns the number of its calls since these are counted; `None` if they are not.
    pub(crate) fn hits(&self, ip: usize) -> Option<u64> {
        self.counted.as_ref().filter(|set| set.contains(ip))?;
        let found = self.hits.binary_search_by_key(&ip, |(ip, _)| *ip);
        let hits = found.ok().and_then(|index| self.hits.get(index));
        Some(hits.map_or(0, |(_, hits)| *hits))
    }
}
