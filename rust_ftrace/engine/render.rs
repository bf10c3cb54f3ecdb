// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Events as text, in the format of tracefs's `trace` (kernel/trace/trace.c, trace_output.c).

use core::fmt::{Result, Write};

use super::clock::TimeUnit;
use super::context::{
    ContextWord, BH_OFF, HARDIRQ, IRQS_ON, NEED_RESCHED, NEED_RESCHED_LAZY, NMI, PREEMPT_RESCHED,
    SOFTIRQ,
};
use super::decode::Event;
use super::line::{append, Line, LineOutput};
use super::slot::Task;

/// Gives addresses their names.
pub trait SymbolNames {
    /// The name of the function that `address` lies in, without offset, as `name` or
    /// `name [module]`; the address in hex if none is known.
    fn name(&mut self, address: u64) -> &[u8];

    /// The name with the offset, and the function's size, as `name+0x12/0x34` or
    /// `name+0x12/0x34 [module]`.
    fn place(&mut self, address: u64) -> &[u8];
}

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

/// Writes the lines that begin with `#`.
pub fn write_header(
    out: &mut dyn Write,
    tracer: &str,
    totals: &BufferTotals,
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
pub fn write_lost(out: &mut dyn Write, cpu: u32, lost: u64) -> Result {
    writeln!(out, "CPU:{cpu} [LOST {lost} EVENTS]")
}

/// Writes that `task` was already in `function` when its events begin.
pub fn write_rootless(out: &mut dyn LineOutput, task: &Task, function: &[u8]) -> Result {
    let mut name = [0; 16];
    let pid = task.pid();
    out.write_str("##### ")?;
    match pid {
        0 => out.write_str("<idle>")?,
        _ => out.write_bytes(task.name(&mut name))?,
    }
    write!(out, "-{pid}: the entry of ")?;
    out.write_bytes(function)?;
    out.write_str(" is not in this trace ####\n")
}

/// Writes that the events of `cpu` begin here, later than those of other CPUs.
pub fn write_cpu_started(out: &mut dyn Write, cpu: u32) -> Result {
    writeln!(out, "##### CPU {cpu} buffer started ####")
}

/// Writes a time in its unit: seconds and microseconds, or a number.
pub fn write_time(out: &mut dyn LineOutput, time: (u64, TimeUnit)) -> Result {
    let mut line = Line::new(out.room()?);
    line.time(time, 1);
    let length = line.length();
    out.advance(length);
    Ok(())
}

/// Appends the columns before the function.
#[inline(always)]
pub(super) fn begin(line: &mut Line<'_>, cpu: u32, event: &Event, time: (u64, TimeUnit)) {
    line.task_name(&event.task);
    line.pid(event.task.pid());
    line.put(u64::from_le_bytes(*b" [      "), 2);
    line.number(cpu.into(), 3, b'0');
    let [a, b, c, d, e] = state(event.context);
    line.put(u64::from_le_bytes([b']', b' ', a, b, c, d, e, b' ']), 8);
    line.time(time, 12);
    line.put(u64::from_le_bytes(*b":       "), 2);
}

/// The parts of an entry's line that not all lines have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryColumns<'a> {
    /// The depth, in a column of its own.
    pub depth: Option<usize>,
    /// The levels that the function's name is indented by.
    pub indent: usize,
    /// The arguments, written behind the name.
    pub args: &'a [u8],
}

/// Writes one function entry, with `time` in its unit.
#[inline(always)]
pub fn write_entry<O: LineOutput>(
    out: &mut O,
    symbols: &mut impl SymbolNames,
    cpu: u32,
    event: &Event,
    time: (u64, TimeUnit),
    shown: EntryColumns<'_>,
) -> Result {
    let EntryColumns {
        depth,
        indent,
        args,
    } = shown;
    let mut line = Line::new(out.room()?);
    begin(&mut line, cpu, event, time);
    if let Some(depth) = depth {
        line.number(depth as u64, 5, b' ');
        line.push(b' ');
    }
    for _ in 0..indent {
        append!(out, line, b"  ");
    }
    append!(out, line, symbols.name(event.ip));
    if !args.is_empty() {
        append!(out, line, args);
    }
    line.put(u64::from_le_bytes(*b" <-     "), 3);
    append!(out, line, symbols.name(event.parent_ip));
    line.push(b'\n');
    let length = line.length();
    out.advance(length);
    Ok(())
}

/// The five columns of interrupt and preemption state.
pub(super) fn state(context: ContextWord) -> [u8; 5] {
    let irqs_off = match (context.has(IRQS_ON), context.has(BH_OFF)) {
        (false, true) => b'D',
        (false, false) => b'd',
        (true, true) => b'b',
        (true, false) => b'.',
    };
    let need_resched = match (
        context.has(NEED_RESCHED),
        context.has(NEED_RESCHED_LAZY),
        context.has(PREEMPT_RESCHED),
    ) {
        (true, true, true) => b'B',
        (true, false, true) => b'N',
        (false, true, true) => b'L',
        (true, true, false) => b'b',
        (true, false, false) => b'n',
        (false, false, true) => b'p',
        (false, true, false) => b'l',
        (false, false, false) => b'.',
    };
    let interrupt = match (context.has(NMI), context.has(HARDIRQ), context.has(SOFTIRQ)) {
        (true, true, _) => b'Z',
        (true, false, _) => b'z',
        (false, true, true) => b'H',
        (false, true, false) => b'h',
        (false, false, true) => b's',
        (false, false, false) => b'.',
    };
    let digit = |depth: u32| match depth {
        0 => b'.',
        1..=9 => b'0' + depth as u8,
        10..=15 => b'a' + (depth as u8 - 10),
        _ => b'f',
    };
    [
        irqs_off,
        need_resched,
        interrupt,
        digit(context.preempt_depth()),
        digit(context.migrate_depth()),
    ]
}
