// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Profile, the lines of `trace_stat/`.
//!
//! Those of a CPU are as `function_stat_show()` of kernel/trace/ftrace.c writes them, those of
//! `function_latency` have the columns of `perf ftrace latency` (`display_histogram()` of
//! tools/perf/builtin-ftrace.c).

use core::fmt::{Result as FmtResult, Write};

use super::histogram::{lower_end, upper_end};
use super::task_names::WokenBy;
use super::totals::{divide, FunctionTotals};
use crate::engine::duration;
use crate::engine::line::{append, Line, LineOutput};

/// The lines above the columns.
pub const HEADER: &str = concat!(
    "  Function                               Hit    Time            Avg             s^2\n",
    "  --------                               ---    ----            ---             ---\n",
);

/// Columns of a function's name; the rest is cut off.
const NAME_WIDTH: usize = 30;

/// Writes the line of a function; `to_ns` says how many ns some ticks are.
pub fn write_row(
    out: &mut impl LineOutput,
    name: &[u8],
    totals: &FunctionTotals,
    to_ns: impl Fn(u64) -> u64,
) -> FmtResult {
    let square_to_ns = |square: u128| match u64::try_from(square) {
        Ok(square) => u128::from(to_ns(to_ns(square))),
        // Such a call takes a second and more: the lowest bits do not matter.
        Err(_) => u128::from(to_ns(to_ns((square >> 32).try_into().unwrap_or(u64::MAX)))) << 32,
    };
    // In us^2, with three decimals.
    let variance = divide(square_to_ns(totals.variance()), 1000);
    let name = name.get(..NAME_WIDTH).unwrap_or(name);
    let mut line = Line::new(out.room()?);
    line.blanks(2);
    line.push_all(name);
    line.blanks(NAME_WIDTH.saturating_sub(name.len()).saturating_add(2));
    line.long_number(totals.hits, 10, b' ');
    for ns in [
        to_ns(totals.time()),
        to_ns(totals.average()),
        variance.try_into().unwrap_or(u64::MAX),
    ] {
        line.blanks(4);
        duration::write(&mut line, ns);
    }
    line.push(b'\n');
    let length = line.length();
    out.advance(length);
    Ok(())
}

/// Writes a function's address in place of a name that is not known any more.
pub fn write_address(out: &mut dyn Write, ip: usize) -> FmtResult {
    write!(out, "{ip:#x}")
}

/// The lines above the columns of `trace_stat/function`.
///
/// The second word of a line is no number, here and in `function_latency`: programs that add up the
/// second column of `trace_stat/function*` (funccount of perf-tools) take none of it then.
pub const SUMMARY_HEADER: &str = concat!(
    "  Function                       |      Calls      Total us       Self us      Avg us",
    "      p50 us      p90 us      p99 us      Max us\n",
    "  --------                       |      -----      --------       -------      ------",
    "      ------      ------      ------      ------\n",
);

/// The lines above the columns, with those of waits.
pub const WAITS_HEADER: &str = concat!(
    "  Function                       |      Calls      Total us       Self us      Avg us",
    "      p50 us      p90 us      p99 us      Max us     Asleep us     Queued us  Woken by\n",
    "  --------                       |      -----      --------       -------      ------",
    "      ------      ------      ------      ------     ---------     ---------  --------\n",
);

/// The percentiles that are shown.
pub const PERCENTILES: [u64; 3] = [50, 90, 99];

/// The counts of a function on all CPUs, times in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Times that the function was entered.
    pub calls: u64,
    /// Time of all its calls.
    pub total: u64,
    /// The part of it that was not in calls within them.
    pub own: u64,
    /// The time of a call on average.
    pub average: u64,
    /// [`PERCENTILES`] of the times of calls, if they are known.
    pub percentiles: Option<[u64; 3]>,
    /// The time of the longest call; 0 if none has returned.
    pub max: u64,
    /// The times for which the task was asleep in its calls, and in run queues, and what ended the
    /// longest time for which it did not run, if that is counted.
    pub waits: Option<([u64; 2], WokenBy)>,
}

/// Appends microseconds with three decimals, right-aligned in at least `width` bytes, of which the
/// first is a blank: the longest of calls do not run into the column before.
fn micros(line: &mut Line<'_>, ns: u64, width: u32) {
    line.push(b' ');
    line.number(ns / 1000, width.saturating_sub(5), b' ');
    line.push(b'.');
    line.number(ns % 1000, 3, b'0');
}

