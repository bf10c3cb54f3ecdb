// SPDX-License-Identifier: GPL-2.0

//! Events as text, in the format of tracefs's `trace` (kernel/trace/trace.c, trace_output.c).

use core::fmt::{Result, Write};

use super::context::{
    Context, BH_OFF, HARDIRQ, IRQS_ON, NEED_RESCHED, NEED_RESCHED_LAZY, NMI, PREEMPT_RESCHED,
    SOFTIRQ,
};
use super::reader::Event;

/// Gives addresses their names.
pub(crate) trait Symbols {
    /// Writes the name of the function that `address` lies in, without offset, as `name` or
    /// `name [module]`; the address in hex if none is known.
    fn write_symbol(&mut self, out: &mut dyn Write, address: u64) -> Result;
}

/// The unit that a trace clock counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeUnit {
    /// Shown as seconds and microseconds.
    Nanoseconds,
    /// Shown as a plain number.
    Counts,
}

/// What the header says of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Events that are still there.
    pub(crate) present: u64,
    /// Events written since the buffer was cleared.
    pub(crate) written: u64,
    /// CPUs that are online.
    pub(crate) cpus: u32,
}

/// Writes the lines that begin with `#`.
pub(crate) fn write_header(
    out: &mut dyn Write,
    tracer: &str,
    totals: &Totals,
    with_depth: bool,
) -> Result {
    write!(out, "# tracer: {tracer}\n#\n")?;
    writeln!(
        out,
        "# entries-in-buffer/entries-written: {}/{}   #P:{}\n#",
        totals.present, totals.written, totals.cpus
    )?;
    out.write_str(concat!(
        "#                                _-----=> irqs-off/BH-disabled\n",
        "#                               / _----=> need-resched\n",
        "#                              | / _---=> hardirq/softirq\n",
        "#                              || / _--=> preempt-depth\n",
        "#                              ||| / _-=> migrate-disable\n",
        "#                              |||| /     delay\n",
    ))?;
    out.write_str(if with_depth {
        concat!(
            "#           TASK-PID     CPU#  |||||  TIMESTAMP  DEPTH FUNCTION\n",
            "#              | |         |   |||||     |         |   |\n",
        )
    } else {
        concat!(
            "#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n",
            "#              | |         |   |||||     |         |\n",
        )
    })
}

/// Writes that `lost` events of `cpu` were overwritten before they could be read.
pub(crate) fn write_lost(out: &mut dyn Write, cpu: u32, lost: u64) -> Result {
    writeln!(out, "CPU:{cpu} [LOST {lost} EVENTS]")
}

/// Writes that the events of `cpu` begin here, later than those of others.
pub(crate) fn write_cpu_started(out: &mut dyn Write, cpu: u32) -> Result {
    writeln!(out, "##### CPU {cpu} buffer started ####")
}

/// Writes one function entry; `time` in `unit`, `depth` only if its column is wanted.
pub(crate) fn write_entry(
    out: &mut dyn Write,
    symbols: &mut dyn Symbols,
    cpu: u32,
    event: &Event,
    time: (u64, TimeUnit),
    depth: Option<usize>,
) -> Result {
    let mut name = [0; 16];
    // (tracefs's word for the idle tasks)
    let name = match event.task.pid() {
        0 => b"<idle>",
        _ => event.task.name(&mut name),
    };
    for _ in name.len()..16 {
        out.write_char(' ')?;
    }
    write_bytes(out, name)?;
    write!(out, "-{:<7} [{cpu:03}] ", event.task.pid())?;
    write_state(out, event.context)?;
    out.write_char(' ')?;
    match time {
        (count, TimeUnit::Counts) => write!(out, "{count:12}")?,
        time => write_time(out, time)?,
    }
    out.write_str(": ")?;
    if let Some(depth) = depth {
        write!(out, "{depth:5} ")?;
    }
    symbols.write_symbol(out, event.ip)?;
    out.write_str(" <-")?;
    symbols.write_symbol(out, event.parent_ip)?;
    out.write_char('\n')
}

/// Writes a time in its unit: seconds and microseconds, or a number.
pub(crate) fn write_time(out: &mut dyn Write, (time, unit): (u64, TimeUnit)) -> Result {
    match unit {
        TimeUnit::Nanoseconds => {
            let micros = time.wrapping_add(500) / 1000;
            write!(out, "{:5}.{:06}", micros / 1_000_000, micros % 1_000_000)
        }
        TimeUnit::Counts => write!(out, "{time}"),
    }
}

/// Writes bytes that are no more than probably text.
fn write_bytes(out: &mut dyn Write, bytes: &[u8]) -> Result {
    for chunk in bytes.utf8_chunks() {
        out.write_str(chunk.valid())?;
        for _ in chunk.invalid() {
            out.write_char('?')?;
        }
    }
    Ok(())
}

/// Writes the five columns of interrupt and preemption state.
fn write_state(out: &mut dyn Write, context: Context) -> Result {
    let irqs_off = match (context.has(IRQS_ON), context.has(BH_OFF)) {
        (false, true) => 'D',
        (false, false) => 'd',
        (true, true) => 'b',
        (true, false) => '.',
    };
    let need_resched = match (
        context.has(NEED_RESCHED),
        context.has(NEED_RESCHED_LAZY),
        context.has(PREEMPT_RESCHED),
    ) {
        (true, true, true) => 'B',
        (true, false, true) => 'N',
        (false, true, true) => 'L',
        (true, true, false) => 'b',
        (true, false, false) => 'n',
        (false, false, true) => 'p',
        (false, true, false) => 'l',
        (false, false, false) => '.',
    };
    let interrupt = match (context.has(NMI), context.has(HARDIRQ), context.has(SOFTIRQ)) {
        (true, true, _) => 'Z',
        (true, false, _) => 'z',
        (false, true, true) => 'H',
        (false, true, false) => 'h',
        (false, false, true) => 's',
        (false, false, false) => '.',
    };
    let digit = |depth: u32| match depth {
        0 => '.',
        depth => char::from_digit(depth, 16).unwrap_or('f'),
    };
    for column in [
        irqs_off,
        need_resched,
        interrupt,
        digit(context.preempt_depth()),
        digit(context.migrate_depth()),
    ] {
        out.write_char(column)?;
    }
    Ok(())
}
