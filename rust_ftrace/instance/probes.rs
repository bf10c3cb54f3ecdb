// SPDX-License-Identifier: GPL-2.0

//! The functions whose stacks are recorded: the words `func:stacktrace[:count]` of `filter`.
//!
//! As in tracefs they are no part of the list itself: such a function is traced, whatever the list and `notrace` say,
//! and `>` does not take it out, only `!func:stacktrace` does. (`echo > filter` takes out all: it stops everything.)
//! But what is recorded is an entry with a stack, and if only that was wanted of a function, no entries any more
//! once all stacks that were wanted are there.

use core::ops::Range;

use kernel::prelude::*;

use super::functions::{choose, Failure, List};
use super::{Control, Instance};
use crate::catalog::Catalog;
use crate::engine::filter::{words, StackCommand};
use crate::engine::function_set::FunctionSet;
use crate::tracer::probes::{Probes, StackProbe};

/// The same probes.
fn duplicate(probes: &[StackProbe]) -> Result<Probes> {
    let mut new = Probes::with_capacity(probes.len(), GFP_KERNEL)?;
    for probe in probes {
        new.push(probe.duplicate(), GFP_KERNEL)?;
    }
    Ok(new)
}

/// Applies the commands among words to `probes`.
fn apply(catalog: &Catalog, probes: &mut Probes, text: &[u8]) -> Result<(), Failure> {
    for (at, word) in words(text) {
        let Some(command) = StackCommand::parse(word) else {
            continue;
        };
        let command = command.map_err(|refusal| Failure::Word(at, refusal))?;
        let chosen = choose(catalog, &command.selector())?;
        let chosen = chosen.map_err(|refusal| Failure::Word(at, refusal))?;
        probes.retain(|probe| !chosen.contains(probe.ip));
        if !command.remove {
            for ip in chosen.as_slice() {
                probes.push(StackProbe::new(*ip, command.count), GFP_KERNEL)?;
            }
        }
    }
    probes.sort_unstable_by_key(|probe| probe.ip);
    Ok(())
}

impl Instance {
    /// The probes that there are when `text` was written to `filter`.
    pub(super) fn edited_probes(&self, text: &[u8], replace: bool) -> Result<Probes, Failure> {
        let mut probes = self.with_probes(duplicate)?;
        if replace && words(text).next().is_none() {
            probes.clear();
        }
        let mut failure = None;
        self.machine.with_catalog(|catalog| {
            match apply(catalog, &mut probes, text) {
                Err(Failure::Other(error)) => return Err(error),
                Err(other) => failure = Some(other),
                Ok(()) => {}
            }
            Ok(())
        })?;
        match failure {
            Some(failure) => Err(failure),
            None => Ok(probes),
        }
    }

    /// Puts other probes in the place of those that there are, and returns these.
    pub(super) fn replace_probes(&self, _control: &mut Control, new: Probes) -> Result<Probes> {
        let before = self.with_probes(duplicate)?;
        let recorder = self.hook.handler();
        if !new.is_empty() {
            recorder.beside().make_room(self.machine.core_text())?;
        }
        if !new.is_empty() || !before.is_empty() {
            recorder.set_probes(new)?;
        }
        Ok(before)
    }

    /// The functions that the hook of entries is wanted for; `None` for all. Tells the probes which of them are theirs
    /// alone.
    pub(super) fn wanted_entries(&self, control: &Control) -> Result<Option<FunctionSet>> {
        let lists = &control.lists;
        let plain = match lists.get(List::Filter) {
            None if control.implicit => Some(FunctionSet::new()),
            _ => lists.wanted(&self.machine)?,
        };
        self.with_probes(|probes| {
            for probe in probes {
                let plain = plain.as_ref();
                probe.set_alone(plain.is_some_and(|plain| !plain.contains(probe.ip)));
            }
            let Some(plain) = plain else {
                return Ok(None);
            };
            let probed = FunctionSet::from_sorted(probes.iter().map(|probe| probe.ip))?;
            Ok(Some(plain.union(&probed)?))
        })
    }

    /// Calls `user` with the probes. `control` is held.
    fn with_probes<R>(&self, user: impl FnOnce(&[StackProbe]) -> R) -> R {
        self.hook.handler().beside().probes().with(user)
    }

    /// The functions of probes, and how many stacks of each are still wanted; `None` for all.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn probes(&self) -> Result<KVec<(usize, Option<i64>)>> {
        let _control = self.control.lock();
        self.with_probes(|probes| {
            let mut list = KVec::new();
            for probe in probes {
                list.push((probe.ip, probe.left()), GFP_KERNEL)?;
            }
            Ok(list)
        })
    }

    /// Takes the probes of functions at addresses `range` out; whether there were any.
    pub(super) fn forget_probes(&self, control: &mut Control, range: &Range<usize>) -> bool {
        if !self.with_probes(|probes| probes.iter().any(|probe| range.contains(&probe.ip))) {
            return false;
        }
        let rest = self.with_probes(duplicate).and_then(|mut rest| {
            rest.retain(|probe| !range.contains(&probe.ip));
            self.replace_probes(control, rest)
        });
        if rest.is_err() {
            pr_warn!("probes of a removed module are still there, for want of memory\n");
        }
        true
    }

    /// Whether the filter, or a probe, says that something is traced.
    pub(super) fn is_asked(&self, control: &Control) -> bool {
        control.lists.get(List::Filter).is_some() || self.with_probes(|probes| !probes.is_empty())
    }
}
