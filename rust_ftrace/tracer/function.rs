// SPDX-License-Identifier: GPL-2.0

//! The `function` tracer's hook: from a function's entry into this CPU's ring, without a call.

use core::sync::atomic::{AtomicPtr, Ordering};

use kernel::alloc::AllocError;
use kernel::cpu::CpuId;

use crate::engine::ring::{Entry, Ring};
use crate::machine::ClockSource;
use crate::shim::Word;
use crate::sys::clock;
use crate::sys::context::{cycles, PreemptGuard};
use crate::sys::ftrace::{Handler, Site};
use crate::sys::memory::SlotMemory;
use crate::sys::percpu::PerCpu;

/// A CPU's ring.
pub(crate) type CpuRing = Ring<SlotMemory>;

/// Tracing is switched off.
const GATE_OFF: u64 = 1 << 0;
/// Stamps come from the kernel's clock.
const GATE_LOCAL_CLOCK: u64 = 1 << 1;

/// Writes entries into the rings that it is given.
///
/// # Invariants
///
/// A pointer in `rings` is NULL or leads to a live ring of that CPU. One that was taken away stays
/// live until every CPU has left the code that it ran with preemption off.
pub(crate) struct Recorder {
    /// All that keeps the hook from its shortest way; 0 mostly. Read by all CPUs, written rarely.
    gate: Word,
    rings: PerCpu<AtomicPtr<CpuRing>>,
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
            ClockSource::Local => GATE_LOCAL_CLOCK,
        };
        Ok(Self {
            gate: Word::new(gate),
            rings: PerCpu::new(|_| AtomicPtr::new(core::ptr::null_mut()))?,
        })
    }

    /// Switches recording on or off.
    pub(crate) fn set_on(&self, on: bool) {
        // Callers hold the instance's control lock, so nobody else writes.
        let others = self.gate.load_relaxed() & !GATE_OFF;
        self.gate
            .store_relaxed(if on { others } else { others | GATE_OFF });
    }

    /// Whether recording is on.
    pub(crate) fn is_on(&self) -> bool {
        self.gate.load_relaxed() & GATE_OFF == 0
    }

    /// Makes `ring` the one that `cpu` writes to, NULL for none.
    ///
    /// # Safety
    ///
    /// - `ring` is NULL or valid until another one was given for `cpu`, or the recorder was
    ///   unhooked, and every CPU has left the code that it ran with preemption off then.
    /// - It is given for one CPU only.
    pub(crate) unsafe fn set_ring(&self, cpu: CpuId, ring: *const CpuRing) {
        self.rings
            .get(cpu)
            .store(ring.cast_mut(), Ordering::Release);
    }

    #[cold]
    #[inline(never)]
    fn entered_gated(&self, guard: &PreemptGuard, site: &Site, gate: u64) {
        if gate & GATE_OFF == 0 {
            self.record(guard, site, clock::local_ns);
        }
    }

    #[inline(always)]
    fn record<C: Fn() -> u64>(&self, guard: &PreemptGuard, site: &Site, clock: C) {
        let ring = self.rings.this(guard).load(Ordering::Acquire);
        // SAFETY: By the type's invariant it is NULL or live while preemption is off.
        let Some(ring) = (unsafe { ring.as_ref() }) else {
            return;
        };
        let current = guard.current();
        let entry = Entry {
            ip: site.ip,
            parent_ip: site.parent_ip,
            context: guard.context_word(&current, site.sp),
        };
        let task = current.identity();
        // SAFETY: The ring is this CPU's, and the guard keeps it; whoever interrupts runs to its
        // end before this goes on. What became of the event is counted in the ring.
        let _ = unsafe { ring.write(&entry, &task, clock) };
    }
}

impl Handler for Recorder {
    #[inline(always)]
    fn entered(&self, guard: &PreemptGuard, site: &Site) {
        let gate = self.gate.load_relaxed();
        if gate != 0 {
            return self.entered_gated(guard, site, gate);
        }
        self.record(guard, site, cycles);
    }
}
