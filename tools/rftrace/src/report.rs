// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Report, the tables: the counts of an analysis, as text for people, and as lines of JSON.

mod counted;
#[cfg(test)]
mod golden;
mod graph;
mod summary;

use std::io::{self, Write};

use serde::Serialize;

pub use counted::CountedSummary;
pub use graph::{GraphAround, PathStep};
pub use summary::Summary;

use crate::calls::{Analysis, GroupName, Label, Statistics};
use crate::cli::report::{ReportBy, Sort, TableArgs};
use crate::profile::CountedFunction;
use crate::symbolizer::Symbolizer;
use crate::units::{Count, Time};

/// A line of a table. Of counts that the module made some things are not known.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The function; `[other]` for calls that there was no room for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The caller: a function, `[unknown]`, or `None` where it was not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// The name of the tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comm: Option<String>,
    /// Number of calls that have returned; in the kernel, that were entered.
    pub calls: u64,
    /// Time of the calls from entry to return.
    pub total_ns: u64,
    /// The part of that time in the functions themselves.
    pub self_ns: u64,
    /// Number of calls that are not in `self_ns`, as nothing is known.
    pub self_unknown: u64,
    /// The mean duration.
    pub avg_ns: u64,
    /// The shortest duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_ns: Option<u64>,
    /// The median of the durations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<u64>,
    /// The 90th percentile of the durations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p90_ns: Option<u64>,
    /// The 99th percentile of the durations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<u64>,
    /// The longest duration.
    pub max_ns: u64,
    /// The part of the time for which tasks were asleep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asleep_ns: Option<u64>,
    /// The part of the time for which tasks were queued for a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_ns: Option<u64>,
    /// The task or interrupt that ended the longest wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub woken_by: Option<String>,
    /// Number of calls that are still open at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open: Option<u64>,
    /// Time so far of the open call that took longest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_longest_ns: Option<u64>,
    /// Number of calls whose return was not seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<u64>,
}

impl Row {
    fn new(statistics: &Statistics) -> Self {
        let [p50_ns, p90_ns, p99_ns] = statistics.quantiles([0.5, 0.9, 0.99]).map(Some);
        Self {
            function: None,
            caller: None,
            comm: None,
            calls: statistics.calls,
            total_ns: statistics.total,
            self_ns: statistics.self_time,
            self_unknown: statistics.self_unknown,
            avg_ns: statistics.mean(),
            min_ns: Some(statistics.min),
            p50_ns,
            p90_ns,
            p99_ns,
            max_ns: statistics.max,
            asleep_ns: None,
            queued_ns: None,
            woken_by: None,
            open: Some(statistics.open),
            open_longest_ns: Some(statistics.open_longest),
            missed: Some(statistics.missed),
        }
    }

    fn of_counts(counted: CountedFunction) -> Self {
        let [p50_ns, p90_ns, p99_ns] = match counted.percentiles_ns {
            Some(percentiles) => percentiles.map(Some),
            None => [None; 3],
        };
        Self {
            function: Some(counted.name),
            caller: None,
            comm: None,
            calls: counted.calls,
            total_ns: counted.total_ns,
            self_ns: counted.self_ns,
            self_unknown: 0,
            avg_ns: counted.avg_ns,
            min_ns: None,
            p50_ns,
            p90_ns,
            p99_ns,
            max_ns: counted.max_ns,
            asleep_ns: counted.waits.map(|waits| waits.asleep_ns),
            queued_ns: counted.waits.map(|waits| waits.queued_ns),
            woken_by: counted.woken_by,
            open: None,
            open_longest_ns: None,
            missed: None,
        }
    }

    /// Returns the number that a table is sorted by.
    fn key(&self, sort: Sort) -> u64 {
        match sort {
            Sort::SelfTime => self.self_ns,
            Sort::Total => self.total_ns,
            Sort::Avg => self.avg_ns,
            Sort::P50 => self.p50_ns.unwrap_or(0),
            Sort::P99 => self.p99_ns.unwrap_or(0),
            Sort::Max => self.max_ns,
            Sort::Asleep => self.asleep_ns.unwrap_or(0),
            Sort::Queued => self.queued_ns.unwrap_or(0),
            Sort::Calls => self.calls,
        }
    }

    /// Returns the text of the last column.
    fn name(&self) -> String {
        let name = self.function.as_ref().or(self.comm.as_ref());
        let name = name.map_or("[other]", |name| name);
        match &self.caller {
            Some(caller) => format!("{name} <- {caller}"),
            None => name.into(),
        }
    }
}

/// Returns the name of what a node of a tree stands for.
pub fn label_name(label: Label, analysis: &Analysis, symbolizer: &Symbolizer) -> String {
    match label {
        Label::Function(function) => symbolizer.name(function).into(),
        Label::Comm(comm) => analysis.comm(comm),
        Label::Unknown => "[unknown]".into(),
        Label::Other => "[other]".into(),
        Label::Root => "[none]".into(),
    }
}

