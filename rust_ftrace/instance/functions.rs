// SPDX-License-Identifier: GPL-2.0

//! Which functions an instance traces: its lists of them.

use kernel::prelude::*;

use super::Instance;
use crate::catalog::{Catalog, MAX_LOCATION_OFFSET};
use crate::engine::filter::{words, Refusal, Selector, StackCommand};
use crate::engine::function_set::FunctionSet;
use crate::engine::options::TraceOption;
use crate::machine::Machine;
use crate::shim::AllocError;
use crate::sys::{symbols, unwind};
use crate::tracer::Tracer;

/// One of the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    /// What is traced.
    Filter,
    /// What is not traced, though the filter says so.
    Notrace,
    /// What `function_graph` traces all calls below of.
    GraphFunction,
    /// What it traces no calls below of.
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
    /// The patterns in the filter, with a space after each.
    patterns: KVVec<u8>,
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
            patterns: KVVec::new(),
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

    /// The patterns in the filter.
    pub(crate) fn patterns(&self) -> &[u8] {
        &self.patterns
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

    /// Whether functions that come and go must be hooked and unhooked by hand, though no list names them.
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
        sets.fold(false, |found, set| set.remove_range(range) || found)
    }
}

/// Applies words to a list: `base` is what it begins with.
fn apply<'a>(
    machine: &Machine,
    base: FunctionSet,
    text: impl Iterator<Item = (usize, &'a [u8])>,
) -> Result<FunctionSet, Failure> {
    let mut set = base;
    let mut failure = None;
    machine.with_catalog(|catalog| {
        for (at, word) in text {
            match apply_word(catalog, &set, word) {
                Ok(Ok(new)) => set = new,
                Ok(Err(refusal)) => {
                    failure = Some(Failure::Word(at, refusal));
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })?;
    match failure {
        Some(failure) => Err(failure),
        None => Ok(set),
    }
}

fn apply_word(
    catalog: &Catalog,
    set: &FunctionSet,
    word: &[u8],
) -> Result<Result<FunctionSet, Refusal>> {
    let selector = match Selector::parse(word) {
        Ok(selector) => selector,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let chosen = match choose(catalog, &selector)? {
        Ok(chosen) => chosen,
        Err(refusal) => return Ok(Err(refusal)),
    };
    Ok(Ok(if selector.remove {
        set.difference(&chosen)?
    } else {
        set.union(&chosen)?
    }))
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
    /// Whether the function at symbol address `start` is to be traced.
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
    /// Whether entries of the function at symbol address `start` are recorded now.
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
        let wanted = match control.tracer {
            Tracer::Nop => return Ok(Some(FunctionSet::new())),
            Tracer::FunctionGraph => return Ok(Some(self.wanted_calls(&control)?)),
            Tracer::Function | Tracer::CallTrace => self.wanted_entries(&control)?,
        };
        if !control.options.has(TraceOption::FuncStackTrace) {
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
        let old = match control.lists.get(list) {
            Some(set) if !replace => set.duplicate()?,
            _ => FunctionSet::new(),
        };
        let mut patterns = KVVec::new();
        if list == List::Filter {
            if !replace {
                patterns.extend_from_slice(control.lists.patterns(), GFP_KERNEL)?;
            }
            keep_patterns(&mut patterns, text)?;
        }
        let is_command = |word: &[u8]| list == List::Filter && StackCommand::parse(word).is_some();
        let names = || words(text).filter(|(_, word)| !is_command(word));
        let has_names = names().next().is_some();
        if !replace && words(text).next().is_none() {
            return Ok(());
        }
        let failed = |failure| match failure {
            Failure::Word(at, refusal) => self.refuse(list, refusal, text, at),
            Failure::Other(error) => error,
        };
        let new = if has_names {
            let new = apply(&self.machine, old, names()).map_err(failed)?;
            (!new.is_empty()).then_some(new)
        } else if replace {
            None
        } else {
            (!old.is_empty()).then_some(old)
        };
        let probes = match list {
            List::Filter => Some(self.edited_probes(text, replace).map_err(failed)?),
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
            if let Some(probes) = probes_before {
                self.replace_probes(&mut control, probes)?;
            }
            return Err(error);
        }
        if list == List::Filter {
            control.lists.patterns = patterns;
        }
        Ok(())
    }

    fn refuse(&self, list: List, refusal: Refusal, text: &[u8], at: usize) -> Error {
        let word = words(text)
            .find(|(place, _)| *place == at)
            .map(|(_, word)| word);
        pr_warn!(
            "{}: '{}': {}\n",
            list.name(),
            kernel::str::BStr::from_bytes(word.unwrap_or_default()),
            refusal.text()
        );
        self.error_log
            .lock()
            .add(list.name(), refusal.text(), text, at);
        EINVAL
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
