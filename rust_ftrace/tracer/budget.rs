// SPDX-License-Identifier: GPL-2.0

//! Budget, hook side: counts calls and their time, and stops recording when a limit is exceeded.
//!
//! See [`engine::budget`](crate::engine::budget) for what is counted. Limits may change at any
//! time: each setting begins a *session*, and counts of another session are of no interest any
//! more. Session 0 has no limits.

use kernel::alloc::AllocError;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::hook_flags::{HookFlag, HookFlags};
use super::waker::Waker;
use crate::engine::budget::{BudgetLimits, CpuWindow, Excess, Measured};
use crate::platform::{AtomicPtr, AtomicU64, Ordering};
use crate::sys::context::PreemptOff;
use crate::sys::percpu::PerCpu;
use crate::sys::{clock, cpu, irq_work};

/// The reason why recording was stopped, as a value of [`Budget::stopped`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum Stopped {
    /// The budget has not stopped it.
    No,
    /// There were too many calls.
    Calls,
    /// They took too long.
    Cpu,
}

/// Measured numbers, which hooks write one after the other: they belong together, more or less.
struct SharedMeasured {
    calls: AtomicU64,
    cost_ps: AtomicU64,
}

impl SharedMeasured {
    const fn new() -> Self {
        Self {
            calls: AtomicU64::new(0),
            cost_ps: AtomicU64::new(0),
        }
    }

    fn store(&self, measured: Measured) {
        self.calls.store(measured.calls, Ordering::Relaxed);
        self.cost_ps.store(measured.cost_ps, Ordering::Relaxed);
    }

    fn load(&self) -> Measured {
        Measured {
            calls: self.calls.load(Ordering::Relaxed),
            cost_ps: self.cost_ps.load(Ordering::Relaxed),
        }
    }
}

/// The budget of an instance.
///
/// # Invariants
///
/// `flags` is null, or valid as long as anything writes to the rings that tell this.
pub(crate) struct Budget {
    flags: AtomicPtr<HookFlags>,
    /// The wakers of all CPUs.
    wakers: KVec<Arc<Waker>>,
    session: AtomicU64,
    last_session: AtomicU64,
    limits: [AtomicU64; 2],
    /// The cost of recording a call, in picoseconds.
    cost_ps: AtomicU64,
    windows: PerCpu<CpuWindow>,
    /// The session that `measured` is of.
    measured_in: AtomicU64,
    measured: SharedMeasured,
    /// A [`Stopped`], stored after `excess`.
    stopped: AtomicU64,
    excess: SharedMeasured,
    allowed: AtomicU64,
}

