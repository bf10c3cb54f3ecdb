// SPDX-License-Identifier: GPL-2.0

//! Events as lines: with times, names and depths as they are when the events are read.

use core::fmt::Write;

use kernel::prelude::*;
use kernel::sync::Arc;

use super::attribute::no_memory;
use super::call_sites::KernelSites;
use crate::engine::decode::{Event, EventKind, Extras};
use crate::engine::extras::ARGS;
use crate::engine::graph::{self, GraphLines};
use crate::engine::marker;
use crate::engine::name_cache::NameCache;
use crate::engine::options::TraceOption;
use crate::engine::render::{self, SymbolNames};
use crate::engine::render_extras;
use crate::engine::replay::Replay;
use crate::engine::settings::Tracer;
use crate::engine::style::{Moment, Style};
use crate::engine::timeline::Timeline;
use crate::instance::Instance;
use crate::machine::{KernelBtf, Machine};
use crate::sys::context::THREAD_SIZE;
use crate::sys::cpu;
use crate::sys::symbols::SymbolText;
use crate::sys::text::Text;

/// Makes lines of events.
pub(super) struct LineMaker {
    timeline: Timeline,
    symbols: SymbolCache,
    /// The [modules](crate::machine::Machine::modules_loaded) that the names are of.
    modules_loaded: u64,
    shown: DepthColumns,
    /// The arguments of an event.
    args: Text,
    machine: Arc<Machine>,
    /// Their names and types, once there was an event with arguments.
    btf: Option<Option<Arc<KernelBtf>>>,
    /// If the depth is shown.
    replay: Option<Replay>,
    sites: KernelSites,
    /// For events of `function_graph`.
    graph: GraphLines,
    /// For all others.
    style: Style,
    /// The time at which a buffer was cleared last.
    start: u64,
    /// Number of the next line of that style.
    index: u64,
    /// The place of the delay mark in the last line, which tells how much later the next event
    /// came, and the time of that line's event.
    delay: Option<(usize, u64)>,
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
    fn by(instance: &Instance) -> Self {
        Self {
            column: instance.options().has(TraceOption::FuncDepth),
            tree: instance.tracer() == Tracer::CallTrace,
            calls: instance.tracer() == Tracer::FunctionGraph,
        }
    }

    /// The parts that are shown of an entry at `depth`.
    fn of(self, depth: usize, args: &Text) -> render::EntryColumns<'_> {
        render::EntryColumns {
            depth: self.column.then_some(depth),
            indent: if self.tree { depth } else { 0 },
            args: args.as_bytes(),
        }
    }

    fn replay(self) -> Option<Replay> {
        let new = || Replay::new(THREAD_SIZE as u32);
        (self.column || self.tree).then(new)
    }
}

