// SPDX-License-Identifier: GPL-2.0

//! The buffers of an instance: when they are made, their sizes, and their counts.

use kernel::cpu::{nr_cpu_ids, CpuId};
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::Arc;

use super::buffer::{Buffer, RingSettings};
use super::counted_buffer::{CountedBuffer, OldBuffer, Stats};
use super::wakers::Wakers;
use crate::engine::kernel_page::PAGE_BYTES;
use crate::engine::ring::{MAX_SLOTS, MAX_SUBBUF_SLOTS};
use crate::engine::slot::SLOT_BYTES;
use crate::engine::trace_reader::CpuBuffer;
use crate::sys::memory::Room;
use crate::sys::{cpu, rcu};
use crate::tracer::budget::Budget;
use crate::tracer::recorder::{CpuRing, Recorder};
use crate::tracer::ring_memory::{Observers, RingMemory};
use crate::tracer::waker::Waker;

/// The size of each CPU's buffer by default, in KiB, as in tracefs.
const DEFAULT_SIZE_KB: usize = 1408;

/// The size of a sub-buffer by default, in KiB.
const DEFAULT_SUBBUF_KB: usize = 16;

/// The smallest and largest size of a sub-buffer, in KiB: a page, as in tracefs, and what a ring
/// can have.
const MIN_SUBBUF_KB: usize = PAGE_SIZE / 1024;
const MAX_SUBBUF_KB: usize = MAX_SUBBUF_SLOTS * SLOT_BYTES / 1024;

/// The largest size of a CPU's buffer, in KiB.
const MAX_SIZE_KB: usize = MAX_SLOTS * SLOT_BYTES / 1024;

/// The number of the next ring, of whatever instance: one may have the hooks of another that was
/// removed.
static NEXT_RING: Atomic<u32> = Atomic::new(0);

/// Returns the size that a buffer has if `size_kb` is asked for: whole sub-buffers, two at least.
pub(super) fn rounded(size_kb: usize, subbuf_kb: usize) -> usize {
    size_kb.next_multiple_of(subbuf_kb).max(2 * subbuf_kb)
}

/// Returns the size in KiB that sub-buffers have if `size_kb` is asked for: the smallest power of
/// two of pages that is not smaller.
///
/// # Errors
///
/// `EINVAL` if that is 0 or too large.
pub(super) fn subbuf_kb(size_kb: usize) -> Result<usize> {
    match (1..=MAX_SUBBUF_KB).contains(&size_kb) {
        true => Ok(size_kb.next_power_of_two().max(MIN_SUBBUF_KB)),
        false => Err(EINVAL),
    }
}

/// The buffers of a CPU.
pub(super) struct PerCpuBuffers {
    /// The size of the buffer in KiB, also if it is not made yet.
    pub(super) size_kb: usize,
    /// The waker that is told of events, and of another buffer.
    pub(super) waker: Arc<Waker>,
    pub(super) live: CountedBuffer,
    /// The snapshot.
    pub(super) spare: CountedBuffer,
}

/// One of a CPU's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferKind {
    /// The buffer that is written to.
    Live,
    /// The snapshot.
    Snapshot,
}

/// A CPU's buffer as a reader gets it.
pub(crate) struct BufferSource {
    /// The CPU.
    pub(crate) cpu: CpuId,
    /// Its buffer.
    pub(crate) buffer: Arc<Buffer>,
}

impl CpuBuffer for BufferSource {
    type Memory = RingMemory;

    fn cpu(&self) -> u32 {
        self.cpu.as_u32()
    }

    #[inline(always)]
    fn ring(&self) -> &CpuRing {
        self.buffer.ring()
    }
}

/// The buffers of an instance.
pub(crate) struct Buffers {
    subbuf_kb: usize,
    /// The size of sub-buffers was set.
    has_said_subbuf: bool,
    pub(super) settings: RingSettings,
    /// The buffers were needed, and are made for CPUs that come.
    pub(super) made: bool,
    budget: Arc<Budget>,
    /// The buffers of CPUs, by the number of the CPU.
    pub(super) cpus: KVec<PerCpuBuffers>,
}

