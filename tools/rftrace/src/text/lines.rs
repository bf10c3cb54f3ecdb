// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Events as text, the lines: of each event, with the columns that options ask for.

use std::cell::RefCell;
use std::fmt::{self, Write};
use std::rc::Rc;

use rftrace_engine::engine::btf::Btf;
use rftrace_engine::engine::call_sites::{CallSites, FunctionCode};
use rftrace_engine::engine::clock::TimeUnit;
use rftrace_engine::engine::decode::Extras;
use rftrace_engine::engine::extras::ARGS;
use rftrace_engine::engine::graph;
use rftrace_engine::engine::header::{BufferTotals, LatencyHeader};
use rftrace_engine::engine::lines::{
    KernelLayout, LineMaker, LineSettings, ReadEvent, TracedKernel,
};
use rftrace_engine::engine::options::{Options, TraceOption};
use rftrace_engine::engine::render::{self, SymbolNames};
use rftrace_engine::engine::settings::Tracer;
use rftrace_engine::engine::text::Text;
use rftrace_engine::engine::timeline::Timeline;

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

/// The kernel that was recorded, whose code is not known: depths of entries are not shown.
struct RecordedKernel<'a> {
    symbolizer: &'a mut Symbolizer,
    sites: NoSites,
    /// Its types. Arguments whose types are not known are shown as registers.
    btf: Option<&'a Btf<Vec<u8>>>,
}

impl TracedKernel for RecordedKernel<'_> {
    type Symbols = Symbolizer;
    type Sites = NoSites;

    fn symbols(&mut self) -> &mut Symbolizer {
        self.symbolizer
    }

    fn sites(&mut self) -> &mut NoSites {
        &mut self.sites
    }

    fn write_args(
        &mut self,
        text: &mut Text,
        ip: u64,
        args: &[u64; ARGS],
    ) -> Result<bool, fmt::Error> {
        match self.btf {
            Some(btf) => btf
                .alone()
                .write_args(text, SymbolNames::name(self.symbolizer, ip), args),
            None => Ok(false),
        }
    }
}

/// Code of which nothing is known.
struct NoSites;

impl CallSites for NoSites {
    fn code(&mut self, _address: u64) -> FunctionCode {
        FunctionCode::default()
    }

    fn target(&mut self, _parent_ip: u64) -> Option<u64> {
        None
    }

    fn jumps(&mut self, _from: u64, _to: u64) -> bool {
        false
    }

    fn calls(&mut self, _from: u64, _to: u64) -> bool {
        false
    }

    fn is_traced(&mut self, _start: u64) -> bool {
        false
    }
}

/// Size of a task's stack on x86-64 (THREAD_SIZE).
const STACK_BYTES: u32 = 16 << 10;

/// Makes lines of events.
pub struct Lines {
    symbolizer: Rc<RefCell<Symbolizer>>,
    btf: Option<Btf<Vec<u8>>>,
    lines: LineMaker,
    clock: ClockPair,
    time: TimeColumn,
    tracer: String,
    cpus: u32,
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
        let last = settings.cpus.iter().max().copied().unwrap_or(0);
        let (from, until) = settings.irq_text;
        let layout = KernelLayout {
            cpus: last.saturating_add(1),
            irq_text: from..until,
            stack_bytes: STACK_BYTES,
        };
        let is_graph = settings.tracer == Tracer::FunctionGraph.name();
        // Options are those of lines of calls; others look as usual, but for the container.
        let (tracer, options) = match (is_graph, time) {
            (false, _) => {
                let option = TraceOption::RecordCgroup;
                let options = Options::new().with(option, options.has(option));
                (Tracer::Function, options)
            }
            (true, TimeColumn::Trace) => {
                let options = options.with(TraceOption::GraphAbstime, true);
                (Tracer::FunctionGraph, options)
            }
            (true, _) => (Tracer::FunctionGraph, options),
        };
        let lines = LineSettings {
            options,
            tracer,
            timeline: Timeline::Plain(TimeUnit::Nanoseconds),
            began: 0,
        };
        Self {
            symbolizer,
            btf: btf.and_then(|btf| Btf::new(btf).ok().flatten()),
            lines: LineMaker::new(layout, lines),
            clock: settings.start,
            time,
            tracer: settings.tracer.clone(),
            cpus: settings.cpus.len() as u32,
        }
    }

    /// Appends the lines that begin with `#`. `events` are the number that is there, and the number
    /// that was written.
    ///
    /// # Errors
    ///
    /// [`fmt::Error`] if there is no memory.
    pub fn write_header(&self, text: &mut Text, events: Option<(u64, u64)>) -> fmt::Result {
        let (present, written) = events.unwrap_or_default();
        let totals = BufferTotals {
            present,
            written,
            cpus: self.cpus,
        };
        let machine = LatencyHeader {
            release: "",
            preemption: "",
        };
        let is_graph = self.lines.settings().tracer == Tracer::FunctionGraph;
        if is_graph && self.time == TimeColumn::Wall {
            text.write_str("# (before each line: the time of day, UTC)\n")?;
        }
        self.lines
            .write_header(text, &self.tracer, &totals, machine)
    }

    /// Appends the lines of an event: its own, one before it if events were lost there, and those
    /// of its stack.
    ///
    /// # Errors
    ///
    /// [`fmt::Error`] if there is no memory.
    pub fn write(
        &mut self,
        text: &mut Text,
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
        if self.time == TimeColumn::Wall {
            let begin = graph::time_of(event, extras);
            write_time_of_day(text, self.clock.realtime(begin))?;
        }
        let mut kernel = RecordedKernel {
            symbolizer: &mut self.symbolizer.borrow_mut(),
            sites: NoSites,
            btf: self.btf.as_ref(),
        };
        let read = ReadEvent {
            cpu: *cpu,
            event,
            extras,
            callers: &mut owned_extras.stack.iter().copied(),
            bytes: &mut owned_extras.text.iter().copied(),
        };
        self.lines.write_lines(text, &mut kernel, read)
    }
}

/// Appends `HH:MM:SS.uuuuuu ` of a time in ns since 1970.
fn write_time_of_day(text: &mut Text, realtime_ns: u64) -> fmt::Result {
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
