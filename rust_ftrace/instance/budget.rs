// SPDX-License-Identifier: GPL-2.0

//! Budget of an instance: edits of its file, and the cost of a call.

use kernel::prelude::*;

use super::recording::Recording;
use super::{Instance, OwnSettings};
use crate::engine::budget::RecordedParts;
use crate::engine::options::TraceOption;
use crate::engine::parse::ParseError;
use crate::engine::settings::Tracer;

impl Instance {
    /// Changes the budget by what was written to its file, and forgets why recording was stopped.
    ///
    /// # Errors
    ///
    /// Nothing is changed then.
    ///
    /// - `EINVAL` if a word is wrong, `ERANGE` if a number is too large; the error log says which.
    /// - `ENOMEM` if there is no memory to find out what a call costs.
    pub(crate) fn edit_budget(&self, text: &[u8]) -> Result {
        let control = self.control.lock();
        let limits = self
            .recording
            .budget
            .limits()
            .edited(text)
            .map_err(|(at, error)| {
                let reason = match error {
                    ParseError::Invalid => "Neither 'calls N' nor 'cpu N', nor 0",
                    ParseError::Range => "Too large a number",
                };
                self.errors.add("budget", reason, text, at);
                Error::from(error)
            })?;
        if limits.is_any() {
            self.machine.find_writing_ps()?;
        }
        self.recording.price(&control.settings);
        // SAFETY: The flags are the recorder's, which is in `recording`, as the rings are that tell
        // this budget. What writes to these is its hook, which goes with it, and open files, which
        // hold `recording`.
        unsafe {
            self.recording
                .budget
                .set_limits(limits, self.recording.hook.handler().hook_flags())
        };
        Ok(())
    }
}

impl Recording {
    /// Passes on what recording a call costs with this tracer and these options, if that is known.
    pub(super) fn price(&self, settings: &OwnSettings) {
        let options = settings.options;
        let recorded = RecordedParts {
            graph: settings.tracer == Tracer::FunctionGraph,
            args: options.has(TraceOption::FuncArgs),
            stack: options.has(TraceOption::FuncStackTrace),
        };
        let cost_ps = recorded.cost_ps(self.machine.writing_ps());
        self.budget.set_cost(cost_ps);
    }
}