impl LineMaker {
    /// Lines as the options of `instance` say.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn new(instance: &Arc<Instance>) -> Result<Self> {
        let shown = DepthColumns::by(instance);
        Ok(Self {
            timeline: instance.recording().timeline(),
            symbols: SymbolCache::new()?,
            modules_loaded: instance.machine().modules_loaded(),
            shown,
            args: Text::new(),
            machine: instance.machine().clone(),
            btf: None,
            replay: shown.replay(),
            sites: KernelSites::new(instance)?,
            graph: GraphLines::new(
                instance.options(),
                cpu::end(),
                instance.machine().irq_text(),
            ),
            style: Style::new(instance.options()),
            start: instance
                .recording()
                .timeline()
                .time(instance.recording().began())
                .0,
            index: 0,
            delay: None,
        })
    }

    /// Follows what has changed since, before more events are looked for.
    pub(super) fn refresh(&mut self, instance: &Instance) {
        self.timeline = instance.recording().timeline();
        self.symbols.forget_passing();
        self.sites.forget_passing();
        self.graph.set_options(instance.options());
        self.style = Style::new(instance.options());
        self.start = self.timeline.time(instance.recording().began()).0;
        let shown = DepthColumns::by(instance);
        if self.shown != shown {
            self.shown = shown;
            self.replay = shown.replay();
        }
    }

    /// Forgets names that may not be right for an event that has just been looked at; none can be
    /// wrong for one that was there before anything was looked up.
    pub(super) fn follow_modules(&mut self, instance: &Instance) {
        let modules_loaded = instance.machine().modules_loaded();
        if self.modules_loaded != modules_loaded {
            self.modules_loaded = modules_loaded;
            self.symbols.forget_passing();
            self.sites.forget_passing();
        }
    }

    /// Notes that events of `cpu` are missing before the next one.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn skip(&mut self, cpu: u32) -> Result {
        if let Some(replay) = &mut self.replay {
            replay.skip(cpu)?;
        }
        Ok(())
    }

    /// The depth of an entry, if it is shown. In a tree that has lost its root a line says so.
    fn depth(&mut self, text: &mut Text, cpu: u32, event: &Event) -> Result<usize> {
        let Some(replay) = &mut self.replay else {
            return Ok(0);
        };
        if event.lost != 0 {
            replay.skip(cpu)?;
        }
        let entered = replay.enter(cpu, event, &mut self.sites)?;
        if self.shown.tree && entered.missing != 0 {
            let name = self.symbols.name(entered.missing);
            render::write_rootless(text, &event.task, name).map_err(no_memory)?;
        }
        Ok(entered.depth)
    }

    /// Returns whether lines have a column with the depth.
    pub(super) fn with_depth(&self) -> bool {
        self.shown.column
    }

    /// Takes the last event back: what was appended for it is gone, and it may come again.
    pub(super) fn take_back(&mut self) {
        self.graph.take_back();
    }

    /// Makes the text of the arguments of a call.
    fn write_args(&mut self, ip: u64, args: &[u64; ARGS]) -> Result {
        let machine = &self.machine;
        let btf = self.btf.get_or_insert_with(|| machine.btf());
        let name = self.symbols.name(ip);
        let text = &mut self.args;
        let known = match btf {
            Some(btf) => btf.write_args(text, name, args).map_err(no_memory)?,
            None => false,
        };
        match known {
            true => Ok(()),
            false => render_extras::write_registers(text, args).map_err(no_memory),
        }
    }

    /// Writes what a program has written.
    fn write_marker(
        &mut self,
        text: &mut Text,
        cpu: u32,
        event: &Event,
        bytes: &mut dyn Iterator<Item = u8>,
    ) -> Result {
        let said = &mut self.args;
        for byte in bytes {
            said.push_bytes(&[byte]).map_err(no_memory)?;
        }
        let time = self.timeline.time(event.time);
        if !self.shown.calls && !self.style.is_plain() {
            self.write_columns(text, cpu, event).map_err(no_memory)?;
            let mut write = || {
                if event.what == EventKind::Marker {
                    self.style.write_symbol(text, &mut self.symbols, event.ip)?;
                    text.write_str(": ")?;
                }
                marker::write_marker(text, event.what, self.args.as_bytes())?;
                text.write_str("\n")
            };
            return write().map_err(no_memory);
        }
        if !self.shown.calls {
            let symbols = &mut self.symbols;
            return marker::write_line(text, symbols, cpu, event, time, said.as_bytes())
                .map_err(no_memory);
        }
        let shown = graph::CallLine {
            cpu,
            event,
            extras: &Extras::default(),
            time: time.0,
            duration: None,
            arguments: &[],
        };
        (self.graph.write_marker(text, &shown, said.as_bytes())).map_err(no_memory)
    }

    /// Appends the columns of a line in a style that is not the usual one.
    fn write_columns(&mut self, text: &mut Text, cpu: u32, event: &Event) -> core::fmt::Result {
        let moment = Moment {
            time: self.timeline.time(event.time),
            start: self.start,
            index: self.index,
        };
        self.index += 1;
        let mark = self.style.write_columns(text, cpu, event, moment)?;
        let end = text.as_bytes().len();
        self.delay = mark.map(|before| (end.saturating_sub(before), moment.time.0));
        Ok(())
    }

    /// Appends the line of an entry of such a style, and its stack.
    #[cold]
    fn write_styled(
        &mut self,
        text: &mut Text,
        cpu: u32,
        event: &Event,
        depth: usize,
        callers: Option<&mut dyn Iterator<Item = u64>>,
    ) -> core::fmt::Result {
        let style = self.style;
        self.write_columns(text, cpu, event)?;
        let shown = self.shown.of(depth, &self.args);
        style.write_entry(text, &mut self.symbols, event, shown)?;
        if let Some(callers) = callers {
            self.write_columns(text, cpu, event)?;
            style.write_stack(text, &mut self.symbols, event, callers)?;
        }
        Ok(())
    }

    /// Returns whether a line is complete only when the next event is known.
    pub(super) fn is_latency(&self) -> bool {
        self.style.is_latency() && !self.shown.calls
    }

    /// The look of lines that are not of `function_graph`.
    pub(super) fn style(&self) -> Style {
        self.style
    }

    /// The place of the delay mark in the last line, which tells how much later the next event
    /// came, and the time of that line's event.
    pub(super) fn take_delay(&mut self) -> Option<(usize, u64)> {
        self.delay.take()
    }

    /// Appends an event's line, one before it if events were lost there, and its stack if it has
    /// one: behind its `parent_ip` come `callers`. `said` is what a program has written, if that is
    /// the event.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn write_event(
        &mut self,
        text: &mut Text,
        cpu: u32,
        event: &Event,
        extras: &Extras,
        callers: &mut dyn Iterator<Item = u64>,
        said: &mut dyn Iterator<Item = u8>,
    ) -> Result {
        if event.lost != 0 {
            render::write_lost(text, cpu, event.lost).map_err(no_memory)?;
        }
        self.args.clear();
        if let Some(args) = &extras.args {
            self.write_args(event.ip, args)?;
        }
        if extras.text.is_some() {
            return self.write_marker(text, cpu, event, said);
        }
        if event.what != EventKind::Function {
            let time = match self.graph.with_time() {
                true => self.timeline.time(graph::time_of(event, extras)).0,
                false => 0,
            };
            let ticks = graph::ticks_of(event);
            let shown = graph::CallLine {
                cpu,
                event,
                extras,
                time,
                duration: ticks.and_then(|ticks| self.timeline.duration(ticks)),
                arguments: self.args.as_bytes(),
            };
            let written = self.graph.write_event(text, &mut self.symbols, &shown);
            return written.map_err(no_memory);
        }
        let depth = self.depth(text, cpu, event)?;
        let callers = extras.stack.is_some().then_some(callers);
        if !self.style.is_plain() {
            let written = self.write_styled(text, cpu, event, depth, callers);
            return written.map_err(no_memory);
        }
        let shown = self.shown.of(depth, &self.args);
        let time = self.timeline.time(event.time);
        let symbols = &mut self.symbols;
        render::write_entry(text, symbols, cpu, event, time, shown).map_err(no_memory)?;
        if let Some(callers) = callers {
            render_extras::write_stack(text, symbols, cpu, event, time, callers)
                .map_err(no_memory)?;
        }
        Ok(())
    }
}

