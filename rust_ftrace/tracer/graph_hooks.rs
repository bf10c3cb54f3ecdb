// SPDX-License-Identifier: GPL-2.0

//! `function_graph`, the hooks: registers and removes the probes of calls.

use kernel::prelude::*;

use crate::engine::errno::ResultKind;
use crate::engine::function_set::FunctionSet;
use crate::engine::plan::{CallsByResult, FrameKind};
use crate::engine::ring::OpenCall;
use crate::engine::shadow::WAIT_WORDS;
use crate::sys::fprobe::{Fprobes, OpenCalls, ProbeChange, RoleFunctions};
use crate::sys::private::FprobeNumber;
use crate::sys::sched_switch::{need_queues, Switches};
use crate::sys::wakeups::Wakeups;
use crate::tracer::call_role::CallRole;
use crate::tracer::errno::{ErrnoFrame, ErrnoRole};
use crate::tracer::graph_frames::TaggedFrame;
use crate::tracer::own_call;
use crate::tracer::recorder::Recorder;

/// The calls that are hooked for a tracer alone.
pub(crate) struct OwnCalls<'a> {
    /// The frames that its calls have.
    pub(crate) frames: FrameKind,
    /// The functions: plain, roots, skipped.
    pub(crate) sets: &'a [FunctionSet; 3],
    /// The functions by their results, if errors are asked for.
    pub(crate) results: Option<&'a CallsByResult>,
    /// The time for which tasks do not run is measured, here or in calls that others watch, too.
    pub(crate) takes_sleep: bool,
    /// The fate of open calls of functions whose frames stay the same.
    pub(crate) open_calls: OpenCalls,
}

/// The hooks of calls, by the frames that these have; one kind is in use at a time.
pub(crate) struct GraphHooks {
    plain: Fprobes<Recorder, OpenCall>,
    tagged: Fprobes<Recorder, TaggedFrame<3>>,
    long: Fprobes<Recorder, TaggedFrame<5>>,
    waits: Fprobes<Recorder, TaggedFrame<WAIT_WORDS>>,
    errno: Fprobes<Recorder, ErrnoFrame>,
    /// The hook of task switches, which measures for how long tasks do not run.
    switches: Switches<Recorder>,
    /// The hook of wake-ups, which notes the wakers of tasks.
    wakeups: Wakeups<Recorder>,
}

/// A prepared change of the hooks of calls.
#[must_use]
pub(crate) struct GraphChange {
    plain: Option<ProbeChange<Recorder, OpenCall>>,
    tagged: Option<ProbeChange<Recorder, TaggedFrame<3>>>,
    long: Option<ProbeChange<Recorder, TaggedFrame<5>>>,
    waits: Option<ProbeChange<Recorder, TaggedFrame<WAIT_WORDS>>>,
    errno: Option<ProbeChange<Recorder, ErrnoFrame>>,
    takes_sleep: bool,
    takes_wakers: bool,
    /// The change has task switches hooked, which were not hooked before.
    hears_switches: bool,
    /// The change has wake-ups hooked, which were not hooked before.
    hears_wakeups: bool,
}

impl GraphHooks {
    /// Creates hooks that hook nothing.
    pub(crate) const fn new() -> Self {
        Self {
            plain: Fprobes::new(),
            tagged: Fprobes::new(),
            long: Fprobes::new(),
            waits: Fprobes::new(),
            errno: Fprobes::new(),
            switches: Switches::new(),
            wakeups: Wakeups::new(),
        }
    }

    /// Unhooks all, and takes the hooks for another instance: open calls may refer to them, so that
    /// they must not go.
    pub(crate) fn take(&mut self) -> Self {
        self.clear();
        let mut taken = core::mem::replace(self, Self::new());
        taken.plain.forget_missed();
        taken.tagged.forget_missed();
        taken.long.forget_missed();
        taken.waits.forget_missed();
        taken.errno.forget_missed();
        taken
    }

    /// Unhooks all. Needs no memory.
    pub(crate) fn clear(&mut self) {
        self.plain.clear();
        self.tagged.clear();
        self.long.clear();
        self.waits.clear();
        self.errno.clear();
        self.switches.clear();
        self.wakeups.clear();
    }

