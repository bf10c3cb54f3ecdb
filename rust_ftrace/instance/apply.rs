// SPDX-License-Identifier: GPL-2.0

//! Changes of what an instance hooks, all of which go through here.
//!
//! The settings are copied, the copy is changed, a [`HookPlan`] is made of it, and the plan is
//! carried out in two steps. The first [prepares](Prepared): all that takes memory or may be
//! refused is done, next to what is there, and what is registered calls nothing yet. If any of it
//! fails, that is taken back, for which no memory is needed, and all is as before. The second step,
//! the commit, cannot fail. A function that stays wanted is hooked all the time; if it goes from
//! one hook to another, it does so while all CPUs stand still.
//!
//! Entries are prepared last, as their hook records from then on. Functions with commands may be
//! hooked for longer than they have any; their hook finds none then.

use core::ops::Range;

use kernel::prelude::*;

use super::prepared::{hook_commands, Prepared};
use super::too_deep::Watcher;
use super::{Control, Instance, OwnSettings};
use crate::engine::catalog::Catalog;
use crate::engine::command_list::CommandList;
use crate::engine::function_set::FunctionSet;
use crate::engine::lists::FunctionLists;
use crate::engine::options::{Options, TraceOption};
use crate::engine::plan::{HookPlan, Surroundings};
use crate::engine::settings::Tracer;
use crate::machine::Machine;
use crate::sys::ftrace::Functions;
use crate::sys::{rcu, unwind};
use crate::tracer::entry_extras::EntryExtra;
use crate::tracer::hook_flags::HookFlag;

