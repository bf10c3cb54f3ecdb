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
use kernel::sync::atomic::Relaxed;

use super::profile::contexts::Callers;
use super::profile::Profile;
use super::too_deep::{Growth, Watcher};
use super::{Control, Instance, OwnSettings};
use crate::engine::catalog::Catalog;
use crate::engine::clock::ClockKind;
use crate::engine::command_list::CommandList;
use crate::engine::errno::ResultKind;
use crate::engine::function_set::FunctionSet;
use crate::engine::lists::FunctionLists;
use crate::engine::options::{Options, TraceOption};
use crate::engine::plan::{Calls, CallsByResult, Entries, FrameKind, HookPlan, Surroundings};
use crate::engine::settings::Tracer;
use crate::engine::sharing::ShareError;
use crate::engine::sort::sort_by_key;
use crate::machine::call_hooks::{HookChange, WantedCalls, Watchers};
use crate::machine::{HooksGuard, TypesCache};
use crate::sys::ftrace::Functions;
use crate::sys::symbols::SymbolText;
use crate::sys::{rcu, unwind};
use crate::tracer::entry_extras::EntryExtra;
use crate::tracer::hook_flags::HookFlag;
use crate::tracer::probes::{Probe, Probes, Ready};

/// The prepared parts of a change, and what was there before.
#[derive(Default)]
struct Prepared<'a> {
    /// The functions with stacks, as they are to be in the end.
    stacks: Option<Ready>,
    /// The functions with stacks before, if others have replaced them already.
    stacks_before: Option<Ready>,
    commands: Option<Ready>,
    /// More functions are hooked for commands than before.
    hooks_more_commands: bool,
    /// The hooks of calls, of which no others are changed meanwhile.
    hooks: Option<(HooksGuard<'a>, KBox<HookChange>)>,
    counts_too_deep: bool,
    /// The profile before, if another was begun.
    profile_before: Option<(Profile, Growth)>,
    callers: Option<Callers>,
    made_snapshots: bool,
    follows_forks: bool,
    follows_members: bool,
}