/// Names of addresses that were looked up.
struct SymbolCache {
    names: Cache,
    places: Cache,
    text: SymbolText,
}

impl SymbolCache {
    fn new() -> Result<Self> {
        Ok(Self {
            names: Cache::new(),
            places: Cache::new(),
            text: SymbolText::new()?,
        })
    }

    /// Forgets names that may be another's.
    fn forget_passing(&mut self) {
        self.names.passing.clear();
        self.places.passing.clear();
    }
}

impl SymbolNames for SymbolCache {
    fn name(&mut self, address: u64) -> &[u8] {
        let text = &mut self.text;
        self.names.find(address, || text.look_up(address))
    }

    fn place(&mut self, address: u64) -> &[u8] {
        let text = &mut self.text;
        self.places.find(address, || text.look_up_place(address))
    }
}

/// Texts of addresses.
///
/// An address of the kernel proper is always the same function's. Those of modules, and of BPF
/// programs and trampolines, whose coming and going is not announced, can be another's the next
/// time.
struct Cache {
    lasting: NameCache,
    passing: NameCache,
}

impl Cache {
    const fn new() -> Self {
        Self {
            lasting: NameCache::new(),
            passing: NameCache::new(),
        }
    }

    /// The text of `address`, which `look_up` gives if it is not known.
    #[inline(always)]
    fn find<'a>(&'a mut self, address: u64, look_up: impl FnOnce() -> &'a [u8]) -> &'a [u8] {
        if let Some(found) = self.lasting.find(address) {
            return self.lasting.text(found);
        }
        if let Some(found) = self.passing.find(address) {
            return self.passing.text(found);
        }
        let text = look_up();
        let is_lasting = !text.ends_with(b"]") && !text.starts_with(b"0x");
        let names = match is_lasting {
            true => &mut self.lasting,
            false => &mut self.passing,
        };
        // Without memory it is looked up again the next time.
        let _ = names.keep(address, text);
        text
    }
}
