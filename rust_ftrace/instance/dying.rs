// SPDX-License-Identifier: GPL-2.0

//! `dump_on_oops`: the trace of an instance goes to the console when the machine dies.
//!
//! What dies may hold any lock, and may be an NMI. So all that is looked at then can be read
//! without a lock, and the memory that making text takes is set aside when this is switched on
//! ([`SetAside`]).

use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc};

use super::recording::Recording;
use super::{DumpAtDeath, Dying, DyingDump, DyingTrace, Instance};
use crate::engine::dump_on_oops::DumpMode;
use crate::engine::lines::LineSettings;
use crate::machine::Machine;
use crate::platform::blocks::Blocks;
use crate::platform::set_aside::SetAside;
use crate::platform::Word;
use crate::sys::context::PreemptOff;
use crate::sys::cpu;
use crate::sys::dying::{Death, DeathNotice, DyingWatcher};
use crate::sys::ftrace::{Functions, Registration};
use crate::tracer::hook_flags::HookFlag;
use crate::tracer::last_words::StopsAtDeath;
use crate::tracer::recorder::{CpuRing, Recorder};

/// The memory that lines take: room for the text, for open calls of `calltrace`, for names.
const LINES_BYTES: usize = 512 * 1024;

/// The memory that a CPU takes beside a copy of a sub-buffer.
const CPU_BYTES: usize = 4096;

impl<'a> DyingTrace<'a> {
    /// Returns the name of the instance; empty for the top one.
    pub(crate) fn name(&self) -> &CStr {
        &self.instance.name
    }

    /// Returns the instance's part that all instances share.
    pub(crate) fn machine(&self) -> &Machine {
        &self.instance.machine
    }

    /// Returns the settings that lines follow from.
    pub(crate) fn line_settings(&self) -> LineSettings {
        let recording = &self.instance.recording;
        LineSettings {
            options: self.instance.options(),
            tracer: self.instance.shown.tracer(),
            timeline: (self.instance.machine).timeline_by_known(recording.clock(), self.conversion),
            began: recording.began(),
        }
    }

    fn recorder(&self) -> &'a Recorder {
        self.instance.recording.hook.handler()
    }

    /// Returns the rings that are to be shown, each with its CPU.
    pub(crate) fn rings(&self) -> impl Iterator<Item = (CpuId, &'a CpuRing)> + '_ {
        cpu::possible()
            .filter(|cpu| self.cpu.is_none_or(|origin| origin == *cpu))
            .filter_map(|cpu| Some((cpu, self.recorder().ring_of(self.token, cpu)?)))
    }

    /// Returns whether all of this was shown before, and notes that it is.
    pub(crate) fn was_shown(&self) -> bool {
        // Rings are numbered, and count on: as long as nothing comes, this stays.
        let sum = self.rings().fold(1, |sum: u64, (_, ring)| {
            let mixed = sum.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed.wrapping_add(ring.extent().end_event)
        });
        self.shown.swap(sum) == sum
    }
}

// SAFETY: The instance may be shared, and so may all else.
unsafe impl Sync for Dying {}
// SAFETY: Nothing in it belongs to a thread.
unsafe impl Send for Dying {}

impl DyingWatcher for Dying {
    fn dies(&self, token: PreemptOff<'_>, death: Death) {
        // SAFETY: By the type's invariants the instance has this, and it is the first that goes.
        let instance = unsafe { &*self.instance };
        let recorder = instance.recording.hook.handler();
        // As ftrace_dump(): what came before the death is not to be overwritten, whether the
        // machine lives on or not.
        recorder.set_flag(HookFlag::Off, true);
        recorder.complete_entry(token);
        if death == Death::Panic {
            for cpu in cpu::possible() {
                // SAFETY: Other CPUs have been stopped. One that could not be may see its last
                // entry as not complete.
                unsafe { recorder.complete_entry_of(token, cpu) };
            }
        }
        let trace = DyingTrace {
            instance,
            token,
            cpu: match self.mode {
                DumpMode::Origin => cpu::from_number(token.cpu_number() as u32),
                _ => None,
            },
            conversion: self.conversion,
            shown: &self.shown,
        };
        // SAFETY:
        // - The function keeps nothing.
        // - All vectors that it has to do with are its own.
        unsafe { self.memory.lend(|| (self.dump)(&trace)) };
        if death == Death::Oops {
            instance.commands.handler().requests().stopped(token);
        }
    }
}

