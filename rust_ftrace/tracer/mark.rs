// SPDX-License-Identifier: GPL-2.0

//! Marks, which programs write into the trace, on their way into this CPU's ring.

use crate::engine::ring::Outcome;
use crate::engine::slot::{Kind, Words};
use crate::sys::context::{cycles, PreemptOff};
use crate::tracer::cpu_context::{CpuContext, IN_TASK};
use crate::tracer::gate::Gate;
use crate::tracer::recorder::Recorder;

/// Why a mark is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Nothing is recorded, here or at all, or the buffer is full.
    Off,
    /// Nothing is recorded for a moment.
    Paused,
    /// This CPU has no buffer yet.
    NoBuffer,
    /// A sub-buffer has no room for all of it.
    TooLong,
}

/// A mark as a program has written it.
#[derive(Clone, Copy)]
pub(crate) struct Mark<'a> {
    /// [`Kind::Mark`], of which a part may be written, or [`Kind::RawMark`].
    pub(crate) kind: Kind,
    /// The address as whose function's it is shown.
    pub(crate) ip: u64,
    /// Its bytes, in [slots](Words::text_slot).
    pub(crate) slots: &'a [Words],
    /// Number of bytes.
    pub(crate) length: usize,
}

impl Recorder {
    /// Writes a mark; how many bytes of it.
    ///
    /// To be called by a task, not by a hook.
    pub(crate) fn mark(&self, token: PreemptOff<'_>, mark: Mark<'_>) -> Result<usize, Refusal> {
        if self.has_gate(Gate::Pause) || self.has_gate(Gate::Snapshot) {
            return Err(Refusal::Paused);
        }
        let is_off_here = self.has_gate(Gate::Cpus) && !self.is_this_cpu_traced(token);
        if self.has_gate(Gate::Off) || is_off_here {
            return Err(Refusal::Off);
        }
        let ring = self.this_ring(token);
        if ring.subbufs() == 0 {
            return Err(Refusal::NoBuffer);
        }
        if mark.kind == Kind::RawMark && mark.slots.len() > ring.text_room() {
            return Err(Refusal::TooLong);
        }
        self.complete_entry(token);
        let written = match self.has_gate(Gate::Clock) {
            false => self.write_mark(token, mark, cycles),
            true => match self.clock().enter(token) {
                Some(reading) => self.write_mark(token, mark, || reading.now()),
                None => return Err(Refusal::Off),
            },
        };
        if self.has_gate(Gate::Wake) {
            ring.storage().written(token);
        }
        written.map_err(|_| Refusal::Off)
    }

    fn write_mark(
        &self,
        token: PreemptOff<'_>,
        mark: Mark<'_>,
        clock: impl Fn() -> u64 + Copy,
    ) -> Result<usize, Outcome> {
        let caller = CpuContext {
            token,
            clock,
            state: IN_TASK,
        };
        let ring = self.this_ring(token);
        // SAFETY: The ring is this CPU's, and preemption is off; whoever interrupts runs to its end
        // before this goes on.
        unsafe { ring.write_mark(mark.kind, mark.ip, mark.slots, mark.length, caller) }
    }
}
