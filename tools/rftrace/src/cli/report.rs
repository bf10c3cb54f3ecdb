// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Arguments of `report`, and of other verbs that print tables of functions.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::selection::SelectionArgs;
use crate::calls;

/// Examples at the end of its help.
pub(super) const EXAMPLES: &str = "Examples:
  rftrace report
  rftrace report rftrace.data -s p99 --limit 20
  rftrace report rftrace.data -g vfs_read -n @noise --by caller
  rftrace report rftrace.data --json | jq 'select(.p99_ns > 1000000)'";

/// Arguments of `report`.
#[derive(Args, Debug)]
pub struct Report {
    /// A recording
    #[arg(value_name = "FILE", default_value = "rftrace.data", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Functions, tasks, depth and threshold.
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// The table.
    #[command(flatten)]
    pub table: TableArgs,
    /// Print one JSON object a line; the last one is the summary
    #[arg(long)]
    pub json: bool,
}

/// A table of functions.
#[derive(Args, Clone, Debug, Default)]
pub struct TableArgs {
    /// Sort by this column, the largest first [default: self]
    #[arg(short, long, value_name = "COLUMN", help_heading = "Which table")]
    pub sort: Option<Sort>,
    /// Make one line of calls that have this in common
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "function",
        help_heading = "Which table"
    )]
    pub by: ReportBy,
    /// Show only so many lines
    #[arg(long, value_name = "N", help_heading = "Which table")]
    pub limit: Option<usize>,
}

/// A column that tables can be sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Time in the function itself
    #[value(name = "self")]
    SelfTime,
    /// Time from entry to return
    Total,
    /// Mean time of a call
    Avg,
    /// Half of the calls are no longer
    P50,
    /// 99 % of the calls are no longer
    P99,
    /// Longest call
    Max,
    /// Time asleep: of profile --wait
    Asleep,
    /// Time in queues for a CPU: of profile --wait
    Queued,
    /// Number of calls
    Calls,
}

/// A property that calls of one line have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ReportBy {
    /// The function
    #[default]
    Function,
    /// The function, and what called it
    Caller,
    /// The name of the task
    Comm,
}

impl From<ReportBy> for calls::GroupBy {
    fn from(by: ReportBy) -> Self {
        match by {
            ReportBy::Function => Self::Function,
            ReportBy::Caller => Self::Caller,
            ReportBy::Comm => Self::Comm,
        }
    }
}
