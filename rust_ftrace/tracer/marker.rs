// SPDX-License-Identifier: GPL-2.0

//! Markers, ring side: writes into this CPU's ring what programs write into the trace.

use crate::engine::ring::WriteOutcome;
use crate::engine::slot::{SlotKind, SlotWords};
use crate::sys::context::{cycles, PreemptOff};
use crate::tracer::cpu_context::{CpuContext, IN_TASK};
use crate::tracer::hook_flags::HookFlag;
use crate::tracer::recorder::Recorder;

/// The reason why a marker is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkerError {
    /// Nothing is recorded, here or at all, or the buffer is full.
    Off,
    /// Nothing is recorded for a moment.
    Paused,
    /// This CPU has no buffer yet.
    NoBuffer,
    /// A sub-buffer has no room for all of it.
    TooLong,
}

/// A marker as a program has written it.
#[derive(Clone, Copy)]
pub(crate) struct Marker<'a> {
    /// [`SlotKind::Marker`], of which a part may be written, or [`SlotKind::RawMarker`].
    pub(crate) kind: SlotKind,
    /// The address of the function that it is shown as.
    pub(crate) ip: u64,
    /// Its bytes, in [slots](SlotWords::text_slot).
    pub(crate) slots: &'a [SlotWords],
    /// Number of bytes.
    pub(crate) length: usize,
}

impl Recorder {
    /// Writes a marker, and returns the number of its bytes that were written.
    ///
    /// To be called by a task, not by a hook.
    pub(crate) fn record_marker(
        &self,
        token: PreemptOff<'_>,
        marker: Marker<'_>,
    ) -> Result<usize, MarkerError> {
        if self.has_flag(HookFlag::Pause) || self.has_flag(HookFlag::Snapshot) {
            return Err(MarkerError::Paused);
        }
        let is_off_here = self.has_flag(HookFlag::Cpus) && !self.is_this_cpu_traced(token);
        if self.has_flag(HookFlag::Off) || is_off_here {
            return Err(MarkerError::Off);
        }
        let ring = self.this_ring(token);
        if ring.subbufs() == 0 {
            return Err(MarkerError::NoBuffer);
        }
        if marker.kind == SlotKind::RawMarker && marker.slots.len() > ring.text_room() {
            return Err(MarkerError::TooLong);
        }
        self.complete_entry(token);
        let written = match self.has_flag(HookFlag::Clock) {
            false => self.write_marker(token, marker, cycles),
            true => match self.clock().enter(token) {
                Some(reading) => self.write_marker(token, marker, || reading.now()),
                None => return Err(MarkerError::Off),
            },
        };
        if self.has_flag(HookFlag::Wake) {
            ring.storage().written(token);
        }
        written.map_err(|_| MarkerError::Off)
    }

    fn write_marker(
        &self,
        token: PreemptOff<'_>,
        marker: Marker<'_>,
        clock: impl Fn() -> u64 + Copy,
    ) -> Result<usize, WriteOutcome> {
        let ctx = CpuContext {
            token,
            clock,
            state: IN_TASK,
        };
        let ring = self.this_ring(token);
        // SAFETY:
        // - The ring is this CPU's, on which the thread stays: `token` proves that preemption is
        //   off.
        // - What interrupts this runs to its end before this goes on.
        unsafe { ring.write_marker(marker.kind, marker.ip, marker.slots, marker.length, ctx) }
    }
}
