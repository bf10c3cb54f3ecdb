// SPDX-License-Identifier: GPL-2.0

//! An instance of the tracer, with all of its state.

mod apply;
mod budget;
pub(crate) mod buffer;
pub(crate) mod buffer_changes;
pub(crate) mod buffers;
mod calls;
pub(crate) mod cgroups;
mod clock;
mod commands;
pub(crate) mod comms;
pub(crate) mod counted_buffer;
mod cpus_and_modules;
mod dying;
pub(crate) mod enabled_functions;
mod error_log;
mod followers;
pub(crate) mod free_buffer;
mod graph;
mod holders;
pub(crate) mod hooked;
pub(crate) mod list_edit;
mod marker;
mod named_cgroups;
pub(crate) mod pids;
mod prepared;
pub(crate) mod profile;
pub(crate) mod profile_stats;
pub(crate) mod recording;
mod registry;
mod reserve;
mod saved_tasks;
mod shown;
mod skipped_matches;
mod snapshot;
mod too_deep;
pub(crate) mod users;
pub(crate) mod waiting;
mod wakers;

use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::{new_mutex, Arc, Mutex};

use self::error_log::ErrorLog;
use self::followers::Followers;
use self::holders::Holders;
use self::profile::Profiling;
use self::recording::Recording;
pub(crate) use self::registry::Instances;
use self::shown::Shown;
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
use crate::sys::context::PreemptOff;
use crate::sys::dying::DeathNotice;
use crate::sys::ftrace::Registration;
use crate::tracer::commands::CommandHandler;
use crate::tracer::last_words::StopsAtDeath;
use crate::tracer::probes::SharedCount;

/// The settings, with counts that hooks share.
pub(crate) type OwnSettings = Settings<SharedCount>;

/// The settings that files change, and the hooks that follow them.
pub(crate) struct Control {
    settings: KBox<OwnSettings>,
    /// The plan that is carried out, which is that of the settings, unless `is_behind` is set.
    plan: KBox<HookPlan>,
    /// Functions of a module that came when there was no memory are not hooked.
    is_behind: bool,
    /// The handlers of tasks that are made, move, and end.
    followers: Followers,
    /// The number of calls that the hooks of the profile had missed when counting began.
    missed_before: u64,
}

/// An instance of the tracer.
///
/// Locks are taken in the order `control`, `holders`, that of the hooks of calls
/// ([`Machine::hooks`]) or of the dump, the CPUs' ([`cpu::ReadLock`]), `buffers`, a buffer's
/// consumer, `wakers`; `profile` after `control`, the machine's, and the CPUs'; that of [`TooDeep`]
/// after `control` and `holders`, and never with others, as it waits for CPUs; those of
/// `elsewhere`, `skipped` and `errors` last. CPU hotplug takes `buffers`, `profile` and `wakers`,
/// so that nothing that waits for CPUs, RCU or user memory is called with one of these held:
/// lockdep is told so
/// ([`lockdep::never_waits_with`]).
#[pin_data]
pub(crate) struct Instance {
    /// The dump when the machine dies. It goes first: what it leads to looks at all else.
    #[pin]
    dump: DumpAtDeath,
    /// The name of its directory; empty for the top one.
    name: CString,
    machine: Arc<Machine>,
    #[pin]
    control: Mutex<Control>,
    /// The open files that hold what is recorded.
    #[pin]
    holders: Mutex<Holders>,
    #[pin]
    errors: ErrorLog,
    // Field order is teardown order: what calls the recorder and the profiler goes before them, and
    // commands, which change what the recorder does.
    hooks: HookMember,
    #[pin]
    commands: Registration<CommandHandler<InstanceActions>>,
    recording: Arc<Recording>,
    #[pin]
    profiling: Profiling,
    #[pin]
    too_deep: TooDeep,
    shown: Shown,
    #[pin]
    skipped: SkippedMatches,
    users: Users,
}

/// A function that shows the trace of a CPU, or of all, on the console.
pub(crate) type Dump = fn(&Arc<Instance>, Option<CpuId>);

/// The actions that serve the requests of commands.
pub(super) struct InstanceActions {
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

/// The dump of an instance's trace when the machine dies, if one is asked for.
///
/// The lock is taken after the instance's `control`.
#[pin_data]
pub(crate) struct DumpAtDeath {
    // Field order is teardown order: the recorder is in `recording`.
    /// The notice of the machine's death. It goes first: what it leads to looks at all else.
    #[pin]
    notice: Mutex<Option<Pin<KBox<DeathNotice<Dying>>>>>,
    /// The hook of the functions by which the machine begins to die.
    #[pin]
    last_words: Registration<StopsAtDeath>,
    machine: Arc<Machine>,
    recording: Arc<Recording>,
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
            dump <- DumpAtDeath::new(machine.clone(), recording.clone()),
            name,
            commands <- Registration::new(CommandHandler::new()?),
            profiling <- profiling,
            too_deep <- TooDeep::new(),
            machine,
            control <- new_mutex!(Control {
                settings: KBox::new(Settings::new(), GFP_KERNEL)?,
                plan: KBox::new(HookPlan::none(), GFP_KERNEL)?,
                is_behind: false,
                followers: Followers::new(recording.clone()),
                missed_before: 0,
            }),
            holders <- new_mutex!(Holders::default()),
            errors <- ErrorLog::new(),
            hooks,
            shown: Shown::new(),
            skipped <- SkippedMatches::new(),
            recording,
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
        if let Err(error) = control.disarm(self) {
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

    /// Returns the dump of the trace when the machine dies.
    pub(crate) fn dump(&self) -> &DumpAtDeath {
        &self.dump
    }

    /// Calls `user` with the settings.
    pub(crate) fn with_settings<R>(&self, user: impl FnOnce(&OwnSettings) -> R) -> R {
        user(&self.control.lock().settings)
    }

    /// Changes the settings by `edit`, and hooks what they say then.
    ///
    /// # Errors
    ///
    /// Those of [`Control::change`]; all is as before then.
    pub(crate) fn change(&self, edit: impl FnOnce(&mut OwnSettings) -> Result) -> Result {
        self.control.lock().change(self, edit)
    }

    /// Returns the current tracer. Does not wait for changes of settings.
    pub(crate) fn tracer(&self) -> Tracer {
        self.shown.tracer()
    }

    /// Returns whether the filter is not empty, so that it does not stand for all functions.
    /// Likewise.
    pub(crate) fn is_filtered(&self) -> bool {
        self.shown.is_filtered()
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
        control.change(self, |settings| {
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
        self.shown.options()
    }

    /// Switches an option on or off.
    ///
    /// # Errors
    ///
    /// Those of [`Self::change`]; all is as before then.
    pub(crate) fn set_option(&self, option: TraceOption, on: bool) -> Result {
        let mut control = self.control.lock();
        if !option.is_planned() {
            control.switch_option(self, option, on);
            return Ok(());
        }
        control.change(self, |settings| {
            settings.options = settings.options.with(option, on);
            Ok(())
        })
    }
}
