// SPDX-License-Identifier: GPL-2.0

//! The snapshot: a spare buffer for each CPU, which changes places with the one that is written to.

use kernel::cpu::CpuId;
use kernel::prelude::*;

use super::buffers::Buffers;
use super::counted_buffer::CountedBuffer;
use crate::sys::memory::Room;
use crate::sys::{cpu, rcu};
use crate::tracer::recorder::Recorder;

impl Buffers {
    /// Returns whether there is a snapshot, of `cpu` or any.
    pub(crate) fn has_snapshot(&self, cpu: Option<CpuId>) -> bool {
        self.meant(cpu)
            .any(|(_, buffers)| buffers.spare.buffer.is_some())
    }

    /// Takes a snapshot of `cpu`, or all: what was recorded is in it, and recording goes on in an
    /// empty buffer. Some CPU may still be writing to the snapshot; see [`TakenSnapshot`].
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory for spare buffers; nothing is changed then.
    pub(crate) fn take_snapshot(
        &mut self,
        cpu: Option<CpuId>,
        recorder: &Recorder,
    ) -> Result<TakenSnapshot> {
        self.make_spares(cpu)?;
        // Nothing fails from here on.
        for number in cpu::possible().filter(|number| cpu.is_none_or(|cpu| cpu == *number)) {
            let Some(buffers) = self.of_mut(number) else {
                continue;
            };
            if buffers.live.buffer.is_none() {
                continue;
            }
            buffers.spare.clear();
            core::mem::swap(&mut buffers.live, &mut buffers.spare);
            if let Some(live) = &buffers.live.buffer {
                // Its task may have been moved to another container meanwhile.
                live.ring().forget_task();
                // SAFETY:
                // - Both rings live on with the CPU's buffers until they are replaced or the
                //   snapshot is freed, which wait for writers.
                // - The ring is given for this CPU only.
                unsafe { recorder.set_ring(number, Some(live.ring())) };
            }
            buffers.waker.wake();
        }
        Ok(TakenSnapshot(()))
    }

    /// Makes room for a snapshot of `cpu`, or all, where there is none yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; nothing is changed then.
    pub(crate) fn make_spares(&mut self, cpu: Option<CpuId>) -> Result {
        let mut missing = KVec::new();
        for (cpu, buffers) in self.meant(cpu) {
            let Some(live) = &buffers.live.buffer else {
                continue;
            };
            let size_kb = live.size_kb();
            let spare = buffers.spare.buffer.as_ref();
            if spare.is_none_or(|spare| spare.size_kb() != size_kb) {
                missing.push((cpu, size_kb), GFP_KERNEL)?;
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let size_kb = (missing.iter()).fold(0, |sum: usize, (_, kb)| sum.saturating_add(*kb));
        let room = Room::new(size_kb.saturating_mul(1024), 0)?;
        let mut new = KVec::with_capacity(missing.len(), GFP_KERNEL)?;
        for (cpu, size_kb) in missing {
            new.push(
                (cpu, self.make_one(cpu, size_kb, self.subbuf_kb(), &room)?),
                GFP_KERNEL,
            )?;
        }
        for (cpu, spare) in new {
            if let Some(buffers) = self.of_mut(cpu) {
                buffers.spare = CountedBuffer::new(spare);
            }
        }
        Ok(())
    }

    /// Clears the snapshot of `cpu`, or all, if there is one.
    pub(crate) fn clear_snapshot(&mut self, cpu: Option<CpuId>) {
        for number in cpu::possible() {
            if let (Some(buffers), true) =
                (self.of_mut(number), cpu.is_none_or(|cpu| cpu == number))
            {
                buffers.spare.clear();
            }
        }
    }

    /// Frees all snapshots. Nothing writes to them: what took them has waited for that.
    pub(crate) fn drop_spares(&mut self) {
        for buffers in self.cpus.iter_mut() {
            buffers.spare = CountedBuffer::default();
        }
    }
}

/// A snapshot that was just taken.
#[must_use]
pub(crate) struct TakenSnapshot(());

impl TakenSnapshot {
    /// Waits until nothing writes to the snapshot any more. Locks that CPU hotplug needs must not
    /// be held.
    pub(crate) fn wait(self) {
        rcu::synchronize_preempt_off();
    }
}
