// SPDX-License-Identifier: GPL-2.0

//! What an instance's `function_graph` tracer hooks, and how it records.

use kernel::prelude::*;

use super::functions::{List, Lists};
use super::{Control, Instance};
use crate::catalog::Catalog;
use crate::engine::function_set::FunctionSet;
use crate::engine::options::{Options, TraceOption};
use crate::engine::ring::OpenCall;
use crate::machine::Machine;
use crate::sys::fprobe::{Group, Probes};
use crate::tracer::function::{Gate, Recorder};
use crate::tracer::graph::{Role, Want};
use crate::tracer::Tracer;

/// The hooks of calls, and what is asked of them.
pub(super) struct Calls {
    probes: Probes<Recorder, OpenCall>,
    max_depth: Option<u32>,
}

impl Calls {
    pub(super) const fn new() -> Self {
        Self {
            probes: Probes::new(),
            max_depth: None,
        }
    }

    /// Unhooks all.
    pub(super) fn clear(&mut self) {
        self.probes.clear();
    }

    /// The same, and nothing will be said any more of the calls that are open.
    pub(super) fn forget(&mut self) {
        self.probes.forget_calls();
    }
}

/// What calls are to be recorded with.
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

impl Lists {
    /// The functions whose calls are to be traced.
    fn wanted_calls(&self, machine: &Machine) -> Result<FunctionSet> {
        let wanted = match self.wanted(machine)? {
            Some(wanted) => wanted,
            None => machine.with_catalog(Catalog::all)?,
        };
        match self.get(List::GraphFunction) {
            Some(roots) => Ok(wanted.union(roots)?),
            None => Ok(wanted),
        }
    }
}

impl Instance {
    /// Hooks the calls that the lists say, and no others; how many functions those are.
    ///
    /// # Errors
    ///
    /// Nothing is changed then. Those of [`Probes::trace`].
    pub(super) fn arm_calls(&self, control: &mut Control) -> Result<usize> {
        self.set_graph(control);
        let wanted = control.lists.wanted_calls(&self.machine)?;
        let groups = [Group {
            role: Role::Plain,
            ips: wanted.as_slice(),
        }];
        // SAFETY: The recorder lives as long as the instance, whose `control` goes before it.
        unsafe { control.calls.probes.trace(self.hook.handler(), &groups)? };
        Ok(wanted.len())
    }

    /// Has calls recorded as options and limits say.
    pub(super) fn set_graph(&self, control: &Control) {
        let recorder = self.hook.handler();
        let unusual = (recorder.graph()).set(wants(control.options), control.calls.max_depth);
        let is_graph = control.tracer == Tracer::FunctionGraph;
        recorder.set_gate(Gate::Graph, unusual && is_graph);
    }

    /// Calls whose return could not be watched.
    pub(crate) fn missed_calls(&self) -> u64 {
        self.control.lock().calls.probes.missed()
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
}
