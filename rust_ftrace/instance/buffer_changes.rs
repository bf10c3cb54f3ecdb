// SPDX-License-Identifier: GPL-2.0

//! Changes of an instance's buffers that take memory: sizes and snapshots.

use kernel::cpu::CpuId;
use kernel::prelude::*;

use super::buffers::{subbuf_kb, Buffers, OldBuffers};
use super::{DumpAtDeath, Instance};
use crate::tracer::hook_flags::HookFlag;
use crate::tracer::recorder::Recorder;

/// The buffers of an instance, which are changed one after the other.
pub(crate) struct BufferChanges<'a> {
    instance: &'a Instance,
}

impl<'a> BufferChanges<'a> {
    /// Returns those of `instance`.
    pub(crate) fn of(instance: &'a Instance) -> Self {
        Self { instance }
    }

    /// Replaces buffers by those that `make` makes, and retires the old ones. `control` is held.
    fn exchange(&self, make: impl FnOnce(&mut Buffers, &Recorder) -> Result<OldBuffers>) -> Result {
        let recording = &self.instance.recording;
        let old = make(&mut recording.buffers.lock(), recording.hook.handler())?;
        recording.retire(old);
        Ok(())
    }

    /// Changes the size of the buffer of `cpu`, or of all.
    ///
    /// # Errors
    ///
    /// Those of [`Buffers::resize`].
    pub(crate) fn resize(&self, cpu: Option<CpuId>, size_kb: usize) -> Result {
        let _control = self.instance.control.lock();
        self.exchange(|buffers, recorder| buffers.resize(cpu, size_kb, recorder))
    }

    /// Changes the size of the sub-buffers.
    ///
    /// # Errors
    ///
    /// Those of [`Buffers::set_subbuf_kb`].
    pub(crate) fn set_subbuf_kb(&self, size_kb: usize) -> Result {
        let instance = self.instance;
        let _control = instance.control.lock();
        let mut holders = instance.holders.lock();
        let dump = DumpAtDeath::prepare_resized(instance, subbuf_kb(size_kb)?)?;
        let reserve = match holders.any() {
            false => None,
            true => {
                let buffers = instance.recording.buffers.lock();
                Some(buffers.set_aside(subbuf_kb(size_kb)?)?)
            }
        };
        self.exchange(|buffers, recorder| buffers.set_subbuf_kb(size_kb, recorder))?;
        if let Some(dump) = dump {
            instance.dump.commit(dump);
        }
        if let Some(reserve) = reserve {
            holders.reserve = Some(reserve);
        }
        Ok(())
    }

    /// Takes a snapshot of `cpu`, or all.
    ///
    /// # Errors
    ///
    /// Those of [`Buffers::take_snapshot`].
    pub(crate) fn take_snapshot(&self, cpu: Option<CpuId>) -> Result {
        let _control = self.instance.control.lock();
        let recording = &self.instance.recording;
        let recorder = recording.hook.handler();
        let taken = recording.make_buffers(|buffers| buffers.take_snapshot(cpu, recorder))?;
        recording.end_snapshot(taken);
        Ok(())
    }

    /// Takes the snapshot that recording waits for, and goes on. Without memory for one recording
    /// stops, so that what was to be kept is still there.
    pub(super) fn take_asked_snapshot(&self) {
        let recording = &self.instance.recording;
        let recorder = recording.hook.handler();
        let _control = self.instance.control.lock();
        let taken = recording.buffers.lock().take_snapshot(None, recorder);
        if taken.is_err() {
            recorder.set_flag(HookFlag::Off, true);
            pr_warn!("no memory for a snapshot: recording is switched off\n");
        }
        recorder.set_flag(HookFlag::Snapshot, false);
        if let Ok(taken) = taken {
            recording.end_snapshot(taken);
        }
    }

    /// Frees all snapshots.
    pub(crate) fn free_snapshots(&self) {
        let _control = self.instance.control.lock();
        self.instance.recording.buffers.lock().drop_spares();
    }
}
