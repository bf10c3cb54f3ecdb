// SPDX-License-Identifier: GPL-2.0

//! The functions that patterns in the filter match, but that cannot be traced.

use kernel::prelude::*;

use crate::engine::filter::{words, Selector};
use crate::machine::Machine;
use crate::sys::kallsyms;

/// A count of such functions, as it was at one time.
pub(super) struct SkippedMatches {
    /// The list of functions that this is true for: see [`Machine::catalog_generation`].
    pub(super) generation: u64,
    /// The patterns at that time.
    pub(super) patterns: KVVec<u8>,
    /// The number of functions; `None` if the kernel does not say where functions are.
    pub(super) count: Option<usize>,
}

pub(super) fn count_skipped(machine: &Machine, patterns: &[u8]) -> Result<Option<usize>> {
    let mut selectors = KVVec::new();
    for (_, word) in words(patterns) {
        if let Ok(selector) = Selector::parse(word) {
            selectors.push(selector, GFP_KERNEL)?;
        }
    }
    if selectors.is_empty() {
        return Ok(Some(0));
    }
    let mut matches = KVVec::new();
    let mut result = Ok(());
    let read = kallsyms::for_each_function(|address, name, module| {
        let mut selectors = selectors.iter();
        if result.is_ok() && selectors.any(|selector| selector.matches(name, module)) {
            result = matches.push(address, GFP_KERNEL);
        }
    });
    match read {
        // There is no such list, or it is not as known.
        Err(error) if [EOPNOTSUPP, ENODEV, ENOENT, EPERM].contains(&error) => return Ok(None),
        read => read?,
    }
    result?;
    if matches.contains(&0) {
        return Ok(None);
    }
    machine.with_catalog(|catalog| {
        let skipped = |address: &&usize| catalog.at_symbol(**address).is_none();
        Ok(Some(matches.iter().filter(skipped).count()))
    })
}
