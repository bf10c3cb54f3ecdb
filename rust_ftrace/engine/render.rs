// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Entries as lines, in the format of tracefs's `trace` (kernel/trace/trace.c, trace_output.c).
//!
//! [`EntryLines`] writes them as options say. Nearly always these are as at the start; then it is
//! [`write_entry`] that writes, without `core::fmt`, which would take longer than all else.

use core::fmt::{Result, Write};

use super::clock::TimeUnit;
use super::context::{
    ContextWord, BH_OFF, HARDIRQ, IRQS_ON, NEED_RESCHED, NEED_RESCHED_LAZY, NMI, PREEMPT_RESCHED,
    SOFTIRQ,
};
use super::decode::{Event, EventKind};
use super::duration;
use super::line::{append, Line, LineOutput};
use super::marker;
use super::options::{Options, TraceOption};
use super::slot::Task;
use super::text::Text;

/// Gives addresses their names.
pub trait SymbolNames {
    /// The name of the function that `address` lies in, without offset, as `name` or
    /// `name [module]`; the address in hex if none is known.
    fn name(&mut self, address: u64) -> &[u8];

    /// The name with the offset, and the function's size, as `name+0x12/0x34` or
    /// `name+0x12/0x34 [module]`.
    fn place(&mut self, address: u64) -> &[u8];
}

/// An entry or a marker, and the numbers and texts that are shown of it.
#[derive(Clone, Copy, Debug)]
pub struct EntryLine<'a> {
    /// The CPU that it was recorded on.
    pub cpu: u32,
    /// The event.
    pub event: &'a Event,
    /// Its time.
    pub time: (u64, TimeUnit),
    /// The parts that not all have.
    pub columns: EntryColumns<'a>,
}

/// Makes lines of entries, and of markers between them, as options say.
pub struct EntryLines {
    style: Style,
    /// Options leave the look as usual.
    is_plain: bool,
    /// The time at which the buffer was last cleared.
    start: u64,
    /// Number of the next line, if they are not plain.
    index: u64,
    /// Place of the mark in the last line that tells how much later the next event came, and the
    /// time of the line.
    delay: Option<(usize, u64)>,
}

impl EntryLines {
    /// Makes the maker of lines as `options` say, of a buffer that was last cleared at the time
    /// `start`.
    pub fn new(options: Options, start: u64) -> Self {
        let style = Style::new(options);
        Self {
            style,
            is_plain: style.is_plain(),
            start,
            index: 0,
            delay: None,
        }
    }

    /// Makes lines as other options say, from the next on.
    pub fn set(&mut self, options: Options, start: u64) {
        self.style = Style::new(options);
        self.is_plain = self.style.is_plain();
        self.start = start;
    }

    /// Returns whether a line is complete only when the next event is known.
    pub fn is_latency(&self) -> bool {
        self.style.is_latency()
    }

    /// Takes the place of the mark in the last line that tells how much later the next event came,
    /// and the time of the line.
    pub fn take_delay(&mut self) -> Option<(usize, u64)> {
        self.delay.take()
    }

    /// Appends the line of an entry, and its stack if it was recorded: behind its `parent_ip` come
    /// `callers`.
    ///
    /// # Errors
    ///
    /// [`Error`](core::fmt::Error) if there is no memory.
    #[inline(always)]
    pub fn write_entry(
        &mut self,
        text: &mut Text,
        symbols: &mut impl SymbolNames,
        shown: &EntryLine<'_>,
        callers: Option<&mut dyn Iterator<Item = u64>>,
    ) -> Result {
        if !self.is_plain {
            return self.write_styled(text, symbols, shown, callers);
        }
        let EntryLine {
            cpu,
            event,
            time,
            columns,
        } = *shown;
        write_entry(text, symbols, cpu, event, time, columns)?;
        if let Some(callers) = callers {
            write_stack(text, symbols, cpu, event, time, callers)?;
        }
        Ok(())
    }

    #[cold]
    fn write_styled(
        &mut self,
        text: &mut Text,
        symbols: &mut dyn SymbolNames,
        shown: &EntryLine<'_>,
        callers: Option<&mut dyn Iterator<Item = u64>>,
    ) -> Result {
        let style = self.style;
        self.write_columns(text, shown)?;
        style.write_entry(text, symbols, shown.event, shown.columns)?;
        if let Some(callers) = callers {
            self.write_columns(text, shown)?;
            style.write_stack(text, symbols, shown.event, callers)?;
        }
        Ok(())
    }

