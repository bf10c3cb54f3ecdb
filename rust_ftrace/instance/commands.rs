// SPDX-License-Identifier: GPL-2.0

//! Commands of an instance: serves what they request when functions are called.

use kernel::cpu::CpuId;
use kernel::sync::Arc;

use super::buffer_changes::BufferChanges;
use super::{Dump, Instance, InstanceActions};
use crate::tracer::commands::DeferredActions;

impl DeferredActions for InstanceActions {
    fn stopped(&self) {
        self.instance.recording.wake_readers();
    }

    fn snapshot(&self) {
        BufferChanges::of(&self.instance).take_asked_snapshot();
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
}
