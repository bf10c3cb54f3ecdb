// SPDX-License-Identifier: GPL-2.0

//! Clock of an instance: selects the clock that stamps its events.

use kernel::prelude::*;

use super::calls::OwnCalls;
use super::{Control, Instance};
use crate::engine::clock::ClockKind;
use crate::machine::call_hooks::WantedCalls;
use crate::sys::rcu;
use crate::tracer::hook_flags::HookFlag;

impl Instance {
    /// Selects another clock, and clears buffers and snapshots, as in tracefs: stamps of two clocks
    /// cannot be compared. Events are not recorded meanwhile, for some milliseconds.
    ///
    /// # Errors
    ///
    /// Those of [`CallHooks::prepare`](crate::machine::call_hooks::CallHooks::prepare); nothing is
    /// changed then.
    pub(crate) fn set_clock(&self, kind: ClockKind) -> Result {
        let mut control = self.control.lock();
        let Control { plan, settings, .. } = &mut *control;
        let recorder = self.recording.hook.handler();
        // Open calls began at times of another clock, so that their returns are to be ignored.
        let change = match &plan.calls {
            Some(calls) => {
                let own = OwnCalls::of(self);
                let wanted = WantedCalls {
                    calls: Some(calls),
                    results: own.results(Some(calls))?,
                    counted: plan.counted.as_ref(),
                    own_start: own.own_start(kind),
                    anew: [true, false],
                };
                Some(own.prepare(wanted)?)
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
            Some((mut hooks, change)) => hooks.commit(change),
            None => self.machine.hooks().forget_calls(self.hooks.id()),
        }
        self.recording.set_graph(settings);
        recorder.set_flag(HookFlag::Pause, false);
        Ok(())
    }
}
