// SPDX-License-Identifier: GPL-2.0

//! `trace`: the events as text, merged over CPUs, without taking them out.

use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::attribute::no_memory;
use super::context::FileContext;
use super::lines::LineMaker;
use crate::engine::decode::Event;
use crate::engine::graph_header;
use crate::engine::merge::{self, Merge};
use crate::engine::options::{Options, TraceOption};
use crate::engine::reader::Cursor;
use crate::engine::render::{self, BufferTotals};
use crate::engine::settings::Tracer;
use crate::engine::style::{LatencyHeader, Style};
use crate::instance::buffer::SubbufCopy;
use crate::instance::buffers::{BufferKind, BufferSource};
use crate::instance::Instance;
use crate::sys::debugfs::{File, OpenMode, Records};
use crate::sys::text::Text;
use crate::sys::{self, cpu};

/// `trace`, of one CPU or all.
pub(super) struct TraceFile;

impl File for TraceFile {
    type Context = FileContext;
    type Records = TraceLines;

    fn open(context: &Arc<FileContext>, mode: OpenMode) -> Result<Self> {
        if mode.writable && mode.truncate {
            context.instance.clear(context.cpu);
        }
        Ok(Self)
    }

    fn records(&self, context: &Arc<FileContext>) -> TraceLines {
        TraceLines::new(context.clone(), BufferKind::Live)
    }

    fn write(&self, context: &FileContext, _data: &[u8]) -> Result {
        context.instance.clear(context.cpu);
        Ok(())
    }
}

/// A CPU's events.
struct CpuSource {
    source: BufferSource,
    cursor: Cursor<SubbufCopy>,
    /// The buffers that were written after that, the last one first.
    later: KVec<(BufferSource, Cursor<SubbufCopy>)>,
}

impl CpuSource {
    /// The events of the CPU of the first of `sources`, which are put in the order in which they
    /// were written.
    fn new(mut sources: impl Iterator<Item = BufferSource>) -> Result<Option<Self>> {
        let with_cursor = |source: BufferSource| -> Result<_> {
            let ring = source.buffer.ring();
            let cursor = Cursor::new(ring, SubbufCopy::new(ring)?, source.buffer.position());
            Ok((source, cursor))
        };
        let Some(first) = sources.next() else {
            return Ok(None);
        };
        let (source, cursor) = with_cursor(first)?;
        let mut later = KVec::new();
        for source in sources {
            later.push(with_cursor(source)?, GFP_KERNEL)?;
        }
        later.reverse();
        Ok(Some(Self {
            source,
            cursor,
            later,
        }))
    }

    /// Goes on with the next buffer; `None` if there is none.
    #[cold]
    fn go_on(&mut self) -> Option<()> {
        (self.source, self.cursor) = self.later.pop()?;
        Some(())
    }
}

impl merge::EventSource for CpuSource {
    type Event = Event;

    fn cpu(&self) -> u32 {
        self.source.cpu.as_u32()
    }

    #[inline(always)]
    fn next(&mut self) -> Option<Event> {
        loop {
            let event = self.cursor.next(self.source.buffer.ring());
            if event.is_some() {
                return event;
            }
            self.go_on()?;
        }
    }
}

/// The state of one reading of the trace.
pub(super) struct TraceReader {
    events: Merge<CpuSource>,
    lines: LineMaker,
    totals: BufferTotals,
    tracer: Tracer,
    /// CPUs that have shown an event, to say where the others begin; `None` if no CPU has lost any.
    started: Option<KVec<u32>>,
    header_done: bool,
    /// Lines that wait for the time of the next event.
    held: Option<Held>,
}

/// Lines of an event, where a mark in them tells how much later the next came, and when this did.
struct Held {
    text: Text,
    delay: Option<(usize, u64)>,
}

/// The lines of `trace`.
pub(super) struct TraceLines {
    context: Arc<FileContext>,
    which: BufferKind,
    reading: Option<TraceReader>,
}

impl TraceLines {
    /// The lines of that buffer.
    pub(super) fn new(context: Arc<FileContext>, which: BufferKind) -> Self {
        Self {
            context,
            which,
            reading: None,
        }
    }
}