impl Budget {
    /// Creates a budget without limits, which wakes the readers of `wakers` when it stops
    /// recording.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub(crate) fn new(wakers: KVec<Arc<Waker>>) -> Result<Self, AllocError> {
        // INVARIANT: Null.
        Ok(Self {
            flags: AtomicPtr::new(core::ptr::null_mut()),
            wakers,
            session: AtomicU64::new(0),
            last_session: AtomicU64::new(0),
            limits: [const { AtomicU64::new(0) }; 2],
            cost_ps: AtomicU64::new(0),
            windows: PerCpu::new(|_| CpuWindow::new())?,
            measured_in: AtomicU64::new(0),
            measured: SharedMeasured::new(),
            stopped: AtomicU64::new(Stopped::No as u64),
            excess: SharedMeasured::new(),
            allowed: AtomicU64::new(0),
        })
    }

    /// Returns the limits that are set.
    pub(crate) fn limits(&self) -> BudgetLimits {
        let [calls, cpu] = &self.limits;
        BudgetLimits {
            calls: calls.load(Ordering::Relaxed),
            cpu: cpu.load(Ordering::Relaxed),
        }
    }

    /// Sets the limits of the recorder that has these flags, from now on. Callers exclude each
    /// other.
    ///
    /// # Safety
    ///
    /// The flags are valid as long as anything writes to the rings that tell this.
    pub(crate) unsafe fn set_limits(&self, limits: BudgetLimits, flags: &HookFlags) {
        let flags: *const HookFlags = flags;
        // INVARIANT: They are valid as long as anything writes to the rings, by caller
        // precondition.
        self.flags.store(flags.cast_mut(), Ordering::Release);
        let [calls, cpu] = &self.limits;
        calls.store(limits.calls, Ordering::Relaxed);
        cpu.store(limits.cpu, Ordering::Relaxed);
        self.begin(limits.is_any());
    }

    /// Begins to count anew, and forgets why recording was stopped.
    pub(crate) fn restart(&self) {
        self.begin(self.limits().is_any());
    }

    fn begin(&self, is_any: bool) {
        let session = match is_any {
            true => self
                .last_session
                .fetch_add(1, Ordering::Relaxed)
                .wrapping_add(1),
            false => 0,
        };
        self.session.store(session, Ordering::Release);
        self.stopped.store(Stopped::No as u64, Ordering::Release);
    }

    /// Sets the cost of recording a call, in picoseconds.
    pub(crate) fn set_cost(&self, cost_ps: u64) {
        self.cost_ps.store(cost_ps, Ordering::Relaxed);
    }

    /// Returns the rates that were measured last in this session, if any were.
    pub(crate) fn measured(&self) -> Option<Measured> {
        let session = self.session.load(Ordering::Relaxed);
        let is_known = session != 0 && self.measured_in.load(Ordering::Acquire) == session;
        is_known.then(|| self.measured.load())
    }

    /// Returns the limit that was exceeded and the rates then, if the budget has stopped recording.
    pub(crate) fn stopped(&self) -> Option<(Excess, Measured)> {
        let stopped = self.stopped.load(Ordering::Acquire);
        let allowed = self.allowed.load(Ordering::Relaxed);
        let excess = match stopped {
            stopped if stopped == Stopped::Calls as u64 => Excess::Calls(allowed),
            stopped if stopped == Stopped::Cpu as u64 => Excess::Cpu(allowed),
            _ => return None,
        };
        Some((excess, self.excess.load()))
    }

    /// Counts calls on this CPU, at most `room` at a time, and stops recording if there are too
    /// many. To be called by writers, in any context.
    pub(crate) fn count(&self, token: PreemptOff<'_>, calls: u64, room: u64) {
        let session = self.session.load(Ordering::Acquire);
        if session == 0 {
            return;
        }
        let now = clock::local_ns();
        if !(self.windows.this(token)).count(session, calls, room, now) {
            return;
        }
        let rates = cpu::possible().map(|cpu| self.windows.get(cpu).rate(session, now));
        let measured = Measured {
            calls: rates.fold(0, u64::saturating_add),
            cost_ps: self.cost_ps.load(Ordering::Relaxed),
        };
        self.measured.store(measured);
        self.measured_in.store(session, Ordering::Release);
        if let Some(excess) = self.limits().exceeded(measured) {
            self.stop(token, excess, measured);
        }
    }

    /// Waits until all readers that were to be woken soon have been.
    pub(crate) fn settle(&self) {
        for waker in &self.wakers {
            waker.settle();
        }
    }

    fn stop(&self, token: PreemptOff<'_>, excess: Excess, measured: Measured) {
        // SAFETY: By the type's invariants the flags are null, or valid while rings are written to
        // that tell this; this is called by the writer of one.
        let Some(flags) = (unsafe { self.flags.load(Ordering::Acquire).as_ref() }) else {
            return;
        };
        if !flags.change(HookFlag::Off, true) {
            // Another CPU or task was faster.
            return;
        }
        let (stopped, allowed) = match excess {
            Excess::Calls(allowed) => (Stopped::Calls, allowed),
            Excess::Cpu(allowed) => (Stopped::Cpu, allowed),
        };
        self.excess.store(measured);
        self.allowed.store(allowed, Ordering::Relaxed);
        self.stopped.store(stopped as u64, Ordering::Release);
        // Nothing will come any more, and readers that wait may want to end.
        irq_work::unless_gone(token, || {
            for waker in &self.wakers {
                waker.wake_soon(token);
            }
        });
    }
}
