// SPDX-License-Identifier: GPL-2.0

//! Changes of what an instance hooks, all of which go through here.
//!
//! The settings are copied, the copy is changed, a [`HookPlan`] is made of it, and the plan is
//! carried out in two steps. The first prepares: all that takes memory or may be refused is done,
//! next to what is there, and what is registered calls nothing yet. If any of it fails, that is
//! taken back, for which no memory is needed, and all is as before. The second step, the commit,
//! cannot fail. A function that stays wanted is hooked all the time; if it goes from one hook to
//! another, it does so while all CPUs stand still.
//!
//! Entries are prepared last, as their hook records from then on. Functions with commands may be
//! hooked for longer than they have any; their hook finds none then.

use core::ops::Range;

use kernel::prelude::*;

use super::profile::Profile;
use super::too_deep::{Growth, Watcher};
use super::{Control, Instance, OwnSettings};
use crate::engine::catalog::Catalog;
use crate::engine::command_list::CommandList;
use crate::engine::function_set::FunctionSet;
use crate::engine::lists::FunctionLists;
use crate::engine::options::{Options, TraceOption};
use crate::engine::plan::{Calls, Entries, HookPlan, ProfiledCalls, Surroundings};
use crate::engine::settings::Tracer;
use crate::engine::sort::sort_by_key;
use crate::sys::ftrace::Functions;
use crate::sys::{cpu, rcu, unwind};
use crate::tracer::entry_extras::EntryExtra;
use crate::tracer::flags::FlagSet;
use crate::tracer::graph_hooks::GraphChange;
use crate::tracer::hook_flags::HookFlag;
use crate::tracer::probes::{Probe, Probes, Ready};
use crate::tracer::profile::Without;
use crate::tracer::profile_hooks::ProfileChange;

/// The prepared parts of a change, and what was there before.
#[derive(Default)]
struct Prepared {
    /// The functions with stacks, as they are to be in the end.
    stacks: Option<Ready>,
    /// The functions with stacks before, if others have replaced them already.
    stacks_before: Option<Ready>,
    commands: Option<Ready>,
    /// More functions are hooked for commands than before.
    hooks_more_commands: bool,
    graph: Option<GraphChange>,
    counts_too_deep: bool,
    profile: Option<ProfileChange>,
    /// The profile before, if another was begun.
    profile_before: Option<(Profile, Growth)>,
    made_snapshots: bool,
    follows_forks: bool,
}

impl Instance {
    /// Returns the plan of `settings`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory, and those of
    /// [`Machine::with_catalog`](crate::machine::Machine::with_catalog).
    fn plan(&self, settings: &OwnSettings) -> Result<HookPlan> {
        let of = |catalog: Option<&Catalog>| {
            let surroundings = Surroundings {
                catalog,
                never_called: self.machine.never_called(),
                unwinder: unwind::OWN_FUNCTIONS,
            };
            Ok(HookPlan::of(settings, &surroundings)?)
        };
        match settings.need_catalog() {
            true => self.machine.with_catalog(|catalog| of(Some(catalog))),
            false => of(None),
        }
    }

    /// Changes the settings by `edit`, and hooks what they say then.
    ///
    /// # Errors
    ///
    /// All is as before then.
    ///
    /// - `ENOMEM` if there is no memory.
    /// - Those of `edit`, [`Registration::trace`](crate::sys::ftrace::Registration::trace) and
    ///   [`Fprobes::prepare`](crate::sys::fprobe::Fprobes::prepare).
    pub(super) fn change(
        &self,
        control: &mut Control,
        edit: impl FnOnce(&mut OwnSettings) -> Result,
    ) -> Result {
        let mut new = control.settings.duplicate()?;
        if control.is_behind {
            let known = |catalog: &Catalog| Ok(new.lists.resolve_loaded(catalog)?);
            self.machine.with_catalog(known)?;
        }
        edit(&mut new)?;
        let plan = self.plan(&new)?;
        // With stacks, tracing what changes the code of thousands of functions would take longer
        // than that.
        let unwinds = |options: Options| options.has(TraceOption::FuncStackTrace);
        let pause = unwinds(new.options) || unwinds(self.options());
        let recorder = self.recording.hook.handler();
        recorder.set_flag(HookFlag::Pause, pause);
        let mut prepared = Prepared::default();
        let result = self.prepare_change(control, &new, &plan, &mut prepared);
        match result {
            Ok(()) => self.commit(control, new, plan, prepared),
            Err(_) => self.give_up(control, prepared),
        }
        recorder.set_flag(HookFlag::Pause, false);
        result
    }

