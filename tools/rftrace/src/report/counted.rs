// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Report, the summary of counts that the module made: what is missing in the table.

use std::io::{self, Write};

use serde::Serialize;

use crate::profile::{CountedFunction, Uncounted};
use crate::report::summary::counted;
use crate::report::Rows;

/// Remarks on the counts as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CountedSummary {
    /// Number of calls that were counted.
    pub calls: u64,
    /// Number of functions that they were of.
    pub functions: usize,
    /// Time of counting.
    pub time_ns: u64,
    /// Number of calls that were not counted, for one of the next three reasons.
    pub lost: u64,
    /// Number of calls on CPUs that had no memory for a table.
    pub without_memory: u64,
    /// Number of calls for which the shadow stack of a task had too little room.
    pub missed_returns: u64,
    /// Number of calls for which it had none, at most.
    pub too_deep: u64,
    /// Number of calls that are in no percentile, as all histograms were taken.
    pub without_histogram: u64,
    /// Number of calls whose contexts there was no room for.
    pub without_room: u64,
    /// Number of sleeps of which it is not told what ended them.
    pub lost_wakers: u64,
}

impl CountedSummary {
    /// Returns the summary of counts that took so long.
    pub fn new(functions: &[CountedFunction], uncounted: &Uncounted, time_ns: u64) -> Self {
        let calls = functions.iter().map(|function| function.calls);
        Self {
            calls: calls.fold(0, u64::saturating_add),
            functions: functions
                .iter()
                .filter(|function| function.calls != 0)
                .count(),
            time_ns,
            lost: uncounted.lost(),
            without_memory: uncounted.without_memory,
            missed_returns: uncounted.missed,
            too_deep: uncounted.too_deep,
            without_histogram: uncounted.without_histogram,
            without_room: uncounted.without_context,
            lost_wakers: uncounted.lost_wakers,
        }
    }

    /// Returns a line on the result.
    pub fn line(&self) -> String {
        let Self {
            functions, lost, ..
        } = self;
        let parts = [
            ("without memory", self.without_memory),
            ("missed returns", self.missed_returns),
            ("too deep", self.too_deep),
        ];
        let parts = parts.iter().filter(|(_, count)| *count != 0);
        let parts: Vec<String> = parts
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        let lost = match lost {
            0 => "none lost".into(),
            _ => format!("{lost} lost ({})", parts.join(", ")),
        };
        format!(
            "{} of {}, {lost}; counted in the kernel, in {:.3} s",
            counted(self.calls, "call"),
            counted(*functions as u64, "function"),
            self.time_ns as f64 / 1e9
        )
    }

    /// Returns the remarks that are not trivial.
    pub fn remarks(&self) -> Vec<String> {
        let remarks = [
            (
                self.without_memory,
                "not counted: a CPU had no memory for its table",
            ),
            (
                self.missed_returns,
                "not counted: no room for them on the shadow stacks of their tasks",
            ),
            (
                self.too_deep,
                "not counted, at most: deeper than the kernel follows a task",
            ),
            (
                self.without_histogram,
                "in no percentile: all histograms were taken (the module's parameter profile_histograms)",
            ),
            (
                self.without_room,
                "in [other]: all contexts were taken (the module's parameter profile_contexts)",
            ),
        ];
        let remarks = remarks.into_iter().filter(|(count, _)| *count != 0);
        let calls = remarks.map(|(count, text)| format!("{} {text}", counted(count, "call")));
        let sleeps = (self.lost_wakers != 0).then(|| {
            let sleeps = counted(self.lost_wakers, "sleep");
            format!("{sleeps} of which it is not told what woke the task: too many sleep, or wake, at a time")
        });
        calls.chain(sleeps).collect()
    }

