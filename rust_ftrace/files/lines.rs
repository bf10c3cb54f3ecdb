// SPDX-License-Identifier: GPL-2.0

//! Events as lines: with times, names and depths as they are when somebody reads them.

use core::fmt::{self, Write};

use kernel::prelude::*;

use super::small::no_memory;
use crate::engine::reader::Event;
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
            replay: instance.func_depth().then(Replay::new),
        })
    }

    /// Follows what has changed since.
    pub(super) fn refresh(&mut self, instance: &Instance) {
        self.timeline = instance.timeline();
        if self.with_depth() != instance.func_depth() {
            self.replay = instance.func_depth().then(Replay::new);
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
    pub(super) fn write_event(&mut self, text: &mut Text, cpu: u32, event: &Event) -> Result {
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

/// Room for a name in the cache; longer ones are looked up every time.
const CACHED_NAME: usize = 54;

/// Number of names that the cache keeps; a power of two.
const CACHED: usize = 1024;

#[derive(Clone, Copy)]
struct CachedName {
    address: u64,
    length: u16,
    name: [u8; CACHED_NAME],
}

/// Names that were looked up before. A look-up costs thousands of instructions.
struct SymbolCache {
    names: KVVec<CachedName>,
    text: SymbolText,
}

impl SymbolCache {
    fn new() -> Result<Self> {
        let empty = CachedName {
            address: 0,
            length: 0,
            name: [0; CACHED_NAME],
        };
        Ok(Self {
            names: KVVec::from_elem(empty, CACHED, GFP_KERNEL)?,
            text: SymbolText::new()?,
        })
    }
}

impl Symbols for SymbolCache {
    fn write_symbol(&mut self, out: &mut dyn Write, address: u64) -> fmt::Result {
        let place = (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize % CACHED;
        let Some(cached) = self.names.get_mut(place) else {
            return Ok(());
        };
        if cached.address == address && cached.length != 0 {
            let name = cached
                .name
                .get(..cached.length as usize)
                .unwrap_or_default();
            return out.write_str(core::str::from_utf8(name).unwrap_or("?"));
        }
        let name = self.text.look_up(address);
        if let Some(room) = cached.name.get_mut(..name.len()) {
            room.copy_from_slice(name);
            cached.address = address;
            cached.length = name.len() as u16;
        }
        out.write_str(core::str::from_utf8(name).unwrap_or("?"))
    }
}
