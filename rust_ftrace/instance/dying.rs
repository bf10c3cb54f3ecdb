// SPDX-License-Identifier: GPL-2.0

//! `dump_on_oops`: the trace of an instance goes to the console when the machine dies.
//!
//! What dies may hold any lock, and may be an NMI. So all that is looked at then can be read
//! without a lock, and the memory that making text takes is set aside when this is switched on
//! ([`SetAside`]).

use kernel::cpu::CpuId;
use kernel::prelude::*;

use super::{Dying, DyingDump, DyingTrace, Instance};
use crate::engine::dump_on_oops::DumpMode;
use crate::engine::lines::LineSettings;
use crate::engine::settings::Tracer;
use crate::platform::blocks::Blocks;
use crate::platform::set_aside::SetAside;
use crate::platform::Word;
use crate::sys::context::PreemptOff;
use crate::sys::cpu;
use crate::sys::dying::{Death, DeathNotice, DyingWatcher};
use crate::sys::ftrace::Functions;
use crate::tracer::hook_flags::HookFlag;
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
    pub(crate) fn machine(&self) -> &crate::machine::Machine {
        &self.instance.machine
    }

    /// Returns the settings that lines follow from.
    pub(crate) fn line_settings(&self) -> LineSettings {
        let recording = &self.instance.recording;
        LineSettings {
            options: self.instance.options(),
            tracer: self.instance.shown_tracer(),
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

impl Instance {
    /// Returns the mode of `dump_on_oops`.
    pub(crate) fn dump_on_oops(&self) -> DumpMode {
        let dying = self.dying.lock();
        dying
            .as_ref()
            .map_or(DumpMode::Off, |dying| dying.watcher().mode)
    }

    /// Returns the bytes of memory that are set aside for that.
    pub(crate) fn dump_bytes(&self) -> usize {
        let dying = self.dying.lock();
        dying
            .as_ref()
            .map_or(0, |dying| dying.watcher().memory.bytes())
    }

    /// Prepares to have `dump` show the trace when the machine dies.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn prepare_dump(&self, mode: DumpMode, dump: DyingDump) -> Result<PreparedDump> {
        let subbuf_kb = self.recording.with_buffers(|buffers| buffers.subbuf_kb());
        self.prepare_dump_for(mode, dump, subbuf_kb)
    }

    fn prepare_dump_for(
        &self,
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
        self.stop_at_death()?;
        // INVARIANT: It is put there by `commit_dump`, and nothing calls it when this returns an
        // error.
        let dying = Dying {
            instance: self,
            mode,
            dump,
            memory: SetAside::new(bytes)?,
            conversion: self.machine.conversion(),
            shown: Word::new(0),
        };
        Ok(PreparedDump(Some(KBox::pin_init(
            DeathNotice::new(dying),
            GFP_KERNEL,
        )?)))
    }

    /// Carries out what was prepared for this instance.
    pub(crate) fn commit_dump(&self, prepared: PreparedDump) {
        let before = core::mem::replace(&mut *self.dying.lock(), prepared.0);
        drop(before);
        self.forget_death();
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

    /// Undoes [`Self::stop_at_death`], unless the trace is to be shown.
    pub(crate) fn forget_death(&self) {
        let dying = self.dying.lock();
        if dying.is_none() {
            // If ftrace is dead it stays, and does no harm.
            let _ = self.last_words.trace(Functions::Only(&[]));
        }
    }

    /// Prepares for sub-buffers of another size; `None` if that needs nothing else.
    pub(super) fn prepare_dump_of(&self, subbuf_kb: usize) -> Result<Option<PreparedDump>> {
        let (mode, dump) = match &*self.dying.lock() {
            Some(dying) => (dying.watcher().mode, dying.watcher().dump),
            None => return Ok(None),
        };
        self.prepare_dump_for(mode, dump, subbuf_kb).map(Some)
    }

    /// Returns the tracer, without waiting for a change of it.
    fn shown_tracer(&self) -> Tracer {
        let number = self.shown_tracer.load(kernel::sync::atomic::Relaxed);
        let mut all = Tracer::ALL.into_iter();
        all.find(|tracer| *tracer as u32 == number)
            .unwrap_or(Tracer::Nop)
    }
}
