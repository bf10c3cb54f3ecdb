// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The verbs: each calls the library, and prints the results.

use anyhow::Result;

use crate::cli::{Cli, KernelArgs, Module, Verb};
use crate::exit::Exit;
use crate::kernel::{self, Kernel};
use crate::live::{self, Directory};
use crate::terminal::Output;

mod doctor;
mod exec;
mod export;
mod flamegraph;
mod follow;
#[cfg(test)]
mod golden;
mod graph;
mod graph_recording;
mod info;
mod list;
mod profile;
mod record;
mod recorded;
mod replay;
mod report;
mod trace;
mod tracing;
mod why;

/// Runs the verb, and returns the code to end with.
pub fn run(cli: &Cli) -> Result<Exit> {
    let mut out = Output::new(cli.color, is_paged(&cli.verb));
    let exit = match &cli.verb {
        Verb::Doctor(doctor) => doctor::run(doctor, &mut out)?,
        Verb::Why(why) => why::run(why, &mut out).map(|()| Exit::SUCCESS)?,
        Verb::List(list) => list::run(list, &mut out).map(|()| Exit::SUCCESS)?,
        Verb::Graph(graph) => graph::run(graph, &mut out).map(|()| Exit::SUCCESS)?,
        Verb::Report(report) => report::run(report, &mut out).map(|()| Exit::SUCCESS)?,
        Verb::Exec(exec) => match exec::run(exec)? {},
        Verb::Trace(trace) => trace::run(trace, &mut out)?,
        Verb::Record(record) => record::run(record)?,
        Verb::Profile(profile) => profile::run(profile, &mut out)?,
        Verb::Replay(replay) => replay::run(replay, &mut out).map(|()| Exit::SUCCESS)?,
        Verb::Info(info) => info::run(info, &mut out).map(|()| Exit::SUCCESS)?,
        Verb::Export(export) => export::run(export).map(|()| Exit::SUCCESS)?,
        Verb::Flamegraph(graph) => flamegraph::run(graph).map(|()| Exit::SUCCESS)?,
        Verb::Become { command } => live::become_command(command),
    };
    out.finish()?;
    Ok(exit)
}

/// Returns whether the output may be long, and is for people.
fn is_paged(verb: &Verb) -> bool {
    match verb {
        Verb::Why(why) => !why.json,
        Verb::Report(report) => !report.json,
        Verb::List(_) => true,
        Verb::Graph(graph) => !graph.json,
        Verb::Replay(replay) => !replay.json,
        Verb::Doctor(_)
        | Verb::Exec(_)
        | Verb::Trace(_)
        | Verb::Record(_)
        | Verb::Profile(_)
        | Verb::Info(_)
        | Verb::Export(_)
        | Verb::Flamegraph(_)
        | Verb::Become { .. } => false,
    }
}

/// Returns the kernel that is asked about.
fn kernel(source: &KernelArgs) -> Result<Kernel, kernel::Error> {
    match &source.vmlinux {
        Some(path) => Kernel::of_file(path),
        None => Kernel::running(),
    }
}

/// Returns an error that ends the command as wrong use does.
fn wrong_use(text: &str) -> anyhow::Error {
    let kind = clap::error::ErrorKind::ArgumentConflict;
    clap::Command::new("rftrace").error(kind, text).into()
}

/// Returns the module's directory, for verbs that trace: they load the module, and say so.
fn directory(module: &Module) -> Result<Directory, live::Error> {
    Directory::open(module.module.as_deref(), &mut |what| {
        eprintln!("rftrace: {what}");
    })
}
