// SPDX-License-Identifier: GPL-2.0

//! The hooks of `function_graph`.

use kernel::prelude::*;

use crate::engine::function_set::FunctionSet;
use crate::engine::plan::{Calls, Frames};
use crate::engine::ring::OpenCall;
use crate::sys::fprobe::{Change, Group, Probes};
use crate::sys::private::Numbers;
use crate::sys::sched_switch::Switches;
use crate::tracer::graph::{Marked, Role};
use crate::tracer::own_call;
use crate::tracer::recorder::Recorder;

/// The hooks of calls, by the frames that these have: one kind of them at a time.
pub(crate) struct GraphHooks {
    plain: Probes<Recorder, OpenCall>,
    marked: Probes<Recorder, Marked<3>>,
    long: Probes<Recorder, Marked<5>>,
    /// Measures for how long tasks do not run.
    switches: Switches<Recorder>,
}

/// A change of them that was prepared.
#[must_use]
pub(crate) struct GraphChange {
    plain: Change<Recorder, OpenCall>,
    marked: Change<Recorder, Marked<3>>,
    long: Change<Recorder, Marked<5>>,
    takes_sleep: bool,
    /// The switches of tasks were not heard of before.
    hears_switches: bool,
}

impl GraphHooks {
    /// Nothing is hooked.
    pub(crate) const fn new() -> Self {
        Self {
            plain: Probes::new(),
            marked: Probes::new(),
            long: Probes::new(),
            switches: Switches::new(),
        }
    }

    /// Takes the hooks, for another instance: calls that are open may know them, so they must not go. All is unhooked.
    pub(crate) fn take(&mut self) -> Self {
        self.clear();
        let mut taken = core::mem::replace(self, Self::new());
        taken.plain.forget_missed();
        taken.marked.forget_missed();
        taken.long.forget_missed();
        taken
    }

    /// Unhooks all. Needs no memory.
    pub(crate) fn clear(&mut self) {
        self.plain.clear();
        self.marked.clear();
        self.long.clear();
        self.switches.clear();
    }

    /// Unhooks all, and nothing will be said any more of the calls that are open.
    pub(crate) fn forget(&mut self) {
        self.plain.forget_calls();
        self.marked.forget_calls();
        self.long.forget_calls();
        self.switches.clear();
    }

    /// Calls whose return could not be watched.
    pub(crate) fn missed(&self) -> u64 {
        let marked = self.marked.missed().wrapping_add(self.long.missed());
        self.plain.missed().wrapping_add(marked)
    }

    /// Prepares to hook `calls`, and no others; with `anew` nothing is said any more of the calls that are open.
    ///
    /// # Errors
    ///
    /// Nothing is changed then. Those of [`Probes::prepare`], [`Switches::call`] and [`own_call::need_shadow_stacks`].
    ///
    /// # Safety
    ///
    /// As for [`Probes::prepare`].
    pub(crate) unsafe fn prepare(
        &mut self,
        numbers: &mut Numbers,
        recorder: &Recorder,
        calls: &Calls,
        anew: bool,
    ) -> Result<GraphChange> {
        if calls.frames != Frames::Plain {
            own_call::need_shadow_stacks(numbers)?;
        }
        let takes_sleep = calls.takes_sleep;
        let hears_switches = takes_sleep && !self.switches.is_on();
        if hears_switches {
            // SAFETY: The caller promises that the recorder stays.
            unsafe { self.switches.call(recorder)? };
        }
        // SAFETY: The caller's obligations are the same.
        let hooks = unsafe { self.prepare_hooks(numbers, recorder, calls, anew) };
        match hooks {
            Ok((plain, marked, long)) => Ok(GraphChange {
                plain,
                marked,
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

    /// # Safety
    ///
    /// As for [`Self::prepare`].
    #[allow(clippy::type_complexity)]
    unsafe fn prepare_hooks(
        &mut self,
        numbers: &mut Numbers,
        recorder: &Recorder,
        calls: &Calls,
        anew: bool,
    ) -> Result<(
        Change<Recorder, OpenCall>,
        Change<Recorder, Marked<3>>,
        Change<Recorder, Marked<5>>,
    )> {
        let kinds = [Frames::Plain, Frames::Marked, Frames::Long];
        let [plain, marked, long] = kinds.map(|frames| groups(calls, frames));
        // SAFETY: The caller's obligations are the same.
        let plain = unsafe { self.plain.prepare(numbers, recorder, &plain, anew)? };
        // SAFETY: The caller's obligations are the same.
        let marked = unsafe { self.marked.prepare(numbers, recorder, &marked, anew) };
        let marked = match marked {
            Ok(marked) => marked,
            Err(error) => {
                self.plain.give_up(plain);
                return Err(error);
            }
        };
        // SAFETY: The caller's obligations are the same.
        let long = unsafe { self.long.prepare(numbers, recorder, &long, anew) };
        match long {
            Ok(long) => Ok((plain, marked, long)),
            Err(error) => {
                self.plain.give_up(plain);
                self.marked.give_up(marked);
                Err(error)
            }
        }
    }

    fn hear_no_more(&mut self, is_meant: bool) {
        if is_meant {
            self.switches.clear();
        }
    }

    /// Has those that are new call, and the others no more: see [`Probes::turn`].
    pub(crate) fn turn(&self, change: &GraphChange) {
        self.plain.turn(&change.plain);
        self.marked.turn(&change.marked);
        self.long.turn(&change.long);
    }

    /// Ends a change that was turned. Needs no memory.
    pub(crate) fn finish(&mut self, change: GraphChange) {
        self.plain.finish(change.plain);
        self.marked.finish(change.marked);
        self.long.finish(change.long);
        if !change.takes_sleep {
            self.switches.clear();
        }
    }

    /// Takes back what was prepared. Needs no memory.
    pub(crate) fn give_up(&mut self, change: GraphChange) {
        self.plain.give_up(change.plain);
        self.marked.give_up(change.marked);
        self.long.give_up(change.long);
        self.hear_no_more(change.hears_switches);
    }
}

impl GraphChange {
    /// Returns whether functions may go from one hook to another.
    pub(crate) fn is_exchange(&self) -> bool {
        let goes = self.plain.has_old() || self.marked.has_old() || self.long.has_old();
        goes && (self.plain.has_new() || self.marked.has_new() || self.long.has_new())
    }
}

/// The groups of functions that have frames of that kind.
fn groups(calls: &Calls, frames: Frames) -> [Group<'_, Role>; 3] {
    const NONE: &FunctionSet = &FunctionSet::new();
    let [plain, roots, skip] = match calls.frames == frames {
        true => calls.sets(),
        false => [NONE; 3],
    };
    [
        (Role::Plain, plain),
        (Role::Root, roots),
        (Role::Skip, skip),
    ]
    .map(|(role, set)| Group {
        role,
        ips: set.as_slice(),
    })
}