/// The lines of a table, and the number of those that were left out.
#[derive(Clone, Debug)]
pub struct Rows {
    by: ReportBy,
    rows: Vec<Row>,
    left_out: usize,
    has_times: bool,
}

impl Rows {
    /// Makes the table of the counts so far.
    pub fn new(analysis: &Analysis, symbolizer: &Symbolizer, table: &TableArgs) -> Self {
        let groups = analysis.groups().iter().map(|(name, statistics)| {
            let mut row = Row::new(statistics);
            match *name {
                GroupName::Function(function) => {
                    row.function = Some(symbolizer.name(function).into())
                }
                GroupName::Call(caller, function) => {
                    row.function = Some(symbolizer.name(function).into());
                    row.caller = Some(label_name(caller, analysis, symbolizer));
                }
                GroupName::Comm(comm) => row.comm = Some(analysis.comm(comm)),
                GroupName::Others => row.function = Some("[other]".into()),
            }
            row
        });
        let rows: Vec<Row> = groups.collect();
        let is_timed = |row: &Row| row.max_ns != 0 || row.open != Some(0);
        let has_times = rows.iter().any(is_timed);
        Self::sorted(rows, table, has_times)
    }

    /// Makes the table of functions that the module has counted.
    pub fn of_counts(counted: Vec<CountedFunction>, table: &TableArgs) -> Self {
        let rows = counted.into_iter().map(Row::of_counts);
        Self::sorted(rows.collect(), table, true)
    }

    fn sorted(mut rows: Vec<Row>, table: &TableArgs, has_times: bool) -> Self {
        let sort = match (table.sort, has_times) {
            (Some(sort), _) => sort,
            (None, true) => Sort::SelfTime,
            (None, false) => Sort::Calls,
        };
        // Ties are broken by time, calls and open calls, and then by name: the same input gives the
        // same lines.
        rows.sort_by_cached_key(|row| {
            let keys = [
                row.key(sort),
                row.total_ns,
                row.calls,
                row.open_longest_ns.unwrap_or(0),
            ];
            (keys.map(std::cmp::Reverse), row.name())
        });
        let limit = table.limit.unwrap_or(usize::MAX);
        let left_out = rows.len().saturating_sub(limit);
        rows.truncate(limit);
        Self {
            by: table.by,
            rows,
            left_out,
            has_times,
        }
    }

    /// Returns the lines.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Prints a table.
    ///
    /// # Errors
    ///
    /// Errors of writing.
    pub fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let title = match self.by {
            ReportBy::Function => "FUNCTION",
            ReportBy::Caller => "FUNCTION <- CALLER",
            ReportBy::Comm => "COMM",
        };
        if !self.has_times {
            writeln!(out, "{:>9}  {title}", "CALLS")?;
            for row in &self.rows {
                writeln!(out, "{:>9}  {}", Count(row.calls), row.name())?;
            }
        } else {
            write!(
                out,
                "{:>10} {:>10} {:>9} {:>10} {:>10} {:>10} {:>10}",
                "SELF", "TOTAL", "CALLS", "AVG", "P50", "P99", "MAX"
            )?;
            if self.rows.iter().any(|row| row.asleep_ns.is_some()) {
                write!(
                    out,
                    " {:>10} {:>10}  {:<15}",
                    "ASLEEP", "QUEUED", "WOKEN BY"
                )?;
            }
            writeln!(out, "  {title}")?;
            for row in &self.rows {
                row.write_times(out)?;
            }
        }
        if self.left_out != 0 {
            writeln!(out, "... and {} more", self.left_out)?;
        }
        Ok(())
    }

    /// Prints one object a line.
    ///
    /// # Errors
    ///
    /// Errors of writing.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        for row in &self.rows {
            serde_json::to_writer(&mut *out, row)?;
            writeln!(out)?;
        }
        Ok(())
    }
}

impl Row {
    fn write_times(&self, out: &mut dyn Write) -> io::Result<()> {
        // Nothing is known where no call has returned, or not of a single one.
        let known = |ns, is_known| match is_known {
            true => Time(ns).to_string(),
            false => "-".to_owned(),
        };
        let has_returned = self.calls != 0 && (self.p50_ns.is_some() || self.max_ns != 0);
        let of_all = |ns| known(ns, has_returned);
        let of_most = |ns: Option<u64>| known(ns.unwrap_or(0), has_returned && ns.is_some());
        write!(
            out,
            "{:>10} {:>10} {:>9} {:>10} {:>10} {:>10} {:>10}",
            known(self.self_ns, has_returned && self.calls > self.self_unknown),
            of_all(self.total_ns),
            Count(self.calls),
            of_all(self.avg_ns),
            of_most(self.p50_ns),
            of_most(self.p99_ns),
            of_all(self.max_ns),
        )?;
        for ns in [self.asleep_ns, self.queued_ns].into_iter().flatten() {
            write!(out, " {:>10}", of_all(ns))?;
        }
        if self.asleep_ns.is_some() {
            write!(out, "  {:<15}", self.woken_by.as_deref().unwrap_or("-"))?;
        }
        writeln!(out, "  {}", self.name())
    }
}
