// SPDX-License-Identifier: GPL-2.0

//! Task lists of an instance, file side: the tasks and the CPUs that it traces.

use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::sync::Mutex;

use super::error_log::ErrorLog;
use super::{Control, Instance};
use crate::engine::pids::{PidSet, PidSetError};
use crate::sys::cpu::Mask;
use crate::sys::rcu;
use crate::tracer::outsiders::PidList;
use crate::tracer::recorder::Recorder;

impl PidList {
    /// Returns the file's name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Traced => "pid",
            Self::NotTraced => "notrace_pid",
        }
    }
}

/// The lists by which tasks are traced or not, and the CPUs.
pub(crate) struct TaskLists<'a> {
    control: &'a Mutex<Control>,
    recorder: &'a Recorder,
    errors: &'a ErrorLog,
}

impl<'a> TaskLists<'a> {
    /// Returns the lists of `instance`.
    pub(crate) fn of(instance: &'a Instance) -> Self {
        Self {
            control: &instance.control,
            recorder: instance.recording.hook.handler(),
            errors: &instance.errors,
        }
    }

    /// Edits a list by what was written to its file. With `replace` the old list goes. An empty
    /// list of traced tasks means all tasks.
    ///
    /// # Errors
    ///
    /// Nothing is changed then.
    ///
    /// - `EINVAL` if a word is wrong; the error log says which.
    /// - `ENOMEM` if there is no memory.
    pub(crate) fn edit(&self, list: PidList, text: &[u8], replace: bool) -> Result {
        let _control = self.control.lock();
        let recorder = self.recorder;
        let base = recorder.pids(list).duplicate()?;
        let new = base
            .edited(text, replace)
            .map_err(|failure| match failure {
                PidSetError::Word(at, refusal) => {
                    self.errors.add(list.name(), refusal.text(), text, at);
                    EINVAL
                }
                PidSetError::NoMemory => ENOMEM,
            })?;
        recorder.set_pids(list, (!replace).then_some(&base), &new)?;
        Ok(())
    }

    /// Returns whether a list is in force; if it is but is empty, all its tasks have ended.
    pub(crate) fn is_in_force(&self, list: PidList) -> bool {
        self.recorder.has_pids(list)
    }

    /// Returns the number of tasks that a list lacks for want of memory, though their parents are
    /// in it.
    pub(crate) fn forks_missed(&self) -> u64 {
        self.recorder.forks_missed()
    }

    /// Calls `user` with a list.
    pub(crate) fn with<R>(&self, list: PidList, user: impl FnOnce(&PidSet) -> R) -> R {
        let _control = self.control.lock();
        user(self.recorder.pids(list))
    }

    /// Traces only the CPUs in `mask` from now on: no more events come from others after this.
    pub(crate) fn set_cpus(&self, mask: &Mask) {
        let _control = self.control.lock();
        self.recorder.set_cpus(|cpu| mask.contains(cpu));
        // A hook may have looked before.
        rcu::synchronize_preempt_off();
    }

    /// Returns whether `cpu` is traced.
    pub(crate) fn is_cpu_traced(&self, cpu: CpuId) -> bool {
        self.recorder.is_cpu_traced(cpu)
    }
}
