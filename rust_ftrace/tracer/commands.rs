// SPDX-License-Identifier: GPL-2.0

//! Commands, hook side: carries them out when a function is called (`func:traceoff` and the like in
//! the filter), and requests what is to be done where sleeping is allowed.
//!
//! Functions with commands have a hook of their own, so that others do not pay for them, and
//! commands are carried out whatever functions and tasks are traced. The hook may run anywhere, in
//! an NMI too: it changes hook flags, and requests the rest by an irq_work, which queues a work
//! item. What matters for that, the trace as it is at this moment, does not change until it is
//! done: a dump switches recording off, and before a snapshot nothing is recorded until it is there
//! ([`HookFlag::Snapshot`]).
//!
//! Functions that the requests call may have commands too. Nothing is requested twice, so that this
//! comes to an end.

use core::mem::offset_of;

use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

use super::flags::{impl_flag, FlagSet, SharedFlags};
use super::hook_flags::HookFlag;
use super::probes::{Probe, ProbesPointer};
use super::recorder::Recorder;
use crate::engine::command::Action;
use crate::platform::{AtomicPtr, Ordering, Word};
use crate::sys::context::{PreemptGuard, PreemptOff};
use crate::sys::cpu;
use crate::sys::ftrace::{EntryHandler, FunctionEntry};
use crate::sys::irq_work::{self, HasIrqWork, IrqWork};
use crate::sys::percpu::PerCpu;
use crate::sys::work::{HasWork, Work};

/// The kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum Request {
    /// Readers are woken, since recording was switched off.
    Wake = 1 << 0,
    /// A snapshot is taken.
    Snapshot = 1 << 1,
    /// The trace is dumped.
    Dump = 1 << 2,
    /// The trace of some CPUs is dumped.
    Cpudump = 1 << 3,
}

impl_flag!(Request);

/// Does what was requested. All of it may sleep.
pub(crate) trait DeferredActions: Send + Sync + Unpin {
    /// Does what is due after recording was switched off.
    fn stopped(&self);

    /// Takes the snapshot that recording waits for.
    fn snapshot(&self);

    /// Shows the trace of `cpu`, or of all.
    fn dump(&self, cpu: Option<CpuId>);
}

/// The requests, and the actions that serve them.
#[pin_data]
pub(crate) struct Requests<S: DeferredActions> {
    // Field order is teardown order: first nothing is requested any more, then nothing is queued.
    #[pin]
    irq_work: IrqWork<Self>,
    #[pin]
    work: Work<Self>,
    wanted: SharedFlags<Request>,
    /// 1 for each CPU whose trace is to be dumped, else 0.
    cpus: PerCpu<Word>,
    #[pin]
    actions: Mutex<Option<S>>,
}

// SAFETY: `OFFSET` is that of `irq_work`, the only field of type `IrqWork<Self>`.
unsafe impl<S: DeferredActions> HasIrqWork for Requests<S> {
    const OFFSET: usize = offset_of!(Self, irq_work);

    fn run(&self) {
        self.work.queue();
    }
}

// SAFETY: `OFFSET` is that of `work`, the only field of type `Work<Self>`.
unsafe impl<S: DeferredActions> HasWork for Requests<S> {
    const OFFSET: usize = offset_of!(Self, work);

    fn run(&self) {
        let actions = self.actions.lock();
        let Some(actions) = actions.as_ref() else {
            // What was requested is done when there are actions.
            return;
        };
        // Full, as in `note`: what is noted from now on has this queued again.
        let wanted = self.wanted.take();
        if wanted.has(Request::Snapshot) {
            actions.snapshot();
        }
        if wanted.has(Request::Wake) {
            actions.stopped();
        }
        if wanted.has(Request::Dump) {
            actions.dump(None);
        }
        if wanted.has(Request::Cpudump) {
            for cpu in cpu::possible() {
                if self.cpus.get(cpu).swap(0) != 0 {
                    actions.dump(Some(cpu));
                }
            }
        }
    }
}

