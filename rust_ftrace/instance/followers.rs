// SPDX-License-Identifier: GPL-2.0

//! The handlers by which an instance follows tasks: as they are made, move among cgroups, and end.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::named_cgroups::{NamedCgroup, NamedCgroups};
use super::recording::Recording;
use crate::engine::options::{Options, TraceOption};
use crate::sys::cgroup::Members;
use crate::sys::forks::Forks;
use crate::tracer::recorder::Recorder;

/// The handlers of tasks, which tell the recorder; and the cgroups whose tasks are traced.
pub(super) struct Followers {
    // Field order is teardown order: the recorder is in `recording`.
    /// The handler of forks and exits, which lists of tasks follow.
    forks: Forks<Recorder>,
    /// The handler of tasks that come into cgroups and go.
    members: Members<Recorder>,
    cgroups: NamedCgroups,
    recording: Arc<Recording>,
}

impl Followers {
    /// Creates handlers that follow nothing yet, for the recorder of `recording`.
    pub(super) fn new(recording: Arc<Recording>) -> Self {
        Self {
            forks: Forks::new(),
            members: Members::new(),
            cgroups: NamedCgroups::new(),
            recording,
        }
    }

    /// Has the lists of tasks follow those that are made and end from now on.
    ///
    /// # Errors
    ///
    /// Those of [`Forks::call`].
    pub(super) fn follow_forks(&mut self) -> Result {
        // SAFETY: The recorder stays valid until `Forks::clear`: it is in `recording`, which goes
        // after `forks`, whose drop clears it.
        unsafe { self.forks.call(self.recording.hook.handler()) }
    }

    /// Has the lists of tasks stay as they are.
    pub(super) fn leave_forks(&mut self) {
        self.forks.clear();
    }

    /// Has the recorder told of tasks that are made, moved and end.
    ///
    /// # Errors
    ///
    /// Those of [`Members::call`].
    pub(super) fn follow_members(&mut self) -> Result {
        // SAFETY: The recorder stays valid until `Members::clear`: it is in `recording`, which goes
        // after `members`, whose drop clears it.
        unsafe { self.members.call(self.recording.hook.handler()) }
    }

    /// Has the recorder not told of tasks any more, if neither cgroups nor `options` ask for that.
    pub(super) fn leave_members(&mut self, options: Options) {
        if self.cgroups.is_empty() && !options.has(TraceOption::RecordCgroup) {
            self.members.clear();
        }
    }

    /// Returns the cgroups whose tasks are traced; none for tasks wherever they are.
    pub(super) fn cgroups(&self) -> &NamedCgroups {
        &self.cgroups
    }

    /// Traces the tasks of these cgroups.
    ///
    /// # Errors
    ///
    /// Those of [`Self::follow_members`], and `ENOMEM` if there is no memory; nothing is changed
    /// then.
    pub(super) fn set_cgroups(&mut self, new: NamedCgroups, options: Options) -> Result {
        let recording = self.recording.clone();
        let recorder = recording.hook.handler();
        if new.is_empty() {
            recorder.forget_cgroups();
            self.cgroups = new;
            self.leave_members(options);
            return Ok(());
        }
        let mut cgroups = KVec::with_capacity(new.len(), GFP_KERNEL)?;
        for cgroup in new.iter().map(NamedCgroup::cgroup) {
            cgroups.push(cgroup, GFP_KERNEL)?;
        }
        self.follow_members()?;
        let result = recorder.set_cgroups(cgroups);
        if result.is_ok() {
            self.cgroups = new;
        }
        self.leave_members(options);
        result
    }
}
