// SPDX-License-Identifier: GPL-2.0

//! `function_graph` of an instance: the limits and options by which it records.

use kernel::prelude::*;

use super::{Instance, OwnSettings};
use crate::engine::errno::ErrnoSet;
use crate::engine::errno_chain::ErrnoLinks;
use crate::engine::lists::FunctionList;
use crate::engine::options::{Options, TraceOption};
use crate::engine::settings::Tracer;
use crate::tracer::flags::FlagSet;
use crate::tracer::graph_settings::Want;
use crate::tracer::hook_flags::HookFlag;

/// Returns what options want of calls.
fn wants(options: Options) -> FlagSet<Want> {
    [
        (TraceOption::GraphRetval, true, Want::Retval),
        (TraceOption::GraphRetaddr, true, Want::Retaddr),
        (TraceOption::GraphArgs, true, Want::Args),
        (TraceOption::GraphOverrun, true, Want::Overrun),
        (TraceOption::GraphIrqs, false, Want::NoIrqs),
        (TraceOption::GraphHandled, true, Want::Handled),
        (TraceOption::SleepTime, false, Want::NoSleep),
    ]
    .iter()
    .fold(FlagSet::NONE, |wants, (option, on, want)| {
        wants.with(*want, options.has(*option) == *on)
    })
}

impl Instance {
    /// Passes on how calls are recorded, by options and limits.
    pub(super) fn set_graph(&self, settings: &OwnSettings) {
        let recorder = self.recording.hook.handler();
        let is_rooted = settings.lists.has(FunctionList::GraphFunction);
        let wants = wants(settings.options).with(Want::Rooted, is_rooted);
        let graph = recorder.graph();
        let unusual = graph.set(wants, settings.max_depth);
        graph.set_thresh((self.machine).ticks(self.recording.clock(), settings.thresh));
        graph.set_errnos(&settings.errnos);
        let waits = settings.options.has(TraceOption::GraphWait) && settings.errnos.is_empty();
        graph.set_waits(waits);
        let is_graph = settings.tracer == Tracer::FunctionGraph;
        recorder.set_flag(HookFlag::Graph, unusual && is_graph);
    }

    /// Returns the number of calls whose return could not be watched.
    pub(crate) fn missed_calls(&self) -> u64 {
        self.machine.hooks().missed(self.hooks.id()).0
    }

    /// Returns the depth above which calls are traced, `None` for all: `max_depth`.
    pub(crate) fn max_depth(&self) -> Option<u32> {
        self.control.lock().settings.max_depth
    }

    /// Changes `max_depth`. Needs no memory.
    pub(crate) fn set_max_depth(&self, depth: Option<u32>) {
        let mut control = self.control.lock();
        control.settings.max_depth = depth;
        self.set_graph(&control.settings);
    }

    /// Returns the least time of calls that are recorded, in ns: `tracing_thresh`.
    pub(crate) fn thresh(&self) -> u64 {
        self.control.lock().settings.thresh
    }

    /// Changes `tracing_thresh`.
    ///
    /// # Errors
    ///
    /// Those of [`Self::change`]; all is as before then.
    pub(crate) fn set_thresh(&self, ns: u64) -> Result {
        self.change(&mut self.control.lock(), |settings| {
            settings.thresh = ns;
            Ok(())
        })
    }

    /// Returns the errors whose calls are recorded: `tracing_errno`.
    pub(crate) fn errnos(&self) -> ErrnoSet {
        self.control.lock().settings.errnos
    }

    /// Changes `tracing_errno` to what `text` says.
    ///
    /// # Errors
    ///
    /// All is as before then.
    ///
    /// - `EINVAL` if there is no error of a name; the error log says of which.
    /// - `EOPNOTSUPP` if the kernel does not say what its functions return.
    /// - Those of [`Self::change`].
    pub(crate) fn set_errnos(&self, text: &[u8]) -> Result {
        let errnos = ErrnoSet::parse(text).map_err(|at| {
            let reason = "There is no error of this name (0, 1, or names as EINVAL,ENOMEM)";
            self.errors.add("tracing_errno", reason, text, at);
            EINVAL
        })?;
        if !errnos.is_empty() && self.machine.btf()?.is_none() {
            let reason = "The kernel does not say what its functions return (no BTF)";
            self.errors.log("tracing_errno", reason, text);
            return Err(EOPNOTSUPP);
        }
        self.change(&mut self.control.lock(), |settings| {
            settings.errnos = errnos;
            Ok(())
        })
    }

    /// Returns the number of chains of calls of which a link was replaced before they were shown.
    pub(crate) fn cut_chains(&self) -> u64 {
        let links = self.recording.hook.handler().graph().links();
        links.map_or(0, ErrnoLinks::cut)
    }

    /// Returns the number of sleeps in traced calls whose waker was lost; `None` if wakers were
    /// never asked for.
    pub(crate) fn lost_wakers(&self) -> Option<u64> {
        self.recording.hook.handler().graph().lost_wakers()
    }

    /// Returns the bytes of memory that links and wakers take.
    pub(crate) fn graph_bytes(&self) -> usize {
        let graph = self.recording.hook.handler().graph();
        let links = graph.links().map_or(0, ErrnoLinks::bytes);
        links.wrapping_add(graph.waker_bytes())
    }
}
