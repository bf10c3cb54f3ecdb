// SPDX-License-Identifier: GPL-2.0

//! The `function` tracer's hook: from a function's entry into this CPU's ring, without a call.

use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use kernel::alloc::AllocError;
use kernel::cpu::CpuId;
use kernel::prelude::*;

use crate::engine::beside::ArgsSlots;
use crate::engine::clock::ClockKind;
use crate::engine::pid_set::PidSet;
use crate::engine::ring::{Call, Caller, Ring};
use crate::engine::slot::{Task, Words};
use crate::sys::context::{cycles, PreemptGuard, PreemptOff};
use crate::sys::ftrace::{Handler, Registers, Site};
use crate::sys::percpu::PerCpu;
use crate::tracer::beside::{Beside, What};
use crate::tracer::clock::SlowClock;
use crate::tracer::graph::GraphSettings;
use crate::tracer::memory::RingMemory;
use crate::tracer::probes::Probes;

/// A CPU's ring.
pub(crate) type CpuRing = Ring<RingMemory>;

/// What keeps the hook from its shortest way. Bits of [`Recorder::gate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Gate {
    /// Recording is switched off.
    Off = 1 << 0,
    /// Stamps come from another clock than the time stamp counter.
    Clock = 1 << 1,
    /// Only the tasks in `pids` are traced.
    Pids = 1 << 2,
    /// Nothing is recorded for a moment, while something is changed.
    Pause = 1 << 3,
    /// A reader waits for the next event.
    Wake = 1 << 4,
    /// Calls are recorded with more than usual, or not all.
    Graph = 1 << 5,
    /// Something is recorded beside entries.
    Beside = 1 << 6,
}

/// Writes entries into the rings that it is given.
///
/// # Invariants
///
/// A pointer in `rings` leads to `closed`, or to a live ring of that CPU. One that was taken away stays
/// live until every CPU has left the code that it ran with preemption off.
pub(crate) struct Recorder {
    /// 0 mostly. Read by all CPUs, written rarely.
    gate: AtomicU64,
    rings: PerCpu<AtomicPtr<CpuRing>>,
    /// For CPUs that have no ring.
    closed: KBox<CpuRing>,
    pids: PidSet,
    clock: SlowClock,
    graph: GraphSettings,
    beside: Beside,
}

