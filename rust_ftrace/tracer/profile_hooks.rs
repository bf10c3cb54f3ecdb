// SPDX-License-Identifier: GPL-2.0

//! Profile, the hooks: registers and removes the probes of calls that are counted.

use kernel::prelude::*;

use crate::engine::function_set::FunctionSet;
use crate::engine::plan::ProfiledCalls;
use crate::engine::profile::frame::{CONTEXT_WORDS, WORDS};
use crate::sys::fprobe::{CallHandler, Fprobes, OpenCalls, ProbeChange};
use crate::sys::private::FprobeNumber;
use crate::sys::sched_switch::{need_queues, Switches};
use crate::sys::wakeups::Wakeups;
use crate::tracer::call_role::CallRole;
use crate::tracer::own_call;
use crate::tracer::profile::{Began, Nested, Profiler, NESTED_WORDS};

type Plain = Began<WORDS>;
type PlainContext = Began<CONTEXT_WORDS>;
type NestedPlain = Nested<{ NESTED_WORDS[0] }>;
type NestedContext = Nested<{ NESTED_WORDS[1] }>;
type NestedWait = Nested<{ NESTED_WORDS[2] }>;

/// The profiler's hooks; one kind is in use at a time.
pub(crate) struct ProfileHooks {
    plain: Kind<Plain>,
    plain_context: Kind<PlainContext>,
    nested: Kind<NestedPlain>,
    nested_context: Kind<NestedContext>,
    nested_wait: Kind<NestedWait>,
    /// The hook of task switches, which measures for how long tasks do not run.
    switches: Switches<Profiler>,
    /// The hook of wake-ups, which notes the wakers of tasks.
    wakeups: Wakeups<Profiler>,
}

/// A prepared change of the profiler's hooks.
#[must_use]
pub(crate) struct ProfileChange {
    plain: KindChange<Plain>,
    plain_context: KindChange<PlainContext>,
    nested: KindChange<NestedPlain>,
    nested_context: KindChange<NestedContext>,
    nested_wait: KindChange<NestedWait>,
    takes_sleep: bool,
    /// The change has task switches hooked, which were not hooked before.
    hears_switches: bool,
    takes_wakers: bool,
    /// The change has wake-ups hooked, which were not hooked before.
    hears_wakeups: bool,
}

/// The frames that are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FrameChoice {
    /// Those that are nested or not, and with contexts or not.
    Of(bool, bool),
    /// Those with waits.
    Wait,
}

/// The hooks of calls with one kind of frames.
struct Kind<D: Copy + 'static>(Fprobes<Profiler, D>)
where
    Profiler: CallHandler<D, Role = CallRole>;

/// A change of these, once it is prepared.
type KindChange<D> = Option<ProbeChange<Profiler, D>>;

impl<D: Copy> Kind<D>
where
    Profiler: CallHandler<D, Role = CallRole>,
{
    /// Prepares to hook functions `wanted`, and no others.
    ///
    /// # Errors
    ///
    /// Those of [`Fprobes::prepare`].
    ///
    /// # Safety
    ///
    /// As for [`ProfileHooks::prepare`].
    unsafe fn prepare(
        &mut self,
        numbers: &mut FprobeNumber,
        profiler: &Profiler,
        wanted: Option<&[FunctionSet; 3]>,
    ) -> Result<KindChange<D>> {
        let open_calls = match wanted {
            Some(_) => OpenCalls::Kept,
            None => OpenCalls::Lost,
        };
        const NONE: &[FunctionSet; 3] = &[const { FunctionSet::new() }; 3];
        let groups = CallRole::groups(wanted.unwrap_or(NONE).each_ref());
        // SAFETY: The profiler stays valid until all is unhooked, by caller precondition.
        let change = unsafe { self.0.prepare(numbers, profiler, &groups, open_calls)? };
        Ok(Some(change))
    }

    fn turn(&self, change: &KindChange<D>) {
        if let Some(change) = change {
            self.0.turn(change);
        }
    }

    fn finish(&mut self, change: KindChange<D>) {
        if let Some(change) = change {
            self.0.finish(change);
        }
    }

    fn give_up(&mut self, change: KindChange<D>) {
        if let Some(change) = change {
            self.0.give_up(change);
        }
    }
}

