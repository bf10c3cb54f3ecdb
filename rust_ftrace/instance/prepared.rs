// SPDX-License-Identifier: GPL-2.0

//! The first step of a change of what an instance hooks: all that takes memory, or may be refused.

use kernel::prelude::*;

use super::calls::OwnCalls;
use super::profile::contexts::Callers;
use super::profile::Profile;
use super::too_deep::{Growth, Watcher};
use super::{Control, Instance, OwnSettings};
use crate::engine::function_set::FunctionSet;
use crate::engine::options::TraceOption;
use crate::engine::plan::{Entries, HookPlan};
use crate::engine::sort::sort_by_key;
use crate::machine::call_hooks::{HookChange, WantedCalls};
use crate::machine::HooksGuard;
use crate::sys::ftrace::Functions;
use crate::tracer::probes::{Probe, Probes, Ready};

/// The prepared parts of a change, and what was there before.
#[derive(Default)]
pub(super) struct Prepared<'a> {
    /// The functions with stacks, as they are to be in the end.
    pub(super) stacks: Option<Ready>,
    /// The functions with stacks before, if others have replaced them already.
    stacks_before: Option<Ready>,
    pub(super) commands: Option<Ready>,
    /// More functions are hooked for commands than before.
    hooks_more_commands: bool,
    /// The hooks of calls, of which no others are changed meanwhile.
    pub(super) hooks: Option<(HooksGuard<'a>, KBox<HookChange>)>,
    counts_too_deep: bool,
    /// The profile before, if another was begun.
    profile_before: Option<(Profile, Growth)>,
    pub(super) callers: Option<Callers>,
    made_snapshots: bool,
    follows_forks: bool,
    follows_members: bool,
}

impl<'a> Prepared<'a> {
    /// Prepares the end of all commands, which needs nothing.
    pub(super) fn no_commands() -> Self {
        Self {
            stacks: Some(Ready::none()),
            commands: Some(Ready::none()),
            ..Self::default()
        }
    }

    /// Prepares all.
    ///
    /// # Errors
    ///
    /// Those of [`Control::change`] but for its `edit`; what was prepared before is in `self`.
    pub(super) fn prepare(
        &mut self,
        instance: &'a Instance,
        control: &mut Control,
        new: &OwnSettings,
        plan: &HookPlan,
    ) -> Result {
        self.prepare_memory(instance, plan)?;
        self.prepare_commands(instance, control, new, plan)?;
        self.prepare_calls(instance, control, plan)?;
        let follows = new.options.has(TraceOption::FunctionFork);
        if follows && !instance.options().has(TraceOption::FunctionFork) {
            control.followers.follow_forks()?;
            self.follows_forks = true;
        }
        if new.options.has(TraceOption::RecordCgroup) {
            control.followers.follow_members()?;
            self.follows_members = true;
        }
        let union = control.plan.commanded.union(&plan.commanded)?;
        if union.len() != control.plan.commanded.len() || control.is_behind {
            // SAFETY: The recorder is valid until the commands' hook was removed: it is in
            // `recording`, which goes after `commands`.
            unsafe {
                instance
                    .commands
                    .handler()
                    .command(instance.recording.hook.handler())
            };
            instance.commands.trace(Functions::Only(union.as_slice()))?;
            self.hooks_more_commands = true;
        }
        if !plan.entries.is(&control.plan.entries) || control.is_behind {
            instance.recording.hook.trace(functions(&plan.entries))?;
        }
        Ok(())
    }

    #[inline(never)]
    fn prepare_memory(&mut self, instance: &Instance, plan: &HookPlan) -> Result {
        let memory = plan.memory;
        if memory.stacks {
            let extras = instance.recording.hook.handler().entry_extras();
            extras.make_room(instance.machine.core_text())?;
        }
        if memory.wakers {
            instance.recording.hook.handler().graph().make_wakers()?;
        }
        if memory.sleeps {
            instance.profiling.profiler.make_sleeps()?;
        }
        if memory.links {
            instance.recording.hook.handler().graph().make_links()?;
        }
        if memory.buffers {
            instance.recording.make_buffers(|buffers| {
                if memory.snapshots {
                    let had_any = buffers.has_snapshot(None);
                    buffers.make_spares(None)?;
                    self.made_snapshots = !had_any;
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
        &mut self,
        instance: &Instance,
        control: &Control,
        new: &OwnSettings,
        plan: &HookPlan,
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
        self.stacks = Some(Ready::new(stacks)?);
        self.commands = Some(Ready::new(commands)?);
        self.stacks_before = Some(instance.recording.hook.handler().set_probes(first));
        Ok(())
    }

    fn prepare_calls(
        &mut self,
        instance: &'a Instance,
        control: &Control,
        plan: &HookPlan,
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
            self.counts_too_deep = instance.too_deep.begin(Watcher::Tracer)?;
        }
        if let Some(counted) = counted.filter(|_| !is_counted_as_before) {
            if before.counted.is_none() {
                self.profile_before = Some(instance.profiling.begin(&instance.too_deep)?);
            }
            let functions = counted.roles.taken()?;
            instance
                .profiling
                .extend(&instance.machine, counted, &functions)?;
            if counted.contexts {
                let profiling = &instance.profiling;
                self.callers = Some(profiling.prepare_callers(&instance.machine, &functions)?);
            }
        }
        let own = OwnCalls::of(instance);
        let wanted = WantedCalls {
            calls,
            results: own.results(calls)?,
            counted,
            own_start: own.own_start(instance.recording.clock()),
            anew: [false, plan.is_newly_rooted(before)],
        };
        self.hooks = Some(own.prepare(wanted)?);
        Ok(())
    }

    /// Takes back what was prepared. Needs no memory.
    pub(super) fn give_up(self, instance: &Instance, control: &mut Control) {
        if self.hooks_more_commands {
            hook_commands(instance, &control.plan.commanded);
        }
        if self.follows_forks {
            control.followers.leave_forks();
        }
        if self.follows_members {
            let options = control.settings.options;
            control.followers.leave_members(options);
        }
        if let Some((mut hooks, change)) = self.hooks {
            hooks.give_up(change);
        }
        if let Some(before) = self.profile_before {
            (instance.profiling).put_back(before, &instance.too_deep);
        }
        if self.counts_too_deep {
            instance.too_deep.end(Watcher::Tracer);
        }
        if let Some(stacks) = self.stacks_before {
            let _ = instance.recording.hook.handler().set_probes(stacks);
        }
        if self.made_snapshots {
            instance.recording.buffers.lock().drop_spares();
        }
    }
}

/// Hooks the functions with commands, where that may be fewer than before. Without memory the
/// others stay hooked, which costs time and no more.
pub(super) fn hook_commands(instance: &Instance, commanded: &FunctionSet) {
    let _ = (instance.commands).trace(Functions::Only(commanded.as_slice()));
}

/// Returns the functions of a plan's entries as a hook takes them.
fn functions(entries: &Entries) -> Functions<'_> {
    entries
        .set()
        .map_or(Functions::All, |set| Functions::Only(set.as_slice()))
}
