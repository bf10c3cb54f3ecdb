// SPDX-License-Identifier: GPL-2.0

//! Events as lines: with times, names and depths as they are when somebody reads them.

use kernel::prelude::*;

use super::small::no_memory;
use crate::engine::names::Names;
use crate::engine::options::TraceOption;
use crate::engine::reader::{Event, Extras};
use crate::engine::render::{self, Symbols};
use crate::engine::replay::Replay;
use crate::instance::Instance;
use crate::machine::Timeline;
use crate::sys::symbols::SymbolText;
use crate::sys::text::Text;
use crate::tracer::Tracer;

/// Makes lines of events.
pub(super) struct Lines {
    timeline: Timeline,
    symbols: SymbolCache,
    /// The [modules](crate::machine::Machine::modules_loaded) that the names are of.
    modules_loaded: u64,
    shown: Shown,
    /// If the depth is shown.
    replay: Option<Replay>,
}

/// Where the depth is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shown {
    /// In a column.
    column: bool,
    /// As indentation.
    tree: bool,
}

impl Shown {
    fn by(instance: &Instance) -> Self {
        Self {
            column: instance.options().has(TraceOption::FuncDepth),
            tree: instance.tracer() == Tracer::CallTrace,
        }
    }

    fn replay(self) -> Option<Replay> {
        (self.column || self.tree).then(Replay::new)
    }
}

impl Lines {
    /// Lines as the options of `instance` say.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn new(instance: &Instance) -> Result<Self> {
        let shown = Shown::by(instance);
        Ok(Self {
            timeline: instance.timeline(),
            symbols: SymbolCache::new()?,
            modules_loaded: instance.machine().modules_loaded(),
            shown,
            replay: shown.replay(),
        })
    }

    /// Follows what has changed since, before more events are looked for.
    pub(super) fn refresh(&mut self, instance: &Instance) {
        self.timeline = instance.timeline();
        self.symbols.passing.clear();
        let shown = Shown::by(instance);
        if self.shown != shown {
            self.shown = shown;
            self.replay = shown.replay();
        }
    }

    /// Forgets names that may not be right for an event that has just been looked at; none can be wrong
    /// for one that was there before anything was looked up.
    pub(super) fn follow_modules(&mut self, instance: &Instance) {
        let modules_loaded = instance.machine().modules_loaded();
        if self.modules_loaded != modules_loaded {
            self.modules_loaded = modules_loaded;
            self.symbols.passing.clear();
        }
    }

    /// Whether lines have a column with the depth.
    pub(super) fn with_depth(&self) -> bool {
        self.shown.column
    }

    /// Appends an event's line, and one before it if events were lost there.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn write_event(
        &mut self,
        text: &mut Text,
        cpu: u32,
        event: &Event,
        _extras: &Extras,
    ) -> Result {
        if event.lost != 0 {
            render::write_lost(text, cpu, event.lost).map_err(no_memory)?;
        }
        let depth = match &mut self.replay {
            Some(replay) => replay.enter(cpu, event)?,
            None => 0,
        };
        let column = self.shown.column.then_some(depth);
        let indent = if self.shown.tree { depth } else { 0 };
        let time = self.timeline.time(event.time);
        let symbols = &mut self.symbols;
        render::write_entry(text, symbols, cpu, event, time, column, indent).map_err(no_memory)
    }
}

/// Names of addresses that were looked up.
///
/// An address of the kernel proper is always the same function's. Those of modules, and of BPF programs
/// and trampolines, of whose coming and going nobody is told, can be another's the next time.
struct SymbolCache {
    lasting: Names,
    passing: Names,
    text: SymbolText,
}

impl SymbolCache {
    fn new() -> Result<Self> {
        Ok(Self {
            lasting: Names::new(),
            passing: Names::new(),
            text: SymbolText::new()?,
        })
    }
}

impl Symbols for SymbolCache {
    fn name(&mut self, address: u64) -> &[u8] {
        if let Some(found) = self.lasting.find(address) {
            return self.lasting.text(found);
        }
        if let Some(found) = self.passing.find(address) {
            return self.passing.text(found);
        }
        let name = self.text.look_up(address);
        let is_lasting = !name.ends_with(b"]") && !name.starts_with(b"0x");
        let names = match is_lasting {
            true => &mut self.lasting,
            false => &mut self.passing,
        };
        // Without memory it is looked up again the next time.
        let _ = names.keep(address, name);
        name
    }
}
