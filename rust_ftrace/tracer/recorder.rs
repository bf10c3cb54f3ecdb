// SPDX-License-Identifier: GPL-2.0

//! The recorder: the rings that hooks write to, and the flags and settings that hooks look at.

use kernel::alloc::AllocError;
use kernel::cpu::CpuId;
use kernel::prelude::*;

use crate::engine::account::Elsewhere;
use crate::engine::clock::ClockKind;
use crate::engine::ring::Ring;
use crate::platform::{AtomicBool, AtomicPtr, Ordering, Word};
use crate::sys::context::PreemptOff;
use crate::sys::cpu;
use crate::sys::percpu::PerCpu;
use crate::tracer::clock::SlowClock;
use crate::tracer::entry_extras::{EntryExtra, EntryExtras};
use crate::tracer::flags::FlagSet;
use crate::tracer::graph_settings::GraphSettings;
use crate::tracer::hook_flags::{HookFlag, HookFlags};
use crate::tracer::outsiders::{PidList, TaskLists};
use crate::tracer::probes::Ready;
use crate::tracer::ring_memory::RingMemory;

/// The ring of a CPU.
pub(crate) type CpuRing = Ring<RingMemory>;

/// Writes entries into the rings that it is given.
///
/// # Invariants
///
/// A pointer in `rings` leads to `closed`, or to a live ring of that CPU. One that was taken away
/// stays live until every CPU has left the code that it ran with preemption off.
pub(crate) struct Recorder {
    flags: HookFlags,
    rings: PerCpu<AtomicPtr<CpuRing>>,
    /// The ring of CPUs that have none.
    closed: KBox<CpuRing>,
    /// The lists of tasks that are traced and that are not.
    pub(super) lists: TaskLists,
    /// CPUs on which nothing is recorded.
    cpus_off: PerCpu<AtomicBool>,
    /// The number of entries and returns that were not recorded because a snapshot was to be taken.
    missed: PerCpu<Word>,
    /// The number of returns that were not recorded for that reason, or as their clock was being
    /// read.
    missed_returns: PerCpu<Word>,
    clock: SlowClock,
    graph: GraphSettings,
    entry_extras: EntryExtras,
}

