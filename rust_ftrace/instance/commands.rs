// SPDX-License-Identifier: GPL-2.0

//! Commands of an instance: serves what they request when functions are called.

use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::{Dump, Instance, InstanceActions};
use crate::tracer::commands::DeferredActions;
use crate::tracer::hook_flags::HookFlag;

impl DeferredActions for InstanceActions {
    fn stopped(&self) {
        self.instance.recording.wake_readers();
    }

    fn snapshot(&self) {
        self.instance.take_asked_snapshot();
    }

    fn dump(&self, cpu: Option<CpuId>) {
        (self.dump)(&self.instance, cpu);
    }
}

impl Instance {
    /// Begins to serve requests of commands; `dump` shows the trace when one asks for that.
    pub(crate) fn serve_commands(self: &Arc<Self>, dump: Dump) {
        let instance = self.clone();
        let actions = InstanceActions { instance, dump };
        let requests = self.commands.handler().requests();
        requests.set_actions(Some(actions));
    }

    /// Serves requests no more. Must be called if [`Self::serve_commands`] was.
    pub(crate) fn leave_commands(&self) {
        self.commands.handler().requests().set_actions(None);
    }

    /// Takes the snapshot that recording waits for, and goes on. Without memory for one recording
    /// stops, so that what was to be kept is still there.
    fn take_asked_snapshot(&self) {
        let recorder = self.recording.hook.handler();
        let _control = self.control.lock();
        let taken = self.recording.buffers.lock().take_snapshot(None, recorder);
        if taken.is_err() {
            recorder.set_flag(HookFlag::Off, true);
            pr_warn!("no memory for a snapshot: recording is switched off\n");
        }
        recorder.set_flag(HookFlag::Snapshot, false);
        if let Ok(taken) = taken {
            self.recording.end_snapshot(taken);
        }
    }
}