impl Instance {
    /// Returns the plan of `settings`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory, and those of
    /// [`Machine::with_catalog`](crate::machine::Machine::with_catalog).
    #[inline(never)]
    fn plan(&self, settings: &OwnSettings) -> Result<KBox<HookPlan>> {
        let of = |catalog: Option<&Catalog>| {
            let surroundings = Surroundings {
                catalog,
                never_called: self.machine.never_called(),
                unwinder: unwind::OWN_FUNCTIONS,
            };
            let place = KBox::new_uninit(GFP_KERNEL)?;
            Ok(place.write(HookPlan::of(settings, &surroundings)?))
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
        let mut new = self.duplicate(control)?;
        if control.is_behind {
            let known = |catalog: &Catalog| Ok(new.lists.resolve_loaded(catalog)?);
            self.machine.with_catalog(known)?;
        }
        edit(&mut new)?;
        self.carry_out(control, new)
    }

    /// Returns a copy of the settings. (they are too large for the stack)
    #[inline(never)]
    fn duplicate(&self, control: &Control) -> Result<KBox<OwnSettings>> {
        let place = KBox::new_uninit(GFP_KERNEL)?;
        Ok(place.write(control.settings.duplicate()?))
    }

    /// Changes the settings to `new`, and what follows from them.
    ///
    /// # Errors
    ///
    /// Those of [`Self::change`] but for its `edit`.
    #[inline(never)]
    fn carry_out(&self, control: &mut Control, mut new: KBox<OwnSettings>) -> Result {
        let mut plan = self.plan(&new)?;
        // With stacks, tracing what changes the code of thousands of functions would take longer
        // than that.
        let unwinds = |options: Options| options.has(TraceOption::FuncStackTrace);
        let pause = unwinds(new.options) || unwinds(self.options());
        let recorder = self.recording.hook.handler();
        recorder.set_flag(HookFlag::Pause, pause);
        let mut prepared = Prepared::default();
        let result = self.prepare_change(control, &new, &plan, &mut prepared);
        match result {
            Ok(()) => {
                core::mem::swap(&mut control.settings, &mut new);
                core::mem::swap(&mut control.plan, &mut plan);
                self.commit(control, &new, &plan, prepared);
            }
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

    fn prepare_change<'a>(
        &'a self,
        control: &mut Control,
        new: &OwnSettings,
        plan: &HookPlan,
        prepared: &mut Prepared<'a>,
    ) -> Result {
        self.prepare_memory(plan, prepared)?;
        self.prepare_commands(control, new, plan, prepared)?;
        self.prepare_calls(control, plan, prepared)?;
        let follows = new.options.has(TraceOption::FunctionFork);
        if follows && !self.options().has(TraceOption::FunctionFork) {
            self.follow_forks(control)?;
            prepared.follows_forks = true;
        }
        if new.options.has(TraceOption::RecordCgroup) {
            self.follow_members(control)?;
            prepared.follows_members = true;
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

    #[inline(never)]
    fn prepare_memory(&self, plan: &HookPlan, prepared: &mut Prepared<'_>) -> Result {
        let memory = plan.memory;
        if memory.stacks {
            let extras = self.recording.hook.handler().entry_extras();
            extras.make_room(self.machine.core_text())?;
        }
        if memory.wakers {
            self.recording.hook.handler().graph().make_wakers()?;
        }
        if memory.sleeps {
            self.profiling.profiler.make_sleeps()?;
        }
        if memory.links {
            self.recording.hook.handler().graph().make_links()?;
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
    #[inline(never)]
    fn prepare_commands(
        &self,
        control: &Control,
        new: &OwnSettings,
        plan: &HookPlan,
        prepared: &mut Prepared<'_>,
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

    fn prepare_calls<'a>(
        &'a self,
        control: &Control,
        plan: &HookPlan,
        prepared: &mut Prepared<'a>,
    ) -> Result {
        let (calls, counted) = (plan.calls.as_ref(), plan.counted.as_ref());
        let before = &control.plan;
        let is_traced_as_before = match (&before.calls, calls) {
            (Some(before), Some(calls)) => before.is(calls) && !control.is_behind,
            (before, calls) => before.is_none() && calls.is_none(),
        };
        let is_counted_as_before = match (&before.counted, counted) {
            (Some(before), Some(counted)) => before.is(counted) && !control.is_behind,
            (before, counted) => before.is_none() && counted.is_none(),
        };
        // The end of all needs no preparation, and no memory.
        if (is_traced_as_before && is_counted_as_before) || (calls.is_none() && counted.is_none()) {
            return Ok(());
        }
        if calls.is_some() && !is_traced_as_before {
            // Counting begins before there is any call.
            prepared.counts_too_deep = self.too_deep.begin(Watcher::Tracer)?;
        }
        if let Some(counted) = counted.filter(|_| !is_counted_as_before) {
            if before.counted.is_none() {
                prepared.profile_before = Some(self.profiling.begin(&self.too_deep)?);
            }
            let functions = counted.roles.taken()?;
            self.profiling.extend(&self.machine, counted, &functions)?;
            if counted.contexts {
                prepared.callers = Some(self.profiling.prepare_callers(&self.machine, &functions)?);
            }
        }
        let wanted = WantedCalls {
            calls,
            results: self.results(calls)?,
            counted,
            own_start: self.own_start(self.recording.clock()),
            anew: [false, plan.is_newly_rooted(before)],
        };
        prepared.hooks = Some(self.prepare_hooks(wanted)?);
        Ok(())
    }

    /// Returns the functions of `calls` by how their results can be errors, if these are asked for.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory, `EOPNOTSUPP` if the kernel does not say what its functions
    /// return, and those of [`Machine::with_catalog`](crate::machine::Machine::with_catalog).
    #[inline(never)]
    pub(super) fn results(&self, calls: Option<&Calls>) -> Result<Option<KBox<CallsByResult>>> {
        let Some(calls) = calls.filter(|calls| calls.frames == FrameKind::Errno) else {
            return Ok(None);
        };
        if self.machine.btf()?.is_none() {
            return Err(EOPNOTSUPP);
        }
        let mut types = TypesCache::default();
        self.machine.with_catalog(|catalog| {
            let mut result = Ok(());
            let kind_of = |ip| {
                let Some(function) = catalog.at(ip) else {
                    return ResultKind::Unknown;
                };
                match types.find(&self.machine, function.module) {
                    Ok(types) => {
                        types.map_or(ResultKind::Unknown, |types| types.result(function.name))
                    }
                    Err(error) => {
                        result = Err(error);
                        ResultKind::Unknown
                    }
                }
            };
            let results = KBox::new(CallsByResult::of(calls, kind_of)?, GFP_KERNEL)?;
            result.map(|()| Some(results))
        })
    }

    /// Returns for tracer and profile whether their times are not those of the time stamp counter,
    /// if `kind` is the tracer's clock.
    pub(super) fn own_start(&self, kind: ClockKind) -> [bool; 2] {
        [kind, ClockKind::Local].map(|kind| !self.machine.is_counter(kind))
    }

    /// Prepares the hooks of calls, which stay locked.
    ///
    /// # Errors
    ///
    /// Those of [`CallHooks::prepare`](crate::machine::call_hooks::CallHooks::prepare); nothing is
    /// changed then. The error log says which function too many parts want.
    pub(super) fn prepare_hooks(
        &self,
        wanted: WantedCalls<'_>,
    ) -> Result<(HooksGuard<'_>, KBox<HookChange>)> {
        let mut hooks = self.machine.hooks();
        let watchers = Watchers {
            recorder: self.recording.hook.handler(),
            profiler: &self.profiling.profiler,
        };
        // SAFETY: Both stay valid until the instance has left: they live as long as the instance,
        // whose `hooks`, which leaves, goes before them.
        let change = unsafe { hooks.prepare(self.hooks.id(), watchers, wanted) };
        match change {
            Ok(change) => Ok((hooks, change)),
            Err(error) => {
                self.log_refusal(hooks.refusal());
                Err(error)
            }
        }
    }

    /// Notes in the error log that calls cannot be shared as wanted, if that is so.
    fn log_refusal(&self, refusal: Option<ShareError>) {
        match refusal {
            Some(ShareError::NoRoom(ip)) => {
                let reason = "Too many tracers and profiles want the calls of this function";
                let mut text = SymbolText::new().ok();
                let name = text.as_mut().map(|text| text.look_up(ip as u64));
                self.errors
                    .log("function_graph", reason, name.unwrap_or(b"?"));
            }
            Some(ShareError::NoSeat) => {
                let reason = "Too many tracers and profiles share functions";
                self.errors.log("function_graph", reason, b"?");
            }
            _ => {}
        }
    }

    /// Takes back what was prepared. Needs no memory.
    fn give_up(&self, control: &mut Control, prepared: Prepared<'_>) {
        if prepared.hooks_more_commands {
            self.hook_commands(&control.plan.commanded);
        }
        if prepared.follows_forks {
            control.forks.clear();
        }
        if prepared.follows_members {
            self.leave_members(control);
        }
        if let Some((mut hooks, change)) = prepared.hooks {
            hooks.give_up(change);
        }
        if let Some(before) = prepared.profile_before {
            self.profiling.put_back(before, &self.too_deep);
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
    #[inline(never)]
    fn commit(
        &self,
        control: &mut Control,
        before: &OwnSettings,
        plan_before: &HookPlan,
        prepared: Prepared<'_>,
    ) {
        control.is_behind = false;
        let Control {
            settings,
            plan,
            forks,
            ..
        } = control;
        let recorder = self.recording.hook.handler();
        self.store_options(settings.options);
        (self.shown_tracer).store(settings.tracer as u32, Relaxed);
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
        let tracer_ends = plan_before.calls.is_some() && plan.calls.is_none();
        let profile_ends = plan_before.counted.is_some() && plan.counted.is_none();
        let (mut hooks, change) = match prepared.hooks {
            Some((hooks, change)) => (hooks, Some(change)),
            None => (self.machine.hooks(), None),
        };
        if let Some(counted) = &plan.counted {
            if plan_before.counted.is_none() {
                self.profiling.profiler.forget_lost();
                (_, control.missed_before) = hooks.missed(self.hooks.id());
            }
            self.profiling.profiler.set_counting(counted);
        }
        let callers = prepared.callers;
        let unsettled = callers.map(|callers| self.profiling.unsettle(callers));
        if let Some(change) = change {
            hooks.commit(change);
        }
        if tracer_ends || profile_ends {
            hooks.end(self.hooks.id(), tracer_ends, profile_ends);
            hooks.unshare();
        }
        if plan.is_newly_rooted(plan_before) {
            self.profiling.profiler.new_session();
        }
        drop(hooks);
        if let Some(before) = unsettled {
            self.profiling.settle(before);
        }
        if tracer_ends {
            self.too_deep.end(Watcher::Tracer);
            // Hooks of other events do not look for entries that are not complete.
            self.recording.complete_entries(None);
        }
        if profile_ends {
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
        self.leave_members(control);
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
            ..*control.settings
        };
        new.end_recording();
        let prepared = Prepared {
            stacks: Some(Ready::none()),
            commands: Some(Ready::none()),
            ..Prepared::default()
        };
        control.plan.commanded = FunctionSet::new();
        let before = core::mem::replace(&mut *control.settings, new);
        let plan_before = core::mem::replace(&mut *control.plan, HookPlan::none());
        self.commit(control, &before, &plan_before, prepared);
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
        let by_task = options.has(TraceOption::ProfileTasks);
        self.profiling.profiler.set_by_task(by_task);
        let recorder = self.recording.hook.handler();
        let extras = [
            (TraceOption::FuncStackTrace, EntryExtra::Stack),
            (TraceOption::FuncArgs, EntryExtra::Args),
        ];
        if is_new(TraceOption::RecordCgroup) {
            let wanted = options.has(TraceOption::RecordCgroup);
            self.recording.record_containers(wanted);
        }
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