/// Writes a line of `trace_stat/function`.
pub fn write_summary(out: &mut impl LineOutput, name: &[u8], summary: &Summary) -> FmtResult {
    let mut line = Line::new(out.room()?);
    line.blanks(2);
    append!(out, line, name);
    line.blanks(NAME_WIDTH.saturating_sub(name.len()));
    let length = line.length();
    out.advance(length);
    // There is room for all columns, however long the name is.
    let mut line = Line::new(out.room()?);
    line.push_all(b" | ");
    line.long_number(summary.calls, 10, b' ');
    micros(&mut line, summary.total, 14);
    micros(&mut line, summary.own, 14);
    micros(&mut line, summary.average, 12);
    match summary.percentiles {
        Some(percentiles) => {
            for ns in percentiles {
                micros(&mut line, ns, 12);
            }
        }
        None => {
            for _ in PERCENTILES {
                line.blanks(11);
                line.push(b'-');
            }
        }
    }
    micros(&mut line, summary.max, 12);
    if let Some((times, waker)) = summary.waits {
        for ns in times {
            micros(&mut line, ns, 14);
        }
        line.blanks(2);
        line.push_all(waker.written(&mut [0; 16]));
    }
    line.push(b'\n');
    let length = line.length();
    out.advance(length);
    Ok(())
}

/// Bytes of the longest bar.
const BAR: usize = 46;

/// Writes the lines above a function's histogram.
pub fn write_histogram_header(out: &mut dyn Write, name: &[u8]) -> FmtResult {
    out.write_str("# function: ")?;
    for chunk in name.utf8_chunks() {
        out.write_str(chunk.valid())?;
    }
    let (duration, graph) = ("      DURATION        ", "GRAPH");
    writeln!(out, "\n# {duration} | {:>10} | {graph:<BAR$} |", "COUNT")
}

/// Appends a time in a unit of so many ns, with three decimals.
fn in_unit(line: &mut Line<'_>, ns: u64, unit: u64) {
    line.number(ns.checked_div(unit).unwrap_or(0), 4, b' ');
    line.push(b'.');
    let rest = ns.checked_rem(unit).unwrap_or(0);
    let thousandth = unit / 1000;
    line.number(rest.checked_div(thousandth).unwrap_or(0), 3, b'0');
}

/// Writes the line of a bucket with `count` of `total` values; `to_ns` says how many ns some ticks
/// are.
pub fn write_bucket(
    out: &mut impl LineOutput,
    bucket: usize,
    count: u64,
    total: u64,
    to_ns: impl Fn(u64) -> u64,
) -> FmtResult {
    let (from, to) = (
        to_ns(lower_end(bucket)),
        to_ns(upper_end(bucket).saturating_add(1)),
    );
    let (unit, name) = match to {
        0..1_000_000 => (1000, b" us"),
        1_000_000..1_000_000_000 => (1_000_000, b" ms"),
        _ => (1_000_000_000, b" s "),
    };
    let bar = count.saturating_mul(BAR as u64).checked_div(total);
    let bar = usize::try_from(bar.unwrap_or(0)).map_or(BAR, |bar| bar.min(BAR));
    let mut line = Line::new(out.room()?);
    line.blanks(2);
    in_unit(&mut line, from, unit);
    line.push_all(b" - ");
    in_unit(&mut line, to, unit);
    line.push_all(name);
    line.push_all(b" | ");
    line.long_number(count, 10, b' ');
    line.push_all(b" | ");
    for _ in 0..bar {
        line.push(b'#');
    }
    line.blanks(BAR.saturating_sub(bar));
    line.push_all(b" |\n");
    let length = line.length();
    out.advance(length);
    Ok(())
}

/// Writes the lines below a function's histogram, whose shortest call took `min` ns or a little
/// more.
pub fn write_statistics(out: &mut impl LineOutput, summary: &Summary, min: u64) -> FmtResult {
    let [p50, p90, p99] = summary.percentiles.unwrap_or_default();
    out.write_str("\n# statistics  (in usec)\n")?;
    for (name, ns) in [
        (b"  total time: ", summary.total),
        (b"    avg time: ", summary.average),
        (b"    max time: ", summary.max),
        (b"    min time: ", min),
        (b"    p50 time: ", p50),
        (b"    p90 time: ", p90),
        (b"    p99 time: ", p99),
    ] {
        let mut line = Line::new(out.room()?);
        line.push_all(name);
        micros(&mut line, ns, 20);
        line.push(b'\n');
        let length = line.length();
        out.advance(length);
    }
    writeln!(out, "  call count: {:>20}\n", summary.calls)
}
