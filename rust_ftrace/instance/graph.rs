// SPDX-License-Identifier: GPL-2.0

//! The `function_graph` tracer of an instance: the functions that it hooks, and the way it records.

use kernel::prelude::*;

use super::counts::Watcher;
use super::functions::{List, Lists};
use super::{Control, Instance};
use crate::catalog::Catalog;
use crate::engine::function_set::FunctionSet;
use crate::engine::options::{Options, TraceOption};
use crate::engine::ring::OpenCall;
use crate::machine::Machine;
use crate::sys::fgraph::Numbers;
use crate::sys::fprobe::{Group, Probes};
use crate::sys::sched_switch::Switches;
use crate::tracer::function::{Gate, Recorder};
use crate::tracer::graph::{Marked, Role, Want};
use crate::tracer::Tracer;

/// The hooks of calls, by what they keep of each, and what is asked of them.
pub(crate) struct Calls {
    plain: Probes<Recorder, OpenCall>,
    marked: Probes<Recorder, Marked<3>>,
    long: Probes<Recorder, Marked<5>>,
    /// Measures for how long tasks do not run.
    switches: Switches<Recorder>,
    max_depth: Option<u32>,
    /// `tracing_thresh`, in ns.
    thresh: u64,
}

/// The frames that calls can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    Plain,
    Marked,
    Long,
}

impl Calls {
    /// Nothing is hooked.
    pub(crate) const fn new() -> Self {
        Self {
            plain: Probes::new(),
            marked: Probes::new(),
            long: Probes::new(),
            switches: Switches::new(),
            max_depth: None,
            thresh: 0,
        }
    }

    /// Takes the probes, for another instance: calls that are open may know them, so they must not go. All is unhooked.
    pub(super) fn take(&mut self) -> Self {
        self.clear();
        let mut taken = core::mem::replace(self, Self::new());
        taken.max_depth = None;
        taken.thresh = 0;
        taken.plain.forget_missed();
        taken.marked.forget_missed();
        taken.long.forget_missed();
        taken
    }

    /// Unhooks all.
    pub(super) fn clear(&mut self) {
        self.plain.clear();
        self.marked.clear();
        self.long.clear();
        self.switches.clear();
    }

    /// Unhooks all, and nothing will be said any more of the calls that are open.
    pub(super) fn forget(&mut self) {
        self.plain.forget_calls();
        self.marked.forget_calls();
        self.long.forget_calls();
    }

    fn missed(&self) -> u64 {
        let marked = self.marked.missed().wrapping_add(self.long.missed());
        self.plain.missed().wrapping_add(marked)
    }

    /// Has all hooks but those that keep `kept` call nothing for the moment, or call again.
    fn silence_others(&self, kept: Kept, silent: bool) {
        if kept != Kept::Plain {
            self.plain.silence(silent);
        }
        if kept != Kept::Marked {
            self.marked.silence(silent);
        }
        if kept != Kept::Long {
            self.long.silence(silent);
        }
    }

    /// Hooks `groups`, and no others.
    ///
    /// # Safety
    ///
    /// As for [`Probes::trace`].
    unsafe fn trace(
        &mut self,
        numbers: &mut Numbers,
        kept: Kept,
        recorder: &Recorder,
        groups: &[Group<'_, Role>],
    ) -> Result {
        self.silence_others(kept, true);
        let result = match kept {
            // SAFETY: The caller's obligations are the same.
            Kept::Plain => unsafe { self.plain.trace(numbers, recorder, groups) },
            // SAFETY: The caller's obligations are the same.
            Kept::Marked => unsafe { self.marked.trace(numbers, recorder, groups) },
            // SAFETY: The caller's obligations are the same.
            Kept::Long => unsafe { self.long.trace(numbers, recorder, groups) },
        };
        if result.is_err() {
            self.silence_others(kept, false);
            return result;
        }
        if kept != Kept::Plain {
            self.plain.clear();
        }
        if kept != Kept::Marked {
            self.marked.clear();
        }
        if kept != Kept::Long {
            self.long.clear();
        }
        Ok(())
    }
}

/// The bits of [`Want`] that options stand for.
fn wants(options: Options) -> u64 {
    let wants = [
        (TraceOption::GraphRetval, true, Want::Retval),
        (TraceOption::GraphRetaddr, true, Want::Retaddr),
        (TraceOption::GraphArgs, true, Want::Args),
        (TraceOption::GraphOverrun, true, Want::Overrun),
        (TraceOption::GraphIrqs, false, Want::NoIrqs),
    ];
    let wanted = (wants.iter()).filter(|(option, on, _)| options.has(*option) == *on);
    wanted.fold(0, |bits, (_, _, want)| bits | *want as u64)
}

/// The functions whose calls are traced, by what they are to the tracer.
struct Roles {
    plain: FunctionSet,
    roots: FunctionSet,
    skip: FunctionSet,
}

impl Lists {
    /// The functions whose calls are to be traced.
    fn roles(&self, machine: &Machine) -> Result<Roles> {
        let mut plain = match self.wanted(machine)? {
            Some(wanted) => wanted,
            None => machine.with_catalog(Catalog::all)?,
        };
        machine.leave_out_fprobes_own(&mut plain);
        let mut roots = FunctionSet::new();
        if let Some(wanted) = self.get(List::GraphFunction) {
            // (a root is traced also if the filter does not have it)
            roots = match self.get(List::Notrace) {
                Some(unwanted) => wanted.difference(unwanted)?,
                None => wanted.duplicate()?,
            };
            machine.leave_out_fprobes_own(&mut roots);
            plain = plain.difference(&roots)?;
        }
        let mut skip = FunctionSet::new();
        if let Some(unwanted) = self.get(List::GraphNotrace) {
            let all = plain.union(&roots)?;
            skip = all.difference(&all.difference(unwanted)?)?;
            plain = plain.difference(&skip)?;
            roots = roots.difference(&skip)?;
        }
        Ok(Roles { plain, roots, skip })
    }
}

impl Instance {
    /// The functions whose calls the lists say.
    pub(super) fn wanted_calls(&self, control: &Control) -> Result<FunctionSet> {
        let roles = control.lists.roles(&self.machine)?;
        Ok(roles.plain.union(&roles.roots)?.union(&roles.skip)?)
    }