    /// Prints a table and its summary.
    ///
    /// # Errors
    ///
    /// Errors of writing.
    pub fn write_with(&self, rows: &Rows, is_json: bool, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Line<'a> {
            summary: &'a CountedSummary,
        }
        if is_json {
            rows.write_json(out)?;
            serde_json::to_writer(&mut *out, &Line { summary: self })?;
            return writeln!(out);
        }
        rows.write_text(out)?;
        let remarks = self.remarks();
        if !remarks.is_empty() {
            writeln!(out)?;
        }
        remarks
            .iter()
            .try_for_each(|remark| writeln!(out, "{remark}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::report::{Sort, TableArgs};
    use crate::profile::CountedWaits;

    fn function(name: &str, calls: u64, us: u64) -> CountedFunction {
        let ns = us * 1000;
        CountedFunction {
            name: name.into(),
            calls,
            total_ns: ns * calls,
            self_ns: ns,
            avg_ns: ns,
            percentiles_ns: Some([ns, ns, ns + 1]),
            max_ns: ns + 1,
            waits: None,
            woken_by: None,
        }
    }

    /// One that found no histogram, and one that has not returned yet.
    fn functions() -> Vec<CountedFunction> {
        let late = CountedFunction {
            percentiles_ns: None,
            ..function("late", 1, 9)
        };
        let open = CountedFunction {
            percentiles_ns: None,
            max_ns: 0,
            ..function("do_nanosleep", 1, 0)
        };
        vec![open, function("vfs_read", 3, 7), late]
    }

    const LOST: Uncounted = Uncounted {
        without_memory: 0,
        missed: 2,
        too_deep: 1,
        without_histogram: 4,
        without_context: 5,
        lost_wakers: 6,
    };

    fn printed(functions: Vec<CountedFunction>, table: &TableArgs, is_json: bool) -> String {
        let summary = CountedSummary::new(&functions, &LOST, 1_500_000_000);
        let mut out = Vec::new();
        let rows = Rows::of_counts(functions, table);
        summary.write_with(&rows, is_json, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_table_of_counts() {
        assert_eq!(
            printed(functions(), &TableArgs::default(), false),
            "      SELF      TOTAL     CALLS        AVG        P50        P99        MAX  FUNCTION
  9.000 us   9.000 us         1   9.000 us          -          -   9.001 us  late
  7.000 us  21.000 us         3   7.000 us   7.000 us   7.001 us   7.001 us  vfs_read
         -          -         1          -          -          -          -  do_nanosleep

2 calls not counted: no room for them on the shadow stacks of their tasks
1 call not counted, at most: deeper than the kernel follows a task
4 calls in no percentile: all histograms were taken (the module's parameter profile_histograms)
5 calls in [other]: all contexts were taken (the module's parameter profile_contexts)
6 sleeps of which it is not told what woke the task: too many sleep, or wake, at a time
"
        );
    }

    #[test]
    fn counts_with_waits() {
        let mut functions = functions();
        for (index, function) in functions.iter_mut().enumerate() {
            function.waits = Some(CountedWaits {
                asleep_ns: index as u64 * 1000,
                queued_ns: 10,
            });
            function.woken_by = (index == 1).then(|| "make".to_owned());
        }
        let table = TableArgs {
            sort: Some(Sort::Asleep),
            limit: Some(2),
            ..TableArgs::default()
        };
        let text = printed(functions, &table, false);
        let lines: Vec<&str> = text.lines().take(4).collect();
        assert_eq!(
            lines,
            [
                "      SELF      TOTAL     CALLS        AVG        P50        P99        MAX     ASLEEP     QUEUED  WOKEN BY         FUNCTION",
                "  9.000 us   9.000 us         1   9.000 us          -          -   9.001 us   2.000 us      10 ns  -                late",
                "  7.000 us  21.000 us         3   7.000 us   7.000 us   7.001 us   7.001 us   1.000 us      10 ns  make             vfs_read",
                "... and 1 more",
            ]
        );
    }

    #[test]
    fn counts_for_machines() {
        let mut functions = functions();
        functions[1].waits = Some(CountedWaits {
            asleep_ns: 5,
            queued_ns: 6,
        });
        assert_eq!(
            printed(functions, &TableArgs::default(), true),
            concat!(
                r#"{"function":"late","calls":1,"total_ns":9000,"self_ns":9000,"self_unknown":0,"avg_ns":9000,"max_ns":9001}"#,
                "\n",
                r#"{"function":"vfs_read","calls":3,"total_ns":21000,"self_ns":7000,"self_unknown":0,"avg_ns":7000,"#,
                r#""p50_ns":7000,"p90_ns":7000,"p99_ns":7001,"max_ns":7001,"asleep_ns":5,"queued_ns":6}"#,
                "\n",
                r#"{"function":"do_nanosleep","calls":1,"total_ns":0,"self_ns":0,"self_unknown":0,"avg_ns":0,"max_ns":0}"#,
                "\n",
                r#"{"summary":{"calls":5,"functions":3,"time_ns":1500000000,"lost":3,"without_memory":0,"#,
                r#""missed_returns":2,"too_deep":1,"without_histogram":4,"without_room":5,"lost_wakers":6}}"#,
                "\n",
            )
        );
    }

    #[test]
    fn a_line_tells_of_losses() {
        let line = |uncounted| CountedSummary::new(&functions(), &uncounted, 1_500_000_000).line();
        assert_eq!(
            line(LOST),
            "5 calls of 3 functions, 3 lost (2 missed returns, 1 too deep); counted in the kernel, in 1.500 s"
        );
        let none = line(Uncounted::default());
        assert_eq!(
            none,
            "5 calls of 3 functions, none lost; counted in the kernel, in 1.500 s"
        );
    }
}
