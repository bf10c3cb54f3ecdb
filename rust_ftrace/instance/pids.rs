// SPDX-License-Identifier: GPL-2.0

//! Which tasks an instance traces: its `pid` list.

use kernel::prelude::*;

use super::Instance;
use crate::engine::pid_set::{Failure, PidSet};

/// The name of the list's file.
const FILE: &str = "pid";

impl Instance {
    /// Edits the list by what was written to its file. With `replace` the old list goes. An empty
    /// list means all tasks.
    ///
    /// # Errors
    ///
    /// Nothing is changed then.
    ///
    /// - `EINVAL` if a word is wrong; the error log says which.
    /// - `ENOMEM` if there is no memory.
    pub(crate) fn edit_pids(&self, text: &[u8], replace: bool) -> Result {
        let _control = self.control.lock();
        let recorder = self.hook.handler();
        let new = recorder
            .pids()
            .edited(text, replace)
            .map_err(|failure| match failure {
                Failure::Word(at, refusal) => {
                    (self.error_log.lock()).add(FILE, refusal.text(), text, at);
                    EINVAL
                }
                Failure::NoMemory => ENOMEM,
            })?;
        recorder.set_pids(&new)?;
        Ok(())
    }

    /// Calls `user` with the list.
    pub(crate) fn with_pids<R>(&self, user: impl FnOnce(&PidSet) -> R) -> R {
        let _control = self.control.lock();
        user(self.hook.handler().pids())
    }
}
