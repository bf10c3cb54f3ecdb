// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The lists of functions that users write: `filter`, `notrace`, `graph_function` and
//! `graph_notrace`.

use core::ops::Range;

use super::catalog::{Catalog, MAX_LOCATION_OFFSET};
use super::command::Command;
use super::filter::{words, Selector, SelectorError};
use super::function_set::FunctionSet;
use super::pending::{self, PendingWords};
use crate::platform::{AllocError, Vec};

/// One of the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionList {
    /// Functions that are traced.
    Filter,
    /// Functions that are not traced, even if the filter has them.
    Notrace,
    /// Functions below which `function_graph` traces all calls.
    GraphFunction,
    /// Functions below which it traces no calls.
    GraphNotrace,
}

impl FunctionList {
    /// All lists.
    pub const ALL: [Self; 4] = [
        Self::Filter,
        Self::Notrace,
        Self::GraphFunction,
        Self::GraphNotrace,
    ];

    /// Returns the name of its file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Notrace => "notrace",
            Self::GraphFunction => "graph_function",
            Self::GraphNotrace => "graph_notrace",
        }
    }
}

/// A reason for which words are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListError {
    /// The word at this byte is refused.
    Word(usize, SelectorError),
    /// There is no memory.
    NoMemory,
}

impl From<AllocError> for ListError {
    fn from(_: AllocError) -> Self {
        Self::NoMemory
    }
}

/// The functions and symbols that words can mean.
#[derive(Clone, Copy)]
pub struct KnownFunctions<'a> {
    /// The functions that can be traced.
    pub catalog: &'a Catalog,
    /// Returns the address of a symbol: several names can share one, of which the catalog has one.
    pub address_of: &'a dyn Fn(&[u8]) -> Option<usize>,
}

impl KnownFunctions<'_> {
    /// Returns the functions that a word means, at least one.
    pub(super) fn choose(
        self,
        selector: &Selector<'_>,
    ) -> Result<Result<FunctionSet, SelectorError>, AllocError> {
        let chosen = self.catalog.select(selector)?;
        if !chosen.is_empty() {
            return Ok(Ok(chosen));
        }
        if !selector.is_name() || selector.module.is_some() {
            return Ok(Err(SelectorError::NoSuchFunction));
        }
        let Some(address) = (self.address_of)(selector.names) else {
            return Ok(Err(SelectorError::NoSuchFunction));
        };
        Ok(match self.catalog.at_symbol(address) {
            Some(function) => Ok(FunctionSet::from_sorted([function.ip].into_iter())?),
            None => Err(SelectorError::NotTraceable),
        })
    }
}

/// Most bytes of patterns that are kept for `status`.
const MAX_PATTERNS: usize = 4096;

/// All lists of functions.
pub struct FunctionLists {
    /// The functions of each [`FunctionList`]. `None` if nothing was written: then all functions
    /// are traced, or none are left out. An empty set is the rest of a list whose functions all
    /// went away with their modules.
    sets: [Option<FunctionSet>; 4],
    /// For each of the first two [`FunctionList`]s, the words that mean something once a module is
    /// loaded.
    pending: [PendingWords; 2],
    /// The patterns in the filter, with a space after each.
    patterns: Vec<u8>,
}

impl FunctionLists {
    /// Makes empty lists.
    pub const fn new() -> Self {
        Self {
            sets: [const { None }; 4],
            pending: [const { PendingWords::new() }; 2],
            patterns: Vec::new(),
        }
    }