    /// Appends the line of a marker with these bytes.
    ///
    /// # Errors
    ///
    /// [`Error`](core::fmt::Error) if there is no memory.
    pub fn write_marker(
        &mut self,
        text: &mut Text,
        symbols: &mut impl SymbolNames,
        shown: &EntryLine<'_>,
        bytes: &[u8],
    ) -> Result {
        let event = shown.event;
        if self.is_plain {
            let mut line = Line::new(text.room()?);
            begin(&mut line, shown.cpu, event, shown.time);
            let length = line.length();
            text.advance(length);
        } else {
            self.write_columns(text, shown)?;
        }
        if event.what == EventKind::Marker {
            self.style.write_symbol(text, symbols, event.ip)?;
            text.write_str(": ")?;
        }
        marker::write_marker(text, event.what, bytes)?;
        text.write_str("\n")
    }

    /// Appends the columns before the function, of lines that are not plain.
    fn write_columns(&mut self, text: &mut Text, shown: &EntryLine<'_>) -> Result {
        let moment = Moment {
            time: shown.time,
            start: self.start,
            index: self.index,
        };
        self.index = self.index.wrapping_add(1);
        let style = self.style;
        let mark = style.write_columns(text, shown.cpu, shown.event, moment)?;
        let end = text.as_bytes().len();
        self.delay = mark.map(|before| (end.saturating_sub(before), shown.time.0));
        Ok(())
    }
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
    line.cpu(cpu);
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

/// Writes an event's stack: the function, its caller, and `callers`, the return addresses behind
/// that.
pub fn write_stack<O: LineOutput>(
    out: &mut O,
    symbols: &mut impl SymbolNames,
    cpu: u32,
    event: &Event,
    time: (u64, TimeUnit),
    callers: &mut dyn Iterator<Item = u64>,
) -> Result {
    let mut line = Line::new(out.room()?);
    begin(&mut line, cpu, event, time);
    append!(out, line, b"<stack trace>\n");
    let length = line.length();
    out.advance(length);
    for address in [event.ip, event.parent_ip].into_iter().chain(callers) {
        let mut line = Line::new(out.room()?);
        append!(out, line, b" => ");
        append!(out, line, symbols.name(address));
        line.push(b'\n');
        let length = line.length();
        out.advance(length);
    }
    Ok(())
}

/// The options that change the look of lines.
const STYLES: [TraceOption; 9] = [
    TraceOption::PrintParent,
    TraceOption::SymOffset,
    TraceOption::SymAddr,
    TraceOption::Verbose,
    TraceOption::ContextInfo,
    TraceOption::LatencyFormat,
    TraceOption::RecordTgid,
    TraceOption::RecordCgroup,
    TraceOption::IrqInfo,
];

/// An event's place in time, for the latency format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The event's time.
    pub time: (u64, TimeUnit),
    /// The time at which the buffer was cleared.
    pub start: u64,
    /// The number of events before the event.
    pub index: u64,
}

/// The look of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style(Options);

impl Style {
    /// The look that `options` choose.
    pub const fn new(options: Options) -> Self {
        Self(options)
    }

    fn has(self, option: TraceOption) -> bool {
        self.0.has(option)
    }

    /// Returns whether lines look as usual.
    pub fn is_plain(self) -> bool {
        const USUAL: Options = Options::new();
        (STYLES.iter()).all(|option| self.has(*option) == USUAL.has(*option))
    }

    /// Returns whether lines are in the latency format.
    pub fn is_latency(self) -> bool {
        self.has(TraceOption::LatencyFormat) && self.has(TraceOption::ContextInfo)
    }

    /// Writes the columns before the function. Returns the position of the mark that depends on the
    /// next event's time, counted from the end of the written text.
    pub fn write_columns(
        self,
        out: &mut dyn LineOutput,
        cpu: u32,
        event: &Event,
        moment: Moment,
    ) -> core::result::Result<Option<usize>, core::fmt::Error> {
        if !self.has(TraceOption::ContextInfo) {
            return Ok(None);
        }
        let (time, unit) = moment.time;
        let mut name = [0; 16];
        let pid = event.task.pid();
        let name: &[u8] = match pid {
            0 => b"<idle>",
            _ => event.task.name(&mut name),
        };
        let pad = |out: &mut dyn LineOutput, width: usize, length: usize| {
            (length..width).try_for_each(|_| out.write_char(' '))
        };
        if self.has(TraceOption::LatencyFormat) {
            if self.has(TraceOption::Verbose) {
                pad(out, 16, name.len())?;
                out.write_bytes(name)?;
                let depth = event.context.preempt_depth();
                let flags = kernel_flags(event);
                write!(
                    out,
                    " {pid:7} {cpu:3} {flags} {depth:08x} {:08x} ",
                    moment.index
                )?;
            } else {
                let name = name.get(..name.len().min(8)).unwrap_or_default();
                pad(out, 8, name.len())?;
                out.write_bytes(name)?;
                write!(out, "-{pid:<7} {cpu:3}")?;
                out.write_bytes(&state(event.context))?;
            }
            return self.write_since(out, moment);
        }
        pad(out, 16, name.len())?;
        out.write_bytes(name)?;
        write!(out, "-{pid:<7} ")?;
        if self.has(TraceOption::RecordTgid) {
            match event.task.tgid() {
                0 => out.write_str("(-------) ")?,
                tgid => write!(out, "({tgid:7}) ")?,
            }
        }
        if self.has(TraceOption::RecordCgroup) {
            match event.container {
                None => out.write_str("       -:-       ")?,
                Some(container) => write!(out, "{:8}:{:<7} ", container.cgroup, container.pid())?,
            }
        }
        write!(out, "[{cpu:03}] ")?;
        if self.has(TraceOption::IrqInfo) {
            out.write_bytes(&state(event.context))?;
        }
        match unit {
            TimeUnit::Nanoseconds => {
                let micros = to_micros(time);
                write!(out, " {:5}.{:06}: ", micros / 1_000_000, micros % 1_000_000)?;
            }
            TimeUnit::Counts => write!(out, " {time:12}: ")?,
        }
        Ok(None)
    }