impl ProfileHooks {
    /// Creates hooks that hook nothing.
    pub(crate) const fn new() -> Self {
        Self {
            plain: Kind(Fprobes::new()),
            plain_context: Kind(Fprobes::new()),
            nested: Kind(Fprobes::new()),
            nested_context: Kind(Fprobes::new()),
            nested_wait: Kind(Fprobes::new()),
            switches: Switches::new(),
            wakeups: Wakeups::new(),
        }
    }

    /// Returns the number of calls that could ever not be watched.
    pub(crate) fn missed(&self) -> u64 {
        let plain = self.plain.0.missed();
        let plain = plain.wrapping_add(self.plain_context.0.missed());
        let nested = self.nested.0.missed();
        let nested = nested.wrapping_add(self.nested_context.0.missed());
        let nested = nested.wrapping_add(self.nested_wait.0.missed());
        plain.wrapping_add(nested)
    }

    /// Unhooks all. Needs no memory.
    pub(crate) fn clear(&mut self) {
        self.plain.0.clear();
        self.plain_context.0.clear();
        self.nested.0.clear();
        self.nested_context.0.clear();
        self.nested_wait.0.clear();
        self.switches.clear();
        self.wakeups.clear();
    }

    /// Prepares to hook the calls of those functions of `counted` that are in `alone`, and no
    /// others, by a `change` that was none.
    ///
    /// # Errors
    ///
    /// Those of [`Fprobes::prepare`], [`Switches::call`], [`Wakeups::call`], [`need_queues`] and
    /// [`own_call::need_shadow_stacks`]; what `change` has is to be [given up](Self::give_up) then,
    /// too.
    ///
    /// # Safety
    ///
    /// `profiler` stays valid until all is unhooked, by [`Self::clear`] or as this is dropped.
    #[inline(never)]
    pub(crate) unsafe fn prepare(
        &mut self,
        numbers: &mut FprobeNumber,
        profiler: &Profiler,
        counted: &ProfiledCalls,
        alone: &[FunctionSet; 3],
        change: &mut ProfileChange,
    ) -> Result {
        let sleeps = counted.takes_sleep();
        let is_nested = counted.is_nested(!profiler.is_by_counter());
        if is_nested || counted.contexts {
            own_call::need_shadow_stacks(numbers)?;
        }
        if counted.waits {
            need_queues()?;
        }
        change.takes_sleep = sleeps;
        if sleeps && !self.switches.is_on() {
            // SAFETY: The profiler stays valid until all is unhooked, by caller precondition,
            // `switches` among it.
            unsafe { self.switches.call(profiler)? };
            change.hears_switches = true;
        }
        change.takes_wakers = counted.waits;
        if counted.waits && !self.wakeups.is_on() {
            // SAFETY: The profiler stays valid until all is unhooked, by caller precondition,
            // `wakeups` among it.
            unsafe { self.wakeups.call(profiler)? };
            change.hears_wakeups = true;
        }
        let kind = match counted.waits {
            true => FrameChoice::Wait,
            false => FrameChoice::Of(is_nested, counted.contexts),
        };
        // SAFETY: The profiler stays valid until all is unhooked, by caller precondition.
        unsafe { self.prepare_kinds(numbers, profiler, kind, alone, change) }
    }

