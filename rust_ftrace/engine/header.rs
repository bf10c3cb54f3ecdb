// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The lines that explain the columns of entries (kernel/trace/trace.c).

use core::fmt::{Result, Write};

use super::options::{Options, TraceOption};

/// The totals of the buffer in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferTotals {
    /// Events that are still there.
    pub present: u64,
    /// Events written since the buffer was cleared.
    pub written: u64,
    /// CPUs that are online.
    pub cpus: u32,
}

/// The machine, for the header of the latency format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyHeader<'a> {
    /// The kernel's release.
    pub release: &'a str,
    /// The kernel's preemption model.
    pub preemption: &'a str,
}

/// Writes the lines that begin with `#`.
pub fn write_header(
    out: &mut dyn Write,
    tracer: &str,
    options: Options,
    totals: &BufferTotals,
    with_depth: bool,
    machine: LatencyHeader<'_>,
) -> Result {
    write!(out, "# tracer: {tracer}\n#\n")?;
    if !options.has(TraceOption::ContextInfo) {
        return Ok(());
    }
    let function = if with_depth {
        "DEPTH FUNCTION"
    } else {
        "FUNCTION"
    };
    let rule = if with_depth { "  |   |" } else { "  |" };
    if options.has(TraceOption::LatencyFormat) {
        if totals.present == 0 {
            return Ok(());
        }
        write_latency_header(out, tracer, totals, machine)?;
        if !options.has(TraceOption::Verbose) {
            out.write_str(LATENCY_COLUMNS)?;
        }
        return Ok(());
    }
    if options.has(TraceOption::Verbose) {
        return Ok(());
    }
    writeln!(
        out,
        "# entries-in-buffer/entries-written: {}/{}   #P:{}\n#",
        totals.present, totals.written, totals.cpus
    )?;
    let with_tgid = options.has(TraceOption::RecordTgid);
    let (cgroup, cgroup_bar) = match options.has(TraceOption::RecordCgroup) {
        true => ("   CGROUP:PID    ", "        | |      "),
        false => ("", ""),
    };
    if !options.has(TraceOption::IrqInfo) {
        let (tgid, bar) = match with_tgid {
            true => ("   TGID   ", "     |    "),
            false => ("", ""),
        };
        writeln!(
            out,
            "#           TASK-PID    {tgid}{cgroup} CPU#     TIMESTAMP  {function}"
        )?;
        return writeln!(
            out,
            "#              | |      {bar}{cgroup_bar}   |         |       {rule}"
        );
    }
    let (space, tgid, bar) = match with_tgid {
        true => ("            ", "     TGID   ", "       |    "),
        false => ("  ", "  ", "  "),
    };
    for line in [
        "  _-----=> irqs-off/BH-disabled",
        " / _----=> need-resched",
        "| / _---=> hardirq/softirq",
        "|| / _--=> preempt-depth",
        "||| / _-=> migrate-disable",
        "|||| /     delay",
    ] {
        let width = cgroup.len();
        writeln!(
            out,
            "#                            {space}{:width$}{line}",
            ""
        )?;
    }
    writeln!(
        out,
        "#           TASK-PID  {tgid}{cgroup} CPU#  |||||  TIMESTAMP  {function}"
    )?;
    writeln!(
        out,
        "#              | |    {bar}{cgroup_bar}   |   |||||     |       {rule}"
    )
}

/// The columns of the latency format, as in `print_lat_help_header()`.
const LATENCY_COLUMNS: &str = concat!(
    "#                    _------=> CPU#            \n",
    "#                   / _-----=> irqs-off/BH-disabled\n",
    "#                  | / _----=> need-resched    \n",
    "#                  || / _---=> hardirq/softirq \n",
    "#                  ||| / _--=> preempt-depth   \n",
    "#                  |||| / _-=> migrate-disable \n",
    "#                  ||||| /     delay           \n",
    "#  cmd     pid     |||||| time  |   caller     \n",
    "#     \\   /        ||||||  \\    |    /       \n",
);

/// Writes the header of `print_trace_header()`, for a buffer without a measured latency.
pub fn write_latency_header(
    out: &mut dyn Write,
    tracer: &str,
    totals: &BufferTotals,
    machine: LatencyHeader<'_>,
) -> Result {
    let release = machine.release;
    let BufferTotals {
        present,
        written,
        cpus,
    } = totals;
    let model = machine.preemption;
    write!(
        out,
        "# {tracer} latency trace v1.1.5 on {release}\n\
         # --------------------------------------------------------------------\n\
         # latency: 0 us, #{present}/{written}, CPU#0 | (M:{model} VP:0, KP:0, SP:0 HP:0 #P:{cpus})\n\
         #    -----------------\n\
         #    | task: -0 (uid:0 nice:0 policy:0 rt_prio:0)\n\
         #    -----------------\n\
         #\n"
    )
}
