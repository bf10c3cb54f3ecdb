// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rftrace profile`: counts and times calls, in the kernel or of events.

use anyhow::Result;

use super::directory;
use crate::cli::exporting::StackWeight;
use crate::cli::profile::ProfileArgs;
use crate::exit::{Exit, OrExit};
use crate::live::{ContextsPlan, CountingPlan, Error};
use crate::terminal::Output;

mod counted;
mod events;

/// Counts calls until the end, and prints a table of the functions.
pub(super) fn run(arguments: &ProfileArgs, out: &mut Output) -> Result<Exit> {
    if let Some(conflict) = arguments.conflict() {
        return Err(super::wrong_use(&conflict));
    }
    let directory = directory(&arguments.tracing.module).or_exit(Exit::COULD_NOT_RUN)?;
    if arguments.takes_events().is_some() {
        return events::run(arguments, &directory, out);
    }
    let counting = counting(arguments);
    let missing = counting.missing(|file| directory.file(file).exists());
    match (missing, arguments.takes_counts()) {
        (None, _) => counted::run(arguments, &directory, counting, out),
        (Some(file), None) => {
            eprintln!("rftrace: this module does not count in the kernel (it has no {file}): counts events");
            events::run(arguments, &directory, out)
        }
        (Some(file), Some(option)) => {
            let error = Error::Refused(format!(
                "{option} takes {file}, which this module does not have"
            ));
            Err(error).or_exit(Exit::COULD_NOT_RUN)
        }
    }
}

fn counting(arguments: &ProfileArgs) -> CountingPlan {
    CountingPlan {
        waits: arguments.tracing.wait,
        histograms: arguments.histogram,
        contexts: arguments.folded.as_ref().map(|_| ContextsPlan {
            by_calls: arguments.folded_by == StackWeight::Calls,
            has_tasks: arguments.folded_tasks,
        }),
    }
}
