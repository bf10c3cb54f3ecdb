// SPDX-License-Identifier: GPL-2.0

//! `function_graph`, the hooks: registers and removes the probes of calls.

use kernel::prelude::*;

use crate::engine::function_set::FunctionSet;
use crate::engine::plan::{Calls, FrameKind};
use crate::engine::ring::OpenCall;
use crate::sys::fprobe::{Fprobes, ProbeChange, RoleFunctions};
use crate::sys::private::FprobeNumber;
use crate::sys::sched_switch::Switches;
use crate::tracer::graph::{GraphRole, TaggedFrame};
use crate::tracer::own_call;
use crate::tracer::recorder::Recorder;

/// The hooks of calls, by the frames that these have; one kind is in use at a time.
pub(crate) struct GraphHooks {
    plain: Fprobes<Recorder, OpenCall>,
    tagged: Fprobes<Recorder, TaggedFrame<3>>,
    long: Fprobes<Recorder, TaggedFrame<5>>,
    /// The hook of task switches, which measures for how long tasks do not run.
    switches: Switches<Recorder>,
}

/// A prepared change of the hooks of calls.
#[must_use]
pub(crate) struct GraphChange {
    plain: ProbeChange<Recorder, OpenCall>,
    tagged: ProbeChange<Recorder, TaggedFrame<3>>,
    long: ProbeChange<Recorder, TaggedFrame<5>>,
    takes_sleep: bool,
    /// The change has task switches hooked, which were not hooked before.
    hears_switches: bool,
}

impl GraphHooks {
    /// Creates hooks that hook nothing.
    pub(crate) const fn new() -> Self {
        Self {
            plain: Fprobes::new(),
            tagged: Fprobes::new(),
            long: Fprobes::new(),
            switches: Switches::new(),
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
        taken
    }

    /// Unhooks all. Needs no memory.
    pub(crate) fn clear(&mut self) {
        self.plain.clear();
        self.tagged.clear();
        self.long.clear();
        self.switches.clear();
    }

    /// Unhooks all, and has the returns of open calls ignored.
    pub(crate) fn forget(&mut self) {
        self.plain.forget_calls();
        self.tagged.forget_calls();
        self.long.forget_calls();
        self.switches.clear();
    }

    /// Returns the number of calls whose return could not be watched.
    pub(crate) fn missed(&self) -> u64 {
        let tagged = self.tagged.missed().wrapping_add(self.long.missed());
        self.plain.missed().wrapping_add(tagged)
    }

    /// Prepares to hook `calls`, and no others; with `anew`, the returns of open calls are ignored.
    ///
    /// # Errors
    ///
    /// Those of [`Fprobes::prepare`], [`Switches::call`] and [`own_call::need_shadow_stacks`];
    /// nothing is changed then.
    ///
    /// # Safety
    ///
    /// `recorder` stays valid until all is unhooked, by [`Self::clear`] or as this is dropped.
    pub(crate) unsafe fn prepare(
        &mut self,
        numbers: &mut FprobeNumber,
        recorder: &Recorder,
        calls: &Calls,
        anew: bool,
    ) -> Result<GraphChange> {
        if calls.frames != FrameKind::Plain {
            own_call::need_shadow_stacks(numbers)?;
        }
        let takes_sleep = calls.takes_sleep;
        let hears_switches = takes_sleep && !self.switches.is_on();
        if hears_switches {
            // SAFETY: The recorder stays valid until all is unhooked, by caller precondition,
            // `switches` among it.
            unsafe { self.switches.call(recorder)? };
        }
        // SAFETY: The recorder stays valid until all is unhooked, by caller precondition.
        let hooks = unsafe { self.prepare_hooks(numbers, recorder, calls, anew) };
        match hooks {
            Ok((plain, tagged, long)) => Ok(GraphChange {
                plain,
                tagged,
                long,
                takes_sleep,
                hears_switches,
            }),
            Err(error) => {
                self.hear_no_more(hears_switches);
                Err(error)
            }
        }
    }

    /// Prepares the hooks for [`Self::prepare`].
    ///
    /// # Safety
    ///
    /// As for [`Self::prepare`].
    #[allow(clippy::type_complexity)]
    unsafe fn prepare_hooks(
        &mut self,
        numbers: &mut FprobeNumber,
        recorder: &Recorder,
        calls: &Calls,
        anew: bool,
    ) -> Result<(
        ProbeChange<Recorder, OpenCall>,
        ProbeChange<Recorder, TaggedFrame<3>>,
        ProbeChange<Recorder, TaggedFrame<5>>,
    )> {
        let kinds = [FrameKind::Plain, FrameKind::Tagged, FrameKind::Long];
        let [plain, tagged, long] = kinds.map(|frames| groups(calls, frames));
        // SAFETY: The recorder stays valid until all is unhooked, by caller precondition.
        let plain = unsafe { self.plain.prepare(numbers, recorder, &plain, anew)? };
        // SAFETY: The recorder stays valid until all is unhooked, by caller precondition.
        let tagged = unsafe { self.tagged.prepare(numbers, recorder, &tagged, anew) };
        let tagged = match tagged {
            Ok(tagged) => tagged,
            Err(error) => {
                self.plain.give_up(plain);
                return Err(error);
            }
        };
        // SAFETY: The recorder stays valid until all is unhooked, by caller precondition.
        let long = unsafe { self.long.prepare(numbers, recorder, &long, anew) };
        match long {
            Ok(long) => Ok((plain, tagged, long)),
            Err(error) => {
                self.plain.give_up(plain);
                self.tagged.give_up(tagged);
                Err(error)
            }
        }
    }

    fn hear_no_more(&mut self, is_meant: bool) {
        if is_meant {
            self.switches.clear();
        }
    }

    /// Has the new probes call their handlers, and the old ones no more: see [`Fprobes::turn`].
    pub(crate) fn turn(&self, change: &GraphChange) {
        self.plain.turn(&change.plain);
        self.tagged.turn(&change.tagged);
        self.long.turn(&change.long);
    }

    /// Ends a change after its [`Self::turn`]. Needs no memory.
    pub(crate) fn finish(&mut self, change: GraphChange) {
        self.plain.finish(change.plain);
        self.tagged.finish(change.tagged);
        self.long.finish(change.long);
        if !change.takes_sleep {
            self.switches.clear();
        }
    }

    /// Takes back a prepared change. Needs no memory.
    pub(crate) fn give_up(&mut self, change: GraphChange) {
        self.plain.give_up(change.plain);
        self.tagged.give_up(change.tagged);
        self.long.give_up(change.long);
        self.hear_no_more(change.hears_switches);
    }
}

impl GraphChange {
    /// Returns whether functions may go from one hook to another.
    pub(crate) fn is_exchange(&self) -> bool {
        let goes = self.plain.has_old() || self.tagged.has_old() || self.long.has_old();
        goes && (self.plain.has_new() || self.tagged.has_new() || self.long.has_new())
    }
}

/// Returns the groups of functions whose frames are of that kind.
fn groups(calls: &Calls, frames: FrameKind) -> [RoleFunctions<'_, GraphRole>; 3] {
    const NONE: &FunctionSet = &FunctionSet::new();
    let [plain, roots, skip] = match calls.frames == frames {
        true => calls.sets(),
        false => [NONE; 3],
    };
    [
        (GraphRole::Plain, plain),
        (GraphRole::Root, roots),
        (GraphRole::Skip, skip),
    ]
    .map(|(role, set)| RoleFunctions {
        role,
        ips: set.as_slice(),
    })
}
