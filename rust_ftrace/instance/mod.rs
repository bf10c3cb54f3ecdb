// SPDX-License-Identifier: GPL-2.0

//! An instance of the tracer: all of its state. The top directory belongs to the first one.

pub(crate) mod buffer;
pub(crate) mod buffers;
mod clock;
mod error_log;
pub(crate) mod functions;
mod graph;
mod pids;
mod probes;
mod snapshot;
pub(crate) mod waiting;

use core::ops::Range;
use core::sync::atomic::{AtomicU8, Ordering};

use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

use self::buffers::{Buffers, OldBuffers, Source, Stats, Which};
use self::error_log::ErrorLog;
use self::functions::{List, Lists};
use self::graph::Calls;
use self::waiting::Wakers;
use crate::engine::clock::ClockKind;
use crate::engine::function_set::FunctionSet;
use crate::engine::options::{Options, TraceOption};
use crate::machine::Machine;
use crate::sys::context::PreemptOff;
use crate::sys::cpu::{self, Prepare};
use crate::sys::ftrace::{Functions, Hook};
use crate::sys::modules::Watch;
use crate::sys::rcu;
use crate::sys::text::Text;
use crate::sys::unwind;
use crate::sys::work::Work;
use crate::tracer::beside::What;
use crate::tracer::function::{Gate, Recorder};
use crate::tracer::Tracer;

/// `buffer_percent` unless said otherwise; the same as tracefs's.
const DEFAULT_PERCENT: u8 = 50;

/// What files change.
pub(crate) struct Control {
    tracer: Tracer,
    /// The tracer was started by writing a filter, not by name; clearing the filter stops it.
    implicit: bool,
    lists: Lists,
    options: Options,
    /// Hooks of `function_graph`.
    calls: Calls,
}

/// An instance.
///
/// Locks are taken in the order `control`, `buffers`, a buffer's consumer, `wakers`; `error_log` last. CPU hotplug takes `buffers`,
/// so nothing that waits for CPUs is called with it held.
#[pin_data]
pub(crate) struct Instance {
    machine: Arc<Machine>,
    #[pin]
    control: Mutex<Control>,
    #[pin]
    error_log: Mutex<ErrorLog>,
    #[pin]
    recheck: Work<Self>,
    // Field order is teardown order: no CPU is in the hook any more when the rings go.
    #[pin]
    hook: Hook<Recorder>,
    #[pin]
    buffers: Mutex<Buffers>,
    #[pin]
    wakers: Mutex<Wakers>,
    /// `buffer_percent`.
    percent: AtomicU8,
}

