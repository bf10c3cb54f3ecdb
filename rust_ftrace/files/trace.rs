// SPDX-License-Identifier: GPL-2.0

//! `trace`: the events as text, merged over CPUs, without taking them out.

use core::fmt::{self, Write};

use kernel::prelude::*;
use kernel::sync::Arc;

use super::small::no_memory;
use super::Context;
use crate::engine::merge::{self, Merge};
use crate::engine::reader::{Cursor, Event};
use crate::engine::render::{self, Symbols, Totals};
use crate::engine::replay::Replay;
use crate::instance::buffer::SubbufCopy;
use crate::instance::buffers::{Source, Which};
use crate::machine::Timeline;
use crate::sys::cpu;
use crate::sys::debugfs::{File, OpenMode, Records};
use crate::sys::symbols::SymbolText;
use crate::sys::text::Text;

/// `trace`, of one CPU or all.
pub(super) struct TraceFile;

impl File for TraceFile {
    type Context = Context;
    type Records = TraceLines;

    fn open(context: &Arc<Context>, mode: OpenMode) -> Result<Self> {
        if mode.writable && mode.truncate {
            context.instance.clear(context.cpu);
        }
        Ok(Self)
    }

    fn records(&self, context: &Arc<Context>) -> TraceLines {
        TraceLines::new(context.clone(), Which::Live)
    }

    fn write(&self, context: &Context, _data: &[u8]) -> Result {
        context.instance.clear(context.cpu);
        Ok(())
    }
}

/// A CPU's events.
struct CpuSource {
    source: Source,
    cursor: Cursor<SubbufCopy>,
}

impl CpuSource {
    fn new(source: Source) -> Result<Self> {
        let ring = source.buffer.ring();
        let cursor = Cursor::new(ring, SubbufCopy::new(ring)?, source.buffer.position());
        Ok(Self { source, cursor })
    }
}

impl merge::Source for CpuSource {
    fn cpu(&self) -> u32 {
        self.source.cpu.as_u32()
    }

    fn next(&mut self) -> Option<Event> {
        self.cursor.next(self.source.buffer.ring())
    }
}

/// The state of one reading of the trace.
struct Reading {
    events: Merge<CpuSource>,
    timeline: Timeline,
    symbols: SymbolCache,
    /// If the depth is wanted.
    replay: Option<Replay>,
    totals: Totals,
    tracer: &'static str,
    /// CPUs that have shown an event, to say where the others begin; `None` if no CPU has lost any.
    started: Option<KVec<u32>>,
    header_done: bool,
}

/// The lines of `trace`.
pub(super) struct TraceLines {
    context: Arc<Context>,
    which: Which,
    reading: Option<Reading>,
}

impl TraceLines {
    /// The lines of that buffer.
    pub(super) fn new(context: Arc<Context>, which: Which) -> Self {
        Self {
            context,
            which,
            reading: None,
        }
    }

    fn begin(&self) -> Result<Reading> {
        let instance = &self.context.instance;
        let stats = instance.stats(self.context.cpu, self.which);
        let mut events = Merge::new();
        for source in instance.sources(self.context.cpu, self.which)? {
            events.add(CpuSource::new(source)?)?;
        }
        Ok(Reading {
            events,
            timeline: instance.timeline(),
            symbols: SymbolCache::new()?,
            replay: instance.func_depth().then(Replay::new),
            totals: Totals {
                present: stats.present,
                written: stats.counts.written,
                cpus: u32::try_from(cpu::online().count())?,
            },
            tracer: instance.tracer().name(),
            started: (stats.overwritten() != 0).then(KVec::new),
            header_done: false,
        })
    }
}

impl Reading {
    fn write_event(&mut self, text: &mut Text, cpu: u32, event: &Event) -> Result {
        if let Some(started) = &mut self.started {
            if !started.contains(&cpu) {
                if !started.is_empty() {
                    render::write_cpu_started(text, cpu).map_err(no_memory)?;
                }
                started.push(cpu, GFP_KERNEL)?;
            }
        }
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

impl Records for TraceLines {
    fn rewind(&mut self) -> Result {
        self.reading = Some(self.begin()?);
        Ok(())
    }

    fn next(&mut self, text: &mut Text) -> Result<bool> {
        let Some(reading) = &mut self.reading else {
            return Ok(false);
        };
        if !core::mem::replace(&mut reading.header_done, true) {
            let with_depth = reading.replay.is_some();
            render::write_header(text, reading.tracer, &reading.totals, with_depth)
                .map_err(no_memory)?;
            return Ok(true);
        }
        let Some((cpu, event)) = reading.events.next() else {
            return Ok(false);
        };
        reading.write_event(text, cpu, &event)?;
        Ok(true)
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