    /// Hooks the calls that the lists say, and no others.
    ///
    /// # Errors
    ///
    /// Nothing is changed then. Those of [`Probes::trace`].
    pub(super) fn arm_calls(&self, control: &mut Control) -> Result {
        let roles = control.lists.roles(&self.machine)?;
        self.set_graph(control);
        let groups = [
            (Role::Plain, &roles.plain),
            (Role::Root, &roles.roots),
            (Role::Skip, &roles.skip),
        ];
        let groups = groups.map(|(role, set)| Group {
            role,
            ips: set.as_slice(),
        });
        let is_rooted = control.lists.get(List::GraphFunction).is_some();
        let sleep_counts = self.options().has(TraceOption::SleepTime);
        let kept = if control.calls.thresh != 0 || !sleep_counts {
            Kept::Long
        } else if is_rooted || !roles.skip.is_empty() {
            Kept::Marked
        } else {
            Kept::Plain
        };
        let recorder = self.hook.handler();
        if !sleep_counts {
            // SAFETY: The recorder lives as long as the instance, whose `control` goes before it.
            unsafe { control.calls.switches.call(recorder)? };
        }
        // (before there is any)
        let began = self.begin_overruns(Watcher::Tracer)?;
        let mut numbers = self.machine.hooks_calls();
        // SAFETY: As above.
        let result = unsafe { control.calls.trace(&mut numbers, kept, recorder, &groups) };
        drop(numbers);
        if let Err(error) = result {
            if began {
                self.end_overruns(Watcher::Tracer);
            }
            return Err(error);
        }
        if sleep_counts {
            control.calls.switches.clear();
        }
        Ok(())
    }

    /// Has calls recorded as options and limits say.
    pub(super) fn set_graph(&self, control: &Control) {
        let recorder = self.hook.handler();
        let mut wants = wants(self.options());
        if control.lists.get(List::GraphFunction).is_some() {
            wants |= Want::Rooted as u64;
        }
        let graph = recorder.graph();
        let unusual = graph.set(wants, control.calls.max_depth);
        graph.set_thresh((self.machine).ticks(self.clock(), control.calls.thresh));
        let is_graph = control.tracer == Tracer::FunctionGraph;
        recorder.set_gate(Gate::Graph, unusual && is_graph);
    }

    /// Calls whose return could not be watched.
    pub(crate) fn missed_calls(&self) -> u64 {
        self.control.lock().calls.missed()
    }

    /// `max_depth`: how deep calls are traced, `None` for all.
    pub(crate) fn max_depth(&self) -> Option<u32> {
        self.control.lock().calls.max_depth
    }

    /// Changes it.
    pub(crate) fn set_max_depth(&self, depth: Option<u32>) {
        let mut control = self.control.lock();
        control.calls.max_depth = depth;
        self.set_graph(&control);
    }

    /// `tracing_thresh`: calls that take less time, in ns, are not recorded.
    pub(crate) fn thresh(&self) -> u64 {
        self.control.lock().calls.thresh
    }

    /// Changes it.
    ///
    /// # Errors
    ///
    /// It is as before then; those of [`Probes::trace`].
    pub(crate) fn set_thresh(&self, ns: u64) -> Result {
        let mut control = self.control.lock();
        let before = core::mem::replace(&mut control.calls.thresh, ns);
        let result = self.rearm(&mut control);
        if result.is_err() {
            control.calls.thresh = before;
            self.rearm_as_before(&mut control);
        }
        self.set_graph(&control);
        result
    }
}