    /// Unhooks all, and has the returns of open calls ignored.
    pub(crate) fn forget(&mut self) {
        self.plain.forget_calls();
        self.tagged.forget_calls();
        self.long.forget_calls();
        self.waits.forget_calls();
        self.errno.forget_calls();
        self.switches.clear();
        self.wakeups.clear();
    }

    /// Returns the number of calls whose return could not be watched.
    pub(crate) fn missed(&self) -> u64 {
        let tagged = self.tagged.missed().wrapping_add(self.long.missed());
        let tagged = tagged.wrapping_add(self.waits.missed());
        let tagged = tagged.wrapping_add(self.errno.missed());
        self.plain.missed().wrapping_add(tagged)
    }

    /// Prepares to hook `calls`, and no others, by a `change` that was none.
    ///
    /// # Errors
    ///
    /// Those of [`Fprobes::prepare`], [`Switches::call`], [`need_queues`] and
    /// [`own_call::need_shadow_stacks`]; what `change` has is to be [given up](Self::give_up) then,
    /// too.
    ///
    /// # Safety
    ///
    /// `recorder` stays valid until all is unhooked, by [`Self::clear`] or as this is dropped.
    #[inline(never)]
    pub(crate) unsafe fn prepare(
        &mut self,
        numbers: &mut FprobeNumber,
        recorder: &Recorder,
        calls: &OwnCalls<'_>,
        change: &mut GraphChange,
    ) -> Result {
        if calls.frames != FrameKind::Plain {
            own_call::need_shadow_stacks(numbers)?;
        }
        change.takes_wakers = calls.frames == FrameKind::Waits;
        if change.takes_wakers {
            need_queues()?;
        }
        change.takes_sleep = calls.takes_sleep;
        if calls.takes_sleep && !self.switches.is_on() {
            // SAFETY: The recorder stays valid until all is unhooked, by caller precondition,
            // `switches` among it.
            unsafe { self.switches.call(recorder)? };
            change.hears_switches = true;
        }
        if change.takes_wakers && !self.wakeups.is_on() {
            // SAFETY: The recorder stays valid until all is unhooked, by caller precondition,
            // `wakeups` among it.
            unsafe { self.wakeups.call(recorder)? };
            change.hears_wakeups = true;
        }
        let open_calls = |frames| match (calls.open_calls, calls.frames == frames) {
            (OpenCalls::Kept, false) => OpenCalls::Lost,
            (open_calls, _) => open_calls,
        };
        let of = |frames| (groups(calls, frames), open_calls(frames));
        let (groups, open) = of(FrameKind::Plain);
        // SAFETY: The recorder stays valid until all is unhooked, by caller precondition.
        change.plain = Some(unsafe { self.plain.prepare(numbers, recorder, &groups, open)? });
        let (groups, open) = of(FrameKind::Tagged);
        // SAFETY: As above.
        change.tagged = Some(unsafe { self.tagged.prepare(numbers, recorder, &groups, open)? });
        let (groups, open) = of(FrameKind::Long);
        // SAFETY: As above.
        change.long = Some(unsafe { self.long.prepare(numbers, recorder, &groups, open)? });
        let (groups, open) = of(FrameKind::Waits);
        // SAFETY: As above.
        change.waits = Some(unsafe { self.waits.prepare(numbers, recorder, &groups, open)? });
        let (groups, open) = (errno_groups(calls), open_calls(FrameKind::Errno));
        // SAFETY: As above.
        change.errno = Some(unsafe { self.errno.prepare(numbers, recorder, &groups, open)? });
        Ok(())
    }

    /// Has the new probes call their handlers, and the old ones no more: see [`Fprobes::turn`].
    pub(crate) fn turn(&self, change: &GraphChange) {
        if let Some(plain) = &change.plain {
            self.plain.turn(plain);
        }
        if let Some(tagged) = &change.tagged {
            self.tagged.turn(tagged);
        }
        if let Some(long) = &change.long {
            self.long.turn(long);
        }
        if let Some(waits) = &change.waits {
            self.waits.turn(waits);
        }
        if let Some(errno) = &change.errno {
            self.errno.turn(errno);
        }
    }

