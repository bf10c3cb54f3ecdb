// SPDX-License-Identifier: GPL-2.0

//! Edits of the lists of functions, by what is written to their files.

use kernel::prelude::*;

use super::Instance;
use crate::engine::command::Command;
use crate::engine::filter::{words, Selector, SelectorError};
use crate::engine::lists::{FunctionList, KnownFunctions, ListError};
use crate::engine::nearest::Nearest;
use crate::engine::text::Text;
use crate::machine::Machine;
use crate::sys::private;
use crate::tracer::probes::ProbeCount;

/// An edit of a list.
#[derive(Clone, Copy)]
pub(crate) struct ListEdit<'a> {
    pub(crate) list: FunctionList,
    /// The words that were written.
    pub(crate) text: &'a [u8],
    /// The old list goes, all of it if there are no words.
    pub(crate) replace: bool,
}

impl ListEdit<'_> {
    /// Edits the list of `instance`, and hooks what it says then.
    ///
    /// # Errors
    ///
    /// Nothing is changed then, and the error log says which word is wrong.
    ///
    /// - `EINVAL` if a word is wrong, or means no function that can be traced.
    /// - `ENOMEM` if there is no memory.
    /// - Those of [`Instance::change`].
    pub(crate) fn apply(&self, instance: &Instance) -> Result {
        let Self {
            list,
            text,
            replace,
        } = *self;
        if !replace && words(text).next().is_none() {
            return Ok(());
        }
        let mut failure = None;
        let result = instance.change(|settings| {
            instance.machine.with_catalog(|catalog| {
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
            Some(ListError::Word(at, refusal)) => Err(self.refuse(instance, refusal, at)),
            _ => result,
        }
    }

    /// Says which word is refused, and why.
    #[inline(never)]
    fn refuse(&self, instance: &Instance, refusal: SelectorError, at: usize) -> Error {
        let word = words(self.text).find(|(place, _)| *place == at);
        let word = word.map(|(_, word)| word).unwrap_or_default();
        let hint = match refusal {
            SelectorError::NoSuchFunction => did_you_mean(&instance.machine, word),
            _ => Text::new(),
        };
        pr_warn!(
            "{}: '{}': {}{}\n",
            self.list.name(),
            kernel::str::BStr::from_bytes(word),
            refusal.text(),
            kernel::str::BStr::from_bytes(hint.as_bytes())
        );
        (instance.errors).add_with(self.list.name(), refusal.text(), hint, self.text, at);
        EINVAL
    }
}

/// Returns the names of functions that are nearest to what a word names, as a hint behind the
/// reason for refusing it. Empty for a pattern, if no name is near, or without memory.
fn did_you_mean(machine: &Machine, word: &[u8]) -> Text {
    let parsed = match Command::parse(word) {
        Some(command) => command.map(|command| command.selector()),
        None => Selector::parse(word),
    };
    let mut hint = Text::new();
    let result = machine.with_catalog(|catalog| {
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
