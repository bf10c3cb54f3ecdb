// SPDX-License-Identifier: GPL-2.0

//! Cgroups of an instance, file side: those whose tasks it traces.

use kernel::prelude::*;

use super::named_cgroups::{edit, NamedCgroup, NamedCgroups};
use super::{Control, Instance};
use crate::engine::cgroups::parse_words;
use crate::engine::options::TraceOption;

/// The file's name, in the error log.
const FILE: &str = "cgroup";

/// The error of a word that names no cgroup.
const NO_SUCH: &str = "No such cgroup; /proc/PID/cgroup has paths behind '0::'";

impl Instance {
    /// Edits the list of cgroups whose tasks are traced by what was written to its file. With
    /// `replace` the old list goes. An empty list means tasks wherever they are.
    ///
    /// # Errors
    ///
    /// Nothing is changed then.
    ///
    /// - `EINVAL` if a word is wrong or names no cgroup; the error log says which.
    /// - `EOPNOTSUPP` if the kernel has no cgroups.
    /// - `ENOMEM` if there is no memory.
    pub(crate) fn edit_cgroups(&self, text: &[u8], replace: bool) -> Result {
        let mut control = self.control.lock();
        let mut new = NamedCgroups::new();
        if !replace {
            for named in &control.cgroups {
                new.push(named.duplicate()?, GFP_KERNEL)?;
            }
        }
        for (at, word) in parse_words(text) {
            let word = word.map_err(|refusal| {
                self.errors.add(FILE, refusal.text(), text, at);
                EINVAL
            })?;
            if !edit(&mut new, word)? {
                self.errors.add(FILE, NO_SUCH, text, at);
                return Err(EINVAL);
            }
        }
        self.follow_cgroups(&mut control, new)
    }

    /// Traces the tasks of these cgroups.
    fn follow_cgroups(&self, control: &mut Control, new: NamedCgroups) -> Result {
        let recorder = self.recording.hook.handler();
        if new.is_empty() {
            recorder.forget_cgroups();
            control.cgroups = new;
            self.leave_members(control);
            return Ok(());
        }
        let mut cgroups = KVec::with_capacity(new.len(), GFP_KERNEL)?;
        for cgroup in new.iter().map(NamedCgroup::cgroup) {
            cgroups.push(cgroup, GFP_KERNEL)?;
        }
        self.follow_members(control)?;
        let result = recorder.set_cgroups(cgroups);
        if result.is_ok() {
            control.cgroups = new;
        }
        self.leave_members(control);
        result
    }

    /// Has the recorder told of tasks that are made, moved and end.
    ///
    /// # Errors
    ///
    /// Those of [`Members::call`](crate::sys::cgroup::Members::call).
    pub(super) fn follow_members(&self, control: &mut Control) -> Result {
        // SAFETY: The recorder stays valid until `Members::clear`: it is in `recording`, which goes
        // after `control`, and so after `members`, whose drop clears it.
        unsafe { control.members.call(self.recording.hook.handler()) }
    }

    /// Has the recorder not told of tasks any more, if nothing asks for that.
    pub(super) fn leave_members(&self, control: &mut Control) {
        if control.cgroups.is_empty() && !control.settings.options.has(TraceOption::RecordCgroup) {
            control.members.clear();
        }
    }

    /// Calls `user` with the cgroup at `index` of the list, if there are so many.
    pub(crate) fn with_cgroup<R>(
        &self,
        index: usize,
        user: impl FnOnce(&NamedCgroup) -> R,
    ) -> Option<R> {
        self.control.lock().cgroups.get(index).map(user)
    }

    /// Returns the number of cgroups, of the tasks in them, and the bytes of memory that takes.
    pub(crate) fn cgroup_counts(&self) -> (usize, usize, usize) {
        let control = self.control.lock();
        let recorder = self.recording.hook.handler();
        let count = control.cgroups.len();
        (count, recorder.count_members(), recorder.member_bytes())
    }
}
