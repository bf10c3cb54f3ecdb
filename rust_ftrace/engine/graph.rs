// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Lines of calls: each call as text, in the format of tracefs's `function_graph` tracer
//! (kernel/trace/trace_functions_graph.c).

use core::fmt::{Error, Result};
use core::ops::Range;

use super::decode::{Event, EventKind, Extras};
use super::duration;
use super::line::{all, append, write_long, Line, LineOutput};
use super::marker::write_marker;
use super::options::{Options, TraceOption};
use super::render::{state, SymbolNames};
use super::slot::{Container, Task};
use crate::platform::Vec;

/// Number of depths of which open calls are known: FTRACE_RETFUNC_DEPTH of include/linux/ftrace.h.
const DEPTHS: usize = 50;

/// Blanks for each depth.
const INDENT: usize = 2;

/// Bytes of a task's column (TRACE_GRAPH_PROCINFO_LENGTH), and of its name that fit.
const TASK_WIDTH: usize = 14;
const NAME_WIDTH: usize = 7;

/// Most bytes of a return value as text.
const VALUE_ROOM: usize = 32;

/// The kernel's greatest error code (MAX_ERRNO).
const MAX_ERROR: u64 = 4095;

/// A call's event, with the numbers and the text that its line shows.
#[derive(Clone, Copy, Debug)]
pub struct CallLine<'a> {
    /// The CPU that it was recorded on.
    pub cpu: u32,
    /// The event; not [`EventKind::Function`].
    pub event: &'a Event,
    /// The extras of the event.
    pub extras: &'a Extras,
    /// The event's [time](time_of), in ns or the unit of the trace clock; needed for
    /// `funcgraph-abstime` only.
    pub time: u64,
    /// The [time that the call took](ticks_of), in ns; `None` if it is not known.
    pub duration: Option<u64>,
    /// The arguments, in parentheses; empty if they were not recorded.
    pub arguments: &'a [u8],
    /// The waits in the call, as [`waiting::write`](super::waiting::write) has them; empty if there
    /// were none.
    pub waits: &'a [u8],
}

/// Returns the time that is shown of a call's event, in ticks of the trace clock.
///
/// An entry that was recorded late, as it is with a threshold, shows when the call began, so the
/// times of entries are not always in order.
pub fn time_of(event: &Event, extras: &Extras) -> u64 {
    extras.since.unwrap_or(event.time).min(event.time)
}

/// Returns the time that the call took, in ticks of the trace clock; `None` if the call would have
/// begun before time 0, or would end after the last.
pub fn ticks_of(event: &Event) -> Option<u64> {
    let is_possible = match event.what {
        EventKind::Return => event.duration <= event.time,
        EventKind::Call => event.time.checked_add(event.duration).is_some(),
        EventKind::Function | EventKind::Entry | EventKind::Marker | EventKind::RawMarker => false,
    };
    is_possible.then_some(event.duration)
}

/// The state of one CPU that lines depend on, in addition to their events.
#[derive(Clone, Copy)]
struct CpuState {
    /// The task of the last event.
    last: Option<Task>,
    /// The depth at which an interrupt began that is not shown.
    hidden_at: Option<u8>,
    /// The depth of the innermost call that is open, as far as lines tell; -1 for none.
    depth: i16,
}

struct GraphCpu {
    cpu: u32,
    state: CpuState,
    /// The open call of each depth, bits 0-31 of its address; 0 if there is none.
    open: [u32; DEPTHS],
}

impl GraphCpu {
    /// Returns whether the event is of an interrupt that is not to be shown, as `check_irq_entry()`
    /// and `check_irq_return()` do.
    fn hides(&mut self, event: &Event, in_irq_text: bool) -> bool {
        let hidden_at = &mut self.state.hidden_at;
        if hidden_at.is_none() && event.what != EventKind::Return && in_irq_text {
            *hidden_at = Some(event.depth);
        }
        let Some(depth) = *hidden_at else {
            return false;
        };
        if event.what != EventKind::Entry && depth >= event.depth {
            *hidden_at = None;
        }
        true
    }

