// SPDX-License-Identifier: GPL-2.0

//! Clock of an instance: selects the clock that stamps its events.

use kernel::prelude::*;

use super::{Control, Instance};
use crate::engine::clock::ClockKind;
use crate::sys::rcu;
use crate::tracer::hook_flags::HookFlag;

impl Instance {
    /// Selects another clock, and clears buffers and snapshots, as in tracefs: stamps of two clocks
    /// cannot be compared. Events are not recorded meanwhile, for some milliseconds.
    ///
    /// # Errors
    ///
    /// Those of [`GraphHooks::prepare`](crate::tracer::graph_hooks::GraphHooks::prepare); nothing
    /// is changed then.
    pub(crate) fn set_clock(&self, kind: ClockKind) -> Result {
        let mut control = self.control.lock();
        let Control {
            graph,
            plan,
            settings,
            ..
        } = &mut *control;
        let recorder = self.recording.hook.handler();
        // Open calls began at times of another clock, so that their returns are to be ignored.
        let change = match &plan.calls {
            Some(calls) => {
                let mut numbers = self.machine.hooks_calls();
                // SAFETY: The recorder stays valid until all is unhooked: it lives as long as the
                // instance, whose `control`, with all that is hooked for it, goes before it.
                Some(unsafe { graph.prepare(&mut numbers, recorder, calls, true)? })
            }
            None => None,
        };
        recorder.set_flag(HookFlag::Pause, true);
        recorder.graph().forget_tags();
        // The lock of the buffers must not be held: a CPU that is coming may be waiting for it.
        rcu::synchronize_preempt_off();
        recorder.set_clock(kind, self.machine.is_counter(kind));
        let mut buffers = self.recording.buffers.lock();
        buffers.forget_time();
        buffers.clear(None);
        buffers.clear_snapshot(None);
        drop(buffers);
        self.recording.clear_elsewhere();
        self.too_deep.clear();
        self.recording.comms.lock().forget_time();
        match change {
            Some(change) => {
                graph.turn(&change);
                graph.finish(change);
            }
            None => graph.forget(),
        }
        self.set_graph(settings);
        recorder.set_flag(HookFlag::Pause, false);
        Ok(())
    }
}
