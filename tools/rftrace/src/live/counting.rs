// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A description of what the module's own profile counts: its options, and its files.

use super::{Error, OwnInstance};
use crate::profile::{self, CountedFunction, Uncounted};

/// The file that switches the profile on.
pub(super) const SWITCH: &str = "function_profile_enabled";

/// The files that have the counts.
const FUNCTIONS: &str = "trace_stat/function";
const HISTOGRAMS: &str = "trace_stat/function_latency";
const CONTEXTS: &str = "trace_stat/function_folded";

/// A description of what is counted, beside the calls and times of each function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountingPlan {
    /// True if it is counted for how long tasks did not run.
    pub waits: bool,
    /// True if histograms are to be read.
    pub histograms: bool,
    /// Contexts, if calls are counted by what they were called from.
    pub contexts: Option<ContextsPlan>,
}

/// A description of contexts, and of what is told of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextsPlan {
    /// True if the number of calls is told, not their own time.
    pub by_calls: bool,
    /// True if paths begin with the names of tasks.
    pub has_tasks: bool,
}

impl CountingPlan {
    /// Returns the options that are to be on.
    pub(super) fn options(&self) -> Vec<&'static str> {
        let contexts = self.contexts;
        let options = [
            (self.waits, "options/profile-wait"),
            (contexts.is_some(), "options/profile-contexts"),
            (
                contexts.is_some_and(|contexts| contexts.has_tasks),
                "options/profile-tasks",
            ),
            (
                contexts.is_some_and(|contexts| contexts.by_calls),
                "options/folded-calls",
            ),
        ];
        let on = options.into_iter().filter(|(is_on, _)| *is_on);
        on.map(|(_, option)| option).collect()
    }

    /// Returns a file that this takes and the module does not have, by `has`.
    pub fn missing(&self, has: impl Fn(&str) -> bool) -> Option<&'static str> {
        let mut files = vec![SWITCH, FUNCTIONS];
        files.extend(self.histograms.then_some(HISTOGRAMS));
        files.extend(self.contexts.map(|_| CONTEXTS));
        files.extend(self.options());
        files.into_iter().find(|file| !has(file))
    }
}

impl OwnInstance {
    /// Returns the functions that were counted.
    ///
    /// # Errors
    ///
    /// [`Error`] if they cannot be read.
    pub fn counted(&self) -> Result<Vec<CountedFunction>, Error> {
        Ok(profile::parse(&self.read(FUNCTIONS)?)?)
    }

    /// Returns the text of `trace_stat/function_latency`.
    ///
    /// # Errors
    ///
    /// [`Error`] if it cannot be read.
    pub fn histograms(&self) -> Result<String, Error> {
        self.read(HISTOGRAMS)
    }

    /// Returns the text of `trace_stat/function_folded`.
    ///
    /// # Errors
    ///
    /// [`Error`] if it cannot be read.
    pub fn contexts(&self) -> Result<String, Error> {
        self.read(CONTEXTS)
    }

    /// Returns the calls that are not among those that were counted.
    ///
    /// # Errors
    ///
    /// [`Error`] if it cannot be read.
    pub fn uncounted(&self) -> Result<Uncounted, Error> {
        Ok(Uncounted::of_status(&self.read("status")?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_module_lacks_is_found() {
        let plain = CountingPlan::default();
        assert_eq!(plain.missing(|_| true), None);
        assert_eq!(plain.missing(|_| false), Some(SWITCH));
        let lacks = |lacking: &'static str| move |file: &str| file != lacking;
        assert_eq!(plain.missing(lacks(FUNCTIONS)), Some(FUNCTIONS));
        let contexts = ContextsPlan {
            by_calls: true,
            has_tasks: false,
        };
        let all = CountingPlan {
            waits: true,
            histograms: true,
            contexts: Some(contexts),
        };
        for file in [
            HISTOGRAMS,
            CONTEXTS,
            "options/profile-wait",
            "options/profile-contexts",
            "options/folded-calls",
        ] {
            assert_eq!(plain.missing(lacks(file)), None);
            assert_eq!(all.missing(lacks(file)), Some(file));
        }
        assert_eq!(all.missing(lacks("options/profile-tasks")), None);
    }
}
