// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Arguments of the verbs that write the formats of other programs: `export` and `flamegraph`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::selection::SelectionArgs;

/// Formats of other programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// A trace for Perfetto
    Perfetto,
    /// A trace for trace-cmd and KernelShark
    #[value(name = "trace.dat")]
    TraceDat,
    /// Stacks with weights, for flame graphs
    Folded,
    /// A profile for pprof
    Pprof,
}

/// Weights of stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum StackWeight {
    /// The time in functions themselves, in ns
    #[default]
    Time,
    /// Their calls
    Calls,
}

/// Arguments of `export`.
#[derive(Args, Debug)]
pub struct Export {
    /// A recording
    #[arg(value_name = "FILE", default_value = "rftrace.data", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// The format
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub to: ExportFormat,
    /// Write to this file
    #[arg(short = 'o', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Weights of folded stacks (default: time)
    #[arg(long, value_enum, value_name = "WEIGHT")]
    pub by: Option<StackWeight>,
    /// Functions, tasks, depth and threshold.
    #[command(flatten)]
    pub selection: SelectionArgs,
}

/// Arguments of `flamegraph`.
#[derive(Args, Debug)]
pub struct FlameGraph {
    /// A recording, or folded stacks, such as those of profile --folded; - for stacks from stdin
    #[arg(value_name = "FILE", default_value = "rftrace.data", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Write to this file
    #[arg(short = 'o', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Widths of frames
    #[arg(long, value_enum, value_name = "WEIGHT", default_value_t)]
    pub by: StackWeight,
    /// Functions, tasks, depth and threshold.
    #[command(flatten)]
    pub selection: SelectionArgs,
}
