// SPDX-License-Identifier: GPL-2.0

//! Cgroups of an instance, file side: those whose tasks it traces.

use kernel::prelude::*;
use kernel::sync::Mutex;

use super::error_log::ErrorLog;
use super::named_cgroups::{edit, NamedCgroup, NamedCgroups};
use super::{Control, Instance};
use crate::engine::cgroups::parse_words;
use crate::tracer::recorder::Recorder;

/// The file's name, in the error log.
const FILE: &str = "cgroup";

/// The error of a word that names no cgroup.
const NO_SUCH: &str = "No such cgroup; /proc/PID/cgroup has paths behind '0::'";

/// The list of cgroups whose tasks are traced.
pub(crate) struct CgroupList<'a> {
    control: &'a Mutex<Control>,
    recorder: &'a Recorder,
    errors: &'a ErrorLog,
}

impl<'a> CgroupList<'a> {
    /// Returns the list of `instance`.
    pub(crate) fn of(instance: &'a Instance) -> Self {
        Self {
            control: &instance.control,
            recorder: instance.recording.hook.handler(),
            errors: &instance.errors,
        }
    }

    /// Edits the list by what was written to its file. With `replace` the old list goes. An empty
    /// list means tasks wherever they are.
    ///
    /// # Errors
    ///
    /// Nothing is changed then.
    ///
    /// - `EINVAL` if a word is wrong or names no cgroup; the error log says which.
    /// - `EOPNOTSUPP` if the kernel has no cgroups.
    /// - `ENOMEM` if there is no memory.
    pub(crate) fn edit(&self, text: &[u8], replace: bool) -> Result {
        let mut control = self.control.lock();
        let mut new = NamedCgroups::new();
        if !replace {
            for named in control.followers.cgroups() {
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
        let options = control.settings.options;
        control.followers.set_cgroups(new, options)
    }

    /// Calls `user` with the cgroup at `index` of the list, if there are so many.
    pub(crate) fn with<R>(&self, index: usize, user: impl FnOnce(&NamedCgroup) -> R) -> Option<R> {
        let control = self.control.lock();
        control.followers.cgroups().get(index).map(user)
    }

    /// Returns the number of cgroups, of the tasks in them, and the bytes of memory that takes.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        let count = self.control.lock().followers.cgroups().len();
        let recorder = self.recorder;
        (count, recorder.count_members(), recorder.member_bytes())
    }
}
