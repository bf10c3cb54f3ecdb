// SPDX-License-Identifier: GPL-2.0

//! An instance's rings: when they are made, how large, and what is counted.

use kernel::cpu::{nr_cpu_ids, CpuId};
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::engine::slot::SLOT_BYTES;
use crate::sys::{cpu, memory::SlotMemory, rcu};
use crate::tracer::function::{CpuRing, Recorder};

/// Size of each CPU's buffer unless said otherwise, in KiB; the same as tracefs's.
const DEFAULT_SIZE_KB: usize = 1408;

/// Size of a sub-buffer, in KiB.
const SUBBUF_KB: usize = 16;

const SUBBUF_SLOTS: usize = SUBBUF_KB * 1024 / SLOT_BYTES;

/// A ring has at least two sub-buffers.
const MIN_SIZE_KB: usize = 2 * SUBBUF_KB;

/// Largest size of a CPU's buffer, in KiB: slot numbers have 32 bits.
const MAX_SIZE_KB: usize = (u32::MAX as usize / 1024 * SLOT_BYTES) / SUBBUF_KB * SUBBUF_KB;

/// One CPU's ring, and where its counts began.
#[derive(Default)]
struct CpuBuffer {
    ring: Option<Arc<CpuRing>>,
    /// Events of this ring before this one are cleared.
    clear_from: u64,
    /// What rings before this one counted: events written, and commit overruns.
    before: Counts,
    /// What had been counted when the buffer was cleared.
    cleared: Counts,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    written: u64,
    overrun: u64,
}

/// What is known of a CPU's buffer at one moment; `written = present + overwritten`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stats {
    /// Events written since the buffer was cleared.
    pub(crate) written: u64,
    /// Those that are still there.
    pub(crate) present: u64,
    /// Those that newer ones, or a change of the buffer's size, took the place of.
    pub(crate) overwritten: u64,
    /// Events that were not written, because an interrupted writer stood in the way.
    pub(crate) commit_overrun: u64,
    /// Bytes of memory.
    pub(crate) bytes: usize,
}

impl Stats {
    /// Sums up two CPUs.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            written: self.written.wrapping_add(other.written),
            present: self.present.wrapping_add(other.present),
            overwritten: self.overwritten.wrapping_add(other.overwritten),
            commit_overrun: self.commit_overrun.wrapping_add(other.commit_overrun),
            bytes: self.bytes.wrapping_add(other.bytes),
        }
    }
}

impl CpuBuffer {
    fn counts(&self) -> Counts {
        let (written, overrun) = self
            .ring
            .as_ref()
            .map_or((0, 0), |ring| (ring.extent().end_event, ring.overrun()));
        Counts {
            written: self.before.written.wrapping_add(written),
            overrun: self.before.overrun.wrapping_add(overrun),
        }
    }

    fn stats(&self) -> Stats {
        let Some(ring) = &self.ring else {
            return Stats::default();
        };
        let extent = ring.extent();
        let written = (self.before.written)
            .wrapping_add(extent.end_event)
            .wrapping_sub(self.cleared.written);
        let first = extent.first_event.max(self.clear_from);
        let present = extent.end_event.saturating_sub(first);
        Stats {
            written,
            present,
            overwritten: written.saturating_sub(present),
            commit_overrun: self.counts().overrun.wrapping_sub(self.cleared.overrun),
            bytes: ring.bytes(),
        }
    }

    fn clear(&mut self) {
        self.cleared = self.counts();
        let end = self.ring.as_ref().map(|ring| ring.extent().end_event);
        self.clear_from = end.unwrap_or(0);
    }
}

/// A CPU's ring as a reader gets it.
pub(crate) struct Source {
    /// The CPU.
    pub(crate) cpu: CpuId,
    /// Its ring.
    pub(crate) ring: Arc<CpuRing>,
    /// Events before this one are cleared.
    pub(crate) from: u64,
}

/// The rings of an instance.
pub(crate) struct Buffers {
    size_kb: usize,
    /// By the number of the CPU; empty as long as nothing needed rings.
    cpus: KVec<CpuBuffer>,
}

impl Buffers {
    /// No rings yet.
    pub(crate) const fn new() -> Self {
        Self {
            size_kb: DEFAULT_SIZE_KB,
            cpus: KVec::new(),
        }
    }

    /// Size of each CPU's buffer, in KiB.
    pub(crate) const fn size_kb(&self) -> usize {
        self.size_kb
    }

    fn make_ring(size_kb: usize, cpu: CpuId) -> Result<Arc<CpuRing>> {
        let slots = size_kb * 1024 / SLOT_BYTES;
        let memory = SlotMemory::new(slots, cpu::node_of(cpu))?;
        let ring = CpuRing::new(memory, SUBBUF_SLOTS).ok_or(EINVAL)?;
        Ok(Arc::new(ring, GFP_KERNEL)?)
    }

    /// Gives every CPU that is online a ring, if it has none, and `recorder` a pointer to it.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; CPUs that got a ring keep it.
    pub(crate) fn make(&mut self, recorder: &Recorder) -> Result {
        while self.cpus.len() < nr_cpu_ids() as usize {
            self.cpus.push(CpuBuffer::default(), GFP_KERNEL)?;
        }
        cpu::online().try_for_each(|cpu| self.make_for(cpu, recorder))
    }