    /// Follows the open calls. Returns false for a return without its entry.
    #[inline(always)]
    fn matches(&mut self, event: &Event) -> bool {
        let Some(open) = self.open.get_mut(usize::from(event.depth)) else {
            return true;
        };
        let ip = event.ip as u32;
        match event.what {
            EventKind::Entry => {
                *open = ip;
                true
            }
            EventKind::Return => core::mem::take(open) == ip,
            EventKind::Function | EventKind::Call | EventKind::Marker | EventKind::RawMarker => {
                *open = 0;
                true
            }
        }
    }
}

/// The change that the last event made.
#[derive(Clone, Copy)]
struct LineChange {
    index: usize,
    state: CpuState,
    depth: u8,
    open: u32,
}

/// Makes lines of calls.
pub struct GraphLines {
    options: Options,
    /// Digits of the largest number of a CPU.
    cpu_digits: u32,
    /// The addresses of the code that interrupts come in by.
    irq_text: Range<u64>,
    /// The CPUs, by their numbers.
    cpus: Vec<GraphCpu>,
    /// Index of the last event's CPU.
    index: usize,
    change: Option<LineChange>,
}

impl GraphLines {
    /// Makes lines in which CPUs have numbers below `cpus`; `irq_text` is the code that interrupts
    /// come in by (`__irqentry_text_start` to `__irqentry_text_end`).
    pub fn new(options: Options, cpus: u32, irq_text: Range<u64>) -> Self {
        Self {
            options,
            cpu_digits: digits(cpus.saturating_sub(1)) as u32,
            irq_text,
            cpus: Vec::new(),
            index: 0,
            change: None,
        }
    }

    /// Changes the options, from the next line on.
    pub fn set_options(&mut self, options: Options) {
        self.options = options;
    }

    /// Returns whether lines have a column with the time.
    #[inline(always)]
    pub fn with_time(&self) -> bool {
        self.has(TraceOption::GraphAbstime)
    }

    /// Returns whether lines have a column with the duration.
    #[inline(always)]
    fn with_duration(&self) -> bool {
        self.has(TraceOption::GraphDuration) && self.has(TraceOption::ContextInfo)
    }

    #[inline(always)]
    fn has(&self, option: TraceOption) -> bool {
        self.options.has(option)
    }

    /// Forgets the last event, whose lines were thrown away, as it may come again.
    pub fn take_back(&mut self) {
        let Some(change) = self.change.take() else {
            return;
        };
        if let Some(cpu) = self.cpus.get_mut(change.index) {
            cpu.state = change.state;
            if let Some(open) = cpu.open.get_mut(usize::from(change.depth)) {
                *open = change.open;
            }
        }
    }

    /// Returns the state of `cpu`.
    #[inline(always)]
    fn cpu(&mut self, cpu: u32) -> core::result::Result<&mut GraphCpu, Error> {
        if self.cpus.get(self.index).is_none_or(|last| last.cpu != cpu) {
            self.index = self.find(cpu)?;
        }
        self.cpus.get_mut(self.index).ok_or(Error)
    }

    #[cold]
    fn find(&mut self, cpu: u32) -> core::result::Result<usize, Error> {
        match self.cpus.binary_search_by_key(&cpu, |known| known.cpu) {
            Ok(index) => Ok(index),
            Err(index) => {
                let new = GraphCpu {
                    cpu,
                    state: CpuState {
                        last: None,
                        hidden_at: None,
                        depth: 0,
                    },
                    open: [0; DEPTHS],
                };
                self.cpus.insert(index, new).map_err(|_| Error)?;
                Ok(index)
            }
        }
    }

