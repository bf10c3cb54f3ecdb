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

/// Makes lines of events.
pub(super) struct Lines {
    timeline: Timeline,
    symbols: SymbolCache,
    /// The [modules](crate::machine::Machine::modules_loaded) that the names are of.
    modules_loaded: u64,
    /// If the depth is wanted.
    replay: Option<Replay>,
}

impl Lines {
    /// Lines as the options of `instance` say.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn new(instance: &Instance) -> Result<Self> {
        Ok(Self {
            timeline: instance.timeline(),
            symbols: SymbolCache::new()?,
            modules_loaded: instance.machine().modules_loaded(),
            replay: Self::wants_depth(instance).then(Replay::new),
        })
    }

    fn wants_depth(instance: &Instance) -> bool {
        instance.options().has(TraceOption::FuncDepth)
    }

    /// Follows what has changed since, before more events are looked for.
    pub(super) fn refresh(&mut self, instance: &Instance) {
        self.timeline = instance.timeline();
        self.symbols.passing.clear();
        let wants_depth = Self::wants_depth(instance);
        if self.with_depth() != wants_depth {
            self.replay = wants_depth.then(Replay::new);
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
        self.replay.is_some()
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
            Some(replay) => Some(replay.enter(cpu, event)?),
            None => None,
        };
        let time = self.timeline.time(event.time);
        render::write_entry(text, &mut self.symbols, cpu, event, time, depth).map_err(no_memory)
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
