// SPDX-License-Identifier: GPL-2.0

//! The context of a file: the instance, and the CPU, that it belongs to.

use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::event_pids::EventPids;
use crate::instance::{Instance, Instances};
use crate::sys::debugfs::Owner;

/// The context of a file.
pub(crate) struct FileContext {
    pub(super) instance: Arc<Instance>,
    /// The CPU, for files below `per_cpu`.
    pub(super) cpu: Option<CpuId>,
    /// All of them, for files of the top directory.
    pub(super) instances: Option<Arc<Instances>>,
    pub(super) event_pids: Arc<EventPids>,
}

impl FileContext {
    /// Calls `user` with the file's instance, or with each instance for a file of the top
    /// directory.
    pub(super) fn try_for_each(&self, mut user: impl FnMut(&Instance) -> Result) -> Result {
        match &self.instances {
            Some(instances) => instances.try_for_each(user),
            None => user(&self.instance),
        }
    }
}

impl Owner for FileContext {
    fn opened(&self) -> Result {
        self.instance.users().enter()
    }

    fn closed(&self) {
        self.instance.users().leave();
    }
}
