// SPDX-License-Identifier: GPL-2.0

//! An instance of the tracer, with all of its state.

mod apply;
mod budget;
pub(crate) mod buffer;
pub(crate) mod buffers;
mod cgroups;
mod clock;
mod commands;
pub(crate) mod comms;
pub(crate) mod counted_buffer;
mod cpus_and_modules;
mod dying;
pub(crate) mod enabled_functions;
mod error_log;
pub(crate) mod free_buffer;
mod functions;
mod graph;
mod marker;
mod named_cgroups;
mod pids;
pub(crate) mod profile;
mod profiling;
pub(crate) mod recording;
mod registry;
mod reserve;
mod saved_tasks;
mod skipped_matches;
mod snapshot;
mod too_deep;
pub(crate) mod users;
pub(crate) mod waiting;
mod wakers;

use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_mutex, Arc, Mutex};

use self::buffers::{subbuf_kb, Buffers, OldBuffers};
use self::error_log::ErrorLog;
use self::named_cgroups::NamedCgroups;
use self::profile::Profiling;
use self::recording::Recording;
pub(crate) use self::registry::Instances;
use self::reserve::Reserve;
use self::skipped_matches::SkippedMatches;
use self::too_deep::TooDeep;
use self::users::Users;
use crate::engine::clock::{ClockKind, Conversion};
use crate::engine::dump_on_oops::DumpMode;
use crate::engine::options::{Options, TraceOption};
use crate::engine::plan::HookPlan;
use crate::engine::settings::{Settings, Tracer};
use crate::machine::{HookMember, Machine};
use crate::platform::set_aside::SetAside;
use crate::platform::Word;
use crate::sys::cgroup::Members;
use crate::sys::context::PreemptOff;
use crate::sys::dying::DeathNotice;
use crate::sys::forks::Forks;
use crate::sys::ftrace::Registration;
use crate::tracer::commands::CommandHandler;
use crate::tracer::last_words::StopsAtDeath;
use crate::tracer::probes::SharedCount;
use crate::tracer::recorder::Recorder;

/// The settings, with counts that hooks share.
type OwnSettings = Settings<SharedCount>;

/// The settings that files change, and the hooks that follow them.
pub(crate) struct Control {
    settings: KBox<OwnSettings>,
    /// The plan that is carried out, which is that of the settings, unless `is_behind` is set.
    plan: KBox<HookPlan>,
    /// Functions of a module that came when there was no memory are not hooked.
    is_behind: bool,
    /// The handler of forks and exits, which lists of tasks follow.
    forks: Forks<Recorder>,
    /// The handler of tasks that come into cgroups and go.
    members: Members<Recorder>,
    /// The cgroups whose tasks are traced.
    cgroups: NamedCgroups,
    /// The number of calls that the hooks of the profile had missed when counting began.
    missed_before: u64,
    /// The number of functions that match patterns in the filter but cannot be traced, once it was
    /// asked for.
    skipped: Option<SkippedMatches>,
    /// The number of open files that hold what is recorded: see [`free_buffer`].
    holders: usize,
    /// Memory that is set aside for the end of the recording, as long as there are holders.
    reserve: Option<Reserve>,
}

/// An instance of the tracer.
///
/// Locks are taken in the order `control`, that of the hooks of calls ([`Machine::hooks`]) or
/// `dying`, the CPUs' ([`cpu::ReadLock`]), `buffers`, a buffer's consumer, `wakers`; `profile`
/// after `control`, the machine's, and the CPUs'; that of [`TooDeep`] after `control`, and never
/// with others, as it waits for CPUs; those of `elsewhere` and `errors` last. CPU hotplug takes
/// `buffers`, `profile` and `wakers`, so that nothing that waits for CPUs, RCU or user memory is
/// called with one of these held: lockdep is told so ([`lockdep::never_waits_with`]).
#[pin_data]
pub(crate) struct Instance {
    /// The notice of the machine's death. It goes first: what it leads to looks at all else.
    #[pin]
    dying: Mutex<Option<Pin<KBox<DeathNotice<Dying>>>>>,
    /// The name of its directory; empty for the top one.
    name: CString,
    machine: Arc<Machine>,
    #[pin]
    control: Mutex<Control>,
    #[pin]
    errors: ErrorLog,
    // Field order is teardown order: what calls the recorder and the profiler goes before them, and
    // commands, which change what the recorder does.
    hooks: HookMember,
    #[pin]
    commands: Registration<CommandHandler<InstanceActions>>,
    /// Likewise.
    #[pin]
    last_words: Registration<StopsAtDeath>,
    recording: Arc<Recording>,
    #[pin]
    profiling: Profiling,
    #[pin]
    too_deep: TooDeep,
    /// The bits of [`Options`], written with `control` held.
    options: Atomic<u64>,
    /// The number of the tracer, likewise.
    shown_tracer: Atomic<u32>,
    users: Users,
}

/// A function that shows the trace of a CPU, or of all, on the console.
pub(crate) type Dump = fn(&Arc<Instance>, Option<CpuId>);

/// The actions that serve the requests of commands.
pub(crate) struct InstanceActions {
    instance: Arc<Instance>,
    dump: Dump,
}

/// A function that shows the trace on the console. It must not lock, wait, nor allocate.
pub(crate) type DyingDump = fn(&DyingTrace<'_>);

/// The trace of an instance, as it can be read when the machine dies.
pub(crate) struct DyingTrace<'a> {
    instance: &'a Instance,
    token: PreemptOff<'a>,
    cpu: Option<CpuId>,
    conversion: Option<(Conversion, u64)>,
    shown: &'a Word,
}

