// SPDX-License-Identifier: GPL-2.0

//! `trace`: the events as text, merged over CPUs, without taking them out.

use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::attribute::no_memory;
use super::context::FileContext;
use super::lines::{line_maker, RunningKernel};
use crate::engine::header::{BufferTotals, LatencyHeader};
use crate::engine::merge::Merge;
use crate::engine::options::TraceOption;
use crate::engine::reader::Cursor;
use crate::engine::text::Text;
use crate::engine::trace_reader::{self, CpuEvents};
use crate::instance::buffer::SubbufCopy;
use crate::instance::buffers::{BufferKind, BufferSource};
use crate::instance::Instance;
use crate::platform;
use crate::sys::debugfs::{File, OpenMode, Records};
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

/// The state of one reading of the trace.
pub(super) type TraceReader = trace_reader::TraceReader<BufferSource, SubbufCopy, RunningKernel>;

/// The lines of `trace`.
pub(super) struct TraceLines {
    context: Arc<FileContext>,
    which: BufferKind,
    reading: Option<KBox<TraceReader>>,
    header_done: bool,
}

impl TraceLines {
    /// The lines of that buffer.
    pub(super) fn new(context: Arc<FileContext>, which: BufferKind) -> Self {
        Self {
            context,
            which,
            reading: None,
            header_done: false,
        }
    }
}

/// Begins to read at the first event of `cpu`, or of all.
///
/// # Errors
///
/// `ENOMEM` if there is no memory.
pub(super) fn begin(
    instance: &Arc<Instance>,
    cpu: Option<CpuId>,
    which: BufferKind,
) -> Result<KBox<TraceReader>> {
    let stats = instance.recording().stats(cpu, which);
    let events = events_of(instance, cpu, which)?;
    let totals = BufferTotals {
        present: stats.present,
        written: stats.counts.written,
        cpus: u32::try_from(cpu::online().count())?,
    };
    let annotates = stats.overwritten() != 0 && instance.options().has(TraceOption::Annotate);
    let kernel = RunningKernel::new(instance)?;
    // What is large is made where it stays: there is little stack.
    let place = KBox::<TraceReader>::new_uninit(GFP_KERNEL)?;
    let lines = line_maker(instance);
    Ok(place.write(TraceReader::new(events, lines, kernel, totals, annotates)))
}

/// Returns the events of `cpu`, or of all, in order.
#[inline(never)]
fn events_of(
    instance: &Instance,
    cpu: Option<CpuId>,
    which: BufferKind,
) -> Result<Merge<CpuEvents<BufferSource, SubbufCopy>>> {
    let mut events = Merge::new();
    let mut sources = instance
        .recording()
        .sources(cpu, which)?
        .into_iter()
        .peekable();
    while let Some(first) = sources.next() {
        let cpu = first.cpu;
        let first = with_cursor(first)?;
        let mut later = platform::Vec::new();
        while let Some(source) = sources.next_if(|source| source.cpu == cpu) {
            later.push(with_cursor(source)?)?;
        }
        events.add(CpuEvents::new(first, later))?;
    }
    Ok(events)
}

fn with_cursor(source: BufferSource) -> Result<(BufferSource, Cursor<SubbufCopy>)> {
    let ring = source.buffer.ring();
    let cursor = Cursor::new(ring, SubbufCopy::new(ring)?, source.buffer.position());
    Ok((source, cursor))
}

impl Records for TraceLines {
    fn rewind(&mut self) -> Result {
        let FileContext { instance, cpu, .. } = &*self.context;
        self.reading = Some(begin(instance, *cpu, self.which)?);
        self.header_done = false;
        Ok(())
    }

    fn next(&mut self, text: &mut Text) -> Result<bool> {
        let Some(reading) = &mut self.reading else {
            return Ok(false);
        };
        if !core::mem::replace(&mut self.header_done, true) {
            let machine = LatencyHeader {
                release: sys::kernel_release().to_str().unwrap_or_default(),
                preemption: sys::preemption_model(),
            };
            reading.write_header(text, machine).map_err(no_memory)?;
            return Ok(true);
        }
        reading.write_next(text).map_err(no_memory)
    }
}
