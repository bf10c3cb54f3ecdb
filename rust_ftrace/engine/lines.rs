// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Events as lines: with times, names and depths as they are when the lines are read.

use core::fmt::{Error, Result, Write};
use core::ops::Range;

use super::call_sites::CallSites;
use super::decode::{Event, EventKind, Extras};
use super::extras::ARGS;
use super::graph::{self, GraphLines};
use super::graph_header;
use super::header::{self, BufferTotals, LatencyHeader};
use super::options::{Options, TraceOption};
use super::render::{self, EntryColumns, EntryLine, EntryLines, SymbolNames};
use super::replay::Replay;
use super::settings::Tracer;
use super::text::Text;
use super::timeline::Timeline;
use super::waiting::{self, WakerNames};
use crate::platform::AllocError;

/// The traced kernel, as far as lines tell of it beside the events.
pub trait TracedKernel {
    /// Gives addresses their names.
    type Symbols: SymbolNames;
    /// Tells of the code around calls.
    type Sites: CallSites;

    /// Returns what gives names.
    fn symbols(&mut self) -> &mut Self::Symbols;

    /// Returns what tells of calls.
    fn sites(&mut self) -> &mut Self::Sites;

    /// Appends the arguments of a call of the function at `ip`, by the types of its parameters;
    /// false if these are not known, and nothing is appended.
    ///
    /// # Errors
    ///
    /// [`Error`] if there is no memory.
    fn write_args(
        &mut self,
        text: &mut Text,
        ip: u64,
        args: &[u64; ARGS],
    ) -> core::result::Result<bool, Error>;
}

/// The part of a kernel that lines follow from and that does not change while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelLayout {
    /// Numbers of CPUs are below this.
    pub cpus: u32,
    /// The code that interrupts come in by.
    pub irq_text: Range<u64>,
    /// Size of a task's stack, a power of two; stacks are aligned to it.
    pub stack_bytes: u32,
}

/// The settings of a buffer that its lines follow from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineSettings {
    /// The options.
    pub options: Options,
    /// The current tracer.
    pub tracer: Tracer,
    /// The way from stamps to times.
    pub timeline: Timeline,
    /// The stamp of when the buffer was last cleared.
    pub began: u64,
}

impl LineSettings {
    /// Returns the time at which the buffer was last cleared.
    fn start(&self) -> u64 {
        self.timeline.time(self.began).0
    }
}

/// An event and the data beside it, as a reader gives them out.
pub struct ReadEvent<'a> {
    /// The CPU that it was recorded on.
    pub cpu: u32,
    /// The event.
    pub event: &'a Event,
    /// The data of fixed length.
    pub extras: &'a Extras,
    /// The return addresses behind its `parent_ip`, if its stack was recorded.
    pub callers: &'a mut dyn Iterator<Item = u64>,
    /// The bytes that a program has written, if that is the event.
    pub bytes: &'a mut dyn Iterator<Item = u8>,
}

/// Makes lines of events.
pub struct LineMaker {
    settings: LineSettings,
    stack_bytes: u32,
    shown: DepthColumns,
    /// The arguments of an event, or what a program has written.
    args: Text,
    /// The waits in a call.
    waits: Text,
    /// The names of tasks, if waits are shown.
    names: WakerNames,
    /// The stacks of tasks, if the depth is shown.
    replay: Option<Replay>,
    /// For events of `function_graph`.
    graph: GraphLines,
    /// For all others.
    entries: EntryLines,
}

/// The places where a line shows the depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DepthColumns {
    /// In a column.
    column: bool,
    /// As indentation.
    tree: bool,
    /// Of calls: what programs write stands between them.
    calls: bool,
}

impl DepthColumns {
    fn by(settings: &LineSettings) -> Self {
        Self {
            column: settings.options.has(TraceOption::FuncDepth),
            tree: settings.tracer == Tracer::CallTrace,
            calls: settings.tracer == Tracer::FunctionGraph,
        }
    }

    /// Returns the parts that are shown of an entry at `depth`.
    fn of(self, depth: usize, args: &Text) -> EntryColumns<'_> {
        EntryColumns {
            depth: self.column.then_some(depth),
            indent: if self.tree { depth } else { 0 },
            args: args.as_bytes(),
        }
    }

    fn replay(self, stack_bytes: u32) -> Option<Replay> {
        (self.column || self.tree).then(|| Replay::new(stack_bytes))
    }
}

fn no_memory(_: AllocError) -> Error {
    Error
}

impl LineMaker {
    /// Makes the maker of lines of events of a kernel with that layout, as `settings` say.
    pub fn new(layout: KernelLayout, settings: LineSettings) -> Self {
        let shown = DepthColumns::by(&settings);
        let KernelLayout {
            cpus,
            irq_text,
            stack_bytes,
        } = layout;
        Self {
            settings,
            stack_bytes,
            shown,
            args: Text::new(),
            waits: Text::new(),
            names: WakerNames::new(),
            replay: shown.replay(stack_bytes),
            graph: GraphLines::new(settings.options, cpus, irq_text),
            entries: EntryLines::new(settings.options, settings.start()),
        }
    }

    /// Makes lines as other settings say, from the next on.
    pub fn set(&mut self, settings: LineSettings) {
        self.settings = settings;
        self.graph.set_options(settings.options);
        self.entries.set(settings.options, settings.start());
        let shown = DepthColumns::by(&settings);
        if self.shown != shown {
            self.shown = shown;
            self.replay = shown.replay(self.stack_bytes);
        }
    }

    /// Returns the settings.
    pub fn settings(&self) -> &LineSettings {
        &self.settings
    }