/// The means to show the trace of an instance when the machine dies.
///
/// # Invariants
///
/// `instance` is the one that has this in its first field.
struct Dying {
    instance: *const Instance,
    mode: DumpMode,
    dump: DyingDump,
    memory: SetAside,
    conversion: Option<(Conversion, u64)>,
    /// A sum of all that was shown last; 0 if nothing was.
    shown: Word,
}

impl Instance {
    /// Creates an instance that traces nothing.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn new(machine: Arc<Machine>, name: CString) -> Result<impl PinInit<Self, Error>> {
        let recording = Recording::new(&machine)?;
        let hooks = HookMember::new(machine.clone())?;
        // SAFETY: The recorder is in `recording`, which stays where it is, and goes after `hooks`,
        // with which all is unhooked for the profiler.
        let profiling = unsafe { Profiling::new(&machine, recording.hook.handler())? };
        Ok(try_pin_init!(Self {
            dying <- new_mutex!(None),
            name,
            commands <- Registration::new(CommandHandler::new()?),
            last_words <- Registration::new(StopsAtDeath::new()),
            recording,
            profiling <- profiling,
            too_deep <- TooDeep::new(),
            machine,
            control <- new_mutex!(Control {
                settings: KBox::new(Settings::new(), GFP_KERNEL)?,
                plan: KBox::new(HookPlan::none(), GFP_KERNEL)?,
                is_behind: false,
                forks: Forks::new(),
                members: Members::new(),
                cgroups: NamedCgroups::new(),
                missed_before: 0,
                skipped: None,
                holders: 0,
                reserve: None,
            }),
            errors <- ErrorLog::new(),
            hooks,
            options: Atomic::new(Options::new().0),
            shown_tracer: Atomic::new(Tracer::Nop as u32),
            users: Users::new(),
        }? Error))
    }

    /// Returns the name of its directory; empty for the top one.
    pub(crate) fn name(&self) -> &CStr {
        &self.name
    }

    /// Returns the recording of the instance.
    pub(crate) fn recording(&self) -> &Arc<Recording> {
        &self.recording
    }

    /// Returns the counts of the instance's calls.
    pub(crate) fn profiling(&self) -> &Profiling {
        &self.profiling
    }

    /// Returns the errors in what was written to the instance's files.
    pub(crate) fn errors(&self) -> &ErrorLog {
        &self.errors
    }

    /// Returns the number of calls that were too deep while `function_graph` was on, since all
    /// buffers were cleared; and while calls were counted, since that began. Calls that other users
    /// of fgraph have watched are among them.
    pub(crate) fn too_deep(&self) -> (u64, u64) {
        self.too_deep.counts()
    }

    /// Clears the buffer of `cpu`, or all.
    pub(crate) fn clear(&self, cpu: Option<CpuId>) {
        self.recording.clear(cpu);
        if cpu.is_none() {
            self.too_deep.clear();
        }
    }

    /// Takes over those options of another instance that new instances begin with, as in
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

    /// Ends all tracing, as the instance is being removed.
    pub(crate) fn stop(&self) {
        let mut control = self.control.lock();
        if let Err(error) = self.disarm(&mut control) {
            pr_warn!("an instance that is removed still traces: {error:?}\n");
        }
        let is_other_clock = self.recording.clock() != ClockKind::Local;
        // The instance that has these hooks next begins with no open calls, if they are of another
        // clock.
        self.hooks.leave(is_other_clock);
    }

    /// Returns the users of the instance.
    pub(crate) fn users(&self) -> &Users {
        &self.users
    }

    /// Returns the machine that the instance runs on.
    pub(crate) fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }

    /// Returns the current tracer.
    pub(crate) fn tracer(&self) -> Tracer {
        self.control.lock().settings.tracer
    }

    /// Changes the tracer, which clears the buffers, as in tracefs.
    ///
    /// # Errors
    ///
    /// Those of [`Self::change`]; all is as before then.
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

    /// Returns the options that are on. Does not wait for changes of settings.
    pub(crate) fn options(&self) -> Options {
        Options(self.options.load(Relaxed))
    }

    fn set_options(&self, options: Options) {
        self.options.store(options.0, Relaxed);
    }

    /// Switches an option on or off.
    ///
    /// # Errors
    ///
    /// Those of [`Self::change`]; all is as before then.
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

    /// Replaces buffers by those that `make` makes, and retires the old ones.
    fn exchange(
        &self,
        _control: &mut Control,
        make: impl FnOnce(&mut Buffers, &Recorder) -> Result<OldBuffers>,
    ) -> Result {
        let old = make(
            &mut self.recording.buffers.lock(),
            self.recording.hook.handler(),
        )?;
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
        let dump = self.prepare_dump_of(subbuf_kb(size_kb)?)?;
        let reserve = match control.holders {
            0 => None,
            _ => Some(
                self.recording
                    .buffers
                    .lock()
                    .set_aside(subbuf_kb(size_kb)?)?,
            ),
        };
        self.exchange(&mut control, |buffers, recorder| {
            buffers.set_subbuf_kb(size_kb, recorder)
        })?;
        if let Some(dump) = dump {
            self.commit_dump(dump);
        }
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
        let taken = self
            .recording
            .make_buffers(|buffers| buffers.take_snapshot(cpu, self.recording.hook.handler()))?;
        self.recording.end_snapshot(taken);
        Ok(())
    }

    /// Frees all snapshots.
    pub(crate) fn free_snapshots(&self) {
        let _control = self.control.lock();
        self.recording.buffers.lock().drop_spares();
    }
}