impl<S: DeferredActions> Requests<S> {
    fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            try_pin_init!(Self {
                irq_work <- IrqWork::new(),
                work <- Work::new(),
                wanted: SharedFlags::new(FlagSet::NONE),
                cpus: PerCpu::new(|_| Word::new(0))?,
                actions <- new_mutex!(None),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// Makes `actions` the ones that serve requests. On return, those before are not running any
    /// more.
    pub(crate) fn set_actions(&self, actions: Option<S>) {
        let before = core::mem::replace(&mut *self.actions.lock(), actions);
        drop(before);
        self.hand_on();
    }

    /// Notes a request; false if it was noted already.
    fn note(&self, request: Request) -> bool {
        self.wanted.change(request, true)
    }

    /// Takes a request back.
    fn take_back(&self, request: Request) {
        self.wanted.change(request, false);
    }

    /// Requests something, to be done soon.
    fn ask(&self, token: PreemptOff<'_>, request: Request) {
        if self.note(request) {
            self.irq_work.queue(token);
        }
    }

    /// Requests what is due after recording was switched off.
    pub(crate) fn stopped(&self, token: PreemptOff<'_>) {
        self.ask(token, Request::Wake);
    }

    /// Queues the work for requests that were made where no irq_work could be queued.
    pub(crate) fn hand_on(&self) {
        // Acquire: pairs with `note`.
        if !self.wanted.load_acquire().is_empty() {
            self.work.queue();
        }
    }

    /// Waits until the work for all requests is queued.
    pub(crate) fn settle(&self) {
        self.irq_work.sync();
    }
}

/// Carries out commands at entries of functions.
///
/// # Invariants
///
/// `recorder` is null, or valid until the hook that calls this was removed.
pub(crate) struct CommandHandler<S: DeferredActions> {
    recorder: AtomicPtr<Recorder>,
    probes: ProbesPointer,
    requests: Arc<Requests<S>>,
}

impl<S: DeferredActions> CommandHandler<S> {
    /// Creates a handler without commands.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn new() -> Result<Self> {
        // INVARIANT: Null.
        Ok(Self {
            recorder: AtomicPtr::new(core::ptr::null_mut()),
            probes: ProbesPointer::none(),
            requests: Requests::new()?,
        })
    }

    /// Has commands change what `recorder` does.
    ///
    /// # Safety
    ///
    /// The recorder is valid until the hook that calls this was removed.
    pub(crate) unsafe fn command(&self, recorder: &Recorder) {
        let recorder: *const Recorder = recorder;
        // INVARIANT: It is valid until the hook that calls this was removed, by caller
        // precondition.
        self.recorder.store(recorder.cast_mut(), Ordering::Release);
    }

    /// Returns the functions with commands.
    pub(crate) fn probes(&self) -> &ProbesPointer {
        &self.probes
    }

    /// Returns the requests.
    pub(crate) fn requests(&self) -> &Requests<S> {
        &self.requests
    }

    fn carry_out(&self, token: PreemptOff<'_>, recorder: &Recorder, probe: &Probe) {
        match probe.action {
            Action::Traceon => self.switch(token, recorder, probe, true),
            Action::Traceoff => self.switch(token, recorder, probe, false),
            Action::Snapshot => self.snapshot(token, recorder, probe),
            Action::Dump => {
                if !probe.is_over() && self.requests.note(Request::Dump) {
                    match probe.take() {
                        true => self.dump(token, recorder),
                        false => self.requests.take_back(Request::Dump),
                    }
                }
            }
            Action::Cpudump => {
                let wanted = self.requests.cpus.this(token);
                if !probe.is_over() && wanted.swap(1) == 0 {
                    match probe.take() {
                        true => {
                            self.requests.note(Request::Cpudump);
                            self.dump(token, recorder);
                        }
                        false => wanted.store_release(0),
                    }
                }
            }
            // Stacks are recorded by the recorder's own hook.
            Action::Stacktrace => {}
        }
    }

    /// Switches recording on or off. Only a change counts as a time that it was done.
    fn switch(&self, token: PreemptOff<'_>, recorder: &Recorder, probe: &Probe, on: bool) {
        if recorder.has_flag(HookFlag::Off) != on || !probe.take() {
            return;
        }
        if !recorder.change_flag(HookFlag::Off, !on) {
            // Another CPU or task was faster.
            probe.give_back();
        } else if !on {
            self.requests.ask(token, Request::Wake);
        }
    }

    fn snapshot(&self, token: PreemptOff<'_>, recorder: &Recorder, probe: &Probe) {
        if probe.is_over() || !recorder.change_flag(HookFlag::Snapshot, true) {
            return;
        }
        match probe.take() {
            true => self.requests.ask(token, Request::Snapshot),
            false => recorder.set_flag(HookFlag::Snapshot, false),
        }
    }

    /// Requests the dump that was noted, and stops recording, as ftrace_dump() does.
    fn dump(&self, token: PreemptOff<'_>, recorder: &Recorder) {
        recorder.set_flag(HookFlag::Off, true);
        self.requests.note(Request::Wake);
        self.requests.irq_work.queue(token);
    }

    #[inline(never)]
    fn commanded(&self, token: PreemptOff<'_>, ip: u64) {
        // SAFETY: By the type's invariants the recorder is null, or valid until the hook that calls
        // this was removed, which waits for the call.
        let Some(recorder) = (unsafe { self.recorder.load(Ordering::Acquire).as_ref() }) else {
            return;
        };
        // On a CPU that is gone, nothing would ever do what recording then waits for.
        irq_work::unless_gone(token, || {
            for probe in self.probes.of(token, ip) {
                self.carry_out(token, recorder, probe);
            }
        });
    }
}

impl<S: DeferredActions + 'static> EntryHandler for CommandHandler<S> {
    fn entered(&self, site: FunctionEntry<'_>) {
        let guard = PreemptGuard::new();
        self.commanded(guard.token(), site.call.ip);
    }
}
