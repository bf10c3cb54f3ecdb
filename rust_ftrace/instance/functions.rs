// SPDX-License-Identifier: GPL-2.0

//! Functions of an instance: edits of the lists, and questions about what is hooked.

use kernel::prelude::*;

use super::skipped_matches::{count_skipped, SkippedMatches};
use super::Instance;
use crate::engine::catalog::Catalog;
use crate::engine::command::{Action, Command};
use crate::engine::filter::{words, Selector, SelectorError};
use crate::engine::lists::{FunctionList, FunctionLists, KnownFunctions, ListError};
use crate::engine::nearest::Nearest;
use crate::engine::settings::Tracer;
use crate::engine::text::Text;
use crate::sys::private;
use crate::tracer::probes::ProbeCount;

impl Instance {
    /// Returns whether entries of the function at symbol address `start` are recorded now.
    pub(crate) fn is_traced(&self, start: u64) -> bool {
        let start = start as usize;
        let wants = {
            let control = self.control.lock();
            match control.settings.tracer {
                Tracer::Nop => Some(false),
                _ => control.settings.lists.wants(start),
            }
        };
        let is_function = |catalog: &Catalog| Ok(catalog.at_symbol(start).is_some());
        wants.unwrap_or_else(|| self.machine.with_catalog(is_function).unwrap_or(false))
    }

    /// Returns the number of functions that are hooked.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory, and those of
    /// [`Machine::with_catalog`](crate::machine::Machine::with_catalog).
    pub(crate) fn armed(&self) -> Result<usize> {
        let hooked = self.control.lock().plan.hooked()?;
        match hooked {
            Some(hooked) => Ok(hooked.len()),
            None => self.machine.with_catalog(|catalog| Ok(catalog.len())),
        }
    }

    /// Returns the bytes of memory that lists and plan take.
    pub(crate) fn plan_bytes(&self) -> usize {
        let control = self.control.lock();
        let settings = &control.settings;
        (settings.lists.bytes())
            .saturating_add(settings.commands.bytes())
            .saturating_add(control.plan.bytes())
    }

    /// Returns whether functions of a module that came when there was no memory are not hooked; the
    /// next change hooks them.
    pub(crate) fn is_behind(&self) -> bool {
        self.control.lock().is_behind
    }

    /// Calls `user` with the lists.
    pub(crate) fn with_lists<R>(&self, user: impl FnOnce(&FunctionLists) -> R) -> R {
        user(&self.control.lock().settings.lists)
    }

    /// Edits a list by what was written to its file. With `replace` the old list goes, all of it if
    /// there are no words.
    ///
    /// # Errors
    ///
    /// Nothing is changed then, and the error log says which word is wrong.
    ///
    /// - `EINVAL` if a word is wrong, or means no function that can be traced.
    /// - `ENOMEM` if there is no memory.
    /// - Those of [`Self::change`].
    pub(crate) fn edit(&self, list: FunctionList, text: &[u8], replace: bool) -> Result {
        if !replace && words(text).next().is_none() {
            return Ok(());
        }
        let mut control = self.control.lock();
        let mut failure = None;
        let result = self.change(&mut control, |settings| {
            self.machine.with_catalog(|catalog| {
                let address_of = |name: &[u8]| private::address_of(name).map(|at| at as usize);
                let known = KnownFunctions {
                    catalog,
                    address_of: &address_of,
                };
                let edited = settings.edit_list(list, text, replace, known, &ProbeCount::new);
                edited.map_err(|error| {
                    failure = Some(error);
                    ENOMEM
                })
            })
        });
        match failure {
            Some(ListError::Word(at, refusal)) => Err(self.refuse(list, refusal, text, at)),
            _ => result,
        }
    }

    /// Returns the functions with commands, the actions, and how often these are still done; `None`
    /// for always.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn commanded(&self) -> Result<KVVec<(usize, Action, Option<i64>)>> {
        let control = self.control.lock();
        let mut list = KVVec::new();
        let commands = &control.settings.commands;
        let all = [true, false].into_iter();
        for commanded in all.flat_map(|stacks| commands.of(stacks)) {
            let left = commanded.left.left();
            list.push((commanded.ip, commanded.action, left), GFP_KERNEL)?;
        }
        Ok(list)
    }

    #[inline(never)]
    fn refuse(&self, list: FunctionList, refusal: SelectorError, text: &[u8], at: usize) -> Error {
        let word = words(text).find(|(place, _)| *place == at);
        let word = word.map(|(_, word)| word).unwrap_or_default();
        let hint = match refusal {
            SelectorError::NoSuchFunction => self.did_you_mean(word),
            _ => Text::new(),
        };
        pr_warn!(
            "{}: '{}': {}{}\n",
            list.name(),
            kernel::str::BStr::from_bytes(word),
            refusal.text(),
            kernel::str::BStr::from_bytes(hint.as_bytes())
        );
        self.errors
            .add_with(list.name(), refusal.text(), hint, text, at);
        EINVAL
    }

    /// Returns the names of functions that are nearest to what a word names, as a hint behind the
    /// reason for refusing it. Empty for a pattern, if no name is near, or without memory.
    fn did_you_mean(&self, word: &[u8]) -> Text {
        let parsed = match Command::parse(word) {
            Some(command) => command.map(|command| command.selector()),
            None => Selector::parse(word),
        };
        let mut hint = Text::new();
        let result = self.machine.with_catalog(|catalog| {
            let Some(selector) = parsed.ok().filter(Selector::is_name) else {
                return Ok(());
            };
            let mut nearest = Nearest::to(selector.names);
            catalog
                .iter()
                .filter(|function| selector.matches_module(function.module))
                .for_each(|function| nearest.offer(function.name));
            for (index, name) in nearest.names().enumerate() {
                let before: &[u8] = match index {
                    0 => b"; did you mean ",
                    _ => b", ",
                };
                hint.push_bytes(before).map_err(|_| ENOMEM)?;
                hint.push_bytes(name).map_err(|_| ENOMEM)?;
            }
            match hint.as_bytes() {
                [] => Ok(()),
                _ => hint.push_bytes(b"?").map_err(|_| ENOMEM),
            }
        });
        if result.is_err() {
            hint.clear();
        }
        hint
    }

    /// Returns the number of functions that patterns in the filter match but that cannot be traced;
    /// `None` if the kernel hides where functions are (`kernel.kptr_restrict` is 2).
    ///
    /// Reads all symbols, which takes long, but only the first time after patterns or modules have
    /// changed, and with no lock held.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; those of
    /// [`for_each_function`](crate::sys::kallsyms::for_each_function) and
    /// [`Machine::with_catalog`](crate::machine::Machine::with_catalog).
    pub(crate) fn skipped_matches(&self) -> Result<Option<usize>> {
        let generation = self.machine.catalog_generation();
        let mut patterns = KVVec::new();
        {
            let control = self.control.lock();
            patterns.extend_from_slice(control.settings.lists.patterns(), GFP_KERNEL)?;
            let kept = control.skipped.as_ref();
            let is_true = |kept: &&SkippedMatches| {
                kept.generation == generation && *kept.patterns == *patterns
            };
            if let Some(kept) = kept.filter(is_true) {
                return Ok(kept.count);
            }
        }
        let count = count_skipped(&self.machine, &patterns)?;
        self.control.lock().skipped = Some(SkippedMatches {
            generation,
            patterns,
            count,
        });
        Ok(count)
    }
}