impl Buffers {
    /// Creates the state without buffers.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn new(wakers: &Wakers, budget: &Arc<Budget>) -> Result<Self> {
        let mut cpus = KVec::with_capacity(nr_cpu_ids() as usize, GFP_KERNEL)?;
        for cpu in 0..nr_cpu_ids() {
            let none = PerCpuBuffers {
                size_kb: DEFAULT_SIZE_KB,
                waker: wakers.of(CpuId::from_u32(cpu)).clone(),
                live: CountedBuffer::default(),
                spare: CountedBuffer::default(),
            };
            cpus.push(none, GFP_KERNEL)?;
        }
        Ok(Self {
            subbuf_kb: DEFAULT_SUBBUF_KB,
            has_said_subbuf: false,
            settings: RingSettings::default(),
            made: false,
            budget: budget.clone(),
            cpus,
        })
    }

    /// Returns `cpu`, or all CPUs that are possible.
    pub(super) fn meant(
        &self,
        cpu: Option<CpuId>,
    ) -> impl Iterator<Item = (CpuId, &PerCpuBuffers)> {
        cpu::possible()
            .filter(move |number| cpu.is_none_or(|cpu| cpu == *number))
            .filter_map(|number| Some((number, self.cpus.get(number.as_u32() as usize)?)))
    }

    pub(super) fn of_mut(&mut self, cpu: CpuId) -> Option<&mut PerCpuBuffers> {
        self.cpus.get_mut(cpu.as_u32() as usize)
    }

    /// Returns the size of the buffer of `cpu` in KiB, or of all; `None` if they are of several
    /// sizes.
    pub(crate) fn size_kb(&self, cpu: Option<CpuId>) -> Option<usize> {
        let mut sizes = self.meant(cpu).map(|(_, buffers)| buffers.size_kb);
        let first = sizes.next()?;
        sizes.all(|size| size == first).then_some(first)
    }

    /// Returns the sum of the sizes of all buffers, in KiB.
    pub(crate) fn total_size_kb(&self) -> usize {
        self.meant(None).map(|(_, buffers)| buffers.size_kb).sum()
    }

    /// Returns the bytes of a page of `trace_pipe_raw`: as the kernel has them, unless the size of
    /// sub-buffers was set.
    pub(crate) const fn page_bytes(&self) -> usize {
        match self.has_said_subbuf {
            true => self.subbuf_kb * 1024,
            false => PAGE_BYTES,
        }
    }

    /// Returns the size of the sub-buffers, in KiB.
    pub(crate) const fn subbuf_kb(&self) -> usize {
        self.subbuf_kb
    }

    /// Sets whether new events are dropped when a buffer is full, instead of the oldest being
    /// overwritten.
    pub(crate) fn set_discard(&mut self, discard: bool) {
        self.settings.discard = discard;
        self.rings().for_each(|ring| self.settings.apply(ring));
    }

    /// Sets whether tasks are recorded with their containers. An event that is being recorded may
    /// still be as before; see [`Self::forget_tasks`].
    pub(super) fn set_containers(&mut self, wanted: bool) {
        self.settings.containers = wanted;
        self.rings().for_each(|ring| self.settings.apply(ring));
    }

    /// Has the next event of each CPU say its task.
    pub(super) fn forget_tasks(&self) {
        self.rings().for_each(CpuRing::forget_task);
    }

    /// Returns the rings that are recorded in, or may be next.
    fn rings(&self) -> impl Iterator<Item = &CpuRing> {
        let both = self.cpus.iter().flat_map(|cpu| [&cpu.live, &cpu.spare]);
        both.filter_map(CountedBuffer::ring)
    }

    /// Makes a buffer for `cpu` in the room for it.
    pub(super) fn make_one(
        &self,
        cpu: CpuId,
        size_kb: usize,
        subbuf_kb: usize,
        room: &Room,
    ) -> Result<Arc<Buffer>> {
        let buffers = self.cpus.get(cpu.as_u32() as usize).ok_or(EINVAL)?;
        let observers = Observers {
            waker: buffers.waker.clone(),
            budget: self.budget.clone(),
        };
        let id = NEXT_RING.fetch_add(1_u32, Relaxed);
        Buffer::new(cpu, id, observers, size_kb, subbuf_kb, self.settings, room)
    }

    /// Gives every CPU that is online a buffer, if it has none, and `recorder` its ring. As `_cpus`
    /// shows, no CPU is on its way, neither online yet nor to be [made for](Self::make_for) any
    /// more.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; nothing is changed then.
    pub(crate) fn make(&mut self, _cpus: &cpu::ReadLock, recorder: &Recorder) -> Result {
        let missing = || cpu::online().filter_map(|cpu| Some((cpu, self.missing_kb(cpu)?)));
        let missing_kb = missing().fold(0, |sum: usize, (_, kb)| sum.saturating_add(kb));
        if missing_kb != 0 {
            let room = Room::new(missing_kb.saturating_mul(1024), 0)?;
            let mut new = KVec::new();
            for (cpu, size_kb) in missing() {
                new.push(
                    (cpu, self.make_one(cpu, size_kb, self.subbuf_kb, &room)?),
                    GFP_KERNEL,
                )?;
            }
            for (cpu, buffer) in new {
                self.install(cpu, buffer, recorder);
            }
        }
        self.made = true;
        Ok(())
    }

    /// Gives `cpu`, which is coming online, a buffer if others have one.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn make_for(&mut self, cpu: CpuId, recorder: &Recorder) -> Result {
        let Some(size_kb) = self.missing_kb(cpu).filter(|_| self.made) else {
            return Ok(());
        };
        let room = Room::new(size_kb.saturating_mul(1024), 0)?;
        let buffer = self.make_one(cpu, size_kb, self.subbuf_kb, &room)?;
        self.install(cpu, buffer, recorder);
        Ok(())
    }

    /// Returns the size that the buffer of `cpu` is to have, in KiB, if it has none.
    fn missing_kb(&self, cpu: CpuId) -> Option<usize> {
        let buffers = self.cpus.get(cpu.as_u32() as usize)?;
        (buffers.live.buffer.is_none()).then_some(buffers.size_kb)
    }

    /// Gives `cpu` its first buffer, and `recorder` the ring.
    fn install(&mut self, cpu: CpuId, buffer: Arc<Buffer>, recorder: &Recorder) {
        if let Some(buffers) = self.of_mut(cpu) {
            let buffer = buffers.live.buffer.insert(buffer);
            // SAFETY:
            // - What replaces the ring keeps it in an `OldBuffers`, which waits until nothing
            //   writes to it; at the end the recorder is unhooked before the buffers go.
            // - The ring is given for this CPU only.
            unsafe { recorder.set_ring(cpu, Some(buffer.ring())) };
            buffers.waker.wake();
        }
    }

    /// Changes the size of the buffer of `cpu`, or of all. The newest of what is in them stays, as
    /// much as the new size has room for, if there is memory for both; what goes counts as
    /// overwritten.
    ///
    /// The buffers that are no longer written to are returned; see [`OldBuffers`].
    ///
    /// # Errors
    ///
    /// Nothing is changed then.
    ///
    /// - `EINVAL` if the size is 0.
    /// - `ENOMEM` if there is no memory, or could not be for any machine.
    pub(crate) fn resize(
        &mut self,
        cpu: Option<CpuId>,
        size_kb: usize,
        recorder: &Recorder,
    ) -> Result<OldBuffers> {
        if size_kb == 0 {
            return Err(EINVAL);
        }
        if size_kb > MAX_SIZE_KB {
            return Err(ENOMEM);
        }
        let size_kb = rounded(size_kb, self.subbuf_kb);
        let mut new = KVec::new();
        for (cpu, buffers) in self.meant(cpu) {
            if buffers.size_kb != size_kb {
                new.push((cpu, size_kb), GFP_KERNEL)?;
            }
        }
        self.exchange(&new, recorder, true)
    }

    /// Changes the size of all sub-buffers: the smallest power of two of pages that is not smaller.
    /// The content of the buffers goes, and counts as overwritten; snapshots go as a whole.
    ///
    /// # Errors
    ///
    /// Nothing is changed then.
    ///
    /// - `EINVAL` if the size is 0 or too large.
    /// - `ENOMEM` if there is no memory.
    pub(crate) fn set_subbuf_kb(
        &mut self,
        size_kb: usize,
        recorder: &Recorder,
    ) -> Result<OldBuffers> {
        let subbuf_kb = subbuf_kb(size_kb)?;
        if subbuf_kb == self.subbuf_kb {
            self.has_said_subbuf = true;
            return Ok(OldBuffers::none());
        }
        let mut new = KVec::new();
        for (cpu, buffers) in self.meant(None) {
            let size_kb = rounded(buffers.size_kb, subbuf_kb);
            new.push((cpu, size_kb.min(MAX_SIZE_KB)), GFP_KERNEL)?;
        }
        let before = core::mem::replace(&mut self.subbuf_kb, subbuf_kb);
        let old = self.exchange(&new, recorder, false);
        match old {
            Ok(_) => {
                self.has_said_subbuf = true;
                self.drop_spares();
            }
            Err(_) => self.subbuf_kb = before,
        }
        old
    }

    /// Gives the CPUs of `new` buffers of the sizes there; the content of the old ones is kept, or
    /// not.
    fn exchange(
        &mut self,
        new: &[(CpuId, usize)],
        recorder: &Recorder,
        keep: bool,
    ) -> Result<OldBuffers> {
        let mut old = OldBuffers(KVec::with_capacity(new.len(), GFP_KERNEL)?);
        let mut made = KVec::with_capacity(new.len(), GFP_KERNEL)?;
        let live = |cpu| (self.meant(Some(cpu))).find_map(|(_, cpu)| cpu.live.buffer.as_ref());
        let (mut bytes, mut replaced) = (0usize, 0usize);
        for &(cpu, size_kb) in new {
            if let Some(live) = live(cpu) {
                bytes = bytes.saturating_add(size_kb.saturating_mul(1024));
                replaced = replaced.saturating_add(live.ring().bytes());
            }
        }
        let room = Room::new(bytes, replaced)?;
        for &(cpu, size_kb) in new {
            let buffer = match live(cpu).is_some() {
                true => Some(self.make_one(cpu, size_kb, self.subbuf_kb, &room)?),
                false => None,
            };
            made.push((cpu, size_kb, buffer), GFP_KERNEL)?;
        }
        // Nothing fails from here on.
        for (cpu, size_kb, buffer) in made {
            let Some(buffers) = self.of_mut(cpu) else {
                continue;
            };
            buffers.size_kb = size_kb;
            if let Some(replaced) =
                buffer.and_then(|buffer| self.replace(cpu, buffer, recorder, keep))
            {
                // Room was reserved.
                let _ = old.0.push(replaced, GFP_KERNEL);
            }
        }
        Ok(old)
    }

    /// Puts `buffer` in the place of that of `cpu`, and gives `recorder` its ring; the old one, if
    /// any, may still be written to.
    pub(super) fn replace(
        &mut self,
        cpu: CpuId,
        buffer: Arc<Buffer>,
        recorder: &Recorder,
        keep: bool,
    ) -> Option<OldBuffer> {
        let buffers = self.of_mut(cpu)?;
        // SAFETY:
        // - What replaces the ring keeps it in an `OldBuffers`, which waits until nothing writes to
        //   it, as callers of this do with the old one; at the end the recorder is unhooked before
        //   the buffers go.
        // - The ring is given for this CPU only.
        unsafe { recorder.set_ring(cpu, Some(buffer.ring())) };
        let replaced = buffers.live.replace(cpu, Some(buffer), keep);
        // A reader that waits for a part of the old buffer waits for the new one from now on.
        buffers.waker.wake();
        replaced
    }

    /// Adds the last counts of replaced buffers, once they stand still, or keeps their content.
    ///
    /// # Safety
    ///
    /// Nothing writes to them.
    pub(crate) unsafe fn retire(&mut self, old: OldBuffers) {
        for old in old.0 {
            if let Some(buffers) = self.of_mut(old.cpu) {
                // SAFETY: Nothing writes to the old buffers any more, by caller precondition.
                unsafe { buffers.live.retire(&old) };
            }
        }
    }

    /// Returns whether an entry is pending on `cpu`.
    pub(crate) fn has_pending(&self, cpu: CpuId) -> bool {
        let mut rings = self.meant(Some(cpu)).filter_map(|(_, cpu)| cpu.live.ring());
        rings.any(CpuRing::has_pending)
    }

    /// Completes the entry that is pending on `cpu`.
    ///
    /// # Safety
    ///
    /// Nothing writes to the CPU's ring.
    pub(crate) unsafe fn complete_entry(&mut self, cpu: CpuId) {
        for (_, buffers) in self.meant(Some(cpu)) {
            if let Some(ring) = buffers.live.ring() {
                // SAFETY: Nothing writes to the ring, by caller precondition, nor does this at the
                // same time elsewhere, as `self` is exclusive.
                unsafe { ring.complete_pending() };
            }
        }
    }

    /// Completes the entries that are pending in snapshots.
    ///
    /// # Safety
    ///
    /// Nothing writes to them.
    pub(crate) unsafe fn complete_snapshot(&mut self) {
        for (_, buffers) in self.meant(None) {
            if let Some(ring) = buffers.spare.ring() {
                // SAFETY: Nothing writes to the ring, by caller precondition, nor does this at the
                // same time elsewhere, as `self` is exclusive.
                unsafe { ring.complete_pending() };
            }
        }
    }

    /// Prepares the rings for stamps of another clock. Nothing may be recording.
    pub(crate) fn forget_time(&self) {
        self.rings().for_each(CpuRing::forget_time);
    }

    /// Clears the buffer of `cpu`, or all: later reads begin at events written from now on.
    pub(crate) fn clear(&mut self, cpu: Option<CpuId>) {
        for number in cpu::possible() {
            if let (Some(buffers), true) =
                (self.of_mut(number), cpu.is_none_or(|cpu| cpu == number))
            {
                buffers.live.clear();
            }
        }
    }

    /// Returns the buffers of `cpu`, or all, for a reader: those of one CPU in the order in which
    /// they were written.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn sources(
        &mut self,
        cpu: Option<CpuId>,
        which: BufferKind,
    ) -> Result<KVec<BufferSource>> {
        self.settle();
        let mut sources = KVec::new();
        for (cpu, buffers) in self.meant(cpu) {
            for buffer in buffers.get(which).buffers() {
                let buffer = buffer.clone();
                sources.push(BufferSource { cpu, buffer }, GFP_KERNEL)?;
            }
        }
        Ok(sources)
    }

    /// Frees buffers that resizing has kept, and that newer events have taken the place of.
    fn settle(&mut self) {
        for buffers in self.cpus.iter_mut() {
            buffers.live.settle();
            buffers.spare.settle();
        }
    }

    /// Returns the counts of `cpu`, or the sum of all.
    pub(crate) fn stats(&mut self, cpu: Option<CpuId>, which: BufferKind) -> Stats {
        self.settle();
        self.meant(cpu).fold(Stats::default(), |sum, (_, buffers)| {
            sum.plus(buffers.get(which).stats())
        })
    }
}

impl PerCpuBuffers {
    fn get(&self, which: BufferKind) -> &CountedBuffer {
        match which {
            BufferKind::Live => &self.live,
            BufferKind::Snapshot => &self.spare,
        }
    }
}

/// Buffers that were replaced, and that some CPU may still be writing to.
#[must_use]
pub(crate) struct OldBuffers(pub(super) KVec<OldBuffer>);

impl OldBuffers {
    const fn none() -> Self {
        Self(KVec::new())
    }

    /// Waits until nothing writes to them any more. Locks that CPU hotplug needs must not be held.
    pub(crate) fn wait(&self) {
        if !self.0.is_empty() {
            rcu::synchronize_preempt_off();
        }
    }
}