    /// Writes an event's line, with the lines that a switch of tasks or an interrupt calls for. It
    /// writes none if the event is of an interrupt that is not to be shown.
    ///
    /// # Errors
    ///
    /// [`Error`] if there is no memory.
    pub fn write_event<O: LineOutput>(
        &mut self,
        out: &mut O,
        symbols: &mut impl SymbolNames,
        shown: &CallLine<'_>,
    ) -> Result {
        let event = shown.event;
        let in_irq_text = self.irq_text.contains(&event.ip);
        let shows_irqs = self.has(TraceOption::GraphIrqs);
        self.change = None;
        let cpu = self.cpu(shown.cpu)?;
        let open = cpu.open.get(usize::from(event.depth));
        let change = LineChange {
            state: cpu.state,
            depth: event.depth,
            open: open.copied().unwrap_or(0),
            index: 0,
        };
        let is_hidden = !shows_irqs && cpu.hides(event, in_irq_text);
        let mut matches = true;
        if !is_hidden {
            cpu.state.last = Some(event.task);
            cpu.state.depth = i16::from(event.depth) - i16::from(event.what != EventKind::Entry);
            matches = cpu.matches(event);
        }
        self.change = Some(LineChange {
            index: self.index,
            ..change
        });
        if is_hidden {
            return Ok(());
        }
        if let Some(last) = change.state.last {
            if last.pid() != event.task.pid() {
                self.write_switch(out, shown.cpu, &last, &event.task)?;
            }
        }
        if in_irq_text && event.what != EventKind::Return {
            self.write_arrow(out, shown, *b"==========>")?;
        }
        self.write_line(out, symbols, shown, matches)?;
        if event.what == EventKind::Return && self.has(TraceOption::GraphOverrun) {
            let overrun = shown.extras.overrun.unwrap_or(0);
            writeln!(out, " (Overruns: {overrun})")?;
        }
        if in_irq_text && event.what != EventKind::Entry {
            self.write_arrow(out, shown, *b"<==========")?;
        }
        Ok(())
    }

    /// Writes a marker of a program as a comment between calls, as `print_graph_comment()` does.
    ///
    /// # Errors
    ///
    /// [`Error`] if there is no memory.
    pub fn write_marker<O: LineOutput>(
        &mut self,
        out: &mut O,
        shown: &CallLine<'_>,
        bytes: &[u8],
    ) -> Result {
        let event = shown.event;
        self.change = None;
        let cpu = self.cpu(shown.cpu)?;
        let before = cpu.state;
        cpu.state.last = Some(event.task);
        // A marker is of no call, so the change is at a depth that does not exist.
        let depth = u8::MAX;
        let open = cpu.open.get(usize::from(depth));
        let open = open.copied().unwrap_or(0);
        self.change = Some(LineChange {
            index: self.index,
            state: before,
            depth,
            open,
        });
        if let Some(last) = before.last {
            if last.pid() != event.task.pid() {
                self.write_switch(out, shown.cpu, &last, &event.task)?;
            }
        }
        let mut line = Line::new(out.room()?);
        self.put_prologue(&mut line, shown);
        self.put_duration(&mut line, None);
        let indent = match before.depth {
            1.. => usize::from(before.depth.unsigned_abs() + 1).wrapping_mul(INDENT),
            _ => 0,
        };
        append!(out, line, BLANKS.get(..indent).unwrap_or_default());
        append!(out, line, b"/* ");
        let length = line.length();
        out.advance(length);
        write_marker(out, event.what, bytes)?;
        out.write_str(" */\n")
    }

