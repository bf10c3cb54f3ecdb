// SPDX-License-Identifier: GPL-2.0

//! Markers of an instance, file side: writes what programs wrote, and waits while recording is
//! paused.

use kernel::prelude::*;

use super::recording::Recording;
use crate::engine::marker::TEXT_BYTES;
use crate::engine::slot::{SlotKind, SlotWords};
use crate::sys::context::PreemptGuard;
use crate::sys::wait::nap;
use crate::tracer::marker::{Marker, MarkerError};

impl Recording {
    /// Writes bytes into the trace, and returns the number of bytes that were written.
    ///
    /// # Errors
    ///
    /// - `EBADF` if nothing is recorded.
    /// - `EINTR` if the task is killed while nothing is recorded for a moment.
    /// - `EINVAL` if they are raw, and a sub-buffer has no room for all of them.
    /// - `ENOMEM` if there is no memory.
    pub(crate) fn write_marker(&self, kind: SlotKind, bytes: &[u8]) -> Result<usize> {
        let mut slots = KVVec::with_capacity(bytes.len().div_ceil(TEXT_BYTES), GFP_KERNEL)?;
        for part in bytes.chunks(TEXT_BYTES) {
            slots.push(SlotWords::text_slot(part), GFP_KERNEL)?;
        }
        let marker = Marker {
            kind,
            ip: self.machine.marker_ip(),
            slots: &slots,
            length: bytes.len(),
        };
        let recorder = self.hook.handler();
        loop {
            let guard = PreemptGuard::new();
            let result = recorder.record_marker(guard.token(), marker);
            drop(guard);
            match result {
                Ok(written) => return Ok(written),
                Err(MarkerError::Off) => return Err(EBADF),
                Err(MarkerError::TooLong) => return Err(EINVAL),
                Err(MarkerError::Paused) => {
                    // What has paused recording may take seconds, with `control` held.
                    nap()?;
                }
                Err(MarkerError::NoBuffer) => self.make_buffers(|_| Ok(()))?,
            }
        }
    }
}
