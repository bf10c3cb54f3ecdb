// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Events as text, the lines: of each event, with the columns that options ask for.

use std::cell::RefCell;
use std::fmt::{self, Write};
use std::rc::Rc;

use rftrace_engine::engine::btf::Btf;
use rftrace_engine::engine::clock::TimeUnit;
use rftrace_engine::engine::decode::{EventKind, Extras};
use rftrace_engine::engine::extras::ARGS;
use rftrace_engine::engine::graph::{self, GraphLines};
use rftrace_engine::engine::graph_header;
use rftrace_engine::engine::marker;
use rftrace_engine::engine::options::{Options, TraceOption};
use rftrace_engine::engine::render::{self, BufferTotals, SymbolNames};
use rftrace_engine::engine::render_extras;
use rftrace_engine::engine::style::LatencyHeader;

use super::buffer::TextBuffer;
use crate::recording::{ClockPair, RecordingSettings};
use crate::stream::{Item, OwnedExtras};
use crate::symbolizer::Symbolizer;

/// A column of the time in the lines of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeColumn {
    /// No column.
    #[default]
    Without,
    /// The time of the trace clock.
    Trace,
    /// UTC, before the other columns.
    Wall,
}

/// Makes lines of events.
pub struct Lines {
    symbolizer: Rc<RefCell<Symbolizer>>,
    btf: Option<Btf<Vec<u8>>>,
    graph: GraphLines,
    options: Options,
    clock: ClockPair,
    time: TimeColumn,
    tracer: String,
    cpus: u32,
    arguments: TextBuffer,
    is_graph: bool,
}

impl Lines {
    /// Returns the maker of lines for what was recorded with `settings`.
    pub fn new(
        settings: &RecordingSettings,
        symbolizer: Rc<RefCell<Symbolizer>>,
        btf: Option<Vec<u8>>,
        options: Options,
        time: TimeColumn,
    ) -> Self {
        let options = match time {
            TimeColumn::Trace => options.with(TraceOption::GraphAbstime, true),
            TimeColumn::Without | TimeColumn::Wall => options,
        };
        let last = settings.cpus.iter().max().copied().unwrap_or(0);
        let (from, until) = settings.irq_text;
        Self {
            symbolizer,
            // Arguments whose types are not understood are shown as registers.
            btf: btf.and_then(|btf| Btf::new(btf).ok().flatten()),
            graph: GraphLines::new(options, last.saturating_add(1), from..until),
            options,
            clock: settings.start,
            time,
            tracer: settings.tracer.clone(),
            cpus: settings.cpus.len() as u32,
            arguments: TextBuffer::default(),
            is_graph: settings.tracer == "function_graph",
        }
    }

    /// Appends the lines that begin with `#`. `events` are the number that is there, and the number
    /// that was written.
    ///
    /// # Errors
    ///
    /// [`fmt::Error`] if there is no memory.
    pub fn write_header(&self, text: &mut TextBuffer, events: Option<(u64, u64)>) -> fmt::Result {
        let (present, written) = events.unwrap_or_default();
        let totals = BufferTotals {
            present,
            written,
            cpus: self.cpus,
        };
        if !self.is_graph {
            return render::write_header(text, &self.tracer, &totals, false);
        }
        let machine = LatencyHeader {
            release: "",
            preemption: "",
        };
        if self.time == TimeColumn::Wall {
            text.write_str("# (before each line: the time of day, UTC)\n")?;
        }
        graph_header::write_header(text, &self.tracer, self.options, &totals, machine)
    }

    fn write_arguments(&mut self, ip: u64, args: &[u64; ARGS]) -> fmt::Result {
        let mut symbolizer = self.symbolizer.borrow_mut();
        let name = SymbolNames::name(&mut *symbolizer, ip);
        if let Some(btf) = &self.btf {
            if btf.write_args(&mut self.arguments, name, args)? {
                return Ok(());
            }
        }
        render_extras::write_registers(&mut self.arguments, args)
    }

    /// Appends the lines of an event: its own, one before it if events were lost there, and those
    /// of its stack.
    ///
    /// # Errors
    ///
    /// [`fmt::Error`] if there is no memory.
    pub fn write(
        &mut self,
        text: &mut TextBuffer,
        item: &Item,
        owned_extras: &OwnedExtras,
    ) -> fmt::Result {
        let Item { cpu, event } = item;
        let none = Extras::default();
        let extras = match event.has_extras {
            true => &owned_extras.extras,
            false => &none,
        };
        if event.lost != 0 {
            render::write_lost(text, *cpu, event.lost)?;
        }
        self.arguments.clear();
        if let Some(args) = &extras.args {
            self.write_arguments(event.ip, args)?;
        }
        let begin = graph::time_of(event, extras);
        if self.time == TimeColumn::Wall {
            write_time_of_day(text, self.clock.realtime(begin))?;
        }
        let mut symbolizer = self.symbolizer.borrow_mut();
        let symbols = &mut *symbolizer;
        let time = (event.time, TimeUnit::Nanoseconds);
        if extras.text.is_some() && !self.is_graph {
            return marker::write_line(text, symbols, *cpu, event, time, &owned_extras.text);
        }
        let shown = graph::CallLine {
            cpu: *cpu,
            event,
            extras,
            time: begin,
            duration: graph::ticks_of(event),
            arguments: self.arguments.as_bytes(),
        };
        if extras.text.is_some() {
            return self.graph.write_marker(text, &shown, &owned_extras.text);
        }
        if event.what != EventKind::Function {
            return self.graph.write_event(text, symbols, &shown);
        }
        let shown = render::EntryColumns {
            args: self.arguments.as_bytes(),
            ..render::EntryColumns::default()
        };
        render::write_entry(text, symbols, *cpu, event, time, shown)?;
        if extras.stack.is_some() {
            let mut callers = owned_extras.stack.iter().copied();
            render_extras::write_stack(text, symbols, *cpu, event, time, &mut callers)?;
        }
        Ok(())
    }
}

/// Appends `HH:MM:SS.uuuuuu ` of a time in ns since 1970.
fn write_time_of_day(text: &mut TextBuffer, realtime_ns: u64) -> fmt::Result {
    let us = realtime_ns / 1000;
    let second = us / 1_000_000 % 86_400;
    write!(
        text,
        "{:02}:{:02}:{:02}.{:06} ",
        second / 3600,
        second / 60 % 60,
        second % 60,
        us % 1_000_000
    )
}