    /// Writes the line of the event.
    #[inline(always)]
    fn write_line<O: LineOutput>(
        &self,
        out: &mut O,
        symbols: &mut impl SymbolNames,
        shown: &CallLine<'_>,
        matches: bool,
    ) -> Result {
        let event = shown.event;
        let mut line = Line::new(out.room()?);
        self.put_prologue(&mut line, shown);
        self.put_duration(&mut line, shown.duration);
        let indent = usize::from(event.depth).wrapping_mul(INDENT);
        if !line.blanks(indent) {
            append!(out, line, BLANKS.get(..indent).unwrap_or_default());
        }
        let is_return = event.what == EventKind::Return;
        // The result of a call that was recorded late is the reason why it was.
        let with_retval = match event.what {
            EventKind::Call => self.has(TraceOption::GraphRetval) || shown.extras.ended.is_some(),
            EventKind::Return => self.has(TraceOption::GraphRetval) || shown.extras.since.is_some(),
            _ => false,
        };
        let retval = shown.extras.retval.filter(|_| with_retval);
        let has_place = !is_return && event.parent_ip != 0 && self.has(TraceOption::GraphRetaddr);
        let is_deepest = !is_return && shown.extras.too_deep;
        let has_waits = !shown.waits.is_empty();
        let mut in_comment = retval.is_some() || has_place || is_deepest || has_waits;
        if is_return {
            line.push(b'}');
            let names = TraceOption::GraphTail;
            in_comment = !matches || self.has(names) || with_retval || has_waits;
            if in_comment {
                line.put(u64::from_le_bytes(*b" /*     "), 4);
                append!(out, line, symbols.name(event.ip));
            }
        } else {
            append!(out, line, symbols.name(event.ip));
            if shown.arguments.is_empty() {
                line.put(u64::from_le_bytes(*b"()      "), 2);
            } else {
                append!(out, line, shown.arguments);
            }
            let (end, length) = match event.what {
                EventKind::Call => (*b"; /*    ", 1),
                _ => (*b" { /*   ", 2),
            };
            line.put(
                u64::from_le_bytes(end),
                if in_comment { length + 3 } else { length },
            );
        }
        if has_place {
            line.put(u64::from_le_bytes(*b" <-     "), 3);
            append!(out, line, symbols.place(event.parent_ip));
        }
        if let Some(value) = retval {
            if !line.has_room(VALUE_ROOM) {
                let length = line.length();
                line = write_long(out, length, b"")?;
            }
            self.put_retval(&mut line, value);
        }
        if has_waits {
            append!(out, line, shown.waits);
        }
        if is_deepest {
            append!(out, line, b" [too deep]");
        }
        if in_comment {
            line.put(u64::from_le_bytes(*b" */     "), 3);
        }
        line.push(b'\n');
        let length = line.length();
        out.advance(length);
        Ok(())
    }

    /// Writes the columns before the duration, at most 88 bytes, as `print_graph_prologue()` does
    /// without its first part.
    #[inline(always)]
    fn put_prologue(&self, line: &mut Line<'_>, shown: &CallLine<'_>) {
        if !self.has(TraceOption::ContextInfo) {
            return;
        }
        if self.with_time() {
            line.number(shown.time / 1_000_000_000, 5, b' ');
            line.push(b'.');
            line.number(shown.time % 1_000_000_000 / 1000, 6, b'0');
            line.put(u64::from_le_bytes(*b" |      "), 4);
        }
        if self.has(TraceOption::GraphCpu) {
            self.put_cpu(line, shown.cpu);
        }
        if self.has(TraceOption::GraphProc) {
            put_task(line, &shown.event.task);
            line.put(u64::from_le_bytes(*b" |      "), 3);
        }
        if self.has(TraceOption::RecordCgroup) {
            put_container(line, shown.event.container);
        }
        if self.has(TraceOption::LatencyFormat) {
            let [a, b, c, d, e] = state(shown.event.context);
            line.put(u64::from_le_bytes([b' ', a, b, c, d, e, b' ', b'|']), 8);
            line.push(b' ');
        }
    }

    /// Writes the column of the CPU, as `print_graph_cpu()` does.
    #[inline(always)]
    fn put_cpu(&self, line: &mut Line<'_>, cpu: u32) {
        line.push(b' ');
        line.number(cpu.into(), self.cpu_digits, b' ');
        line.put(u64::from_le_bytes(*b")       "), 2);
    }

    /// Writes the column of the duration, at most 29 bytes, as `print_graph_duration()` does.
    #[inline(always)]
    fn put_duration(&self, line: &mut Line<'_>, duration: Option<u64>) {
        if !self.with_duration() {
            return;
        }
        match duration {
            Some(ns) => {
                let mark = match self.has(TraceOption::GraphOverhead) {
                    true => duration::overhead(ns),
                    false => b' ',
                };
                line.put(u64::from_le_bytes(*b"        ") ^ u64::from(mark ^ b' '), 2);
                duration::write(line, ns);
            }
            None => {
                line.put(all(b' '), 8);
                line.put(all(b' '), 6);
            }
        }
        line.put(u64::from_le_bytes(*b"|       "), 3);
    }

