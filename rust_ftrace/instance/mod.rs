// SPDX-License-Identifier: GPL-2.0

//! An instance of the tracer: all of its state.

mod apply;
mod budget;
pub(crate) mod buffer;
pub(crate) mod buffers;
mod clock;
mod commands;
pub(crate) mod comms;
pub(crate) mod counted;
mod counts;
pub(crate) mod enabled;
mod error_log;
pub(crate) mod freeing;
mod functions;
mod graph;
mod marks;
mod pids;
pub(crate) mod profile;
mod reserve;
mod skipped;
mod snapshot;
mod told;
pub(crate) mod users;
pub(crate) mod waiting;

use core::sync::atomic::{AtomicU64, AtomicU8, Ordering};

use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

use self::buffers::{subbuf_kb, Buffers, OldBuffers, Source, Which};
use self::commands::Server;
use self::comms::Comms;
use self::counted::Stats;
use self::counts::Begun;
use self::error_log::ErrorLog;
use self::profile::Profile;
use self::reserve::Reserve;
use self::skipped::Skipped;
use self::snapshot::Taken;
use self::users::Users;
use self::waiting::Wakers;
use crate::engine::clock::ClockKind;
use crate::engine::options::{Options, TraceOption};
use crate::engine::plan::Plan;
use crate::engine::settings::{Settings, Tracer};
use crate::machine::Machine;
use crate::sys::context::PreemptOff;
use crate::sys::cpu;
use crate::sys::forks::Forks;
use crate::sys::ftrace::Hook;
use crate::sys::lockdep;
use crate::sys::rcu;
use crate::sys::text::Text;
use crate::sys::work::Work;
use crate::tracer::budget::Budget;
use crate::tracer::commands::Commander;
use crate::tracer::function::Recorder;
use crate::tracer::gate::Gate;
use crate::tracer::graph_hooks::GraphHooks;
use crate::tracer::probes::SharedCount;
use crate::tracer::profile::Profiler;
use crate::tracer::profile_hooks::ProfileHooks;

/// `buffer_percent` unless said otherwise; the same as tracefs's.
const DEFAULT_PERCENT: u8 = 50;

/// The settings, with counts that hooks share.
type OwnSettings = Settings<SharedCount>;

/// The settings that files change, and what is hooked.
pub(crate) struct Control {
    settings: OwnSettings,
    /// The plan that is carried out, which is that of the settings, unless `is_behind`.
    plan: Plan,
    /// Functions of a module are not hooked that came when there was no memory.
    is_behind: bool,
    /// Hooks of `function_graph`.
    graph: GraphHooks,
    /// The forks and exits that lists of tasks follow.
    forks: Forks<Recorder>,
    /// Hooks of the profile.
    profile: ProfileHooks,
    /// Calls that these had missed when counting began.
    missed_before: u64,
    /// Functions that patterns in the filter match and that cannot be traced, once that was asked for.
    skipped: Option<Skipped>,
    /// Number of open files that hold what is recorded: see [`freeing`].
    holders: usize,
    /// Memory that is set aside for the end of it, as long as there are any.
    reserve: Option<Reserve>,
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
        let graph = machine.reuse_graph_hooks();
        let new = try_pin_init!(Self {
            commands <- Hook::new(Commander::new()?),
            hook <- Hook::new(Recorder::new(machine.is_counter(ClockKind::Local))?),
            profiler: Profiler::new(machine.is_counter(ClockKind::Local))?,
            profile <- new_mutex!(Profile::new()?),
            machine,
            recheck <- Work::new(),
            control <- new_mutex!(Control {
                settings: Settings::new(),
                plan: Plan::none(),
                is_behind: false,
                graph,
                forks: Forks::new(),
                profile: ProfileHooks::new(),
                missed_before: 0,
                skipped: None,
                holders: 0,
                reserve: None,
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
            // (what has their hooks next begins with that one)
            control.graph.forget();
        }
        self.machine.keep_graph_hooks(control.graph.take());
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
        self.control.lock().settings.tracer
    }

    /// Changes the tracer, which clears the buffers, as in tracefs.
    ///
    /// # Errors
    ///
    /// All is as before then; those of [`Self::change`].
    pub(crate) fn set_tracer(&self, tracer: Tracer) -> Result {
        let mut control = self.control.lock();
        if control.settings.tracer == tracer {
            control.settings.implicit = false;
            return Ok(());
        }
        self.change(&mut control, |settings| {
            settings.tracer = tracer;
            settings.implicit = false;
            Ok(())
        })?;
        if tracer == Tracer::Nop {
            self.clear(None);
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

    fn set_options(&self, options: Options) {
        self.options.store(options.0, Ordering::Relaxed);
    }

    /// Switches an option on or off.
    ///
    /// # Errors
    ///
    /// All is as before then; those of [`Self::change`].
    pub(crate) fn set_option(&self, option: TraceOption, on: bool) -> Result {
        let mut control = self.control.lock();
        if !option.is_planned() {
            self.switch_option(&mut control, option, on);
            return Ok(());
        }
        self.change(&mut control, |settings| {
            settings.options = settings.options.with(option, on);
            Ok(())
        })
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
        self.retire_buffers(old);
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
        let mut control = self.control.lock();
        let reserve = match control.holders {
            0 => None,
            _ => Some(self.buffers.lock().set_aside(subbuf_kb(size_kb)?)?),
        };
        self.exchange(&mut control, |buffers, recorder| {
            buffers.set_subbuf_kb(size_kb, recorder)
        })?;
        if reserve.is_some() {
            control.reserve = reserve;
        }
        Ok(())
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