    /// Writes the time as `lat_print_timestamp()` does.
    fn write_since(
        self,
        out: &mut dyn LineOutput,
        moment: Moment,
    ) -> core::result::Result<Option<usize>, core::fmt::Error> {
        let (time, unit) = moment.time;
        let since = time.saturating_sub(moment.start);
        match (self.has(TraceOption::Verbose), unit) {
            (false, TimeUnit::Nanoseconds) => {
                write!(out, " {:4}us : ", to_micros(since))?;
                return Ok(Some(3));
            }
            (false, TimeUnit::Counts) => write!(out, " {since:4}: ")?,
            (true, TimeUnit::Nanoseconds) => {
                let (micros, since) = (to_micros(time), to_micros(since));
                let (ms, us) = (since / 1000, since % 1000);
                write!(out, "[{micros:08x}] {ms}.{us:03}ms (+0.000ms): ")?;
            }
            (true, TimeUnit::Counts) => write!(out, "[{time:016x}] {since} (+0): ")?,
        }
        Ok(None)
    }

    /// The mark of an event at `time`, behind which the next comes at `next`.
    pub fn delay(time: u64, next: u64) -> u8 {
        duration::overhead(to_micros(next.saturating_sub(time)).saturating_mul(1000))
    }

    /// Writes an address as `seq_print_ip_sym()` does.
    pub fn write_symbol(
        self,
        out: &mut dyn LineOutput,
        symbols: &mut dyn SymbolNames,
        address: u64,
    ) -> Result {
        match self.has(TraceOption::SymOffset) {
            true => out.write_bytes(symbols.place(address))?,
            false => out.write_bytes(symbols.name(address))?,
        }
        if self.has(TraceOption::SymAddr) {
            write!(out, " <{address:016x}>")?;
        }
        Ok(())
    }

    /// Writes what follows the columns of an entry.
    pub fn write_entry(
        self,
        out: &mut dyn LineOutput,
        symbols: &mut dyn SymbolNames,
        event: &Event,
        shown: EntryColumns<'_>,
    ) -> Result {
        if let Some(depth) = shown.depth {
            write!(out, "{depth:5} ")?;
        }
        for _ in 0..shown.indent {
            out.write_str("  ")?;
        }
        self.write_symbol(out, symbols, event.ip)?;
        out.write_bytes(shown.args)?;
        if self.has(TraceOption::PrintParent) && event.parent_ip != 0 {
            out.write_str(" <-")?;
            self.write_symbol(out, symbols, event.parent_ip)?;
        }
        out.write_char('\n')
    }

    /// Writes what follows the columns of a stack.
    pub fn write_stack(
        self,
        out: &mut dyn LineOutput,
        symbols: &mut dyn SymbolNames,
        event: &Event,
        callers: &mut dyn Iterator<Item = u64>,
    ) -> Result {
        out.write_str("<stack trace>\n")?;
        for address in [event.ip, event.parent_ip].into_iter().chain(callers) {
            out.write_str(" => ")?;
            self.write_symbol(out, symbols, address)?;
            out.write_char('\n')?;
        }
        Ok(())
    }
}

/// Converts ns to microseconds, as `ns2usecs()` does.
const fn to_micros(ns: u64) -> u64 {
    ns.wrapping_add(500) / 1000
}

/// The event's flags as the kernel numbers them (TRACE_FLAG_* of include/linux/trace_events.h).
fn kernel_flags(event: &Event) -> u32 {
    let context = event.context;
    [
        (!context.has(IRQS_ON), 0x01),
        (context.has(NEED_RESCHED_LAZY), 0x02),
        (context.has(NEED_RESCHED), 0x04),
        (context.has(HARDIRQ), 0x08),
        (context.has(SOFTIRQ), 0x10),
        (context.has(PREEMPT_RESCHED), 0x20),
        (context.has(NMI), 0x40),
        (context.has(BH_OFF), 0x80),
    ]
    .into_iter()
    .filter(|(is_set, _)| *is_set)
    .fold(0, |flags, (_, bit)| flags | bit)
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