impl Instance {
    /// An instance that traces nothing.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn new(machine: Arc<Machine>) -> Result<impl PinInit<Self, Error>> {
        let wakers = Wakers::new()?;
        Ok(try_pin_init!(Self {
            hook <- Hook::new(Recorder::new(machine.is_counter(ClockKind::Local))?),
            machine,
            recheck <- Work::new(),
            control <- new_mutex!(Control {
                tracer: Tracer::Nop,
                implicit: false,
                lists: Lists::new(),
                options: Options::new(),
                calls: Calls::new(),
            }),
            error_log <- new_mutex!(ErrorLog::new()),
            buffers <- new_mutex!(Buffers::new(&wakers)?),
            wakers <- new_mutex!(wakers),
            percent: AtomicU8::new(DEFAULT_PERCENT),
        }? Error))
    }

    /// The machine it runs on.
    pub(crate) fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }

    /// The current tracer.
    pub(crate) fn tracer(&self) -> Tracer {
        self.control.lock().tracer
    }

    /// Changes the tracer, which clears the buffers, as in tracefs.
    ///
    /// # Errors
    ///
    /// The tracer is as before then.
    ///
    /// - `ENOMEM` if there is no memory.
    /// - Those of [`Hook::trace`].
    pub(crate) fn set_tracer(&self, tracer: Tracer) -> Result {
        let mut control = self.control.lock();
        if control.tracer == tracer {
            let was_implicit = core::mem::replace(&mut control.implicit, false);
            return match was_implicit && control.lists.get(List::Filter).is_none() {
                // Until now only probes were traced, and an empty filter means all.
                true => self.rearm(&mut control),
                false => Ok(()),
            };
        }
        self.switch(&mut control, tracer, false)?;
        self.buffers.lock().clear(None);
        Ok(())
    }

    fn switch(&self, control: &mut Control, tracer: Tracer, implicit: bool) -> Result {
        if tracer != Tracer::Nop {
            let mut buffers = self.buffers.lock();
            buffers.make(self.hook.handler())?;
            buffers.clear(None);
        }
        let before = core::mem::replace(&mut control.tracer, tracer);
        let implicit_before = core::mem::replace(&mut control.implicit, implicit);
        // With stacks, tracing what changes the code of thousands of functions would take longer than that.
        let pause = control.options.has(TraceOption::FuncStackTrace);
        self.hook.handler().set_gate(Gate::Pause, pause);
        let result = self.rearm(control);
        self.hook.handler().set_gate(Gate::Pause, false);
        if result.is_err() {
            control.tracer = before;
            control.implicit = implicit_before;
        }
        result
    }

    /// Hooks the functions that tracer and lists say, and no others.
    fn rearm(&self, control: &mut Control) -> Result {
        let none = Functions::Only(&[]);
        match control.tracer {
            Tracer::Nop => {
                self.hook.trace(none)?;
                control.calls.clear();
            }
            Tracer::Function | Tracer::CallTrace => {
                let wanted = self.wanted_entries(control)?;
                let set = wanted.as_ref().map(FunctionSet::as_slice);
                self.hook
                    .trace(set.map_or(Functions::All, Functions::Only))?;
                control.calls.clear();
            }
            Tracer::FunctionGraph => {
                self.arm_calls(control)?;
                self.hook.trace(none)?;
            }
        }
        if control.tracer != Tracer::FunctionGraph {
            // (what writes other events does not look for entries that are not complete)
            self.complete_entries(None);
        }
        Ok(())
    }

    /// Completes the entries of calls that are pending on `cpu`, or all, so that readers see them.
    fn complete_entries(&self, cpu: Option<CpuId>) {
        let pending = |cpu: &CpuId| self.with_buffers(|buffers| buffers.has_pending(*cpu));
        let meant = cpu::possible().filter(|number| cpu.is_none_or(|cpu| cpu == *number));
        for cpu in meant.filter(pending) {
            let recorder = self.hook.handler();
            let complete = |token: PreemptOff<'_>| recorder.complete_entry(token);
            let cpus = cpu::ReadLock::new();
            if !cpus.call(cpu, &complete) {
                // SAFETY: The CPU is not online, and cannot come as long as `cpus` is there.
                unsafe { self.buffers.lock().complete_entry(cpu) };
            }
        }
    }

    /// Follows a change of `list`. A filter starts the `function` tracer if there is none, and
    /// stops one that was so started when it is cleared.
    fn rearm_after_edit(&self, control: &mut Control, list: List) -> Result {
        match (list, self.is_asked(control), control.tracer) {
            (List::Filter, true, Tracer::Nop) => self.switch(control, Tracer::Function, true),
            (List::Filter, false, Tracer::Function) if control.implicit => {
                self.switch(control, Tracer::Nop, false)
            }
            _ => self.rearm(control),
        }
    }

    /// Calls `user` with the lists.
    pub(crate) fn with_lists<R>(&self, user: impl FnOnce(&Lists) -> R) -> R {
        user(&self.control.lock().lists)
    }

    /// Whether recording is on.
    pub(crate) fn is_on(&self) -> bool {
        !self.hook.handler().has_gate(Gate::Off)
    }

    /// Switches recording on or off; what is hooked stays hooked. On return from switching it off,
    /// nothing is being recorded any more, and the counts agree.
    pub(crate) fn set_on(&self, on: bool) {
        let _control = self.control.lock();
        self.hook.handler().set_gate(Gate::Off, !on);
        if !on {
            rcu::synchronize_preempt_off();
            // Nothing will come any more, and they may want to end.
            self.wake_readers();
        }
    }

    /// `buffer_percent`: how full a CPU's buffer is when its readers are woken.
    pub(crate) fn buffer_percent(&self) -> u8 {
        self.percent.load(Ordering::Relaxed)
    }

    /// Changes it.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is more than 100.
    pub(crate) fn set_buffer_percent(&self, percent: u64) -> Result {
        let percent = u8::try_from(percent).ok().filter(|percent| *percent <= 100);
        self.percent
            .store(percent.ok_or(EINVAL)?, Ordering::Relaxed);
        // Those who wait look anew.
        self.wake_readers();
        Ok(())
    }

    /// Which options are on.
    pub(crate) fn options(&self) -> Options {
        self.control.lock().options
    }

    /// Switches an option on or off.
    ///
    /// # Errors
    ///
    /// Nothing is changed then. `ENOMEM` if there is no memory.
    pub(crate) fn set_option(&self, option: TraceOption, on: bool) -> Result {
        let mut control = self.control.lock();
        let recorder = self.hook.handler();
        match option {
            TraceOption::Overwrite => self.buffers.lock().set_discard(!on),
            TraceOption::FuncStackTrace => {
                if on {
                    recorder.beside().make_room(self.machine.core_text())?;
                }
                let left_out = |on| match on {
                    true => unwind::OWN_FUNCTIONS,
                    false => &[],
                };
                self.hook.leave_out(left_out(on)).inspect_err(|_| {
                    // (some may be left out, or not, already)
                    let was_on = control.options.has(option);
                    let _ = self.hook.leave_out(left_out(was_on));
                })?;
                recorder.record_beside_all(What::Stack, on);
            }
            TraceOption::FuncArgs => recorder.record_beside_all(What::Args, on),
            _ => {}
        }
        let before = control.options;
        control.options = before.with(option, on);
        self.set_graph(&control);
        if option == TraceOption::SleepTime && control.tracer == Tracer::FunctionGraph {
            // (other hooks)
            if let Err(error) = self.rearm(&mut control) {
                control.options = before;
                self.set_graph(&control);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Calls `user` with the buffers.
    pub(crate) fn with_buffers<R>(&self, user: impl FnOnce(&Buffers) -> R) -> R {
        user(&self.buffers.lock())
    }

    /// Replaces buffers by those that `make` makes, and sees to the end of the old ones.
    fn exchange(
        &self,
        _control: &mut Control,
        make: impl FnOnce(&mut Buffers, &Recorder) -> Result<OldBuffers>,
    ) -> Result {
        let old = make(&mut self.buffers.lock(), self.hook.handler())?;
        // Not with the buffers' lock held: a CPU that is coming may be waiting for it.
        old.wait();
        self.buffers.lock().retire(old);
        Ok(())
    }

    /// Changes the size of the buffer of `cpu`, or of all.
    ///
    /// # Errors
    ///
    /// Those of [`Buffers::resize`].
    pub(crate) fn resize(&self, cpu: Option<CpuId>, size_kb: usize) -> Result {
        self.exchange(&mut self.control.lock(), |buffers, recorder| {
            buffers.resize(cpu, size_kb, recorder)
        })
    }

    /// Changes the size of the sub-buffers.
    ///
    /// # Errors
    ///
    /// Those of [`Buffers::set_subbuf_kb`].
    pub(crate) fn set_subbuf_kb(&self, size_kb: usize) -> Result {
        self.exchange(&mut self.control.lock(), |buffers, recorder| {
            buffers.set_subbuf_kb(size_kb, recorder)
        })
    }

    /// Gives back the memory of all buffers but the least, and stops recording if
    /// `options/disable_on_free` says so.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory even for that.
    pub(crate) fn free_buffers(&self) -> Result {
        let mut control = self.control.lock();
        if control.options.has(TraceOption::DisableOnFree) {
            self.hook.handler().set_gate(Gate::Off, true);
        }
        self.exchange(&mut control, Buffers::shrink)
    }

    /// Takes a snapshot of `cpu`, or all.
    ///
    /// # Errors
    ///
    /// Those of [`Buffers::take_snapshot`].
    pub(crate) fn take_snapshot(&self, cpu: Option<CpuId>) -> Result {
        let _control = self.control.lock();
        let taken = (self.buffers.lock()).take_snapshot(cpu, self.hook.handler())?;
        taken.wait();
        // SAFETY: Nobody writes to the snapshot any more.
        unsafe { self.buffers.lock().complete_snapshot() };
        Ok(())
    }

    /// Clears the snapshot of `cpu`, or all.
    pub(crate) fn clear_snapshot(&self, cpu: Option<CpuId>) {
        self.buffers.lock().clear_snapshot(cpu);
    }

    /// Frees all snapshots.
    pub(crate) fn free_snapshots(&self) {
        let _control = self.control.lock();
        self.buffers.lock().drop_spares();
    }

    /// Clears the buffer of `cpu`, or all.
    pub(crate) fn clear(&self, cpu: Option<CpuId>) {
        self.buffers.lock().clear(cpu);
    }

    /// The counts of `cpu`, or the sum of all.
    pub(crate) fn stats(&self, cpu: Option<CpuId>, which: Which) -> Stats {
        self.buffers.lock().stats(cpu, which)
    }

    /// Events that were not recorded because their CPU has no buffer, for want of memory.
    pub(crate) fn without_buffer(&self) -> u64 {
        self.hook.handler().without_ring()
    }

    /// Entries that were not recorded, nor count as lost, since unwinding a stack made them.
    pub(crate) fn left_out_by_stacks(&self) -> u64 {
        self.hook.handler().beside().left_out()
    }

    /// The buffers of `cpu`, or all, for a reader.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn sources(&self, cpu: Option<CpuId>, which: Which) -> Result<KVec<Source>> {
        if which == Which::Live {
            self.complete_entries(cpu);
        }
        self.buffers.lock().sources(cpu, which)
    }

    /// Writes what the error log has.
    pub(crate) fn write_errors(&self, out: &mut Text) -> core::fmt::Result {
        self.error_log.lock().write(out)
    }

    /// Adds to the error log.
    pub(crate) fn log_error(&self, file: &'static str, reason: &'static str, command: &[u8]) {
        self.error_log.lock().add(file, reason, command, 0);
    }

    /// Empties the error log.
    pub(crate) fn clear_errors(&self) {
        self.error_log.lock().clear();
    }
}

impl Prepare for Instance {
    fn prepare(&self, cpu: CpuId) {
        let result = self.buffers.lock().make_for(cpu, self.hook.handler());
        if result.is_err() {
            pr_warn!(
                "no memory for the buffer of CPU {}: it is not traced\n",
                cpu.as_u32()
            );
        }
    }
}

impl Watch for Instance {
    fn loads(&self, text: &[Range<usize>]) {
        self.machine.module_loads(text);
    }

    fn coming(&self) {
        self.machine.forget_catalog();
        let mut control = self.control.lock();
        if control.lists.needs_news(control.tracer) {
            let result = self.rearm(&mut control);
            if let Err(error) = result {
                pr_warn!("functions of a new module are not traced: {error:?}\n");
            }
        }
    }

    fn going(&self, text: &[Range<usize>]) {
        // (before the lock is taken: who hooks functions from here on does not see them)
        self.machine.module_leaves(text);
        let mut control = self.control.lock();
        let mut found = control.lists.needs_news(control.tracer);
        for range in text {
            found |= control.lists.forget(range);
            found |= self.forget_probes(&mut control, range);
        }
        if found {
            let result = self.rearm(&mut control);
            if let Err(error) = result {
                pr_warn!("functions of a removed module are still in the filter: {error:?}\n");
            }
        }
    }
}
