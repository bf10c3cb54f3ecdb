// SPDX-License-Identifier: GPL-2.0

//! The end of a recording that no program holds any more: `free_buffer`.
//!
//! A program that holds the file leaves nothing behind however it ends, as the kernel closes the
//! file for it.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::reserve::Reserve;
use super::{Control, Instance};
use crate::engine::options::TraceOption;
use crate::tracer::hook_flags::HookFlag;

/// A holder of what is recorded, as long as it lives.
pub(crate) struct Holder {
    instance: Arc<Instance>,
}

impl Holder {
    /// Adds a holder; waits for the end of what the last holder before began, but for no other
    /// change.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory for the end of it.
    pub(crate) fn new(instance: &Arc<Instance>) -> Result<Self> {
        let mut holders = instance.holders.lock();
        if holders.reserve.is_none() {
            let buffers = instance.recording.buffers.lock();
            holders.reserve = Some(buffers.set_aside(buffers.subbuf_kb())?);
        }
        holders.count += 1;
        Ok(Self {
            instance: instance.clone(),
        })
    }
}

impl Drop for Holder {
    /// Drops the holder. May sleep, and is called with no lock held.
    fn drop(&mut self) {
        let instance = &self.instance;
        if instance.holders.lock().leave_others() {
            return;
        }
        let mut control = instance.control.lock();
        let mut holders = instance.holders.lock();
        // Another may have come meanwhile.
        if holders.leave_others() {
            return;
        }
        holders.count = 0;
        // Both locks are held until all is done: the next holder finds it done.
        let Some(reserve) = holders.reserve.take() else {
            return;
        };
        match instance.options().has(TraceOption::DisableOnFree) {
            true => end_recording(instance, &mut control, reserve),
            false => shrink_buffers(instance, &control, reserve),
        }
    }
}

/// Frees the memory of all buffers but the smallest, of snapshots, and of a profile that has ended.
/// All hooks stay.
fn shrink_buffers(instance: &Instance, control: &Control, reserve: Reserve) {
    free_profile(instance, control);
    let recording = &instance.recording;
    recording.buffers.lock().drop_spares();
    let old = (recording.buffers.lock()).shrink(reserve, recording.hook.handler());
    recording.retire(old);
}

/// Ends all recording: unhooks all, and frees all memory that it took. Lists and other settings
/// stay, but for what is done when a function is called.
fn end_recording(instance: &Instance, control: &mut Control, reserve: Reserve) {
    let recording = &instance.recording;
    // This comes first, as what follows may take a while.
    recording.hook.handler().set_flag(HookFlag::Off, true);
    if let Err(error) = control.disarm(instance) {
        pr_warn!("free_buffer: functions are still hooked: {error:?}\n");
    }
    free_profile(instance, control);
    let old = (recording.buffers.lock()).take_all(reserve, recording.hook.handler());
    recording.retire(old);
    recording.buffers.lock().drop_spares();
    // Nothing will come any more, and readers that wait may want to end.
    recording.wake_readers();
}

/// Frees the memory of the counts, unless counting goes on.
fn free_profile(instance: &Instance, control: &Control) {
    if !control.settings.profile {
        instance.profiling.clear();
    }
}