    /// Writes a return value, as `print_graph_retval()` does: a value that can be an error's, of 32
    /// bits or of all, is shown as an error.
    fn put_retval(&self, line: &mut Line<'_>, value: u64) {
        line.put(u64::from_le_bytes(*b" ret=   "), 5);
        let extended = match u32::try_from(value) {
            Ok(value) => i64::from(value as i32) as u64,
            Err(_) => value,
        };
        let error = extended.wrapping_neg();
        if (1..=MAX_ERROR).contains(&error) && !self.has(TraceOption::GraphRetvalHex) {
            line.push(b'-');
            line.number(error, 1, b' ');
        } else {
            line.put(u64::from_le_bytes(*b"0x      "), 2);
            line.hex(value);
        }
    }

    /// Writes the line of an interrupt's begin or end, as `print_graph_irq()` does.
    #[cold]
    fn write_arrow(
        &self,
        out: &mut impl LineOutput,
        shown: &CallLine<'_>,
        arrow: [u8; 11],
    ) -> Result {
        let mut line = Line::new(out.room()?);
        self.put_prologue(&mut line, shown);
        let with_duration = self.with_duration();
        if with_duration {
            line.put(all(b' '), 2);
        }
        line.push_all(&arrow);
        if with_duration {
            line.put(u64::from_le_bytes(*b" |      "), 2);
        }
        line.push(b'\n');
        let length = line.length();
        out.advance(length);
        Ok(())
    }

    /// Writes that another task runs, as `verif_pid()` does.
    #[cold]
    fn write_switch(
        &self,
        out: &mut impl LineOutput,
        cpu: u32,
        last: &Task,
        next: &Task,
    ) -> Result {
        const RULE: &str = " ------------------------------------------\n";
        out.write_str(RULE)?;
        let mut line = Line::new(out.room()?);
        self.put_cpu(&mut line, cpu);
        put_task(&mut line, last);
        line.put(u64::from_le_bytes(*b" =>     "), 4);
        put_task(&mut line, next);
        line.push(b'\n');
        let length = line.length();
        out.advance(length);
        out.write_str(RULE)?;
        out.write_char('\n')
    }
}

/// Blanks for the greatest depth.
static BLANKS: [u8; 0xff * INDENT] = [b' '; 0xff * INDENT];

/// Returns the number of digits of a number.
fn digits(number: u32) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

/// Writes a task's container. It takes at most 32 bytes.
#[cold]
fn put_container(line: &mut Line<'_>, container: Option<Container>) {
    let pid_end = match container {
        None => {
            line.blanks(7);
            line.put(u64::from_le_bytes(*b"-:-     "), 3);
            1
        }
        Some(container) => {
            line.number(container.cgroup, 8, b' ');
            line.push(b':');
            line.number(container.pid().into(), 1, b' ');
            digits(container.pid())
        }
    };
    line.blanks(7usize.saturating_sub(pid_end));
    line.put(u64::from_le_bytes(*b" |      "), 3);
}

/// Writes the task's name, cut, and its pid, in the middle of the column, as `print_graph_proc()`
/// does. It takes at most 18 bytes.
fn put_task(line: &mut Line<'_>, task: &Task) {
    let mut bytes = [0; 16];
    let name = match task.pid() {
        0 => b"<idle>",
        _ => task.name(&mut bytes),
    };
    let name = name.get(..NAME_WIDTH).unwrap_or(name);
    let pid = task.pid().unsigned_abs();
    let blanks = TASK_WIDTH.saturating_sub(name.len() + 1 + digits(pid));
    line.blanks(blanks / 2);
    for chunk in name.utf8_chunks() {
        line.push_all(chunk.valid().as_bytes());
        for _ in chunk.invalid() {
            line.push(b'?');
        }
    }
    line.push(b'-');
    line.number(pid.into(), 1, b' ');
    line.blanks(blanks - blanks / 2);
}