    /// Prepares to hook `functions`, by their roles, with frames of one kind, and none with others.
    ///
    /// # Safety
    ///
    /// As for [`Self::prepare`].
    unsafe fn prepare_kinds(
        &mut self,
        numbers: &mut FprobeNumber,
        profiler: &Profiler,
        kind: FrameChoice,
        functions: &[FunctionSet; 3],
        change: &mut ProfileChange,
    ) -> Result {
        let of = |is_nested, has_contexts| {
            (kind == FrameChoice::Of(is_nested, has_contexts)).then_some(functions)
        };
        // SAFETY: The profiler stays valid until all is unhooked, by caller precondition.
        change.plain = unsafe { self.plain.prepare(numbers, profiler, of(false, false))? };
        let wanted = of(false, true);
        // SAFETY: As above.
        change.plain_context = unsafe { self.plain_context.prepare(numbers, profiler, wanted)? };
        // SAFETY: As above.
        change.nested = unsafe { self.nested.prepare(numbers, profiler, of(true, false))? };
        let wanted = of(true, true);
        // SAFETY: As above.
        change.nested_context = unsafe { self.nested_context.prepare(numbers, profiler, wanted)? };
        let wanted = (kind == FrameChoice::Wait).then_some(functions);
        // SAFETY: As above.
        change.nested_wait = unsafe { self.nested_wait.prepare(numbers, profiler, wanted)? };
        Ok(())
    }

    /// Has the new probes call their handlers, and the old ones no more: see [`Fprobes::turn`].
    pub(crate) fn turn(&self, change: &ProfileChange) {
        self.plain.turn(&change.plain);
        self.plain_context.turn(&change.plain_context);
        self.nested.turn(&change.nested);
        self.nested_context.turn(&change.nested_context);
        self.nested_wait.turn(&change.nested_wait);
    }

    /// Ends a change after its [`Self::turn`]. Needs no memory.
    pub(crate) fn finish(&mut self, change: &mut ProfileChange) {
        self.plain.finish(change.plain.take());
        self.plain_context.finish(change.plain_context.take());
        self.nested.finish(change.nested.take());
        self.nested_context.finish(change.nested_context.take());
        self.nested_wait.finish(change.nested_wait.take());
        if !change.takes_sleep {
            self.switches.clear();
        }
        if !change.takes_wakers {
            self.wakeups.clear();
        }
    }

    /// Takes back a prepared change. Needs no memory.
    pub(crate) fn give_up(&mut self, change: &mut ProfileChange) {
        self.plain.give_up(change.plain.take());
        self.plain_context.give_up(change.plain_context.take());
        self.nested.give_up(change.nested.take());
        self.nested_context.give_up(change.nested_context.take());
        self.nested_wait.give_up(change.nested_wait.take());
        if change.hears_switches {
            self.switches.clear();
        }
        if change.hears_wakeups {
            self.wakeups.clear();
        }
    }
}

/// Returns what `$is` says of the parts of a change, of any of them.
macro_rules! any_part {
    ($change:expr, $is:ident) => {
        $change.plain.as_ref().is_some_and(ProbeChange::$is)
            || $change.plain_context.as_ref().is_some_and(ProbeChange::$is)
            || $change.nested.as_ref().is_some_and(ProbeChange::$is)
            || $change
                .nested_context
                .as_ref()
                .is_some_and(ProbeChange::$is)
            || $change.nested_wait.as_ref().is_some_and(ProbeChange::$is)
    };
}

impl ProfileChange {
    /// Creates a change of nothing, which [`ProfileHooks::prepare`] makes one of.
    pub(crate) const fn none() -> Self {
        Self {
            plain: None,
            plain_context: None,
            nested: None,
            nested_context: None,
            nested_wait: None,
            takes_sleep: false,
            hears_switches: false,
            takes_wakers: false,
            hears_wakeups: false,
        }
    }

    /// Returns whether hooks go.
    pub(crate) fn has_old(&self) -> bool {
        any_part!(self, has_old)
    }

    /// Returns whether hooks are new.
    pub(crate) fn has_new(&self) -> bool {
        any_part!(self, has_new)
    }
}
