// SPDX-License-Identifier: GPL-2.0

//! Which functions an instance traces: its lists of them.

use kernel::prelude::*;

use super::skipped::Skipped;
use super::{Control, Instance};
use crate::catalog::{Catalog, MAX_LOCATION_OFFSET};
use crate::engine::command::Command;
use crate::engine::filter::{words, Refusal, Selector};
use crate::engine::function_set::FunctionSet;
use crate::engine::nearest::Nearest;
use crate::engine::options::TraceOption;
use crate::engine::pending::{self, PendingWords};
use crate::machine::Machine;
use crate::platform::AllocError;
use crate::sys::text::Text;
use crate::sys::{symbols, unwind};
use crate::tracer::Tracer;

/// One of the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    /// Functions that are traced.
    Filter,
    /// Functions that are not traced, though the filter says so.
    Notrace,
    /// Functions that `function_graph` traces all calls below of.
    GraphFunction,
    /// Functions that it traces no calls below of.
    GraphNotrace,
}

impl List {
    /// The file's name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Notrace => "notrace",
            Self::GraphFunction => "graph_function",
            Self::GraphNotrace => "graph_notrace",
        }
    }
}

/// Most bytes of patterns that are kept for `status`.
const MAX_PATTERNS: usize = 4096;

/// The lists.
pub(crate) struct Lists {
    /// By [`List`]. `None`: nothing was said, so all functions, or none are left out. An empty set is what
    /// remains of a list whose functions all went away with their modules.
    sets: [Option<FunctionSet>; 4],
    /// By [`List`], for the first two: what is meant once a module is there.
    pending: [PendingWords; 2],
    /// The patterns in the filter, with a space after each.
    patterns: KVVec<u8>,
    /// Functions that these match and that cannot be traced, once that was asked for.
    skipped: Option<Skipped>,
}

