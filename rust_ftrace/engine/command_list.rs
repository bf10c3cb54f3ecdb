// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Commands, the list: functions at whose calls an action is done, by the words
//! `func:action[:count]` of `filter`.
//!
//! As in tracefs commands are no part of the filter itself: the action is done whatever the filter,
//! `notrace` and the tracer say, and `>` does not take it out, only `!func:action` does. But
//! `stacktrace` records an entry with a stack; a function of which only that is wanted has no
//! entries any more once all stacks that were wanted are there.

use core::ops::Range;

use super::command::{Action, Command};
use super::filter::words;
use super::function_set::FunctionSet;
use super::lists::{KnownFunctions, ListError};
use super::sort::sort_by_key;
use crate::platform::{AllocError, Vec};

/// A function, the action at its calls, and a handle of the number of times that are left, which
/// hooks count down: all copies of the settings share it, so that no count is lost by an edit.
#[derive(Clone)]
pub struct Commanded<C> {
    /// Its ftrace location.
    pub ip: usize,
    /// The action.
    pub action: Action,
    /// The number of times that are left.
    pub left: C,
}

/// All commands, sorted by function and action.
pub struct CommandList<C>(Vec<Commanded<C>>);

impl<C: Clone> CommandList<C> {
    /// Makes an empty list.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns a copy, which shares the counts.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn duplicate(&self) -> Result<Self, AllocError> {
        let mut new = Vec::new();
        for commanded in self.0.iter() {
            new.push(commanded.clone())?;
        }
        Ok(Self(new))
    }

    /// Returns all commands.
    pub fn as_slice(&self) -> &[Commanded<C>] {
        &self.0
    }

    /// Returns those whose action is recording a stack, or the others.
    pub fn of(&self, stacks: bool) -> impl Iterator<Item = &Commanded<C>> {
        let is_meant = move |it: &&Commanded<C>| (it.action == Action::Stacktrace) == stacks;
        self.0.iter().filter(is_meant)
    }

    /// Returns whether an action may take a snapshot.
    pub fn has_snapshot(&self) -> bool {
        self.0.iter().any(|it| it.action == Action::Snapshot)
    }

    /// Returns the functions of [`Self::of`].
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn functions(&self, stacks: bool) -> Result<FunctionSet, AllocError> {
        FunctionSet::from_sorted(self.of(stacks).map(|it| it.ip))
    }

    /// Carries out the commands among words. `count` makes the handle of a number of times, `None`
    /// for always.
    ///
    /// # Errors
    ///
    /// The list may be half edited then: it is a copy that is edited.
    pub fn edit(
        &mut self,
        text: &[u8],
        known: KnownFunctions<'_>,
        count: &dyn Fn(Option<u64>) -> Result<C, AllocError>,
    ) -> Result<(), ListError> {
        let mut is_changed = false;
        for (at, word) in words(text) {
            let Some(command) = Command::parse(word) else {
                continue;
            };
            let refused = |refusal| ListError::Word(at, refusal);
            let command = command.map_err(refused)?;
            let chosen = known.choose(&command.selector())?.map_err(refused)?;
            let action = command.action;
            (self.0).retain(|it| it.action != action || !chosen.contains(it.ip));
            if !command.remove {
                for &ip in chosen.as_slice() {
                    let left = count(command.count)?;
                    self.0.push(Commanded { ip, action, left })?;
                }
            }
            is_changed = true;
        }
        if is_changed {
            sort_by_key(&mut self.0, |it| (it.ip, it.action));
        }
        Ok(())
    }

    /// Takes out functions at addresses `range`, which needs no memory. Returns whether there were
    /// any.
    pub fn forget(&mut self, range: &Range<usize>) -> bool {
        let before = self.0.len();
        self.0.retain(|it| !range.contains(&it.ip));
        self.0.len() != before
    }

    /// Returns the bytes of memory that this takes, without the counts.
    pub fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Commanded<C>>()
    }

    /// Takes out all, which needs no memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
