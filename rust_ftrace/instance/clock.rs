// SPDX-License-Identifier: GPL-2.0

//! The clock of an instance, which stamps its events.

use kernel::prelude::*;

use super::Instance;
use crate::engine::clock::ClockKind;
use crate::machine::Timeline;
use crate::sys::context::cycles;
use crate::sys::rcu;
use crate::tracer::function::Gate;
use crate::tracer::Tracer;

impl Instance {
    /// The clock in use.
    pub(crate) fn clock(&self) -> ClockKind {
        self.hook.handler().clock().kind()
    }

    /// Takes another clock, which clears buffers and snapshots, as in tracefs: stamps of two clocks cannot be
    /// compared. Events are not recorded meanwhile, some milliseconds.
    pub(crate) fn set_clock(&self, kind: ClockKind) {
        let mut control = self.control.lock();
        let recorder = self.hook.handler();
        recorder.set_gate(Gate::Pause, true);
        // The calls that are open began at times of another clock.
        control.calls.forget();
        recorder.graph().forget_marks();
        // Not with the buffers' lock held: a CPU that is coming may be waiting for it.
        rcu::synchronize_preempt_off();
        recorder.set_clock(kind, self.machine.is_counter(kind));
        let mut buffers = self.buffers.lock();
        buffers.forget_time();
        buffers.clear(None);
        buffers.clear_snapshot(None);
        drop(buffers);
        self.clear_counts();
        self.comms.lock().forget_time();
        recorder.set_gate(Gate::Pause, false);
        if control.tracer == Tracer::FunctionGraph {
            if let Err(error) = self.rearm(&mut control) {
                pr_warn!("function_graph has stopped: {error:?}\n");
            }
        }
    }

    /// From stamps to times.
    pub(crate) fn timeline(&self) -> Timeline {
        self.machine.timeline(self.clock())
    }

    /// The stamp that an event would get now. Reading a `counter` does not count.
    pub(crate) fn now(&self) -> u64 {
        match self.machine.is_counter(self.clock()) {
            true => cycles(),
            false => self.hook.handler().clock().show(),
        }
    }
}
