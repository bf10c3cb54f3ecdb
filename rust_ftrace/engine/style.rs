// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Lines of entries in other styles, as options of tracefs choose them: `trace_print_context()`,
//! `trace_print_lat_context()` and `seq_print_ip_sym()` of kernel/trace/trace_output.c, and the
//! headers of kernel/trace/trace.c.

use core::fmt::{Result, Write};

use super::clock::TimeUnit;
use super::context::{
    BH_OFF, HARDIRQ, IRQS_ON, NEED_RESCHED, NEED_RESCHED_LAZY, NMI, PREEMPT_RESCHED, SOFTIRQ,
};
use super::decode::Event;
use super::duration;
use super::line::LineOutput;
use super::options::{Options, TraceOption};
use super::render::{self, BufferTotals, EntryColumns, SymbolNames};

/// The options that change the look of lines.
const STYLES: [TraceOption; 8] = [
    TraceOption::PrintParent,
    TraceOption::SymOffset,
    TraceOption::SymAddr,
    TraceOption::Verbose,
    TraceOption::ContextInfo,
    TraceOption::LatencyFormat,
    TraceOption::RecordTgid,
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

/// The machine, for the header of the latency format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyHeader<'a> {
    /// The kernel's release.
    pub release: &'a str,
    /// The kernel's preemption model.
    pub preemption: &'a str,
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
                out.write_bytes(&render::state(event.context))?;
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
        write!(out, "[{cpu:03}] ")?;
        if self.has(TraceOption::IrqInfo) {
            out.write_bytes(&render::state(event.context))?;
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

    /// Writes the lines that begin with `#`.
    pub fn write_header(
        self,
        out: &mut dyn Write,
        tracer: &str,
        totals: &BufferTotals,
        with_depth: bool,
        machine: LatencyHeader<'_>,
    ) -> Result {
        write!(out, "# tracer: {tracer}\n#\n")?;
        if !self.has(TraceOption::ContextInfo) {
            return Ok(());
        }
        let function = if with_depth {
            "DEPTH FUNCTION"
        } else {
            "FUNCTION"
        };
        let rule = if with_depth { "  |   |" } else { "  |" };
        if self.has(TraceOption::LatencyFormat) {
            if totals.present == 0 {
                return Ok(());
            }
            write_latency_header(out, tracer, totals, machine)?;
            if !self.has(TraceOption::Verbose) {
                out.write_str(LATENCY_COLUMNS)?;
            }
            return Ok(());
        }
        if self.has(TraceOption::Verbose) {
            return Ok(());
        }
        writeln!(
            out,
            "# entries-in-buffer/entries-written: {}/{}   #P:{}\n#",
            totals.present, totals.written, totals.cpus
        )?;
        let with_tgid = self.has(TraceOption::RecordTgid);
        if !self.has(TraceOption::IrqInfo) {
            let (tgid, bar) = match with_tgid {
                true => ("   TGID   ", "     |    "),
                false => ("", ""),
            };
            writeln!(
                out,
                "#           TASK-PID    {tgid} CPU#     TIMESTAMP  {function}"
            )?;
            return writeln!(
                out,
                "#              | |      {bar}   |         |       {rule}"
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
            writeln!(out, "#                            {space}{line}")?;
        }
        writeln!(
            out,
            "#           TASK-PID  {tgid} CPU#  |||||  TIMESTAMP  {function}"
        )?;
        writeln!(
            out,
            "#              | |    {bar}   |   |||||     |       {rule}"
        )
    }
}

/// Converts ns to microseconds, as `ns2usecs()` does.
const fn to_micros(ns: u64) -> u64 {
    ns.wrapping_add(500) / 1000
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
