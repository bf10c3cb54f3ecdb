// SPDX-License-Identifier: GPL-2.0

//! An instance of the tracer: all of its state.

mod budget;
pub(crate) mod buffer;
pub(crate) mod buffers;
mod clock;
pub(crate) mod comms;
mod counts;
mod error_log;
pub(crate) mod freeing;
pub(crate) mod functions;
pub(crate) mod graph;
mod marks;
mod pids;
mod probes;
pub(crate) mod profile;
mod profile_hooks;
mod skipped;
mod snapshot;
mod told;
pub(crate) mod users;
pub(crate) mod waiting;

use core::sync::atomic::{AtomicU64, AtomicU8, Ordering};

use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

use self::buffers::{Buffers, OldBuffers, Source, Stats, Which};
use self::comms::Comms;
use self::counts::{Begun, Watcher};
use self::error_log::ErrorLog;
use self::functions::{List, Lists};
use self::graph::Calls;
use self::probes::Server;
use self::profile::{Profile, ProfileHooks};
use self::snapshot::Taken;
use self::users::Users;
use self::waiting::Wakers;
use crate::engine::clock::ClockKind;
use crate::engine::function_set::FunctionSet;
use crate::engine::options::{Options, TraceOption};
use crate::machine::Machine;
use crate::sys::context::PreemptOff;
use crate::sys::cpu;
use crate::sys::dead_ftrace;
use crate::sys::forks::Forks;
use crate::sys::ftrace::{Functions, Hook};
use crate::sys::lockdep;
use crate::sys::rcu;
use crate::sys::text::Text;
use crate::sys::unwind;
use crate::sys::work::Work;
use crate::tracer::beside::What;
use crate::tracer::budget::Budget;
use crate::tracer::commands::Commander;
use crate::tracer::function::{Gate, Recorder};
use crate::tracer::profile::Profiler;
use crate::tracer::Tracer;

/// `buffer_percent` unless said otherwise; the same as tracefs's.
const DEFAULT_PERCENT: u8 = 50;

/// The settings that files change.
pub(crate) struct Control {
    tracer: Tracer,
    /// The tracer was started by writing a filter, not by name; clearing the filter stops it.
    implicit: bool,
    lists: Lists,
    /// Hooks of `function_graph`.
    calls: Calls,
    /// The forks and exits that lists of tasks follow.
    forks: Forks<Recorder>,
    profile: ProfileHooks,
    /// Number of open files that hold what is recorded: see [`freeing`].
    holders: usize,
}

/// An instance.
///
/// Locks are taken in the order `control`, the CPUs' ([`cpu::ReadLock`]), `buffers`, a buffer's consumer, `wakers`;
/// `profile` after `control`, the machine's, and the CPUs'; `begun` after `control`, and never with others, as it waits
/// for CPUs; `error_log` last. CPU hotplug takes `buffers`, `profile` and `wakers`, so nothing that waits for CPUs, RCU
/// or user memory is called with one of these held: lockdep is told so ([`lockdep::never_waits_with`]).
#[pin_data]
pub(crate) struct Instance {
    machine: Arc<Machine>,
    #[pin]
    control: Mutex<Control>,
    #[pin]
    error_log: Mutex<ErrorLog>,
    #[pin]
    recheck: Work<Self>,
    // Field order is teardown order: no CPU is in a hook any more when the rings go, and commands, which change what
    // the recorder does, go before it.
    #[pin]
    commands: Hook<Commander<Server>>,
    #[pin]
    hook: Hook<Recorder>,
    budget: Arc<Budget>,
    #[pin]
    buffers: Mutex<Buffers>,
    #[pin]
    wakers: Mutex<Wakers>,
    profiler: Profiler,
    #[pin]
    profile: Mutex<Profile>,
    /// The bits of [`Options`]; written with `control` held.
    options: AtomicU64,
    /// `buffer_percent`.
    percent: AtomicU8,
    /// The clock's stamp when a buffer was cleared the last time.
    began: AtomicU64,
    /// Values that counts began with which do not begin at 0.
    #[pin]
    begun: Mutex<Begun>,
    #[pin]
    comms: Mutex<Comms>,
    users: Users,
}

