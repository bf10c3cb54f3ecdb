// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rftrace record`: writes calls to a file.

use std::fs::{self, File};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{channel, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::tracing::{
    begin, btf, deadline, lines_of, say_why, summary, EndReason, Hits, PreparedTracing,
};
use crate::cli::tracing::RecordArgs;
use crate::exit::{Exit, OrExit};
use crate::kernel::KernelSymbols;
use crate::live::wake::{self, Answers, ControlCommand, ControlFiles, Wake};
use crate::live::{recorder, Bell, RawFile, RecorderThreads, Session};
use crate::recording::{RecordingFile, Writer};
use crate::stream::Events;
use crate::symbolizer::Symbolizer;
use crate::terminal::Progress;
use crate::units::Size;

/// Time between two looks at the progress.
const TICK: Duration = Duration::from_millis(100);
/// Number of events that are examined to name the functions that made most.
const LOOKED_AT: usize = 1_000_000;

/// Records until the end, and reports the result.
pub(super) fn run(arguments: &RecordArgs) -> Result<Exit> {
    let path = &arguments.output;
    let tracing = &arguments.tracing;
    let control = arguments
        .control
        .as_deref()
        .map(ControlFiles::open)
        .transpose();
    let control = control.context("--control").or_exit(Exit::COULD_NOT_RUN)?;
    let cpus = thread::available_parallelism().map_or(1, usize::from) as u64;
    let kept = arguments
        .overwrite
        .map(|size| (size.0 / cpus / 1024).max(1));
    let file = File::create(path)
        .with_context(|| format!("cannot write {}", path.display()))
        .or_exit(Exit::COULD_NOT_RUN)?;
    let begun = begin(tracing, kept).inspect_err(|_| {
        // An empty file is no recording.
        let _ = fs::remove_file(path);
    })?;
    let PreparedTracing {
        plan,
        mut session,
        symbols,
    } = begun;
    let settings = session.settings(&plan, &symbols)?;
    let writer = Writer::new(file, &settings)?;
    writer.symbols(&lines_of(symbols.all()))?;
    if let Some(btf) = btf().filter(|_| plan.args) {
        writer.btf(&btf)?;
    }
    let modules = loaded();

    let files: Result<Vec<RawFile>, _> = settings
        .cpus
        .iter()
        .map(|cpu| RawFile::open(&session.instance, *cpu))
        .collect();
    let files = files?;
    let (bell, progress) = (Bell::new()?, recorder::WriteProgress::default());
    let (sender, wakes) = channel();
    wake::on_signals(sender.clone())?;
    let mut answers = match control {
        Some(control) => control.listen(sender.clone()),
        None => Answers::default(),
    };
    let reason = thread::scope(|scope| -> Result<EndReason> {
        let start =
            |files| RecorderThreads::start(scope, files, &writer, &bell, &progress, &sender);
        let (recorder, files) = match kept {
            None => (Some(start(files)), None),
            Some(_) => (None, Some(files)),
        };
        let mut begin = || -> Result<EndReason> {
            if let Some(child) = session.start()? {
                wake::on_end(child, sender.clone());
            }
            answers.say("ready");
            wait(
                arguments,
                &mut session,
                &writer,
                &progress,
                &wakes,
                &mut answers,
            )
        };
        let reason = begin();
        // Whatever went wrong, threads wait for the bell.
        let stopped = session.stop();
        bell.ring();
        let finished = match (recorder, files) {
            (Some(recorder), _) => recorder.finish(),
            (None, Some(files)) => start(files).finish(),
            (None, None) => Ok(()),
        };
        stopped?;
        match (reason?, finished) {
            (reason, Ok(())) => Ok(reason),
            (_, Err(error)) => Ok(EndReason::Failed(error.to_string())),
        }
    })?;

    if loaded() != modules {
        if let Ok(text) = fs::read_to_string("/proc/kallsyms") {
            writer.symbols(&lines_of(KernelSymbols::of_text(&text)?.all()))?;
        }
    }
    let mut end = session.end()?;
    end.bytes = progress.bytes.load(Relaxed);
    end.status = match &reason {
        EndReason::Ended(exit) => Some(exit.code().into()),
        _ => None,
    };
    end.stopped = match &reason {
        EndReason::Stopped(reason) | EndReason::Failed(reason) => Some(reason.clone()),
        _ => None,
    };
    let ended = writer.end(&end);
    drop(session);
    let events = progress.events.load(Relaxed);
    if !arguments.quiet || reason.exit() == Exit::FAILURE {
        let size = Size(writer.length());
        let summary = summary(&end, events, &reason);
        eprintln!("rftrace: {}: {size}, {summary}", path.display());
    }
    if events == 0 && !arguments.quiet {
        say_why(&plan.selection);
    }
    if let EndReason::Stopped(_) = &reason {
        eprintln!("rftrace: {}", advice(arguments, symbols)?);
    }
    if !matches!(reason, EndReason::Failed(_)) {
        ended.with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(reason.exit())
}

/// Waits for the end, and returns the reason.
fn wait(
    arguments: &RecordArgs,
    session: &mut Session,
    writer: &Writer,
    progress: &recorder::WriteProgress,
    wakes: &Receiver<Wake>,
    answers: &mut Answers,
) -> Result<EndReason> {
    let deadline = deadline(&arguments.tracing);
    let mut line = Progress::new(arguments.quiet);
    let mut is_enabled = true;
    let mut stopped = None;
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match wake::next(wakes, left.map_or(TICK, |left| left.min(TICK))) {
            Some(Wake::Ended(exit)) => {
                return Ok(stopped.map_or(EndReason::Ended(exit), EndReason::Stopped));
            }
            Some(Wake::Signal) => return Ok(EndReason::Asked),
            Some(Wake::Failed(reason)) => return Ok(EndReason::Failed(reason)),
            Some(Wake::Control(command)) => {
                match command {
                    ControlCommand::Stop => {
                        answers.say("ack");
                        return Ok(EndReason::Asked);
                    }
                    ControlCommand::Ping => {}
                    ControlCommand::Enable | ControlCommand::Disable => {
                        is_enabled = command == ControlCommand::Enable;
                        let on = if is_enabled { "1" } else { "0" };
                        session.instance.write("tracing_on", on)?;
                    }
                }
                answers.say("ack");
            }
            None => {}
        }
        let (events, lost) = (progress.events.load(Relaxed), progress.lost.load(Relaxed));
        let size = writer.length();
        line.update(format_args!(
            "rftrace: {events} events, {}, {lost} lost",
            Size(size)
        ));
        if arguments.max_size.is_some_and(|most| size >= most.0) {
            return Ok(EndReason::Size);
        }
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(EndReason::Time);
        }
        if is_enabled && stopped.is_none() {
            stopped = session.stopped();
            // A command that runs is not left alone.
            if let Some(reason) = stopped
                .as_ref()
                .filter(|_| arguments.tracing.command.is_empty())
            {
                return Ok(EndReason::Stopped(reason.clone()));
            }
        }
    }
}

/// Returns the modules that are loaded.
fn loaded() -> Vec<String> {
    let modules = fs::read_to_string("/proc/modules").unwrap_or_default();
    let name = |line: &str| line.split(' ').next().map(str::to_owned);
    modules.lines().filter_map(name).collect()
}

/// Returns text that names the functions that most events belong to.
fn advice(arguments: &RecordArgs, symbols: KernelSymbols) -> Result<String> {
    let recording = RecordingFile::open(&arguments.output)?;
    let mut events = recording.events()?;
    let mut hits = Hits::default();
    for _ in 0..LOOKED_AT {
        let Some(item) = events.next()? else {
            break;
        };
        hits.count(item.event.ip);
    }
    Ok(hits.advice(&mut Symbolizer::new(symbols)))
}