    /// Appends the lines that come before all events, those that begin with `#`.
    ///
    /// # Errors
    ///
    /// [`Error`] if there is no memory.
    pub fn write_header(
        &self,
        text: &mut Text,
        tracer: &str,
        totals: &BufferTotals,
        machine: LatencyHeader<'_>,
    ) -> Result {
        let options = self.settings.options;
        if self.shown.calls {
            return graph_header::write_header(text, tracer, options, totals, machine);
        }
        let with_depth = self.shown.column;
        header::write_header(text, tracer, options, totals, with_depth, machine)
    }

    /// Notes that events of `cpu` are missing before the next one.
    ///
    /// # Errors
    ///
    /// [`Error`] if there is no memory.
    pub fn skip(&mut self, cpu: u32) -> Result {
        if let Some(replay) = &mut self.replay {
            replay.skip(cpu).map_err(no_memory)?;
        }
        Ok(())
    }

    /// Returns the depth of an entry, if it is shown. In a tree that has lost its root a line says
    /// so.
    fn depth(
        &mut self,
        text: &mut Text,
        kernel: &mut impl TracedKernel,
        cpu: u32,
        event: &Event,
    ) -> core::result::Result<usize, Error> {
        let Some(replay) = &mut self.replay else {
            return Ok(0);
        };
        if event.lost != 0 {
            replay.skip(cpu).map_err(no_memory)?;
        }
        let entered = replay
            .enter(cpu, event, kernel.sites())
            .map_err(no_memory)?;
        if self.shown.tree && entered.missing != 0 {
            let name = kernel.symbols().name(entered.missing);
            render::write_rootless(text, &event.task, name)?;
        }
        Ok(entered.depth)
    }

    /// Takes the last event back: its lines were thrown away, and it may come again.
    pub fn take_back(&mut self) {
        self.graph.take_back();
    }

    /// Appends the line of what a program has written, which `args` has.
    fn write_marker(
        &mut self,
        text: &mut Text,
        kernel: &mut impl TracedKernel,
        cpu: u32,
        event: &Event,
    ) -> Result {
        let time = self.settings.timeline.time(event.time);
        if self.shown.calls {
            let shown = graph::CallLine {
                cpu,
                event,
                extras: &Extras::default(),
                time: time.0,
                duration: None,
                arguments: &[],
                waits: &[],
            };
            return self.graph.write_marker(text, &shown, self.args.as_bytes());
        }
        let shown = EntryLine {
            cpu,
            event,
            time,
            columns: EntryColumns::default(),
        };
        let bytes = self.args.as_bytes();
        (self.entries).write_marker(text, kernel.symbols(), &shown, bytes)
    }

    /// Returns whether a line is complete only when the next event is known.
    pub fn is_latency(&self) -> bool {
        self.entries.is_latency() && !self.shown.calls
    }

    /// Takes the place of the mark in the last line that tells how much later the next event came,
    /// and the time of the line.
    pub fn take_delay(&mut self) -> Option<(usize, u64)> {
        self.entries.take_delay()
    }

    /// Appends an event's line, one before it if events were lost there, and its stack if it has
    /// one.
    ///
    /// # Errors
    ///
    /// [`Error`] if there is no memory.
    pub fn write_event(
        &mut self,
        text: &mut Text,
        kernel: &mut impl TracedKernel,
        read: ReadEvent<'_>,
    ) -> Result {
        if read.event.lost != 0 {
            render::write_lost(text, read.cpu, read.event.lost)?;
        }
        self.write_lines(text, kernel, read)
    }

    /// Does as [`LineMaker::write_event`], but leaves out the line that tells of lost events.
    ///
    /// # Errors
    ///
    /// [`Error`] if there is no memory.
    pub fn write_lines(
        &mut self,
        text: &mut Text,
        kernel: &mut impl TracedKernel,
        read: ReadEvent<'_>,
    ) -> Result {
        let ReadEvent {
            cpu, event, extras, ..
        } = read;
        self.args.clear();
        if let Some(args) = &extras.args {
            if !kernel.write_args(&mut self.args, event.ip, args)? {
                write_registers(&mut self.args, args)?;
            }
        }
        if extras.text.is_some() {
            for byte in read.bytes {
                self.args.push_bytes(&[byte])?;
            }
            return self.write_marker(text, kernel, cpu, event);
        }
        let timeline = &self.settings.timeline;
        if event.what != EventKind::Function {
            let time = match self.graph.with_time() {
                true => timeline.time(graph::time_of(event, extras)).0,
                false => 0,
            };
            let ticks = graph::ticks_of(event);
            self.waits.clear();
            if let Some(waited) = &extras.waited {
                let slept = timeline.duration(waited.slept);
                waiting::write(&mut self.waits, slept, waited.wait, &self.names)?;
            }
            if self.settings.options.has(TraceOption::GraphWait) {
                self.names.note(&event.task).map_err(no_memory)?;
            }
            let shown = graph::CallLine {
                cpu,
                event,
                extras,
                time,
                duration: ticks.and_then(|ticks| timeline.duration(ticks)),
                arguments: self.args.as_bytes(),
                waits: self.waits.as_bytes(),
            };
            return self.graph.write_event(text, kernel.symbols(), &shown);
        }
        let time = timeline.time(event.time);
        let depth = self.depth(text, kernel, cpu, event)?;
        let shown = EntryLine {
            cpu,
            event,
            time,
            columns: self.shown.of(depth, &self.args),
        };
        let callers = extras.stack.is_some().then_some(read.callers);
        (self.entries).write_entry(text, kernel.symbols(), &shown, callers)
    }
}

/// Writes the arguments of a function whose parameters are not known: all registers that they may
/// be in.
fn write_registers(out: &mut dyn Write, args: &[u64; ARGS]) -> Result {
    let mut separator = "(";
    for value in args {
        write!(out, "{separator}{value:#x}")?;
        separator = ", ";
    }
    out.write_str(")")
}
