// SPDX-License-Identifier: GPL-2.0

//! Cost of recording: measures the time that writing an event takes on this machine.

use core::ops::Range;

use kernel::prelude::*;

use super::cpu_context::{CpuContext, IN_TASK};
use super::recorder::CpuRing;
use super::ring_memory::RingMemory;
use crate::engine::ring::Call;
use crate::sys::clock::local_ns;
use crate::sys::context::{cycles, PreemptGuard};
use crate::sys::memory::{Room, SlotMemory};

/// Slots of the ring that is written to.
const SLOTS: usize = 2 * SUBBUF_SLOTS;
const SUBBUF_SLOTS: usize = 1024;

/// Events of a batch, and the number of batches. The fastest batch counts, which had no interrupts.
const BATCH: u64 = 512;
const BATCHES: usize = 32;

/// The number that stands for any node.
const NO_NODE: i32 = -1;

/// Returns the time that writing an event takes, in picoseconds. Writes events as the `function`
/// tracer does, stamped with the time stamp counter, into a ring of its own, as of a function at
/// the beginning of `text`.
///
/// # Errors
///
/// `ENOMEM` if there is no memory.
pub(crate) fn writing_ps(text: &Range<u64>) -> Result<u64> {
    let room = Room::new(SLOTS * crate::engine::slot::SLOT_BYTES, 0)?;
    let memory = SlotMemory::new(SLOTS, NO_NODE, &room)?;
    let ring = CpuRing::new(RingMemory::alone(memory), SUBBUF_SLOTS).ok_or(EINVAL)?;
    let call = Call {
        ip: text.start,
        parent_ip: text.start,
    };
    let batch = || {
        let guard = PreemptGuard::new();
        let ctx = CpuContext {
            token: guard.token(),
            clock: cycles,
            state: IN_TASK,
        };
        let began = local_ns();
        for _ in 0..BATCH {
            // SAFETY:
            // - The thread stays on its CPU, as `guard` keeps preemption off, and the ring is of no
            //   other.
            // - There are no other writers: nothing else knows of the ring.
            let _ = unsafe { ring.write(call, ctx) };
        }
        local_ns().wrapping_sub(began)
    };
    let fastest = (0..BATCHES).map(|_| batch()).min().unwrap_or(0);
    Ok((fastest.saturating_mul(1000) / BATCH).max(1))
}