    /// Returns a copy.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn duplicate(&self) -> Result<Self, AllocError> {
        let mut new = Self::new();
        for list in FunctionList::ALL {
            if let Some(set) = self.get(list) {
                new.set(list, Some(set.duplicate()?));
            }
            if let Some(words) = self.pending(list) {
                new.set_pending(list, words.filtered(|_| true)?);
            }
        }
        new.patterns.extend_from_slice(&self.patterns)?;
        Ok(new)
    }

    /// Returns the functions of a list; `None` if nothing was written.
    pub fn get(&self, list: FunctionList) -> Option<&FunctionSet> {
        self.sets.get(list as usize)?.as_ref()
    }

    /// Returns whether anything was written to a list: functions, even if all are gone, or words
    /// that wait.
    pub fn has(&self, list: FunctionList) -> bool {
        self.get(list).is_some()
    }

    fn set(&mut self, list: FunctionList, new: Option<FunctionSet>) {
        if let Some(set) = self.sets.get_mut(list as usize) {
            *set = new;
        }
    }

    /// Returns the words of a list that wait for modules; `None` if it has none such.
    pub fn pending(&self, list: FunctionList) -> Option<&PendingWords> {
        self.pending.get(list as usize)
    }

    fn set_pending(&mut self, list: FunctionList, new: PendingWords) {
        if let Some(pending) = self.pending.get_mut(list as usize) {
            *pending = new;
        }
    }

    /// Returns the patterns in the filter, with a space after each.
    pub fn patterns(&self) -> &[u8] {
        &self.patterns
    }

    /// Edits a list by the words written to its file, except commands. With `replace` the words
    /// replace the old list; without words nothing is left of it.
    ///
    /// # Errors
    ///
    /// The list may be half edited then: it is a copy that is edited.
    pub fn edit(
        &mut self,
        list: FunctionList,
        text: &[u8],
        replace: bool,
        known: KnownFunctions<'_>,
    ) -> Result<(), ListError> {
        let is_command =
            |word: &[u8]| list == FunctionList::Filter && Command::parse(word).is_some();
        let had = self.has(list);
        if replace {
            self.set(list, None);
            self.set_pending(list, PendingWords::new());
            if list == FunctionList::Filter {
                self.patterns.clear();
            }
        }
        let mut set = match self.get(list) {
            Some(set) => set.duplicate()?,
            None => FunctionSet::new(),
        };
        let mut has_names = false;
        for (at, word) in words(text).filter(|(_, word)| !is_command(word)) {
            has_names = true;
            let refused = |refusal| ListError::Word(at, refusal);
            let selector = Selector::parse(word).map_err(refused)?;
            set = match known.choose(&selector)? {
                Ok(chosen) if selector.remove => set.difference(&chosen)?,
                Ok(chosen) => set.union(&chosen)?,
                Err(refusal) => {
                    self.put_off(list, word, &selector, refusal, known.catalog)?
                        .map_err(refused)?;
                    set
                }
            };
            self.keep_pattern(list, word, &selector)?;
        }
        // A filter that waits for modules is not a filter for all functions.
        let waits = list == FunctionList::Filter
            && self.pending(list).is_some_and(|words| !words.is_empty());
        let is_as_before = !replace && !has_names;
        let keeps = waits || (is_as_before && had);
        let new = (!set.is_empty() || keeps).then_some(set);
        if new.is_none() && list == FunctionList::Filter {
            self.patterns.clear();
        }
        self.set(list, new);
        Ok(())
    }

    /// Keeps a word that means nothing yet until its module is loaded, or takes such a word out.
    /// Any other word is refused.
    fn put_off(
        &mut self,
        list: FunctionList,
        word: &[u8],
        selector: &Selector<'_>,
        refusal: SelectorError,
        catalog: &Catalog,
    ) -> Result<Result<(), SelectorError>, AllocError> {
        let Some(pending) = self.pending(list).filter(|_| selector.names_modules()) else {
            return Ok(Err(refusal));
        };
        let new = if selector.remove {
            match pending.without(selector)? {
                Some(rest) => rest,
                None => return Ok(Err(refusal)),
            }
        } else if catalog.has_module_of(selector) {
            return Ok(Err(refusal));
        } else {
            pending.with(word)?
        };
        self.set_pending(list, new);
        Ok(Ok(()))
    }

    /// Adds a word to the patterns of the filter, if it is a pattern and there is room.
    fn keep_pattern(
        &mut self,
        list: FunctionList,
        word: &[u8],
        selector: &Selector<'_>,
    ) -> Result<(), AllocError> {
        let is_pattern = list == FunctionList::Filter && !selector.remove && !selector.is_name();
        if is_pattern && self.patterns.len() + word.len() < MAX_PATTERNS {
            self.patterns.extend_from_slice(word)?;
            self.patterns.push(b' ')?;
        }
        Ok(())
    }

    /// Returns whether words wait for `module`.
    pub fn wait_for(&self, module: &[u8]) -> bool {
        let mut words = self.pending.iter().flat_map(PendingWords::iter);
        words.any(|word| pending::waits_for(word, module))
    }

    /// Resolves the words that wait for `module`: puts the functions that they mean in the lists,
    /// and takes the words out.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory; the lists may be half changed then.
    pub fn resolve(&mut self, module: &[u8], catalog: &Catalog) -> Result<(), AllocError> {
        self.resolve_if(|word| pending::waits_for(word, module), catalog)
    }

    /// Resolves all words whose module is loaded by now, as [`Self::resolve`] does.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory; the lists may be half changed then.
    pub fn resolve_loaded(&mut self, catalog: &Catalog) -> Result<(), AllocError> {
        let is_there = |word: &[u8]| {
            Selector::parse(word).is_ok_and(|selector| catalog.has_module_of(&selector))
        };
        self.resolve_if(is_there, catalog)
    }

    fn resolve_if(
        &mut self,
        is_meant: impl Fn(&[u8]) -> bool,
        catalog: &Catalog,
    ) -> Result<(), AllocError> {
        for list in [FunctionList::Filter, FunctionList::Notrace] {
            let Some(words) = self.pending(list) else {
                continue;
            };
            if !words.iter().any(&is_meant) {
                continue;
            }
            let mut set = match self.get(list) {
                Some(set) => set.duplicate()?,
                None => FunctionSet::new(),
            };
            for word in words.iter().filter(|word| is_meant(word)) {
                if let Ok(selector) = Selector::parse(word) {
                    set = set.union(&catalog.select(&selector)?)?;
                }
            }
            let rest = words.filtered(|word| !is_meant(word))?;
            let keeps = list == FunctionList::Filter || !set.is_empty();
            self.set(list, keeps.then_some(set));
            self.set_pending(list, rest);
        }
        Ok(())
    }

    /// Returns the functions to be traced; `None` for all, which needs no catalog.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub(super) fn wanted(
        &self,
        catalog: Option<&Catalog>,
    ) -> Result<Option<FunctionSet>, AllocError> {
        let filter = self.get(FunctionList::Filter);
        let Some(notrace) = self.get(FunctionList::Notrace) else {
            return filter.map(FunctionSet::duplicate).transpose();
        };
        Ok(Some(match (filter, catalog) {
            (Some(filter), _) => filter.difference(notrace)?,
            (None, Some(catalog)) => catalog.all()?.difference(notrace)?,
            (None, None) => FunctionSet::new(),
        }))
    }

    /// Returns whether entries of the function at symbol address `start` are to be traced; `None`
    /// if that depends on whether the function is in the catalog.
    pub fn wants(&self, start: usize) -> Option<bool> {
        let has = |set: &FunctionSet| {
            let from = set.as_slice().partition_point(|&ip| ip < start);
            let ip = set.as_slice().get(from);
            ip.is_some_and(|ip| ip - start <= MAX_LOCATION_OFFSET)
        };
        if self.get(FunctionList::Notrace).is_some_and(has) {
            return Some(false);
        }
        self.get(FunctionList::Filter).map(has)
    }

    /// Takes the functions at addresses `range` out of all lists, which needs no memory. Returns
    /// whether there were any.
    pub fn forget(&mut self, range: &Range<usize>) -> bool {
        let sets = self.sets.iter_mut().flatten();
        let found = sets.fold(false, |found, set| set.remove_range(range) || found);
        // An empty list of functions to leave out counts as none, but an empty filter does not mean
        // all.
        for list in [FunctionList::Notrace, FunctionList::GraphNotrace] {
            if self.get(list).is_some_and(FunctionSet::is_empty) {
                self.set(list, None);
            }
        }
        found
    }

    /// Returns the bytes of memory that this takes.
    pub fn bytes(&self) -> usize {
        let sets = self.sets.iter().flatten().map(FunctionSet::bytes);
        sets.sum::<usize>() + self.patterns.capacity()
    }
}
