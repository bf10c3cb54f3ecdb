// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Lines of calls, the header: the lines that explain the columns
//! (kernel/trace/trace_functions_graph.c).

use core::fmt::{Result, Write};

use super::header::{write_latency_header, BufferTotals, LatencyHeader};
use super::options::{Options, TraceOption};

/// Writes the lines that begin with `#`, as `__print_graph_headers_flags()` does.
pub fn write_header(
    out: &mut dyn Write,
    tracer: &str,
    options: Options,
    totals: &BufferTotals,
    machine: LatencyHeader<'_>,
) -> Result {
    write!(out, "# tracer: {tracer}\n#\n")?;
    let is_latency = options.has(TraceOption::LatencyFormat);
    if !options.has(TraceOption::ContextInfo) || (is_latency && totals.present == 0) {
        return Ok(());
    }
    if is_latency {
        write_latency_header(out, tracer, totals, machine)?;
        // The header of the latency format is that of `print_lat_header()`.
        let size = [
            (TraceOption::GraphAbstime, 16),
            (TraceOption::GraphCpu, 4),
            (TraceOption::GraphProc, 17),
            (TraceOption::RecordCgroup, 19),
        ];
        let shown = size.iter().filter(|(option, _)| options.has(*option));
        let size = shown.fold(0, |sum, (_, size)| sum + size);
        for line in [
            "  _-----=> irqs-off        ",
            " / _----=> need-resched    ",
            "| / _---=> hardirq/softirq ",
            "|| / _--=> preempt-depth   ",
            "||| /                      ",
        ] {
            writeln!(out, "#{:size$}{line}", "")?;
        }
    }
    let columns = [
        (
            TraceOption::GraphAbstime,
            "     TIME       ",
            "      |         ",
        ),
        (TraceOption::GraphCpu, " CPU", " |  "),
        (
            TraceOption::GraphProc,
            "  TASK/PID       ",
            "   |    |        ",
        ),
        (
            TraceOption::RecordCgroup,
            "  CGROUP:PID       ",
            "       | |         ",
        ),
        (TraceOption::LatencyFormat, "||||   ", "||||   "),
        (
            TraceOption::GraphDuration,
            "  DURATION   ",
            "   |   |      ",
        ),
    ];
    let shown = || columns.iter().filter(|(option, ..)| options.has(*option));
    out.write_char('#')?;
    for (_, name, _) in shown() {
        out.write_str(name)?;
    }
    out.write_str("               FUNCTION CALLS\n#")?;
    for (_, _, rule) in shown() {
        out.write_str(rule)?;
    }
    out.write_str("               |   |   |   |\n")
}