/// A dump that was prepared: `None` if there is to be none.
pub(crate) struct PreparedDump(Option<Pin<KBox<DeathNotice<Dying>>>>);

impl DumpAtDeath {
    /// Creates the state in which nothing is shown.
    pub(super) fn new(
        machine: Arc<Machine>,
        recording: Arc<Recording>,
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            notice <- new_mutex!(None),
            last_words <- Registration::new(StopsAtDeath::new()),
            machine,
            recording,
        }? Error)
    }

    /// Returns the mode.
    pub(crate) fn mode(&self) -> DumpMode {
        let notice = self.notice.lock();
        notice
            .as_ref()
            .map_or(DumpMode::Off, |notice| notice.watcher().mode)
    }

    /// Returns the bytes of memory that are set aside.
    pub(crate) fn bytes(&self) -> usize {
        let notice = self.notice.lock();
        notice
            .as_ref()
            .map_or(0, |notice| notice.watcher().memory.bytes())
    }

    /// Prepares to have `dump` show the trace of `instance`, whose dump it is, when the machine
    /// dies.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn prepare(
        instance: &Instance,
        mode: DumpMode,
        dump: DyingDump,
    ) -> Result<PreparedDump> {
        let recording = &instance.recording;
        let subbuf_kb = recording.with_buffers(|buffers| buffers.subbuf_kb());
        Self::prepare_for(instance, mode, dump, subbuf_kb)
    }

    fn prepare_for(
        instance: &Instance,
        mode: DumpMode,
        dump: DyingDump,
        subbuf_kb: usize,
    ) -> Result<PreparedDump> {
        let cpus = match mode {
            DumpMode::Off => return Ok(PreparedDump(None)),
            DumpMode::All => cpu::possible().count(),
            DumpMode::Origin => 1,
        };
        let of_cpu = Blocks::bytes_for(subbuf_kb * 1024).saturating_add(CPU_BYTES);
        let bytes = cpus.saturating_mul(of_cpu).saturating_add(LINES_BYTES);
        instance.dump.stop_at_death()?;
        // INVARIANT: It is put there by `commit`, and nothing calls it when this returns an error.
        let dying = Dying {
            instance,
            mode,
            dump,
            memory: SetAside::new(bytes)?,
            conversion: instance.machine.conversion(),
            shown: Word::new(0),
        };
        Ok(PreparedDump(Some(KBox::pin_init(
            DeathNotice::new(dying),
            GFP_KERNEL,
        )?)))
    }

    /// Carries out what was prepared for the instance whose dump it is.
    pub(crate) fn commit(&self, prepared: PreparedDump) {
        let before = core::mem::replace(&mut *self.notice.lock(), prepared.0);
        drop(before);
        self.forget();
    }

    /// Has recording stop as soon as the machine begins to die. Where the functions that say so
    /// cannot be traced, it stops when the trace is shown.
    fn stop_at_death(&self) -> Result {
        let hook = &self.last_words;
        // SAFETY: The recorder is valid until that hook was removed: it is in `recording`, which
        // goes after it.
        unsafe { hook.handler().stop(self.recording.hook.handler()) };
        let mut ips = KVec::new();
        for ip in self.machine.deaths() {
            ips.push(ip, GFP_KERNEL)?;
        }
        match hook.trace(Functions::Only(&ips)) {
            Err(error) if error == ENOMEM => Err(error),
            _ => Ok(()),
        }
    }

    /// Undoes what [`Self::prepare`] did for a dump that is not to be, unless the trace is to be
    /// shown all the same.
    pub(crate) fn forget(&self) {
        let notice = self.notice.lock();
        if notice.is_none() {
            // If ftrace is dead it stays, and does no harm.
            let _ = self.last_words.trace(Functions::Only(&[]));
        }
    }

    /// Prepares for sub-buffers of another size; `None` if that needs nothing else.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn prepare_resized(
        instance: &Instance,
        subbuf_kb: usize,
    ) -> Result<Option<PreparedDump>> {
        let (mode, dump) = match &*instance.dump.notice.lock() {
            Some(notice) => (notice.watcher().mode, notice.watcher().dump),
            None => return Ok(None),
        };
        Self::prepare_for(instance, mode, dump, subbuf_kb).map(Some)
    }
}