impl Instance {
    /// An instance that traces nothing.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn new(machine: Arc<Machine>) -> Result<impl PinInit<Self, Error>> {
        let wakers = Wakers::new()?;
        let budget = Arc::new(Budget::new(wakers.every()?)?, GFP_KERNEL)?;
        let calls = machine.reuse_calls();
        let new = try_pin_init!(Self {
            commands <- Hook::new(Commander::new()?),
            hook <- Hook::new(Recorder::new(machine.is_counter(ClockKind::Local))?),
            profiler: Profiler::new(machine.is_counter(ClockKind::Local))?,
            profile <- new_mutex!(Profile::new()?),
            machine,
            recheck <- Work::new(),
            control <- new_mutex!(Control {
                tracer: Tracer::Nop,
                implicit: false,
                lists: Lists::new(),
                calls,
                forks: Forks::new(),
                profile: ProfileHooks::new(),
                holders: 0,
            }),
            error_log <- new_mutex!(ErrorLog::new()),
            buffers <- new_mutex!(Buffers::new(&wakers, &budget)?),
            budget,
            wakers <- new_mutex!(wakers),
            options: AtomicU64::new(Options::new().0),
            percent: AtomicU8::new(DEFAULT_PERCENT),
            began: AtomicU64::new(0),
            begun <- new_mutex!(Begun::new()?),
            comms <- new_mutex!(Comms::new()),
            users: Users::new(),
        }? Error);
        Ok(new.pin_chain(|this| {
            lockdep::never_waits_with(|| drop(this.buffers.lock()));
            lockdep::never_waits_with(|| drop(this.profile.lock()));
            lockdep::never_waits_with(|| drop(this.wakers.lock()));
            Ok(())
        }))
    }

    /// Takes over those of another instance's options that new instances begin with, as in
    /// `trace_array_create_systems()` of kernel/trace/trace.c.
    ///
    /// # Errors
    ///
    /// Those of [`Instance::set_option`].
    pub(crate) fn inherit(&self, options: Options) -> Result {
        for option in TraceOption::INHERITED {
            self.set_option(option, options.has(option))?;
        }
        Ok(())
    }

    /// Ends all tracing: the instance is being removed.
    pub(crate) fn stop(&self) {
        let mut control = self.control.lock();
        if let Err(error) = self.disarm(&mut control) {
            pr_warn!("an instance that is removed still traces: {error:?}\n");
        }
        if self.clock() != ClockKind::Local {
            // (whoever has their hooks next begins with that one)
            control.calls.forget();
        }
        self.machine.keep_calls(control.calls.take());
    }

    /// Unhooks all that tracer and commands have hooked.
    fn disarm(&self, control: &mut Control) -> Result {
        control.tracer = Tracer::Nop;
        control.implicit = false;
        let none = self.replace_probes(control, KVVec::new());
        none.and_then(|_| self.rearm(control))
    }

    /// Its users.
    pub(crate) fn users(&self) -> &Users {
        &self.users
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
            control.implicit = false;
            return Ok(());
        }
        self.switch(&mut control, tracer, false)?;
        self.clear(None);
        Ok(())
    }

    fn switch(&self, control: &mut Control, tracer: Tracer, implicit: bool) -> Result {
        if tracer != Tracer::Nop {
            self.make_buffers(|buffers| {
                buffers.clear(None);
                Ok(())
            })?;
            self.clear_counts();
        }
        let before = core::mem::replace(&mut control.tracer, tracer);
        let implicit_before = core::mem::replace(&mut control.implicit, implicit);
        // With stacks, tracing what changes the code of thousands of functions would take longer than that.
        let pause = self.options().has(TraceOption::FuncStackTrace);
        self.hook.handler().set_gate(Gate::Pause, pause);
        let result = self.rearm(control);
        self.hook.handler().set_gate(Gate::Pause, false);
        if result.is_err() {
            control.tracer = before;
            control.implicit = implicit_before;
            self.rearm_as_before(control);
        }
        result
    }

    /// Hooks what was hooked before a change that has failed, as far as that can be: some of the change may be done.
    fn rearm_as_before(&self, control: &mut Control) {
        if dead_ftrace::is_known() {
            return;
        }
        if let Err(error) = self.rearm(control) {
            pr_warn!("not all is hooked as it was before a change that failed: {error:?}\n");
        }
    }

    /// Hooks the functions that tracer, lists and commands say, and no others.
    fn rearm(&self, control: &mut Control) -> Result {
        self.price(control);
        let is_graph = control.tracer == Tracer::FunctionGraph;
        if is_graph {
            self.arm_calls(control)?;
        }
        let wanted = self.wanted_entries(control)?;
        let set = wanted.as_ref().map(FunctionSet::as_slice);
        self.hook
            .trace(set.map_or(Functions::All, Functions::Only))?;
        if !is_graph {
            control.calls.clear();
            self.end_overruns(Watcher::Tracer);
            // (what writes other events does not look for entries that are not complete)
            self.complete_entries(None);
        }
        let commanded = self.commanded()?;
        // SAFETY: The commands' hook goes before the recorder.
        unsafe { self.commands.handler().command(self.hook.handler()) };
        self.commands.trace(Functions::Only(commanded.as_slice()))
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
        if matches!(list, List::Filter | List::Notrace) {
            self.arm_profile(control)?;
        }
        let is_asked = control.lists.get(List::Filter).is_some();
        match (list, is_asked, control.tracer) {
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

    /// Returns whether recording is on.
    pub(crate) fn is_on(&self) -> bool {
        !self.hook.handler().has_gate(Gate::Off)
    }

    /// Switches recording on or off; what is hooked stays hooked. On return from switching it off,
    /// nothing is being recorded any more, and the counts agree.
    pub(crate) fn set_on(&self, on: bool) {
        if on {
            self.budget.restart();
        }
        // (not with `control` held: it is to be done at once, whatever is being changed)
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

    /// Which options are on. Does not wait for who changes anything.
    pub(crate) fn options(&self) -> Options {
        Options(self.options.load(Ordering::Relaxed))
    }

    fn store_options(&self, _control: &mut Control, options: Options) {
        self.options.store(options.0, Ordering::Relaxed);
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
                    let was_on = self.options().has(option);
                    let _ = self.hook.leave_out(left_out(was_on));
                })?;
                recorder.record_beside_all(What::Stack, on);
            }
            TraceOption::FunctionFork => self.follow_forks(&mut control, on)?,
            TraceOption::FuncArgs => recorder.record_beside_all(What::Args, on),
            _ => {}
        }
        let before = self.options();
        self.store_options(&mut control, before.with(option, on));
        self.set_graph(&control);
        self.price(&control);
        let is_graph = control.tracer == Tracer::FunctionGraph;
        // (other hooks)
        let result = match option {
            TraceOption::SleepTime if is_graph => {
                (self.rearm(&mut control)).and_then(|()| self.arm_profile(&mut control))
            }
            TraceOption::SleepTime | TraceOption::GraphTime => self.arm_profile(&mut control),
            _ => Ok(()),
        };
        if result.is_err() {
            self.store_options(&mut control, before);
            self.set_graph(&control);
            self.price(&control);
            let _ = self.arm_profile(&mut control);
            self.rearm_as_before(&mut control);
        }
        result
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

    /// Takes a snapshot of `cpu`, or all.
    ///
    /// # Errors
    ///
    /// Those of [`Buffers::take_snapshot`].
    pub(crate) fn take_snapshot(&self, cpu: Option<CpuId>) -> Result {
        let _control = self.control.lock();
        let taken = self.make_buffers(|buffers| buffers.take_snapshot(cpu, self.hook.handler()))?;
        self.end_snapshot(taken);
        Ok(())
    }

    /// Calls `user` with the buffers, which are made for all CPUs that have none.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory, and what `user` returns.
    fn make_buffers<R>(&self, user: impl FnOnce(&mut Buffers) -> Result<R>) -> Result<R> {
        let cpus = cpu::ReadLock::new();
        let mut buffers = self.buffers.lock();
        buffers.make(&cpus, self.hook.handler())?;
        user(&mut buffers)
    }

    /// Makes a snapshot one that can be read.
    fn end_snapshot(&self, taken: Taken) {
        taken.wait();
        // SAFETY: Nobody writes to the snapshot any more.
        unsafe { self.buffers.lock().complete_snapshot() };
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
        self.began.store(self.now(), Ordering::Relaxed);
        self.buffers.lock().clear(cpu);
        if cpu.is_none() {
            self.clear_counts();
        }
    }

    /// The clock's stamp when a buffer was cleared the last time.
    pub(crate) fn began(&self) -> u64 {
        self.began.load(Ordering::Relaxed)
    }

    /// The counts of `cpu`, or the sum of all.
    pub(crate) fn stats(&self, cpu: Option<CpuId>, which: Which) -> Stats {
        self.buffers.lock().stats(cpu, which)
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