    /// Ends a change after its [`Self::turn`]. Needs no memory.
    pub(crate) fn finish(&mut self, change: &mut GraphChange) {
        if let Some(plain) = change.plain.take() {
            self.plain.finish(plain);
        }
        if let Some(tagged) = change.tagged.take() {
            self.tagged.finish(tagged);
        }
        if let Some(long) = change.long.take() {
            self.long.finish(long);
        }
        if let Some(waits) = change.waits.take() {
            self.waits.finish(waits);
        }
        if let Some(errno) = change.errno.take() {
            self.errno.finish(errno);
        }
        if !change.takes_sleep {
            self.switches.clear();
        }
        if !change.takes_wakers {
            self.wakeups.clear();
        }
    }

    /// Takes back a prepared change. Needs no memory.
    pub(crate) fn give_up(&mut self, change: &mut GraphChange) {
        if let Some(plain) = change.plain.take() {
            self.plain.give_up(plain);
        }
        if let Some(tagged) = change.tagged.take() {
            self.tagged.give_up(tagged);
        }
        if let Some(long) = change.long.take() {
            self.long.give_up(long);
        }
        if let Some(waits) = change.waits.take() {
            self.waits.give_up(waits);
        }
        if let Some(errno) = change.errno.take() {
            self.errno.give_up(errno);
        }
        if change.hears_wakeups {
            self.wakeups.clear();
        }
        if change.hears_switches {
            self.switches.clear();
        }
    }
}

/// Returns what `$is` says of the parts of a change, of any of them.
macro_rules! any_part {
    ($change:expr, $is:ident) => {
        $change.plain.as_ref().is_some_and(ProbeChange::$is)
            || $change.tagged.as_ref().is_some_and(ProbeChange::$is)
            || $change.long.as_ref().is_some_and(ProbeChange::$is)
            || $change.waits.as_ref().is_some_and(ProbeChange::$is)
            || $change.errno.as_ref().is_some_and(ProbeChange::$is)
    };
}

impl GraphChange {
    /// Creates a change of nothing, which [`GraphHooks::prepare`] makes one of.
    pub(crate) const fn none() -> Self {
        Self {
            plain: None,
            tagged: None,
            long: None,
            waits: None,
            errno: None,
            takes_sleep: false,
            takes_wakers: false,
            hears_switches: false,
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

/// The kinds of results.
const RESULTS: usize = ResultKind::ALL.len();

/// Returns the groups of functions whose frames are those for errors.
fn errno_groups<'a>(calls: &OwnCalls<'a>) -> [RoleFunctions<'a, ErrnoRole>; 2 * RESULTS + 1] {
    const NONE: &FunctionSet = &FunctionSet::new();
    let results = calls.results.filter(|_| calls.frames == FrameKind::Errno);
    let group = |graph, result, set: Option<&'a FunctionSet>| RoleFunctions {
        role: ErrnoRole { graph, result },
        ips: set.filter(|_| results.is_some()).unwrap_or(NONE).as_slice(),
    };
    core::array::from_fn(|index| {
        let set = index % RESULTS;
        let result = ResultKind::ALL.get(set).copied().unwrap_or_default();
        match index / RESULTS {
            0 => group(
                CallRole::Plain,
                result,
                results.and_then(|results| results.plain.get(set)),
            ),
            1 => group(
                CallRole::Root,
                result,
                results.and_then(|results| results.roots.get(set)),
            ),
            _ => group(CallRole::Skip, result, Some(&calls.sets[2])),
        }
    })
}

/// Returns the groups of functions whose frames are of that kind.
fn groups<'a>(calls: &OwnCalls<'a>, frames: FrameKind) -> [RoleFunctions<'a, CallRole>; 3] {
    const NONE: &[FunctionSet; 3] = &[const { FunctionSet::new() }; 3];
    let sets = match calls.frames == frames {
        true => calls.sets,
        false => NONE,
    };
    CallRole::groups(sets.each_ref())
}