impl Control {
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
        &mut self,
        instance: &Instance,
        edit: impl FnOnce(&mut OwnSettings) -> Result,
    ) -> Result {
        let mut new = self.duplicate()?;
        if self.is_behind {
            let known = |catalog: &Catalog| Ok(new.lists.resolve_loaded(catalog)?);
            instance.machine.with_catalog(known)?;
        }
        edit(&mut new)?;
        self.carry_out(instance, new)
    }

    /// Returns a copy of the settings. (they are too large for the stack)
    #[inline(never)]
    fn duplicate(&self) -> Result<KBox<OwnSettings>> {
        let place = KBox::new_uninit(GFP_KERNEL)?;
        Ok(place.write(self.settings.duplicate()?))
    }

    /// Changes the settings to `new`, and what follows from them.
    ///
    /// # Errors
    ///
    /// Those of [`Self::change`] but for its `edit`.
    #[inline(never)]
    fn carry_out(&mut self, instance: &Instance, mut new: KBox<OwnSettings>) -> Result {
        let mut plan = plan_of(&instance.machine, &new)?;
        // With stacks, tracing what changes the code of thousands of functions would take longer
        // than that.
        let unwinds = |options: Options| options.has(TraceOption::FuncStackTrace);
        let pause = unwinds(new.options) || unwinds(instance.options());
        let recorder = instance.recording.hook.handler();
        recorder.set_flag(HookFlag::Pause, pause);
        let mut prepared = Prepared::default();
        let result = prepared.prepare(instance, self, &new, &plan);
        match result {
            Ok(()) => {
                core::mem::swap(&mut self.settings, &mut new);
                core::mem::swap(&mut self.plan, &mut plan);
                self.commit(instance, &new, &plan, prepared);
            }
            Err(_) => prepared.give_up(instance, self),
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
    pub(super) fn catch_up(&mut self, instance: &Instance, text: &[Range<usize>]) -> Result {
        let result = self.change(instance, |settings| {
            // Words that waited for a module may mean these functions, too.
            for range in text {
                settings.forget(range);
            }
            Ok(())
        });
        if result.is_err() {
            self.is_behind = true;
        }
        result
    }

    /// Carries out what was prepared. Needs no memory.
    #[inline(never)]
    fn commit(
        &mut self,
        instance: &Instance,
        before: &OwnSettings,
        plan_before: &HookPlan,
        prepared: Prepared<'_>,
    ) {
        self.is_behind = false;
        let Self {
            settings,
            plan,
            followers,
            missed_before,
            ..
        } = self;
        let Instance {
            recording,
            profiling,
            too_deep,
            ..
        } = instance;
        let recorder = recording.hook.handler();
        pass_options(instance, settings.options);
        instance.shown.set(settings);
        if let Some(stacks) = prepared.stacks {
            let _ = recorder.set_probes(stacks);
        }
        if let Some(commands) = prepared.commands {
            let _ = instance.commands.handler().probes().replace(commands);
        }
        if plan_before.commanded.as_slice() != plan.commanded.as_slice() {
            hook_commands(instance, &plan.commanded);
        }
        recording.set_graph(settings);
        let tracer_ends = plan_before.calls.is_some() && plan.calls.is_none();
        let profile_ends = plan_before.counted.is_some() && plan.counted.is_none();
        let (mut hooks, change) = match prepared.hooks {
            Some((hooks, change)) => (hooks, Some(change)),
            None => (instance.machine.hooks(), None),
        };
        if let Some(counted) = &plan.counted {
            if plan_before.counted.is_none() {
                profiling.profiler.forget_lost();
                (_, *missed_before) = hooks.missed(instance.hooks.id());
            }
            profiling.profiler.set_counting(counted);
        }
        let callers = prepared.callers;
        let unsettled = callers.map(|callers| profiling.unsettle(callers));
        if let Some(change) = change {
            hooks.commit(change);
        }
        if tracer_ends || profile_ends {
            hooks.end(instance.hooks.id(), tracer_ends, profile_ends);
            hooks.unshare();
        }
        if plan.is_newly_rooted(plan_before) {
            profiling.profiler.new_session();
        }
        drop(hooks);
        if let Some(before) = unsettled {
            profiling.settle(before);
        }
        if tracer_ends {
            too_deep.end(Watcher::Tracer);
            // Hooks of other events do not look for entries that are not complete.
            recording.complete_entries(None);
        }
        if profile_ends {
            too_deep.end(Watcher::Profile);
            // A hook that counts still does so in tables that stay.
            rcu::synchronize_preempt_off();
        }
        if !settings.options.has(TraceOption::FunctionFork) {
            followers.leave_forks();
        }
        if settings.tracer != Tracer::Nop && settings.tracer != before.tracer {
            instance.clear(None);
        }
        recording.price(settings);
        followers.leave_members(settings.options);
    }

    /// Unhooks all, and drops what is done at calls. Needs no memory.
    ///
    /// # Errors
    ///
    /// `ENODEV` if ftrace has disabled itself; nothing is changed then.
    pub(super) fn disarm(&mut self, instance: &Instance) -> Result {
        instance.recording.hook.trace(Functions::Only(&[]))?;
        instance.commands.trace(Functions::Only(&[]))?;
        let lists = core::mem::replace(&mut self.settings.lists, FunctionLists::new());
        let mut new = OwnSettings {
            lists,
            commands: CommandList::new(),
            ..*self.settings
        };
        new.end_recording();
        self.plan.commanded = FunctionSet::new();
        let before = core::mem::replace(&mut *self.settings, new);
        let plan_before = core::mem::replace(&mut *self.plan, HookPlan::none());
        self.commit(instance, &before, &plan_before, Prepared::no_commands());
        Ok(())
    }

    /// Switches an option on or off on which no hook depends. Needs no memory.
    pub(super) fn switch_option(&mut self, instance: &Instance, option: TraceOption, on: bool) {
        let settings = &mut *self.settings;
        settings.options = settings.options.with(option, on);
        pass_options(instance, settings.options);
        instance.recording.set_graph(settings);
        instance.recording.price(settings);
    }
}

/// Returns the plan of `settings`.
///
/// # Errors
///
/// `ENOMEM` if there is no memory, and those of [`Machine::with_catalog`].
#[inline(never)]
fn plan_of(machine: &Machine, settings: &OwnSettings) -> Result<KBox<HookPlan>> {
    let of = |catalog: Option<&Catalog>| {
        let surroundings = Surroundings {
            catalog,
            never_called: machine.never_called(),
            unwinder: unwind::OWN_FUNCTIONS,
        };
        let place = KBox::new_uninit(GFP_KERNEL)?;
        Ok(place.write(HookPlan::of(settings, &surroundings)?))
    };
    match settings.need_catalog() {
        true => machine.with_catalog(|catalog| of(Some(catalog))),
        false => of(None),
    }
}

/// Passes options on: what is recorded of entries and calls, and what is dropped when a buffer
/// is full.
fn pass_options(instance: &Instance, options: Options) {
    let before = instance.options();
    instance.shown.set_options(options);
    let is_new = |option| before.has(option) != options.has(option);
    if is_new(TraceOption::Overwrite) {
        let is_discard = !options.has(TraceOption::Overwrite);
        instance.recording.buffers.lock().set_discard(is_discard);
    }
    let by_task = options.has(TraceOption::ProfileTasks);
    instance.profiling.profiler.set_by_task(by_task);
    let recorder = instance.recording.hook.handler();
    let extras = [
        (TraceOption::FuncStackTrace, EntryExtra::Stack),
        (TraceOption::FuncArgs, EntryExtra::Args),
    ];
    if is_new(TraceOption::RecordCgroup) {
        let wanted = options.has(TraceOption::RecordCgroup);
        instance.recording.record_containers(wanted);
    }
    for (option, what) in extras {
        if is_new(option) {
            recorder.record_extra(what, options.has(option));
        }
    }
}