    /// Gives `cpu`, which is coming online, a ring if others have one.
    ///
    /// # Errors
    ///
    /// As for [`Buffers::make`].
    pub(crate) fn make_for(&mut self, cpu: CpuId, recorder: &Recorder) -> Result {
        let size_kb = self.size_kb;
        let Some(buffer) = self.cpus.get_mut(cpu.as_u32() as usize) else {
            return Ok(());
        };
        if buffer.ring.is_none() {
            let ring = buffer.ring.insert(Self::make_ring(size_kb, cpu)?);
            // SAFETY: The ring is this CPU's alone. `resize` keeps it until nobody writes to it,
            // and at the end the instance unhooks the recorder before the buffers go.
            unsafe { recorder.set_ring(cpu, Some(ring)) };
        }
        Ok(())
    }

    /// Changes the size of all buffers. What is in them goes, and counts as overwritten.
    ///
    /// The rings that are no longer written to are returned; see [`OldRings`].
    ///
    /// # Errors
    ///
    /// Nothing is changed then.
    ///
    /// - `EINVAL` if the size is 0.
    /// - `ENOMEM` if there is no memory, or could not be for any machine.
    pub(crate) fn resize(&mut self, size_kb: usize, recorder: &Recorder) -> Result<OldRings> {
        if size_kb == 0 {
            return Err(EINVAL);
        }
        if size_kb > MAX_SIZE_KB {
            return Err(ENOMEM);
        }
        let size_kb = size_kb.next_multiple_of(SUBBUF_KB).max(MIN_SIZE_KB);
        let mut old = OldRings(KVec::new());
        if size_kb == self.size_kb {
            return Ok(old);
        }
        let mut new = KVec::with_capacity(self.cpus.len(), GFP_KERNEL)?;
        old.0.reserve(self.cpus.len(), GFP_KERNEL)?;
        for (number, buffer) in (0..).zip(&self.cpus) {
            if let (Some(_), Some(cpu)) = (&buffer.ring, CpuId::from_u32(number)) {
                new.push((cpu, Self::make_ring(size_kb, cpu)?), GFP_KERNEL)?;
            }
        }
        // Nothing fails from here on.
        self.size_kb = size_kb;
        for (cpu, ring) in new {
            if let Some(buffer) = self.cpus.get_mut(cpu.as_u32() as usize) {
                // SAFETY: As in `make_for`; the old ring lives on in `old` or with readers, and
                // `OldRings` waits until nobody writes to it.
                unsafe { recorder.set_ring(cpu, Some(&ring)) };
                buffer.clear_from = 0;
                if let Some(ring) = buffer.ring.replace(ring) {
                    // Room was reserved.
                    let _ = old.0.push((cpu, ring), GFP_KERNEL);
                }
            }
        }
        Ok(old)
    }

    /// Adds what replaced rings had counted, once they stand still.
    pub(crate) fn retire(&mut self, old: OldRings) {
        for (cpu, ring) in &old.0 {
            if let Some(buffer) = self.cpus.get_mut(cpu.as_u32() as usize) {
                let before = &mut buffer.before;
                before.written = before.written.wrapping_add(ring.extent().end_event);
                before.overrun = before.overrun.wrapping_add(ring.overrun());
            }
        }
    }

    /// Clears the buffer of `cpu`, or all: later reads begin at events written from now on.
    pub(crate) fn clear(&mut self, cpu: Option<CpuId>) {
        match cpu {
            Some(cpu) => {
                if let Some(buffer) = self.cpus.get_mut(cpu.as_u32() as usize) {
                    buffer.clear();
                }
            }
            None => self.cpus.iter_mut().for_each(CpuBuffer::clear),
        }
    }

    /// The rings of `cpu`, or all, for a reader.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn sources(&self, cpu: Option<CpuId>) -> Result<KVec<Source>> {
        let mut sources = KVec::new();
        for (number, buffer) in (0..).zip(&self.cpus) {
            let Some(number) = CpuId::from_u32(number) else {
                continue;
            };
            if let (Some(ring), true) = (&buffer.ring, cpu.is_none_or(|cpu| cpu == number)) {
                let source = Source {
                    cpu: number,
                    ring: ring.clone(),
                    from: buffer.clear_from,
                };
                sources.push(source, GFP_KERNEL)?;
            }
        }
        Ok(sources)
    }

    /// The counts of `cpu`, or the sum of all.
    pub(crate) fn stats(&self, cpu: Option<CpuId>) -> Stats {
        match cpu {
            Some(cpu) => self
                .cpus
                .get(cpu.as_u32() as usize)
                .map_or(Stats::default(), CpuBuffer::stats),
            None => {
                (self.cpus.iter()).fold(Stats::default(), |sum, buffer| sum.plus(buffer.stats()))
            }
        }
    }
}

/// Rings that were replaced, and that some CPU may still be writing to.
#[must_use]
pub(crate) struct OldRings(KVec<(CpuId, Arc<CpuRing>)>);

impl OldRings {
    /// Waits until nobody writes to them any more. Locks that CPU hotplug needs must not be held.
    pub(crate) fn wait(&self) {
        if !self.0.is_empty() {
            rcu::synchronize_preempt_off();
        }
    }
}
