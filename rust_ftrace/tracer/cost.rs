// SPDX-License-Identifier: GPL-2.0

//! Measures the time that writing an event takes on this machine.

use core::ops::Range;

use kernel::prelude::*;

use super::cpu_context::{CpuContext, IN_TASK};
use super::recorder::CpuRing;
use super::ring_memory::RingMemory;
use crate::engine::ring::Call;
use crate::sys::clock::local_ns;
use crate::sys::context::{cycles, PreemptGuard};
use crate::sys::memory::{Room, SlotMemory};

/// Slots of the ring that is written to, and of its sub-buffers.
const SLOTS: usize = 2 * SUBBUF_SLOTS;
const SUBBUF_SLOTS: usize = 1024;

/// Events that are written at a time, and how often: the fastest time is taken, without interrupts.
const BATCH: u64 = 512;
const BATCHES: usize = 32;

/// Any node.
const NO_NODE: i32 = -1;

/// Writes events as the `function` tracer does, stamped with the time stamp counter, into a ring that goes with them:
/// how long one takes, in picoseconds. They are said to be of a function somewhere in `text`.
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
