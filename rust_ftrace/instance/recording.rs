// SPDX-License-Identifier: GPL-2.0

//! The recording of an instance: the hook that writes events, their buffers, and the wakers of
//! readers.

use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_mutex, Arc, Mutex};

use super::buffers::{BufferKind, BufferSource, Buffers, OldBuffers};
use super::comms::Comms;
use super::counted_buffer::Stats;
use super::snapshot::TakenSnapshot;
use super::wakers::Wakers;
use crate::engine::account::Elsewhere;
use crate::engine::budget::{BudgetLimits, Excess, Measured};
use crate::engine::clock::ClockKind;
use crate::engine::timeline::Timeline;
use crate::machine::Machine;
use crate::sys::context::{cycles, PreemptOff};
use crate::sys::cpu;
use crate::sys::ftrace::Registration;
use crate::sys::lockdep;
use crate::sys::rcu;
use crate::sys::work::Work;
use crate::tracer::budget::Budget;
use crate::tracer::hook_flags::HookFlag;
use crate::tracer::recorder::Recorder;

/// The default of `buffer_percent`, as in tracefs.
const DEFAULT_PERCENT: u8 = 50;

/// The recording of an instance.
///
/// Locks are taken in the order that [`Instance`](super::Instance) says.
#[pin_data]
pub(crate) struct Recording {
    #[pin]
    pub(super) recheck: Work<Self>,
    // Field order is teardown order: no CPU is in a hook any more when the rings go.
    #[pin]
    pub(super) hook: Registration<Recorder>,
    pub(super) budget: Arc<Budget>,
    #[pin]
    pub(super) buffers: Mutex<Buffers>,
    #[pin]
    pub(super) wakers: Mutex<Wakers>,
    /// `buffer_percent`.
    percent: Atomic<u32>,
    /// The clock's stamp when a buffer was last cleared.
    began: Atomic<u64>,
    /// Events that had not come as far as a ring when all buffers were last cleared.
    #[pin]
    elsewhere: Mutex<Elsewhere>,
    #[pin]
    pub(super) comms: Mutex<Comms>,
    pub(super) machine: Arc<Machine>,
}