    /// Hooks functions that came, or that were not hooked for want of memory; those at addresses
    /// `text` go.
    ///
    /// # Errors
    ///
    /// Those of [`Self::change`]; the next change tries again.
    pub(super) fn catch_up(&self, control: &mut Control, text: &[Range<usize>]) -> Result {
        let result = self.change(control, |settings| {
            // Words that waited for a module may mean these functions, too.
            for range in text {
                settings.forget(range);
            }
            Ok(())
        });
        if result.is_err() {
            control.is_behind = true;
        }
        result
    }

    fn prepare_change(
        &self,
        control: &mut Control,
        new: &OwnSettings,
        plan: &HookPlan,
        prepared: &mut Prepared,
    ) -> Result {
        self.prepare_memory(plan, prepared)?;
        self.prepare_commands(control, new, plan, prepared)?;
        if let Some(calls) = &plan.calls {
            self.prepare_calls(control, calls, prepared)?;
        }
        if let Some(counted) = &plan.counted {
            self.prepare_profile(control, counted, prepared)?;
        }
        let follows = new.options.has(TraceOption::FunctionFork);
        if follows && !self.options().has(TraceOption::FunctionFork) {
            self.follow_forks(control)?;
            prepared.follows_forks = true;
        }
        let union = control.plan.commanded.union(&plan.commanded)?;
        if union.len() != control.plan.commanded.len() || control.is_behind {
            // SAFETY: The recorder is valid until the commands' hook was removed: it is in
            // `recording`, which goes after `commands`.
            unsafe {
                self.commands
                    .handler()
                    .command(self.recording.hook.handler())
            };
            self.commands.trace(Functions::Only(union.as_slice()))?;
            prepared.hooks_more_commands = true;
        }
        if !plan.entries.is(&control.plan.entries) || control.is_behind {
            self.recording.hook.trace(functions(&plan.entries))?;
        }
        Ok(())
    }