impl TraceReader {
    /// From the first event of `cpu`, or of all, on.
    pub(super) fn begin(
        instance: &Arc<Instance>,
        cpu: Option<CpuId>,
        which: BufferKind,
    ) -> Result<Self> {
        let stats = instance.recording().stats(cpu, which);
        let mut events = Merge::new();
        let mut sources = instance
            .recording()
            .sources(cpu, which)?
            .into_iter()
            .peekable();
        while let Some(cpu) = sources.peek().map(|source| source.cpu) {
            let of_cpu = core::iter::from_fn(|| sources.next_if(|source| source.cpu == cpu));
            if let Some(source) = CpuSource::new(of_cpu)? {
                events.add(source)?;
            }
        }
        Ok(Self {
            events,
            lines: LineMaker::new(instance)?,
            totals: BufferTotals {
                present: stats.present,
                written: stats.counts.written,
                cpus: u32::try_from(cpu::online().count())?,
            },
            tracer: instance.tracer(),
            started: (stats.overwritten() != 0 && instance.options().has(TraceOption::Annotate))
                .then(KVec::new),
            header_done: false,
            held: None,
        })
    }

    /// The number of events.
    pub(super) const fn present(&self) -> u64 {
        self.totals.present
    }

    /// Leaves the next event out; false if there is none.
    pub(super) fn skip_next(&mut self) -> bool {
        self.events.next().is_some()
    }

    /// Writes the next event; false if there is none.
    #[inline(always)]
    pub(super) fn write_next(&mut self, text: &mut Text) -> Result<bool> {
        match self.lines.is_latency() {
            true => self.write_held(text),
            false => self.write_event(text),
        }
    }

    /// Writes the lines of the next event once those of the one behind it are known.
    #[cold]
    fn write_held(&mut self, text: &mut Text) -> Result<bool> {
        let Some(held) = (match self.held.take() {
            Some(held) => Some(held),
            None => self.hold()?,
        }) else {
            return Ok(false);
        };
        self.held = self.hold()?;
        let bytes = held.text.as_bytes();
        let next = self.held.as_ref().and_then(|next| next.delay);
        match (held.delay, next) {
            (Some((place, time)), Some((_, next))) => {
                let (before, after) = bytes.split_at_checked(place).unwrap_or((bytes, &[]));
                text.push_bytes(before).map_err(no_memory)?;
                text.push_bytes(&[Style::delay(time, next)])
                    .map_err(no_memory)?;
                text.push_bytes(after.get(1..).unwrap_or_default())
            }
            _ => text.push_bytes(bytes),
        }
        .map_err(no_memory)?;
        Ok(true)
    }

    /// The lines of the next event.
    fn hold(&mut self) -> Result<Option<Held>> {
        let mut text = Text::new();
        let is_there = self.write_event(&mut text)?;
        let delay = self.lines.take_delay();
        Ok(is_there.then_some(Held { text, delay }))
    }

    /// Writes the lines that come before all events.
    #[cold]
    fn write_header(
        &self,
        text: &mut Text,
        options: Options,
    ) -> core::result::Result<bool, core::fmt::Error> {
        let style = self.lines.style();
        let machine = LatencyHeader {
            release: sys::kernel_release().to_str().unwrap_or_default(),
            preemption: sys::preemption_model(),
        };
        let (name, totals) = (self.tracer.name(), &self.totals);
        let with_depth = self.lines.with_depth();
        match self.tracer {
            Tracer::FunctionGraph => {
                graph_header::write_header(text, name, options, totals, machine)
            }
            _ if style.is_plain() => render::write_header(text, name, totals, with_depth),
            _ => style.write_header(text, name, totals, with_depth, machine),
        }?;
        Ok(true)
    }

    /// Writes the next event as far as it tells.
    #[inline(always)]
    fn write_event(&mut self, text: &mut Text) -> Result<bool> {
        let Some((source, event)) = self.events.next() else {
            return Ok(false);
        };
        let cpu = merge::EventSource::cpu(source);
        // function_graph does not say so: `print_trace_line()` of kernel/trace/trace.c.
        let started = (self.started.as_mut()).filter(|_| self.tracer != Tracer::FunctionGraph);
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
        let (callers, said) = (&mut source.cursor.stack(), &mut source.cursor.text());
        (self.lines).write_event(text, cpu, event, extras, callers, said)?;
        Ok(true)
    }
}

impl Records for TraceLines {
    fn rewind(&mut self) -> Result {
        let FileContext { instance, cpu, .. } = &*self.context;
        self.reading = Some(TraceReader::begin(instance, *cpu, self.which)?);
        Ok(())
    }

    fn next(&mut self, text: &mut Text) -> Result<bool> {
        let Some(reading) = &mut self.reading else {
            return Ok(false);
        };
        if !core::mem::replace(&mut reading.header_done, true) {
            let options = self.context.instance.options();
            return reading.write_header(text, options).map_err(no_memory);
        }
        reading.write_next(text)
    }
}