impl Recording {
    /// Creates a recording that hooks nothing, and has no buffers yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn new(machine: &Arc<Machine>) -> Result<Arc<Self>> {
        let wakers = Wakers::new()?;
        let budget = Arc::new(Budget::new(wakers.every()?)?, GFP_KERNEL)?;
        let new = try_pin_init!(Self {
            recheck <- Work::new(),
            hook <- Registration::new(Recorder::new(machine.is_counter(ClockKind::Local))?),
            machine: machine.clone(),
            buffers <- new_mutex!(Buffers::new(&wakers, &budget)?),
            budget,
            wakers <- new_mutex!(wakers),
            percent: Atomic::new(DEFAULT_PERCENT.into()),
            began: Atomic::new(0),
            elsewhere <- new_mutex!(Elsewhere::default()),
            comms <- new_mutex!(Comms::new()),
        }? Error);
        let new = new.pin_chain(|this| {
            lockdep::never_waits_with(|| drop(this.buffers.lock()));
            lockdep::never_waits_with(|| drop(this.wakers.lock()));
            Ok(())
        });
        Arc::pin_init(new, GFP_KERNEL)
    }

    /// Returns the clock in use.
    pub(crate) fn clock(&self) -> ClockKind {
        self.hook.handler().clock().kind()
    }

    /// Returns the way from stamps to times.
    pub(crate) fn timeline(&self) -> Timeline {
        self.machine.timeline(self.clock())
    }

    /// Returns the stamp that an event would get now. Reading a `counter` does not count.
    pub(crate) fn now(&self) -> u64 {
        match self.machine.is_counter(self.clock()) {
            true => cycles(),
            false => self.hook.handler().clock().show(),
        }
    }

    /// Returns whether recording is on.
    pub(crate) fn is_on(&self) -> bool {
        !self.hook.handler().has_flag(HookFlag::Off)
    }

    /// Switches recording on or off; what is hooked stays hooked. On return from switching it off,
    /// nothing is being recorded any more, and the counts agree.
    pub(crate) fn set_on(&self, on: bool) {
        if on {
            self.budget.restart();
        }
        // This does not take `control`, as it is to be done at once, whatever is being changed.
        self.hook.handler().set_flag(HookFlag::Off, !on);
        if !on {
            rcu::synchronize_preempt_off();
            // Nothing will come any more, and readers that wait may want to end.
            self.wake_readers();
        }
    }

    /// Returns `buffer_percent`: how full a CPU's buffer is when its readers are woken.
    pub(crate) fn buffer_percent(&self) -> u8 {
        // CAST: `set_buffer_percent` takes no more than 100.
        self.percent.load(Relaxed) as u8
    }

    /// Changes `buffer_percent`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is more than 100.
    pub(crate) fn set_buffer_percent(&self, percent: u64) -> Result {
        let percent = u32::try_from(percent)
            .ok()
            .filter(|percent| *percent <= 100);
        self.percent.store(percent.ok_or(EINVAL)?, Relaxed);
        // Readers that wait look again.
        self.wake_readers();
        Ok(())
    }

    /// Returns the limits, and the rates that were measured last.
    pub(crate) fn budget(&self) -> (BudgetLimits, Option<Measured>) {
        (self.budget.limits(), self.budget.measured())
    }

    /// Returns the limit that was exceeded and the rates then, if the budget has stopped recording.
    pub(crate) fn stopped_by_budget(&self) -> Option<(Excess, Measured)> {
        self.budget.stopped()
    }

    /// Calls `user` with the buffers.
    pub(crate) fn with_buffers<R>(&self, user: impl FnOnce(&Buffers) -> R) -> R {
        user(&self.buffers.lock())
    }

    /// Calls `user` with the buffers, after making them for all CPUs that have none.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory, and those of `user`.
    pub(super) fn make_buffers<R>(
        &self,
        user: impl FnOnce(&mut Buffers) -> Result<R>,
    ) -> Result<R> {
        let cpus = cpu::ReadLock::new();
        let mut buffers = self.buffers.lock();
        buffers.make(&cpus, self.hook.handler())?;
        user(&mut buffers)
    }

    /// Retires buffers that were replaced.
    pub(super) fn retire(&self, old: OldBuffers) {
        // The lock of the buffers must not be held: a CPU that is coming may be waiting for it.
        old.wait();
        // SAFETY: Nothing writes to them any more, as `wait` has returned.
        unsafe { self.buffers.lock().retire(old) };
    }

    /// Makes a snapshot readable.
    pub(super) fn end_snapshot(&self, taken: TakenSnapshot) {
        taken.wait();
        // SAFETY: Nothing writes to the snapshot any more, as `wait` has returned.
        unsafe { self.buffers.lock().complete_snapshot() };
    }

    /// Returns the buffers of `cpu`, or all, for a reader.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn sources(
        &self,
        cpu: Option<CpuId>,
        which: BufferKind,
    ) -> Result<KVec<BufferSource>> {
        if which == BufferKind::Live {
            self.complete_entries(cpu);
        }
        self.buffers.lock().sources(cpu, which)
    }

    /// Sets whether tasks are recorded with their containers: all events after this are.
    pub(super) fn record_containers(&self, wanted: bool) {
        self.buffers.lock().set_containers(wanted);
        // A hook may have looked before, and note that its ring knows the task.
        rcu::synchronize_preempt_off();
        self.buffers.lock().forget_tasks();
    }

    /// Completes the entries of calls that are pending on `cpu`, or all, so that readers see them.
    pub(super) fn complete_entries(&self, cpu: Option<CpuId>) {
        let pending = |cpu: &CpuId| self.with_buffers(|buffers| buffers.has_pending(*cpu));
        let meant = cpu::possible().filter(|number| cpu.is_none_or(|cpu| cpu == *number));
        for cpu in meant.filter(pending) {
            let recorder = self.hook.handler();
            let mut complete = |token: PreemptOff<'_>| recorder.complete_entry(token);
            let cpus = cpu::ReadLock::new();
            if !cpus.call(cpu, &mut complete) {
                // SAFETY: Only hooks on the CPU write to its ring, and it is not online: it cannot
                // come as long as `cpus` is there.
                unsafe { self.buffers.lock().complete_entry(cpu) };
            }
        }
    }

    /// Returns the counts of `cpu`, or the sum of all.
    pub(crate) fn stats(&self, cpu: Option<CpuId>, which: BufferKind) -> Stats {
        self.buffers.lock().stats(cpu, which)
    }

    /// Returns the numbers of entries and returns that did not come as far as a ring since all
    /// buffers were cleared.
    pub(crate) fn elsewhere(&self) -> Elsewhere {
        let before = *self.elsewhere.lock();
        self.hook.handler().elsewhere().since(before)
    }

    /// Returns the number of entries that were neither recorded nor counted as lost, as unwinding
    /// made them.
    pub(crate) fn left_out_by_stacks(&self) -> u64 {
        self.hook.handler().entry_extras().left_out()
    }

    /// Returns the clock's stamp when a buffer was last cleared.
    pub(crate) fn began(&self) -> u64 {
        self.began.load(Relaxed)
    }

    /// Clears the buffer of `cpu`, or all.
    pub(super) fn clear(&self, cpu: Option<CpuId>) {
        self.began.store(self.now(), Relaxed);
        self.buffers.lock().clear(cpu);
        if cpu.is_none() {
            self.clear_elsewhere();
        }
    }

    /// Begins to count from 0 what is not counted by buffers.
    pub(super) fn clear_elsewhere(&self) {
        let recorder = self.hook.handler();
        let mut begun = recorder.elsewhere();
        // Returns are read last, as in `Buffer::clear`.
        begun.returns = recorder.elsewhere().returns;
        *self.elsewhere.lock() = begun;
    }

    /// Clears the snapshot of `cpu`, or all.
    pub(crate) fn clear_snapshot(&self, cpu: Option<CpuId>) {
        self.buffers.lock().clear_snapshot(cpu);
    }
}
