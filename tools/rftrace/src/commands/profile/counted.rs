// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rftrace profile` in the kernel: the module counts calls, and its files are read at the end.

use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{channel, Receiver};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::super::tracing::{deadline, plan, say_why, EndReason};
use crate::cli::profile::ProfileArgs;
use crate::cli::tracing::Tracing;
use crate::exit::{Exit, OrExit};
use crate::export::output::OutputFile;
use crate::live::wake::{self, Wake};
use crate::live::{CountingPlan, Directory, Session};
use crate::profile::histograms;
use crate::report::{CountedSummary, Rows};

/// Time between two checks that counting goes on.
const TICK: Duration = Duration::from_millis(250);

/// Lets the module count until the end, and prints the counts.
pub(super) fn run(
    arguments: &ProfileArgs,
    directory: &Directory,
    counting: CountingPlan,
    out: &mut dyn Write,
) -> Result<Exit> {
    let tracing = &arguments.tracing;
    let file = (arguments.folded.as_deref()).filter(|_| !arguments.is_folded_to_stdout());
    if let Some(file) = file {
        // What cannot be written is said before anything is counted.
        output(file).or_exit(Exit::COULD_NOT_RUN)?;
    }
    let mut plan = plan(tracing).or_exit(Exit::COULD_NOT_RUN)?;
    plan.counting = Some(counting);
    let mut session = Session::new(directory, &plan).or_exit(Exit::COULD_NOT_RUN)?;
    let reason = count(tracing, &mut session)?;

    let functions = session.instance.counted()?;
    let uncounted = session.instance.uncounted()?;
    let summary = CountedSummary::new(&functions, &uncounted, session.took_ns());
    let pictures = (counting.histograms)
        .then(|| session.instance.histograms())
        .transpose()?;
    let stacks = (counting.contexts)
        .map(|_| session.instance.contexts())
        .transpose()?;
    // Nothing is hooked while a reader takes its time.
    drop(session);

    let mut is_table = pictures.is_none();
    if let Some(stacks) = stacks {
        match file {
            Some(file) => {
                output(file)?.fill(|output| Ok(output.file().write_all(stacks.as_bytes())?))?
            }
            None => {
                out.write_all(stacks.as_bytes())?;
                is_table = false;
            }
        }
    }
    if let Some(pictures) = pictures {
        write_histograms(&pictures, arguments.table.limit, out)?;
    }
    if is_table {
        let rows = Rows::of_counts(functions, &arguments.table);
        summary.write_with(&rows, arguments.json, out)?;
    }
    out.flush()?;

    eprintln!("rftrace: {}", summary.line());
    if !is_table {
        summary
            .remarks()
            .iter()
            .for_each(|remark| eprintln!("rftrace: {remark}"));
    }
    if let EndReason::Stopped(reason) = &reason {
        eprintln!("rftrace: counting was stopped: {reason}");
    }
    if summary.calls == 0 {
        say_why(&plan.selection);
    }
    Ok(reason.exit())
}

/// Begins the file for folded stacks.
fn output(path: &Path) -> Result<OutputFile> {
    OutputFile::new(path, Path::new(""))
}

/// Prints the histograms of the functions that took most time.
fn write_histograms(text: &str, limit: Option<usize>, out: &mut dyn Write) -> Result<()> {
    let pictures = histograms(text);
    let shown = limit.unwrap_or(usize::MAX).min(pictures.len());
    for picture in &pictures[..shown] {
        out.write_all(picture.as_bytes())?;
    }
    if shown < pictures.len() {
        writeln!(out, "... and {} more", pictures.len() - shown)?;
    }
    Ok(())
}

/// Counts until the end, and returns the reason for that.
fn count(tracing: &Tracing, session: &mut Session) -> Result<EndReason> {
    let (sender, wakes) = channel();
    wake::on_signals(sender.clone())?;
    if let Some(child) = session.start().or_exit(Exit::COULD_NOT_RUN)? {
        wake::on_end(child, sender);
    }
    let reason = until_end(tracing, session, &wakes);
    session.stop()?;
    Ok(reason)
}

fn until_end(tracing: &Tracing, session: &Session, wakes: &Receiver<Wake>) -> EndReason {
    let deadline = deadline(tracing);
    let mut stopped: Option<String> = None;
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match wake::next(wakes, left.map_or(TICK, |left| left.min(TICK))) {
            Some(Wake::Ended(exit)) => {
                return stopped.map_or(EndReason::Ended(exit), EndReason::Stopped);
            }
            Some(_) => return EndReason::Asked,
            None => {}
        }
        if left.is_some_and(|left| left.is_zero()) {
            return EndReason::Time;
        }
        if stopped.is_none() {
            stopped = session.stopped();
            // A command that runs is not left alone.
            if let Some(reason) = stopped.as_ref().filter(|_| tracing.command.is_empty()) {
                return EndReason::Stopped(reason.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_histograms_are_shown() {
        let text = "# function: a\n1\n# function: b\n2\n";
        let shown = |limit| {
            let mut out = Vec::new();
            write_histograms(text, limit, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(shown(None), text);
        assert_eq!(shown(Some(2)), text);
        assert_eq!(shown(Some(1)), "# function: a\n1\n... and 1 more\n");
    }
}
