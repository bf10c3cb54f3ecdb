// SPDX-License-Identifier: GPL-2.0

//! `function_graph` in a recording: the limits and options by which calls are recorded.

use super::recording::Recording;
use super::OwnSettings;
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

impl Recording {
    /// Passes on how calls are recorded, by options and limits.
    pub(super) fn set_graph(&self, settings: &OwnSettings) {
        let recorder = self.hook.handler();
        let is_rooted = settings.lists.has(FunctionList::GraphFunction);
        let wants = wants(settings.options).with(Want::Rooted, is_rooted);
        let graph = recorder.graph();
        let unusual = graph.set(wants, settings.max_depth);
        graph.set_thresh(self.machine.ticks(self.clock(), settings.thresh));
        graph.set_errnos(&settings.errnos);
        let waits = settings.options.has(TraceOption::GraphWait) && settings.errnos.is_empty();
        graph.set_waits(waits);
        let is_graph = settings.tracer == Tracer::FunctionGraph;
        recorder.set_flag(HookFlag::Graph, unusual && is_graph);
    }

    /// Returns the number of chains of calls of which a link was replaced before they were shown.
    pub(crate) fn cut_chains(&self) -> u64 {
        let links = self.hook.handler().graph().links();
        links.map_or(0, ErrnoLinks::cut)
    }

    /// Returns the number of sleeps in traced calls whose waker was lost; `None` if wakers were
    /// never asked for.
    pub(crate) fn lost_wakers(&self) -> Option<u64> {
        self.hook.handler().graph().lost_wakers()
    }

    /// Returns the bytes of memory that links and wakers take.
    pub(crate) fn graph_bytes(&self) -> usize {
        let graph = self.hook.handler().graph();
        let links = graph.links().map_or(0, ErrnoLinks::bytes);
        links.wrapping_add(graph.waker_bytes())
    }
}