impl Recorder {
    /// Creates a recorder without rings. Its clock is `local`, and `by_counter` says whether the
    /// time stamp counter will do for that.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub(crate) fn new(by_counter: bool) -> Result<Self, AllocError> {
        let closed = KBox::new(CpuRing::closed(RingMemory::none()), GFP_KERNEL)?;
        let pointer: *const CpuRing = &*closed;
        // INVARIANT: All lead to `closed`, which does not move with its box.
        Ok(Self {
            flags: HookFlags::new(FlagSet::NONE.with(HookFlag::Clock, !by_counter)),
            rings: PerCpu::new(|_| AtomicPtr::new(pointer.cast_mut()))?,
            closed,
            lists: TaskLists::new()?,
            cpus_off: PerCpu::new(|_| AtomicBool::new(false))?,
            missed: PerCpu::new(|_| Word::new(0))?,
            missed_returns: PerCpu::new(|_| Word::new(0))?,
            clock: SlowClock::new()?,
            graph: GraphSettings::new(),
            entry_extras: EntryExtras::new()?,
        })
    }

    /// Sets or clears a hook flag. Hooks that are running may go on as before, until every CPU has
    /// left the code that it runs with preemption off.
    pub(crate) fn set_flag(&self, bit: HookFlag, set: bool) {
        self.change_flag(bit, set);
    }

    /// Sets or clears a hook flag as [`Self::set_flag`] does; false if it was so already.
    pub(crate) fn change_flag(&self, bit: HookFlag, set: bool) -> bool {
        self.flags.change(bit, set)
    }

    /// Returns the hook flags, for parts that switch recording off.
    pub(crate) fn hook_flags(&self) -> &HookFlags {
        &self.flags
    }

    /// Returns whether a hook flag is set.
    pub(crate) fn has_flag(&self, bit: HookFlag) -> bool {
        self.flags.has(bit)
    }

    /// Returns whether nothing is recorded, whichever task is running.
    fn is_shut(&self) -> bool {
        const SHUT: u64 = HookFlag::Off as u64 | HookFlag::Pause as u64 | HookFlag::Snapshot as u64;
        self.flags() & SHUT != 0
    }

    /// Returns the numbers of entries and returns that were ever neither recorded nor counted by a
    /// ring.
    pub(crate) fn elsewhere(&self) -> Elsewhere {
        let sum = |words: &PerCpu<Word>| words.sum(Word::load_relaxed);
        let closed = self.closed.storage();
        // Returns are read first, so that they are never more than the events that they are among.
        let returns = sum(&self.missed_returns).wrapping_add(closed.count_missed_returns());
        Elsewhere {
            without_buffer: closed.count_missed(),
            by_clock: self.clock.recursion(),
            by_snapshot: sum(&self.missed),
            returns,
        }
    }

    /// Returns whether nothing is recorded on this CPU, whichever task is running.
    pub(super) fn is_shut_here(&self, token: PreemptOff<'_>) -> bool {
        self.is_shut() || (self.has_flag(HookFlag::Cpus) && !self.is_this_cpu_traced(token))
    }

    /// Returns whether nothing is recorded because a snapshot is to be taken, and for no other
    /// reason.
    fn is_taking_snapshot(&self) -> bool {
        const SHUT: u64 = HookFlag::Off as u64 | HookFlag::Pause as u64 | HookFlag::Snapshot as u64;
        self.flags() & SHUT == HookFlag::Snapshot as u64
    }

    /// Counts a call that is not recorded, if that is for a snapshot.
    pub(super) fn miss_call(&self, token: PreemptOff<'_>) {
        if self.is_taking_snapshot() {
            self.missed.this(token).local_add(1);
        }
    }

    /// Counts a return that is not recorded, if that is for a snapshot.
    pub(super) fn miss_return(&self, token: PreemptOff<'_>) {
        if self.is_taking_snapshot() {
            self.missed.this(token).local_add(1);
            self.missed_returns.this(token).local_add(1);
        }
    }

    /// Counts a return that is not recorded as the clock is being read; the clock has counted it,
    /// too.
    pub(super) fn miss_return_by_clock(&self, token: PreemptOff<'_>) {
        self.missed_returns.this(token).local_add(1);
    }

    /// Returns whether `cpu` is traced.
    pub(crate) fn is_cpu_traced(&self, cpu: CpuId) -> bool {
        !self.cpus_off.get(cpu).load(Ordering::Relaxed)
    }

    /// Returns whether this CPU is traced.
    pub(super) fn is_this_cpu_traced(&self, token: PreemptOff<'_>) -> bool {
        !self.cpus_off.this(token).load(Ordering::Relaxed)
    }

    /// Traces the CPUs for which `is_traced` is true, and no others, from now on. Callers exclude
    /// each other.
    pub(crate) fn set_cpus(&self, is_traced: impl Fn(CpuId) -> bool) {
        let mut all = true;
        for cpu in cpu::possible() {
            let on = is_traced(cpu);
            self.cpus_off.get(cpu).store(!on, Ordering::Relaxed);
            all &= on;
        }
        self.set_flag(HookFlag::Cpus, !all);
    }

    /// Returns the clock that stamps events if the time stamp counter does not.
    pub(crate) fn clock(&self) -> &SlowClock {
        &self.clock
    }

    /// Returns the settings of how calls are recorded.
    pub(crate) fn graph(&self) -> &GraphSettings {
        &self.graph
    }

    /// Stamps events by `kind` from now on; `by_counter` if the time stamp counter will do for it.
    /// To be called while [`HookFlag::Pause`] is set.
    pub(crate) fn set_clock(&self, kind: ClockKind, by_counter: bool) {
        self.clock.select(kind);
        self.set_flag(HookFlag::Clock, !by_counter);
    }

    /// Returns the settings of the extras of entries.
    pub(crate) fn entry_extras(&self) -> &EntryExtras {
        &self.entry_extras
    }

    /// Gives all entries `what` from now on, or no more; for stacks there must be
    /// [room](EntryExtras::make_room). Callers exclude each other.
    pub(crate) fn record_extra(&self, what: EntryExtra, on: bool) {
        self.entry_extras.set(what, on);
        self.set_flag(HookFlag::Extras, self.entry_extras.is_any());
    }

    /// Records the stacks of the functions of `probes` from now on, and of no others; there must be
    /// [room](EntryExtras::make_room). Returns the probes before. Needs no memory. Callers exclude
    /// each other.
    pub(crate) fn set_probes(&self, probes: Ready) -> Ready {
        let before = self.entry_extras.probes().replace(probes);
        self.set_flag(HookFlag::Extras, self.entry_extras.is_any());
        before
    }

    /// Makes `ring` the one that `cpu` writes to, `None` for none.
    ///
    /// # Safety
    ///
    /// - `ring` is valid until another one was given for `cpu`, or the recorder was unhooked, and
    ///   every CPU has left the code that it ran with preemption off then.
    /// - It is given for one CPU only.
    pub(crate) unsafe fn set_ring(&self, cpu: CpuId, ring: Option<&CpuRing>) {
        let ring: *const CpuRing = ring.unwrap_or(&self.closed);
        let pointer = self.rings.get(cpu);
        pointer.store(ring.cast_mut(), Ordering::Release);
    }

    /// Returns the hook flags, by a load that the compiler may make part of a comparison.
    #[inline(always)]
    pub(super) fn flags(&self) -> u64 {
        self.flags.load().bits()
    }

    /// Returns whether the rare hook flags let the running task through;
    /// [`Self::lets_through_fast`] looks at the others. Counts what is not recorded for a snapshot,
    /// so that it is to be called last.
    #[inline(always)]
    pub(super) fn lets_through_rare(&self, token: PreemptOff<'_>) -> bool {
        self.flags() & Self::RARE == 0 || self.admits_slow(token)
    }

    /// Returns whether the hook flags let the running task through, but for [`Self::RARE`] ones,
    /// which [`Self::admits_slow`] looks at.
    #[inline(always)]
    pub(super) fn lets_through_fast(&self, token: PreemptOff<'_>) -> bool {
        // The flags are loaded again each time, which keeps them out of a register on the way of
        // most events.
        if self.flags() & HookFlag::Pids as u64 != 0 && !self.is_in(PidList::Traced, token) {
            self.remember_outsider(token);
            return false;
        }
        self.flags() & Self::SHUT == 0
    }

    /// The flags that are rarely set, and take more to be looked at.
    pub(super) const RARE: u64 =
        HookFlag::NotPids as u64 | HookFlag::Cpus as u64 | HookFlag::Snapshot as u64;

    /// Returns whether the flags let the running task through, with those of [`Self::RARE`].
    #[cold]
    #[inline(never)]
    pub(super) fn admits_slow(&self, token: PreemptOff<'_>) -> bool {
        let flags = self.flags();
        let has = |bit: HookFlag| flags & bit as u64 != 0;
        if has(HookFlag::NotPids) && self.is_in(PidList::NotTraced, token) {
            self.remember_outsider(token);
            return false;
        }
        let is_left_out = has(HookFlag::Off)
            || has(HookFlag::Pause)
            || (has(HookFlag::Cpus) && !self.is_this_cpu_traced(token));
        if !is_left_out && has(HookFlag::Snapshot) {
            self.missed.this(token).local_add(1);
            return false;
        }
        !is_left_out
    }

    /// Returns whether only some tasks or CPUs are traced.
    #[inline(always)]
    pub(super) fn is_bounded(&self) -> bool {
        const BOUNDS: u64 =
            HookFlag::Pids as u64 | HookFlag::NotPids as u64 | HookFlag::Cpus as u64;
        self.flags() & BOUNDS != 0
    }

    /// Returns whether the running task and this CPU are among those that are traced, whatever else
    /// keeps them from being recorded.
    pub(super) fn is_within_bounds(&self, token: PreemptOff<'_>) -> bool {
        let is_task = (!self.has_flag(HookFlag::Pids) || self.is_in(PidList::Traced, token))
            && !(self.has_flag(HookFlag::NotPids) && self.is_in(PidList::NotTraced, token));
        is_task && (!self.has_flag(HookFlag::Cpus) || self.is_this_cpu_traced(token))
    }

    /// The flags with which nothing is recorded, nor counted.
    pub(super) const SHUT: u64 = HookFlag::Off as u64 | HookFlag::Pause as u64;

    /// Returns this CPU's ring.
    #[inline(always)]
    pub(super) fn this_ring<'a>(&'a self, token: PreemptOff<'a>) -> &'a CpuRing {
        // SAFETY: By the type's invariants the pointer leads to a ring that stays live until this
        // CPU has left the code that it runs with preemption off, as the token proves that it is.
        unsafe { &*self.rings.load(token) }
    }

    /// Returns the ring of `cpu`, if it has one. No lock is needed to read it, nor can it go, as
    /// long as preemption is off.
    pub(crate) fn ring_of<'a>(&'a self, _token: PreemptOff<'a>, cpu: CpuId) -> Option<&'a CpuRing> {
        let ring = self.rings.get(cpu).load(Ordering::Acquire);
        if core::ptr::eq(ring, &*self.closed) {
            return None;
        }
        // SAFETY: By the type's invariants the pointer leads to a ring that stays live until every
        // CPU has left the code that it ran with preemption off, as this one does while the token
        // lives.
        Some(unsafe { &*ring })
    }

    /// Completes the pending entry of `cpu`, so that readers see it.
    ///
    /// # Safety
    ///
    /// Nothing writes to the CPU's ring.
    pub(crate) unsafe fn complete_entry_of(&self, token: PreemptOff<'_>, cpu: CpuId) {
        if let Some(ring) = self.ring_of(token, cpu) {
            // SAFETY: Nothing writes to it, by caller precondition.
            unsafe { ring.complete_pending() };
        }
    }

    /// Completes this CPU's pending entry, so that readers see it.
    pub(crate) fn complete_entry(&self, token: PreemptOff<'_>) {
        // SAFETY:
        // - The ring is this CPU's, on which the thread stays: `token` proves that preemption is
        //   off.
        // - What interrupts this runs to its end before this goes on.
        unsafe { self.this_ring(token).complete_pending() };
    }
}
