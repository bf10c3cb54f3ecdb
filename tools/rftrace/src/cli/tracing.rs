// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Arguments of the verbs that trace: `trace` and `record`, and what they share with `profile`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::selection::SelectionArgs;
use super::{complete, Module};
use crate::units::{Count, Size, Time};

/// Tracers that can be asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TracerArg {
    /// Calls, with how long they take
    #[default]
    #[value(name = "function_graph")]
    FunctionGraph,
    /// Entries only, with their callers: at an eighth of the cost
    #[value(name = "function")]
    Function,
}

impl TracerArg {
    /// Returns the name of the tracer in `current_tracer`.
    pub fn name(self) -> &'static str {
        match self {
            Self::FunctionGraph => "function_graph",
            Self::Function => "function",
        }
    }
}

/// The way in which something is traced.
#[derive(Args, Debug)]
pub struct Tracing {
    /// Functions, tasks, depth and threshold.
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// Trace with this tracer
    #[arg(short = 'p', long, value_enum, value_name = "TRACER", default_value_t)]
    pub tracer: TracerArg,
    /// Record what functions are called with
    #[arg(long)]
    pub args: bool,
    /// Record what functions return
    #[arg(long)]
    pub ret: bool,
    /// Record what calls waited for, and what woke their tasks
    #[arg(long)]
    pub wait: bool,
    /// Only failures, and the calls by which the error came: of these names (ENOENT,EINVAL), or any
    #[arg(long, value_name = "NAMES|any")]
    pub errno: Option<String>,
    /// With -g: hook only the functions that ROOT can reach, by the kernel's text, instead of all
    #[arg(long, requires = "roots", conflicts_with = "functions")]
    pub closure: bool,
    /// Leave out what hardware interrupts do; --closure does so, too
    #[arg(long)]
    pub no_irqs: bool,
    /// Trace all tasks, not only the command's
    #[arg(short = 'a', long)]
    pub all: bool,
    /// Only tasks in this cgroup (v2) and below it, the command's or not: its folder, its path as
    /// /proc/PID/cgroup has it, or its ID (may be repeated)
    #[arg(long = "cgroup", value_name = "CGROUP", value_hint = ValueHint::DirPath)]
    pub cgroups: Vec<String>,
    /// Size of each CPU's buffer
    #[arg(short = 'b', long, value_name = "SIZE", default_value = "8M")]
    pub buffer_size: Size,
    /// Stop when the functions are called more often than so many times a second [default: 2M]
    #[arg(long, value_name = "N")]
    pub max_rate: Option<Count>,
    /// Stop when recording takes more than so many percent of one CPU, by the module's estimate
    /// [default: 100]
    #[arg(long, value_name = "PERCENT")]
    pub max_cpu: Option<u32>,
    /// Trace on, however often the functions are called
    #[arg(long, conflicts_with_all = ["max_rate", "max_cpu"])]
    pub force: bool,
    /// End after this time
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Time>,
    /// The module.
    #[command(flatten)]
    pub module: Module,
    /// A command to run and to trace, with the tasks that it starts; tracing ends with it
    #[arg(trailing_var_arg = true, value_name = "CMD", add = complete::command_line())]
    pub command: Vec<OsString>,
}

/// Arguments of `trace`.
#[derive(Args, Debug)]
pub struct TraceArgs {
    /// The way in which it is traced.
    #[command(flatten)]
    pub tracing: Tracing,
    /// The way it looks.
    #[command(flatten)]
    pub look: Look,
}

/// Arguments of `record`.
#[derive(Args, Debug)]
pub struct RecordArgs {
    /// The way in which it is traced.
    #[command(flatten)]
    pub tracing: Tracing,
    /// Write to this file
    #[arg(short = 'o', long, value_name = "FILE", default_value = "rftrace.data", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// End when the file has this size
    #[arg(long, value_name = "SIZE")]
    pub max_size: Option<Size>,
    /// Keep only the newest events, in memory of this size, and write them at the end: nothing is
    /// written meanwhile
    #[arg(long, value_name = "SIZE", conflicts_with = "max_size")]
    pub overwrite: Option<Size>,
    /// Take commands (stop, enable, disable, ping) from a file descriptor or a FIFO, and write
    /// ready and ack to another: fd:CTL[,ACK] or fifo:CTL[,ACK], as with perf
    #[arg(long, value_name = "fd:CTL[,ACK]")]
    pub control: Option<String>,
    /// Say nothing while recording, and at the end
    #[arg(short = 'q', long)]
    pub quiet: bool,
}

/// The way events look as text.
#[derive(Args, Debug)]
pub struct Look {
    /// Show or hide a column, as with trace_options: funcgraph-proc, nofuncgraph-cpu,
    /// funcgraph-tail, ...
    #[arg(short = 'O', long = "option", value_name = "OPTION")]
    pub options: Vec<String>,
    /// Show when calls began, in seconds of the trace clock
    #[arg(short = 't', long)]
    pub time: bool,
    /// Show the time of day (UTC)
    #[arg(long, conflicts_with = "time")]
    pub wall: bool,
}

/// Arguments of `replay`.
#[derive(Args, Debug)]
pub struct ReplayArgs {
    /// A recording
    #[arg(value_name = "FILE", default_value = "rftrace.data", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Functions, tasks, depth and threshold.
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// The way it looks.
    #[command(flatten)]
    pub look: Look,
    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `info`.
#[derive(Args, Debug)]
pub struct Info {
    /// A recording
    #[arg(value_name = "FILE", default_value = "rftrace.data", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
