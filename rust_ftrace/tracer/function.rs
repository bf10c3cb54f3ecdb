// SPDX-License-Identifier: GPL-2.0

//! The `function` tracer's hook: from a function's entry into this CPU's ring, without a call.

use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use kernel::alloc::AllocError;
use kernel::cpu::CpuId;
use kernel::prelude::*;

use crate::engine::ring::{Call, Caller, Ring};
use crate::engine::slot::Task;
use crate::machine::ClockSource;
use crate::sys::clock;
use crate::sys::context::{cycles, PreemptGuard, PreemptOff};
use crate::sys::ftrace::{Handler, Registers, Site};
use crate::sys::memory::SlotMemory;
use crate::sys::percpu::PerCpu;

/// A CPU's ring.
pub(crate) type CpuRing = Ring<SlotMemory>;

/// What keeps the hook from its shortest way. Bits of [`Recorder::gate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Gate {
    /// Recording is switched off.
    Off = 1 << 0,
    /// Stamps come from another clock than the time stamp counter.
    Clock = 1 << 1,
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
}

impl Recorder {
    /// A recorder without rings.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub(crate) fn new(clock_source: ClockSource) -> Result<Self, AllocError> {
        let gate = match clock_source {
            ClockSource::Cycles => 0,
            ClockSource::Local => Gate::Clock as u64,
        };
        let closed = KBox::new(CpuRing::closed(SlotMemory::none()), GFP_KERNEL)?;
        let pointer: *const CpuRing = &*closed;
        // INVARIANT: All lead to `closed`, which does not move with its box.
        Ok(Self {
            gate: AtomicU64::new(gate),
            rings: PerCpu::new(|_| AtomicPtr::new(pointer.cast_mut()))?,
            closed,
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
    fn gate(&self) -> u64 {
        // SAFETY: A valid, aligned word. A volatile load of one is what a relaxed atomic load is to
        // the kernel, `READ_ONCE()`.
        unsafe { self.gate.as_ptr().read_volatile() }
    }

    /// Other clocks than the counter.
    #[cold]
    #[inline(never)]
    fn entered_gated(call: Call, recorder: &Self, registers: Registers<'_>, token: PreemptOff<'_>) {
        recorder.record(token, Site { call, registers }, clock::local_ns);
    }

    #[inline(always)]
    fn record<C: Fn() -> u64 + Copy>(&self, token: PreemptOff<'_>, site: Site<'_>, clock: C) {
        // SAFETY: By the type's invariant it leads to a ring that is live while preemption is off.
        let ring = unsafe { &*self.rings.load(token) };
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
            // (loaded again: that keeps it out of a register on the way of most events)
            if self.gate() & Gate::Off as u64 == 0 {
                Self::entered_gated(site.call, self, site.registers, guard.token());
            }
            return;
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
