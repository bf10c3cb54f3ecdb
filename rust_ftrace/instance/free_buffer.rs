// SPDX-License-Identifier: GPL-2.0

//! The end of a recording that no program holds any more: `free_buffer`.
//!
//! A program that holds the file leaves nothing behind however it ends, as the kernel closes the
//! file for it.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::buffers::OldBuffers;
use super::reserve::Reserve;
use super::{Control, Instance};
use crate::engine::options::TraceOption;
use crate::tracer::hook_flags::HookFlag;

/// A holder of what is recorded, as long as it lives.
pub(crate) struct Holder {
    instance: Arc<Instance>,
}

impl Holder {
    /// Adds a holder; waits for the end of what the last holder before began.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory for the end of it.
    pub(crate) fn new(instance: &Arc<Instance>) -> Result<Self> {
        let mut control = instance.control.lock();
        if control.reserve.is_none() {
            let buffers = instance.recording.buffers.lock();
            control.reserve = Some(buffers.set_aside(buffers.subbuf_kb())?);
        }
        control.holders += 1;
        Ok(Self {
            instance: instance.clone(),
        })
    }
}

impl Drop for Holder {
    /// Drops the holder. May sleep, and is called with no lock held.
    fn drop(&mut self) {
        let instance = &self.instance;
        let mut control = instance.control.lock();
        control.holders = control.holders.saturating_sub(1);
        // The lock is held until all is done: the next holder finds it done.
        if control.holders != 0 {
            return;
        }
        let Some(reserve) = control.reserve.take() else {
            return;
        };
        match instance.options().has(TraceOption::DisableOnFree) {
            true => instance.end_recording(&mut control, reserve),
            false => instance.shrink_buffers(&mut control, reserve),
        }
    }
}

impl Instance {
    /// Frees the memory of all buffers but the smallest, of snapshots, and of a profile that has
    /// ended. What is hooked stays hooked.
    fn shrink_buffers(&self, control: &mut Control, reserve: Reserve) {
        self.free_profile(control);
        self.recording.buffers.lock().drop_spares();
        let old = (self.recording.buffers.lock()).shrink(reserve, self.recording.hook.handler());
        self.retire_buffers(old);
    }

    /// Retires buffers that were replaced.
    pub(super) fn retire_buffers(&self, old: OldBuffers) {
        // The lock of the buffers must not be held: a CPU that is coming may be waiting for it.
        old.wait();
        // SAFETY: Nothing writes to them any more, as `wait` has returned.
        unsafe { self.recording.buffers.lock().retire(old) };
    }

    /// Ends all recording: unhooks all, and frees all memory that it took. Lists and other settings
    /// stay, but for what is done when a function is called.
    fn end_recording(&self, control: &mut Control, reserve: Reserve) {
        // This comes first, as what follows may take a while.
        self.recording.hook.handler().set_flag(HookFlag::Off, true);
        if let Err(error) = self.disarm(control) {
            pr_warn!("free_buffer: functions are still hooked: {error:?}\n");
        }
        self.free_profile(control);
        let old = (self.recording.buffers.lock()).take_all(reserve, self.recording.hook.handler());
        self.retire_buffers(old);
        self.recording.buffers.lock().drop_spares();
        // Nothing will come any more, and readers that wait may want to end.
        self.recording.wake_readers();
    }
}