/// Why words are refused.
pub(super) enum Failure {
    /// The word at this byte means nothing that can be had.
    Word(usize, Refusal),
    /// Something else went wrong.
    Other(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<AllocError> for Failure {
    fn from(_: AllocError) -> Self {
        Self::Other(ENOMEM)
    }
}

impl Lists {
    /// All empty.
    pub(crate) const fn new() -> Self {
        Self {
            sets: [const { None }; 4],
            pending: [const { PendingWords::new() }; 2],
            patterns: KVVec::new(),
            skipped: None,
        }
    }

    /// One of the lists; `None` if nothing was said.
    pub(crate) fn get(&self, list: List) -> Option<&FunctionSet> {
        self.sets.get(list as usize)?.as_ref()
    }

    /// Puts another set in the place of a list, and returns that.
    fn replace(&mut self, list: List, new: Option<FunctionSet>) -> Option<FunctionSet> {
        let set = self.sets.get_mut(list as usize)?;
        core::mem::replace(set, new)
    }

    /// The words of a list that wait for modules; `None` if it has no such.
    pub(crate) fn pending(&self, list: List) -> Option<&PendingWords> {
        self.pending.get(list as usize)
    }

    fn set_pending(&mut self, list: List, new: PendingWords) {
        if let Some(pending) = self.pending.get_mut(list as usize) {
            *pending = new;
        }
    }

    /// The patterns in the filter.
    pub(crate) fn patterns(&self) -> &[u8] {
        &self.patterns
    }

    fn set_patterns(&mut self, new: KVVec<u8>) {
        self.patterns = new;
        self.skipped = None;
    }

    /// The last count of these.
    pub(super) fn skipped(&self) -> Option<&Skipped> {
        self.skipped.as_ref()
    }

    /// Keeps what was counted of the patterns.
    pub(super) fn keep_skipped(&mut self, skipped: Skipped) {
        self.skipped = Some(skipped);
    }

    /// The functions to be traced; `None` for all.
    pub(crate) fn wanted(&self, machine: &Machine) -> Result<Option<FunctionSet>> {
        let filter = self.get(List::Filter);
        let Some(notrace) = self.get(List::Notrace) else {
            return Ok(filter.map(FunctionSet::duplicate).transpose()?);
        };
        let wanted = match filter {
            Some(filter) => filter.difference(notrace)?,
            None => machine.with_catalog(Catalog::all)?.difference(notrace)?,
        };
        Ok(Some(wanted))
    }

    /// Returns whether functions that come and go must be hooked and unhooked by hand, though no list names them.
    pub(crate) fn needs_news(&self, tracer: Tracer) -> bool {
        let all = self.get(List::Filter).is_none();
        match tracer {
            Tracer::FunctionGraph => all,
            _ => all && self.get(List::Notrace).is_some(),
        }
    }

    /// Takes the functions at addresses `range` out of all lists; whether any were there.
    pub(crate) fn forget(&mut self, range: &core::ops::Range<usize>) -> bool {
        let sets = self.sets.iter_mut().flatten();
        let found = sets.fold(false, |found, set| set.remove_range(range) || found);
        // (what is left out can be nothing, but what is traced does not become all)
        for list in [List::Notrace, List::GraphNotrace] {
            if self.get(list).is_some_and(FunctionSet::is_empty) {
                self.replace(list, None);
            }
        }
        found
    }
}

/// A list as words change it.
struct Edit {
    set: FunctionSet,
    /// `None` for a list whose words do not wait for modules.
    pending: Option<PendingWords>,
}

impl Edit {
    /// Applies words to a list.
    fn apply<'a>(
        &mut self,
        machine: &Machine,
        text: impl Iterator<Item = (usize, &'a [u8])>,
    ) -> Result<(), Failure> {
        let mut failure = None;
        machine.with_catalog(|catalog| {
            for (at, word) in text {
                if let Err(refusal) = self.apply_word(catalog, word)? {
                    failure = Some(Failure::Word(at, refusal));
                    break;
                }
            }
            Ok(())
        })?;
        match failure {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    fn apply_word(&mut self, catalog: &Catalog, word: &[u8]) -> Result<Result<(), Refusal>> {
        let selector = match Selector::parse(word) {
            Ok(selector) => selector,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let chosen = match choose(catalog, &selector)? {
            Ok(chosen) => chosen,
            Err(refusal) => return self.put_off(catalog, word, &selector, refusal),
        };
        self.set = if selector.remove {
            self.set.difference(&chosen)?
        } else {
            self.set.union(&chosen)?
        };
        Ok(Ok(()))
    }

    /// Keeps a word that means nothing yet until its module is there, or takes such a word out; otherwise it is
    /// refused.
    fn put_off(
        &mut self,
        catalog: &Catalog,
        word: &[u8],
        selector: &Selector<'_>,
        refusal: Refusal,
    ) -> Result<Result<(), Refusal>> {
        let Some(pending) = self.pending.as_mut().filter(|_| selector.names_modules()) else {
            return Ok(Err(refusal));
        };
        if selector.remove {
            let Some(rest) = pending.without(selector)? else {
                return Ok(Err(refusal));
            };
            *pending = rest;
        } else if catalog.has_module_of(selector) {
            return Ok(Err(refusal));
        } else {
            *pending = pending.with(word)?;
        }
        Ok(Ok(()))
    }
}

/// The functions that a word means; at least one.
pub(super) fn choose(
    catalog: &Catalog,
    selector: &Selector<'_>,
) -> Result<Result<FunctionSet, Refusal>> {
    let chosen = catalog.select(selector)?;
    if !chosen.is_empty() {
        return Ok(Ok(chosen));
    }
    if !selector.is_name() || selector.module.is_some() {
        return Ok(Err(Refusal::NoSuchFunction));
    }
    // Several names can share an address, of which the list has one.
    let Some(address) = symbols::address_of(selector.names) else {
        return Ok(Err(Refusal::NoSuchFunction));
    };
    Ok(match catalog.at_symbol(address as usize) {
        Some(function) => Ok(FunctionSet::from_sorted([function.ip].into_iter())?),
        None => Err(Refusal::NotTraceable),
    })
}

impl Lists {
    /// Returns whether the function at symbol address `start` is to be traced.
    fn want(&self, machine: &Machine, start: u64) -> bool {
        let start = start as usize;
        let has = |set: &FunctionSet| {
            let from = set.as_slice().partition_point(|&ip| ip < start);
            let ip = set.as_slice().get(from);
            ip.is_some_and(|ip| ip - start <= MAX_LOCATION_OFFSET)
        };
        if self.get(List::Notrace).is_some_and(has) {
            return false;
        }
        match self.get(List::Filter) {
            Some(filter) => has(filter),
            None => machine
                .with_catalog(|catalog| Ok(catalog.at_symbol(start).is_some()))
                .unwrap_or(false),
        }
    }
}

impl Instance {
    /// Returns whether entries of the function at symbol address `start` are recorded now.
    pub(crate) fn is_traced(&self, start: u64) -> bool {
        let control = self.control.lock();
        control.tracer != Tracer::Nop && control.lists.want(&self.machine, start)
    }

    /// The functions that are traced now; `None` for all.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory, and those of [`Machine::with_catalog`].
    pub(crate) fn traced(&self) -> Result<Option<FunctionSet>> {
        let control = self.control.lock();
        let traced = self.traced_by_tracer(&control)?;
        match traced {
            Some(traced) if control.profile.is_on() => {
                Ok(Some(traced.union(&self.wanted_in_profile(&control)?)?))
            }
            traced => Ok(traced),
        }
    }

    /// The functions that the tracer and commands hook now; `None` for all.
    pub(super) fn traced_by_tracer(&self, control: &Control) -> Result<Option<FunctionSet>> {
        let entries = self.traced_entries(control)?;
        let Some(entries) = entries else {
            return Ok(None);
        };
        let mut traced = entries.union(&self.commanded()?)?;
        if control.tracer == Tracer::FunctionGraph {
            traced = traced.union(&self.wanted_calls(control)?)?;
        }
        Ok(Some(traced))
    }

    /// The functions whose entries are hooked now; `None` for all.
    fn traced_entries(&self, control: &Control) -> Result<Option<FunctionSet>> {
        let wanted = self.wanted_entries(control)?;
        if !self.options().has(TraceOption::FuncStackTrace) {
            return Ok(wanted);
        }
        let left_out = |catalog: &Catalog| {
            let mut left_out = FunctionSet::new();
            for names in unwind::OWN_FUNCTIONS {
                let Ok(selector) = Selector::parse(names) else {
                    continue;
                };
                left_out = left_out.union(&catalog.select(&selector)?)?;
            }
            let wanted = match &wanted {
                Some(wanted) => wanted.difference(&left_out)?,
                None => catalog.all()?.difference(&left_out)?,
            };
            Ok(Some(wanted))
        };
        self.machine.with_catalog(left_out)
    }

    /// Edits a list by what was written to its file. With `replace` the old list goes; if no words
    /// come then, all of it.
    ///
    /// # Errors
    ///
    /// Nothing is changed then, and for a word the error log says which.
    ///
    /// - `EINVAL` if a word is wrong, or means no function that can be traced.
    /// - `ENOMEM` if there is no memory.
    /// - Those of [`Hook::trace`](crate::sys::ftrace::Hook::trace).
    pub(crate) fn edit(&self, list: List, text: &[u8], replace: bool) -> Result {
        let mut control = self.control.lock();
        let mut patterns = KVVec::new();
        if list == List::Filter {
            if !replace {
                patterns.extend_from_slice(control.lists.patterns(), GFP_KERNEL)?;
            }
            keep_patterns(&mut patterns, text)?;
        }
        let is_command = |word: &[u8]| list == List::Filter && Command::parse(word).is_some();
        let names = || words(text).filter(|(_, word)| !is_command(word));
        let has_names = names().next().is_some();
        if !replace && words(text).next().is_none() {
            return Ok(());
        }
        let failed = |failure| match failure {
            Failure::Word(at, refusal) => self.refuse(list, refusal, text, at),
            Failure::Other(error) => error,
        };
        let mut edit = Edit {
            set: FunctionSet::new(),
            pending: control.lists.pending(list).map(|_| PendingWords::new()),
        };
        if !replace {
            if let Some(set) = control.lists.get(list) {
                edit.set = set.duplicate()?;
            }
            if let Some(pending) = control.lists.pending(list) {
                edit.pending = Some(pending.filtered(|_| true)?);
            }
        }
        if has_names {
            edit.apply(&self.machine, names()).map_err(failed)?;
        }
        let Edit { set, pending } = edit;
        // A filter that waits for modules is not one for all functions.
        let waits = list == List::Filter && pending.as_ref().is_some_and(|words| !words.is_empty());
        let is_as_before = !replace && !has_names;
        let keeps = waits || (is_as_before && control.lists.get(list).is_some());
        let new = (!set.is_empty() || keeps).then_some(set);
        let probes = match list {
            List::Filter => Some(self.edited_probes(text).map_err(failed)?),
            _ => None,
        };
        if new.is_none() {
            patterns.clear();
        }
        let probes = probes.map(|probes| self.replace_probes(&mut control, probes));
        let probes_before = probes.transpose()?;
        let before = control.lists.replace(list, new);
        if let Err(error) = self.rearm_after_edit(&mut control, list) {
            control.lists.replace(list, before);
            // (each, whatever becomes of the others)
            if let Some(probes) = probes_before {
                let _ = self.replace_probes(&mut control, probes);
            }
            let _ = self.arm_profile(&mut control);
            self.rearm_as_before(&mut control);
            return Err(error);
        }
        if list == List::Filter {
            control.lists.set_patterns(patterns);
        }
        if let Some(pending) = pending {
            control.lists.set_pending(list, pending);
        }
        Ok(())
    }

    /// Puts into the lists what waits for `module`, whose functions are in their place.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory, and those of [`Hook::trace`](crate::sys::ftrace::Hook::trace).
    pub(super) fn resolve_pending(&self, module: &[u8]) -> Result {
        let mut control = self.control.lock();
        let mut found = false;
        for list in [List::Filter, List::Notrace] {
            let waits = |word: &&[u8]| pending::waits_for(word, module);
            let Some(words) = control.lists.pending(list) else {
                continue;
            };
            if !words.iter().any(|word| waits(&word)) {
                continue;
            }
            if !found {
                self.machine.forget_catalog();
            }
            found = true;
            let mut set = match control.lists.get(list) {
                Some(set) => set.duplicate()?,
                None => FunctionSet::new(),
            };
            self.machine.with_catalog(|catalog| {
                for word in words.iter().filter(waits) {
                    if let Ok(selector) = Selector::parse(word) {
                        set = set.union(&catalog.select(&selector)?)?;
                    }
                }
                Ok(())
            })?;
            let rest = words.filtered(|word| !waits(&word))?;
            let keeps = list == List::Filter || !set.is_empty();
            control.lists.replace(list, keeps.then_some(set));
            control.lists.set_pending(list, rest);
        }
        match found {
            true => (self.rearm(&mut control)).and_then(|()| self.arm_profile(&mut control)),
            false => Ok(()),
        }
    }

    fn refuse(&self, list: List, refusal: Refusal, text: &[u8], at: usize) -> Error {
        let word = words(text).find(|(place, _)| *place == at);
        let word = word.map(|(_, word)| word).unwrap_or_default();
        let hint = match refusal {
            Refusal::NoSuchFunction => self.did_you_mean(word),
            _ => Text::new(),
        };
        pr_warn!(
            "{}: '{}': {}{}\n",
            list.name(),
            kernel::str::BStr::from_bytes(word),
            refusal.text(),
            kernel::str::BStr::from_bytes(hint.as_bytes())
        );
        (self.error_log.lock()).add_with(list.name(), refusal.text(), hint, text, at);
        EINVAL
    }

    /// The names of functions that are nearest to what a word names, for who reads why that was refused. Empty for a
    /// pattern, if nothing is near, or without memory.
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
}

/// Adds the patterns among `text`'s words, as far as there is room.
fn keep_patterns(patterns: &mut KVVec<u8>, text: &[u8]) -> Result {
    for (_, word) in words(text) {
        let is_pattern =
            Selector::parse(word).is_ok_and(|selector| !selector.remove && !selector.is_name());
        if is_pattern && patterns.len() + word.len() < MAX_PATTERNS {
            patterns.extend_from_slice(word, GFP_KERNEL)?;
            patterns.push(b' ', GFP_KERNEL)?;
        }
    }
    Ok(())
}
