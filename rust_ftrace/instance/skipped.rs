// SPDX-License-Identifier: GPL-2.0

//! Functions that the patterns in the filter match, but that cannot be traced.

use kernel::prelude::*;

use super::Instance;
use crate::engine::filter::{words, Selector};
use crate::machine::Machine;
use crate::sys::kallsyms;

/// A count, as it was once.
pub(super) struct Skipped {
    /// The list of functions that this is true of: see [`Machine::catalog_generation`].
    generation: u64,
    /// These were the patterns.
    patterns: KVVec<u8>,
    /// `None` if the kernel does not say where functions are.
    count: Option<usize>,
}

impl Instance {
    /// Counts the functions that the patterns in the filter match and that cannot be traced; `None` if the kernel
    /// hides where functions are (`kernel.kptr_restrict` is 2).
    ///
    /// Reads all symbols, which takes long, but only the first time after patterns or modules have changed, and with no
    /// lock held.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; those of [`kallsyms::for_each_function`] and [`Machine::with_catalog`].
    pub(crate) fn skipped_matches(&self) -> Result<Option<usize>> {
        let generation = self.machine.catalog_generation();
        let mut patterns = KVVec::new();
        {
            let control = self.control.lock();
            patterns.extend_from_slice(control.settings.lists.patterns(), GFP_KERNEL)?;
            let kept = control.skipped.as_ref();
            let is_true =
                |kept: &&Skipped| kept.generation == generation && *kept.patterns == *patterns;
            if let Some(kept) = kept.filter(is_true) {
                return Ok(kept.count);
            }
        }
        let count = count_skipped(&self.machine, &patterns)?;
        self.control.lock().skipped = Some(Skipped {
            generation,
            patterns,
            count,
        });
        Ok(count)
    }
}

fn count_skipped(machine: &Machine, patterns: &[u8]) -> Result<Option<usize>> {
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
    kallsyms::for_each_function(|address, name, module| {
        let mut selectors = selectors.iter();
        if result.is_ok() && selectors.any(|selector| selector.matches(name, module)) {
            result = matches.push(address, GFP_KERNEL);
        }
    })?;
    result?;
    if matches.contains(&0) {
        return Ok(None);
    }
    machine.with_catalog(|catalog| {
        let skipped = |address: &&usize| catalog.at_symbol(**address).is_none();
        Ok(Some(matches.iter().filter(skipped).count()))
    })
}