    fn prepare_memory(&self, plan: &HookPlan, prepared: &mut Prepared) -> Result {
        let memory = plan.memory;
        if memory.stacks {
            let extras = self.recording.hook.handler().entry_extras();
            extras.make_room(self.machine.core_text())?;
        }
        if memory.buffers {
            self.recording.make_buffers(|buffers| {
                if memory.snapshots {
                    let had_any = buffers.has_snapshot(None);
                    buffers.make_spares(None)?;
                    prepared.made_snapshots = !had_any;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Makes the tables by which hooks find commands. If stacks of more functions are wanted, the
    /// table has them before these functions are hooked; if of fewer, it keeps the others until
    /// they are unhooked.
    fn prepare_commands(
        &self,
        control: &Control,
        new: &OwnSettings,
        plan: &HookPlan,
        prepared: &mut Prepared,
    ) -> Result {
        let before = &control.settings.commands;
        if before.as_slice().is_empty() && new.commands.as_slice().is_empty() {
            return Ok(());
        }
        let (mut first, mut stacks, mut commands) = (Probes::new(), Probes::new(), Probes::new());
        for commanded in new.commands.of(true) {
            let is_alone = plan.stack_only.contains(commanded.ip);
            stacks.push(Probe::new(commanded, is_alone), GFP_KERNEL)?;
            // The function is traced only for its stack until its entries are hooked, or once they
            // are no more.
            let is_alone = is_alone || control.plan.stack_only.contains(commanded.ip);
            first.push(Probe::new(commanded, is_alone), GFP_KERNEL)?;
        }
        for commanded in before.of(true) {
            // Stacks are sorted, as commands are.
            let found = stacks.binary_search_by_key(&commanded.ip, |probe| probe.ip);
            if found.is_err() {
                let is_alone = control.plan.stack_only.contains(commanded.ip);
                first.push(Probe::new(commanded, is_alone), GFP_KERNEL)?;
            }
        }
        sort_by_key(&mut first, |probe| probe.ip);
        for commanded in new.commands.of(false) {
            commands.push(Probe::new(commanded, false), GFP_KERNEL)?;
        }
        let first = Ready::new(first)?;
        prepared.stacks = Some(Ready::new(stacks)?);
        prepared.commands = Some(Ready::new(commands)?);
        prepared.stacks_before = Some(self.recording.hook.handler().set_probes(first));
        Ok(())
    }

    fn prepare_calls(
        &self,
        control: &mut Control,
        calls: &Calls,
        prepared: &mut Prepared,
    ) -> Result {
        let before = control.plan.calls.as_ref();
        if before.is_some_and(|before| before.is(calls)) && !control.is_behind {
            return Ok(());
        }
        // Counting begins before there is any call.
        prepared.counts_too_deep = self.too_deep.begin(Watcher::Tracer)?;
        let mut numbers = self.machine.hooks_calls();
        let recorder = self.recording.hook.handler();
        // SAFETY: The recorder stays valid until all is unhooked: it lives as long as the
        // instance, whose `control`, with all that is hooked for it, goes before it.
        let change = unsafe { (control.graph).prepare(&mut numbers, recorder, calls, false)? };
        prepared.graph = Some(change);
        Ok(())
    }

    fn prepare_profile(
        &self,
        control: &mut Control,
        counted: &ProfiledCalls,
        prepared: &mut Prepared,
    ) -> Result {
        let before = control.plan.counted.as_ref();
        if before.is_some_and(|before| before.is(counted)) && !control.is_behind {
            return Ok(());
        }
        if before.is_none() {
            prepared.profile_before = Some(self.profiling.begin(&self.too_deep)?);
        }
        self.profiling.extend(&self.machine, &counted.functions)?;
        let mut numbers = self.machine.hooks_calls();
        let profiler = &self.profiling.profiler;
        // SAFETY: The profiler stays valid until all is unhooked: it lives as long as the
        // instance, whose `control`, with all that is hooked for it, goes before it.
        let change = unsafe { (control.profile).prepare(&mut numbers, profiler, counted)? };
        prepared.profile = Some(change);
        Ok(())
    }

    /// Takes back what was prepared. Needs no memory.
    fn give_up(&self, control: &mut Control, prepared: Prepared) {
        if prepared.hooks_more_commands {
            self.hook_commands(&control.plan.commanded);
        }
        if prepared.follows_forks {
            control.forks.clear();
        }
        if let Some(change) = prepared.profile {
            control.profile.give_up(change);
        }
        if let Some(before) = prepared.profile_before {
            self.profiling.put_back(before, &self.too_deep);
        }
        if let Some(change) = prepared.graph {
            control.graph.give_up(change);
        }
        if prepared.counts_too_deep {
            self.too_deep.end(Watcher::Tracer);
        }
        if let Some(stacks) = prepared.stacks_before {
            let _ = self.recording.hook.handler().set_probes(stacks);
        }
        if prepared.made_snapshots {
            self.recording.buffers.lock().drop_spares();
        }
    }

    /// Hooks the functions with commands, where that may be fewer than before. Without memory the
    /// others stay hooked, which costs time and no more.
    fn hook_commands(&self, commanded: &FunctionSet) {
        let _ = (self.commands).trace(Functions::Only(commanded.as_slice()));
    }

    /// Carries out what was prepared. Needs no memory.
    fn commit(&self, control: &mut Control, new: OwnSettings, plan: HookPlan, prepared: Prepared) {
        let before = core::mem::replace(&mut control.settings, new);
        let plan_before = core::mem::replace(&mut control.plan, plan);
        control.is_behind = false;
        let Control {
            settings,
            plan,
            graph,
            profile,
            forks,
            ..
        } = control;
        let recorder = self.recording.hook.handler();
        self.store_options(settings.options);
        if let Some(stacks) = prepared.stacks {
            let _ = recorder.set_probes(stacks);
        }
        if let Some(commands) = prepared.commands {
            let _ = self.commands.handler().probes().replace(commands);
        }
        if plan_before.commanded.as_slice() != plan.commanded.as_slice() {
            self.hook_commands(&plan.commanded);
        }
        self.set_graph(settings);
        let counted = plan.counted.as_ref();
        if let Some(counted) = counted {
            if plan_before.counted.is_none() {
                self.profiling.profiler.forget_lost();
                control.missed_before = profile.missed();
            }
            self.profiling.profiler.set_without(without(counted));
        }
        let graph_change = prepared.graph.as_ref();
        let profile_change = prepared.profile.as_ref();
        let turn = || {
            if let Some(change) = graph_change {
                graph.turn(change);
            }
            if let Some(change) = profile_change {
                profile.turn(change);
            }
        };
        let is_exchange = graph_change.is_some_and(GraphChange::is_exchange)
            || profile_change.is_some_and(ProfileChange::is_exchange);
        match is_exchange {
            true => cpu::with_all_stopped(&turn),
            false => turn(),
        }
        if let Some(change) = prepared.graph {
            graph.finish(change);
        }
        if let Some(change) = prepared.profile {
            profile.finish(change);
        }
        if plan_before.calls.is_some() && plan.calls.is_none() {
            graph.clear();
            self.too_deep.end(Watcher::Tracer);
            // Hooks of other events do not look for entries that are not complete.
            self.recording.complete_entries(None);
        }
        if plan_before.counted.is_some() && counted.is_none() {
            profile.clear();
            self.too_deep.end(Watcher::Profile);
            // A hook that counts still does so in tables that stay.
            rcu::synchronize_preempt_off();
        }
        if !settings.options.has(TraceOption::FunctionFork) {
            forks.clear();
        }
        if settings.tracer != Tracer::Nop && settings.tracer != before.tracer {
            self.clear(None);
        }
        self.price(settings);
    }

    /// Unhooks all, and drops what is done at calls. Needs no memory.
    ///
    /// # Errors
    ///
    /// `ENODEV` if ftrace has disabled itself; nothing is changed then.
    pub(super) fn disarm(&self, control: &mut Control) -> Result {
        self.recording.hook.trace(Functions::Only(&[]))?;
        self.commands.trace(Functions::Only(&[]))?;
        let lists = core::mem::replace(&mut control.settings.lists, FunctionLists::new());
        let mut new = OwnSettings {
            lists,
            commands: CommandList::new(),
            ..control.settings
        };
        new.end_recording();
        let prepared = Prepared {
            stacks: Some(Ready::none()),
            commands: Some(Ready::none()),
            ..Prepared::default()
        };
        control.plan.commanded = FunctionSet::new();
        self.commit(control, new, HookPlan::none(), prepared);
        Ok(())
    }

    /// Passes options on: what is recorded of entries and calls, and what is dropped when a buffer
    /// is full.
    fn store_options(&self, options: Options) {
        let before = self.options();
        self.set_options(options);
        let is_new = |option| before.has(option) != options.has(option);
        if is_new(TraceOption::Overwrite) {
            let is_discard = !options.has(TraceOption::Overwrite);
            self.recording.buffers.lock().set_discard(is_discard);
        }
        let recorder = self.recording.hook.handler();
        let extras = [
            (TraceOption::FuncStackTrace, EntryExtra::Stack),
            (TraceOption::FuncArgs, EntryExtra::Args),
        ];
        for (option, what) in extras {
            if is_new(option) {
                recorder.record_extra(what, options.has(option));
            }
        }
    }

    /// Switches an option on or off on which no hook depends. Needs no memory.
    pub(super) fn switch_option(&self, control: &mut Control, option: TraceOption, on: bool) {
        control.settings.options = control.settings.options.with(option, on);
        self.store_options(control.settings.options);
        self.set_graph(&control.settings);
        self.price(&control.settings);
    }
}

/// Returns the functions of a plan's entries as a hook takes them.
fn functions(entries: &Entries) -> Functions<'_> {
    entries
        .set()
        .map_or(Functions::All, |set| Functions::Only(set.as_slice()))
}

/// Returns the parts of a call's time that do not count.
fn without(counted: &ProfiledCalls) -> FlagSet<Without> {
    FlagSet::NONE
        .with(Without::Calls, counted.without_calls)
        .with(Without::Sleep, counted.without_sleep)
}
