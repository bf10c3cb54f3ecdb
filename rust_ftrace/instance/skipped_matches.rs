// SPDX-License-Identifier: GPL-2.0

//! The functions that patterns in the filter match, but that cannot be traced.

use kernel::prelude::*;
use kernel::sync::{new_mutex, Mutex};

use crate::engine::filter::{words, Selector};
use crate::machine::Machine;
use crate::sys::kallsyms;

/// A count of such functions, as it was at one time.
struct Count {
    /// The list of functions that this is true for: see [`Machine::catalog_generation`].
    generation: u64,
    /// The patterns at that time.
    patterns: KVVec<u8>,
    /// The number of functions; `None` if the kernel does not say where functions are.
    count: Option<usize>,
}

/// The count of such functions, once it was asked for.
///
/// With its lock held no other is taken.
#[pin_data]
pub(super) struct SkippedMatches {
    #[pin]
    last: Mutex<Option<Count>>,
}

impl SkippedMatches {
    /// Creates the state in which nothing was counted.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            last <- new_mutex!(None),
        })
    }

    /// Returns the number of functions that `patterns` match but that cannot be traced; `None` if
    /// the kernel hides where functions are (`kernel.kptr_restrict` is 2).
    ///
    /// Reads all symbols, which takes long, but only the first time after patterns or modules have
    /// changed, and with no lock held.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; those of [`for_each_function`](kallsyms::for_each_function)
    /// and [`Machine::with_catalog`].
    pub(super) fn count(&self, machine: &Machine, patterns: KVVec<u8>) -> Result<Option<usize>> {
        let generation = machine.catalog_generation();
        if let Some(last) = &*self.last.lock() {
            if last.generation == generation && *last.patterns == *patterns {
                return Ok(last.count);
            }
        }
        let count = count_skipped(machine, &patterns)?;
        let new = Count {
            generation,
            patterns,
            count,
        };
        let before = self.last.lock().replace(new);
        drop(before);
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
