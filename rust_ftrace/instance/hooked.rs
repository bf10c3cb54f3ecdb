// SPDX-License-Identifier: GPL-2.0

//! Questions about what an instance hooks now.

use kernel::prelude::*;
use kernel::sync::Mutex;

use super::skipped_matches::SkippedMatches;
use super::{Control, Instance};
use crate::engine::catalog::Catalog;
use crate::engine::command::Action;
use crate::engine::settings::Tracer;
use crate::machine::{HookMember, Machine};

/// The functions that are hooked, by the plan that is carried out.
pub(crate) struct Hooked<'a> {
    control: &'a Mutex<Control>,
    machine: &'a Machine,
    member: &'a HookMember,
    skipped: &'a SkippedMatches,
}

impl<'a> Hooked<'a> {
    /// Returns those of `instance`.
    pub(crate) fn by(instance: &'a Instance) -> Self {
        Self {
            control: &instance.control,
            machine: &instance.machine,
            member: &instance.hooks,
            skipped: &instance.skipped,
        }
    }

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
    pub(crate) fn bytes(&self) -> usize {
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

    /// Returns the number of calls whose return could not be watched.
    pub(crate) fn missed_calls(&self) -> u64 {
        self.machine.hooks().missed(self.member.id()).0
    }

    /// Returns the number of functions that patterns in the filter match but that cannot be traced;
    /// `None` if the kernel hides where functions are (`kernel.kptr_restrict` is 2).
    ///
    /// # Errors
    ///
    /// Those of [`SkippedMatches::count`].
    pub(crate) fn skipped_matches(&self) -> Result<Option<usize>> {
        let mut patterns = KVVec::new();
        {
            let control = self.control.lock();
            patterns.extend_from_slice(control.settings.lists.patterns(), GFP_KERNEL)?;
        }
        self.skipped.count(self.machine, patterns)
    }
}