impl Recorder {
    /// A recorder without rings. Its clock is `local`, and `by_counter` says whether the time stamp
    /// counter will do for that.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub(crate) fn new(by_counter: bool) -> Result<Self, AllocError> {
        let gate = if by_counter { 0 } else { Gate::Clock as u64 };
        let closed = KBox::new(CpuRing::closed(RingMemory::none()), GFP_KERNEL)?;
        let pointer: *const CpuRing = &*closed;
        // INVARIANT: All lead to `closed`, which does not move with its box.
        Ok(Self {
            gate: AtomicU64::new(gate),
            rings: PerCpu::new(|_| AtomicPtr::new(pointer.cast_mut()))?,
            closed,
            pids: PidSet::new()?,
            clock: SlowClock::new()?,
            graph: GraphSettings::new(),
            beside: Beside::new()?,
        })
    }

    /// Sets or clears a bit of the gate. Hooks that run already may go on as it was before, until every
    /// CPU has left the code that it runs with preemption off.
    pub(crate) fn set_gate(&self, bit: Gate, set: bool) {
        match set {
            true => self.gate.fetch_or(bit as u64, Ordering::SeqCst),
            false => self.gate.fetch_and(!(bit as u64), Ordering::SeqCst),
        };
    }

    /// Whether a bit of the gate is set.
    pub(crate) fn has_gate(&self, bit: Gate) -> bool {
        self.gate.load(Ordering::Relaxed) & bit as u64 != 0
    }

    /// Events of CPUs that had no ring, for want of memory.
    pub(crate) fn without_ring(&self) -> u64 {
        self.closed.storage().count_missed()
    }

    /// The tasks that are traced; all if there are none.
    pub(crate) fn pids(&self) -> &PidSet {
        &self.pids
    }

    /// Makes them the same as `new`. Callers exclude each other.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory; nothing is changed then.
    pub(crate) fn set_pids(&self, new: &PidSet) -> Result<(), AllocError> {
        // The gate is open while the list is empty, so that at no moment nobody is traced.
        if new.is_empty() {
            self.set_gate(Gate::Pids, false);
        }
        self.pids.assign(new)?;
        if !new.is_empty() {
            self.set_gate(Gate::Pids, true);
        }
        Ok(())
    }

    /// The clock of those who do not take the time stamp counter.
    pub(crate) fn clock(&self) -> &SlowClock {
        &self.clock
    }

    /// How calls are recorded.
    pub(crate) fn graph(&self) -> &GraphSettings {
        &self.graph
    }

    /// Stamps events by `kind` from now on; `by_counter` if the time stamp counter will do for it.
    /// To be called between [`Gate::Pause`] and the end of it.
    pub(crate) fn set_clock(&self, kind: ClockKind, by_counter: bool) {
        self.clock.select(kind);
        self.set_gate(Gate::Clock, !by_counter);
    }

    /// What is recorded beside entries.
    pub(crate) fn beside(&self) -> &Beside {
        &self.beside
    }

    /// Records `what` beside all entries from now on, or no more; for stacks there must be
    /// [room](Beside::make_room). Callers exclude each other.
    pub(crate) fn record_beside_all(&self, what: What, on: bool) {
        self.beside.set(what, on);
        self.set_gate(Gate::Beside, self.beside.is_any());
    }

    /// Records the stacks of the functions of `probes` from now on, and of no others; there must be
    /// [room](Beside::make_room). Callers exclude each other.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; nothing is changed then.
    pub(crate) fn set_probes(&self, probes: Probes) -> Result {
        self.beside.probes().replace(probes)?;
        self.set_gate(Gate::Beside, self.beside.is_any());
        Ok(())
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

    /// The gate, by a load that the compiler may make part of a comparison.
    #[inline(always)]
    pub(super) fn gate(&self) -> u64 {
        // SAFETY: A valid, aligned word. A volatile load of one is what a relaxed atomic load is to
        // the kernel, `READ_ONCE()`.
        unsafe { self.gate.as_ptr().read_volatile() }
    }

    /// Whether the gate lets the running task through.
    #[inline(always)]
    pub(super) fn lets_through(&self, token: PreemptOff<'_>) -> bool {
        // (loaded again each time: that keeps it out of a register on the way of most events)
        if self.gate() & Gate::Pids as u64 != 0 && !self.pids.contains(token.current().pid()) {
            return false;
        }
        self.gate() & (Gate::Off as u64 | Gate::Pause as u64) == 0
    }

    /// Other clocks than the counter, readers that wait, and what is recorded beside entries.
    #[cold]
    #[inline(never)]
    fn entered_slow(call: Call, recorder: &Self, registers: Registers<'_>, token: PreemptOff<'_>) {
        let site = Site { call, registers };
        if recorder.gate() & Gate::Beside as u64 != 0 {
            recorder.record_beside(token, site);
        } else if recorder.gate() & Gate::Clock as u64 == 0 {
            recorder.record(token, site, cycles);
        } else if let Some(reading) = recorder.clock.enter(token) {
            recorder.record(token, site, || reading.now());
        }
        if recorder.gate() & Gate::Wake as u64 != 0 {
            recorder.this_ring(token).storage().written();
        }
    }

    /// This CPU's ring.
    #[inline(always)]
    pub(super) fn this_ring<'a>(&'a self, token: PreemptOff<'a>) -> &'a CpuRing {
        // SAFETY: By the type's invariant it leads to a ring that is live while preemption is off.
        unsafe { &*self.rings.load(token) }
    }

    /// Records a call with its arguments or its stack.
    fn record_beside(&self, token: PreemptOff<'_>, site: Site<'_>) {
        if self.beside.is_busy(token) {
            return;
        }
        let Site {
            mut call,
            registers,
        } = site;
        let Some(wanted) = self.beside.wanted(token, call.ip) else {
            return;
        };
        let args = wanted.args.then(|| Words::args_slots(&registers.args()));
        let unwinding = wanted.stack.then(|| self.beside.begin(token)).flatten();
        let stack = unwinding
            .as_ref()
            .and_then(|unwinding| unwinding.stack(&mut call, registers));
        let args = args.as_ref().map_or(&[][..], ArgsSlots::slots);
        let ring = self.this_ring(token);
        if self.gate() & Gate::Clock as u64 == 0 {
            let caller = Hooked {
                token,
                registers,
                clock: cycles,
            };
            // SAFETY: As in `record`.
            let _ = unsafe { ring.write_beside(call, caller, args, stack) };
        } else if let Some(reading) = self.clock.enter(token) {
            let caller = Hooked {
                token,
                registers,
                clock: || reading.now(),
            };
            // SAFETY: As in `record`.
            let _ = unsafe { ring.write_beside(call, caller, args, stack) };
        }
    }

    #[inline(always)]
    fn record<C: Fn() -> u64 + Copy>(&self, token: PreemptOff<'_>, site: Site<'_>, clock: C) {
        let ring = self.this_ring(token);
        let caller = Hooked {
            token,
            registers: site.registers,
            clock,
        };
        // SAFETY: The ring is this CPU's, and preemption is off; whoever interrupts runs to its end
        // before this goes on. What became of the event is counted in the ring.
        let _ = unsafe { ring.write(site.call, caller) };
    }
}

impl Handler for Recorder {
    #[inline(always)]
    fn entered(&self, site: Site<'_>) {
        let guard = PreemptGuard::new();
        if self.gate() != 0 {
            if !self.lets_through(guard.token()) {
                return;
            }
            const SLOW: u64 = Gate::Clock as u64 | Gate::Wake as u64 | Gate::Beside as u64;
            if self.gate() & SLOW != 0 {
                return Self::entered_slow(site.call, self, site.registers, guard.token());
            }
        }
        self.record(guard.token(), site, cycles);
    }
}

/// The hooked call's surroundings.
#[derive(Clone, Copy)]
struct Hooked<'a, C> {
    token: PreemptOff<'a>,
    registers: Registers<'a>,
    clock: C,
}

impl<C: Fn() -> u64 + Copy> Caller for Hooked<'_, C> {
    #[inline(always)]
    fn now(&self) -> u64 {
        (self.clock)()
    }

    #[inline(always)]
    fn context(&self) -> u32 {
        // (not kept from `is_task` on: there are registers enough for all but that)
        self.token.current().context_word(self.registers.sp())
    }

    #[inline(always)]
    fn task(&self) -> Task {
        self.token.current().identity()
    }

    #[inline(always)]
    fn is_task(&self, word: impl Fn(usize) -> u64) -> bool {
        let current = self.token.current();
        current.is_known_as(word)
    }
}
