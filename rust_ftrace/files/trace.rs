// SPDX-License-Identifier: GPL-2.0

//! `trace`: the events as text, merged over CPUs, without taking them out.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::lines::Lines;
use super::small::no_memory;
use super::Context;
use crate::engine::graph;
use crate::engine::merge::{self, Merge};
use crate::engine::reader::{Cursor, Event, What};
use crate::engine::render::{self, Totals};
use crate::instance::buffer::SubbufCopy;
use crate::instance::buffers::{Source, Which};
use crate::sys::cpu;
use crate::sys::debugfs::{File, OpenMode, Records};
use crate::sys::text::Text;
use crate::tracer::Tracer;

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
    lines: Lines,
    totals: Totals,
    tracer: Tracer,
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
            lines: Lines::new(instance)?,
            totals: Totals {
                present: stats.present,
                written: stats.counts.written,
                cpus: u32::try_from(cpu::online().count())?,
            },
            tracer: instance.tracer(),
            started: (stats.overwritten() != 0).then(KVec::new),
            header_done: false,
        })
    }
}

impl Reading {
    /// Writes the next event; false if there is none.
    fn write_next(&mut self, text: &mut Text) -> Result<bool> {
        let Some((source, event)) = self.events.next() else {
            return Ok(false);
        };
        let cpu = merge::Source::cpu(source);
        // (function_graph does not say so: print_trace_line() of kernel/trace/trace.c)
        let started = (self.started.as_mut()).filter(|_| event.what == What::Function);
        if let Some(started) = started {
            if !started.contains(&cpu) {
                if !started.is_empty() {
                    render::write_cpu_started(text, cpu).map_err(no_memory)?;
                    // What it has lost is between what others have and this.
                    self.lines.skip(cpu)?;
                }
                started.push(cpu, GFP_KERNEL)?;
            }
        }
        let extras = source.cursor.extras();
        let callers = &mut source.cursor.stack();
        self.lines.write_event(text, cpu, event, extras, callers)?;
        Ok(true)
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
            let options = self.context.instance.options();
            match reading.tracer {
                Tracer::FunctionGraph => graph::write_header(text, reading.tracer.name(), options),
                tracer => {
                    let with_depth = reading.lines.with_depth();
                    render::write_header(text, tracer.name(), &reading.totals, with_depth)
                }
            }
            .map_err(no_memory)?;
            return Ok(true);
        }
        reading.write_next(text)
    }
}
