// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Verbs of the command and their arguments, as they are typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

mod graph;

pub use graph::Graph;

/// Traces kernel functions, and tells what was seen.
#[derive(Debug, Parser)]
#[command(
    name = "rftrace",
    version,
    about,
    max_term_width = 100,
    arg_required_else_help = true
)]
pub struct Cli {
    /// The verb.
    #[command(subcommand)]
    pub verb: Verb,
}

/// A verb, with its arguments.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Say what is missing on this machine for tracing, and what to type
    Doctor(Doctor),
    /// Say why a function does not show up in a trace, and what to trace instead
    #[command(after_help = "Examples:\n  \
        rftrace why do_mount\n  \
        rftrace why --vmlinux /boot/vmlinuz-$(uname -r) do_mount\n  \
        rftrace why --json tcp_ack vfs_read")]
    Why(Why),
    /// List functions that can be traced
    #[command(after_help = "Examples:\n  \
        rftrace list 'tcp_*'\n  \
        rftrace list --proto path_mount\n  \
        rftrace list --unreachable")]
    List(List),
    /// Show who calls a function, and what it calls
    #[command(after_help = graph::EXAMPLES)]
    Graph(Graph),
}

/// Which kernel is looked at.
#[derive(Args, Debug)]
pub struct Source {
    /// Look at this vmlinux or vmlinuz instead of the kernel that runs
    #[arg(long, value_name = "FILE")]
    pub vmlinux: Option<PathBuf>,
}

/// Arguments of `doctor`.
#[derive(Args, Debug)]
pub struct Doctor {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `why`.
#[derive(Args, Debug)]
pub struct Why {
    /// Functions to explain
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// The kernel.
    #[command(flatten)]
    pub source: Source,
    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `list`.
#[derive(Args, Debug)]
pub struct List {
    /// Only functions whose names match: * ? [a-z]
    #[arg(value_name = "GLOB")]
    pub glob: Option<String>,
    /// Only functions that nothing can ever enter: tracing them shows nothing
    #[arg(long)]
    pub unreachable: bool,
    /// With their C prototypes, by the kernel's BTF
    #[arg(long)]
    pub proto: bool,
    /// The kernel.
    #[command(flatten)]
    pub source: Source,
}
