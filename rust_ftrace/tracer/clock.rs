// SPDX-License-Identifier: GPL-2.0

//! Clock, hook side: the clocks that the hook cannot read without a call, all but the time stamp
//! counter.
//!
//! Some of them end in functions that are traced themselves (`read_hpet`, `acpi_pm_read`), and some
//! can go back a little, or by hours when the time is set. Neither reaches a ring: while a clock is
//! read, entries of the same context are dropped and counted; and no stamp is below the CPU's last
//! one.

use kernel::alloc::AllocError;

use super::recursion::{Recursion, Within};
use crate::engine::clock::{never_back, ClockKind};
use crate::platform::{AtomicU64, Ordering, Word};
use crate::sys::context::{cycles, PreemptGuard, PreemptOff};
use crate::sys::percpu::PerCpu;
use crate::sys::{clock, cpu};

/// The number of the `counter` clock, which all CPUs write.
#[repr(align(64))]
struct Counter(AtomicU64);

/// The state of a CPU.
#[repr(align(64))]
struct CpuClock {
    /// The last stamp.
    last: Word,
    /// Contexts that are reading the clock, and the count of entries dropped because reading made
    /// them.
    reading: Recursion,
}

/// The clock of the hook's slow way.
pub(crate) struct SlowClock {
    /// The clock's index in [`ClockKind::ALL`].
    kind: Word,
    counter: Counter,
    cpus: PerCpu<CpuClock>,
}

impl SlowClock {
    /// Creates the `local` clock.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub(crate) fn new() -> Result<Self, AllocError> {
        Ok(Self {
            kind: Word::new(ClockKind::Local as u64),
            counter: Counter(AtomicU64::new(0)),
            cpus: PerCpu::new(|_| CpuClock {
                last: Word::new(0),
                reading: Recursion::new(),
            })?,
        })
    }

    /// Returns the clock in use.
    pub(crate) fn kind(&self) -> ClockKind {
        let kind = ClockKind::ALL.get(self.kind.load_relaxed() as usize);
        kind.copied().unwrap_or(ClockKind::Local)
    }

    /// Selects another clock. Nothing may be recording meanwhile.
    pub(crate) fn select(&self, kind: ClockKind) {
        self.kind.store_relaxed(kind as u64);
        for cpu in cpu::possible() {
            self.cpus.get(cpu).last.store_relaxed(0);
        }
    }

    /// Returns the time that the clock shows, for readers.
    pub(crate) fn show(&self) -> u64 {
        match self.kind() {
            ClockKind::Counter => self.counter.0.load(Ordering::Relaxed),
            kind => self.read(PreemptGuard::new().token(), kind),
        }
    }

    /// Returns the number of entries that were ever dropped because reading the clock made them.
    pub(crate) fn recursion(&self) -> u64 {
        self.cpus.sum(|cpu| cpu.reading.count())
    }

    /// Begins to read the clock in this context; `None`, counted, if this context is reading it
    /// already.
    pub(crate) fn enter<'a>(&'a self, token: PreemptOff<'a>) -> Option<ClockGuard<'a>> {
        let cpu = self.cpus.this(token);
        if cpu.reading.is_within(token) {
            return None;
        }
        Some(ClockGuard {
            clock: self,
            cpu,
            token,
            _within: cpu.reading.enter(token),
        })
    }

    fn read(&self, token: PreemptOff<'_>, kind: ClockKind) -> u64 {
        match kind {
            ClockKind::Local => clock::local_ns(),
            ClockKind::Global => clock::global_ns(),
            ClockKind::Counter => self
                .counter
                .0
                .fetch_add(1, Ordering::Relaxed)
                .wrapping_add(1),
            ClockKind::Uptime => clock::uptime(),
            ClockKind::Perf => clock::perf_ns(token),
            ClockKind::Mono => clock::mono_ns(),
            ClockKind::MonoRaw => clock::mono_raw_ns(),
            ClockKind::Boot => clock::boot_ns(),
            ClockKind::Tai => clock::tai_ns(),
            ClockKind::X86Tsc => cycles(),
        }
    }
}

/// Reads the clock; while it lives, nothing else does so in this context of this CPU.
pub(crate) struct ClockGuard<'a> {
    clock: &'a SlowClock,
    cpu: &'a CpuClock,
    token: PreemptOff<'a>,
    _within: Within<'a>,
}

impl ClockGuard<'_> {
    /// Returns a stamp, never below the CPU's last one.
    pub(crate) fn now(&self) -> u64 {
        never_back(
            &self.cpu.last,
            self.clock.read(self.token, self.clock.kind()),
        )
    }
}
