// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Reading the events of all CPUs as text, merged by time, without taking them out.

use core::fmt::{Error, Result};

use super::decode::Event;
use super::header::{BufferTotals, LatencyHeader};
use super::lines::{LineMaker, ReadEvent, TracedKernel};
use super::merge::{EventSource, Merge};
use super::reader::Cursor;
use super::render::{self, Style};
use super::ring::{Ring, Storage};
use super::settings::Tracer;
use super::slot::SlotWords;
use super::text::Text;
use crate::platform::Vec;

/// A buffer of one CPU.
pub trait CpuBuffer {
    /// Its memory.
    type Memory: Storage;

    /// Returns the CPU's number.
    fn cpu(&self) -> u32;

    /// Returns the ring with its events.
    fn ring(&self) -> &Ring<Self::Memory>;
}

/// The events of one CPU, which may be in several buffers.
pub struct CpuEvents<B, C> {
    buffer: B,
    cursor: Cursor<C>,
    /// The buffers that were written after that, the last one first.
    later: Vec<(B, Cursor<C>)>,
}

impl<B: CpuBuffer, C: AsRef<[SlotWords]> + AsMut<[SlotWords]>> CpuEvents<B, C> {
    /// Makes one stream of the events of the first buffer and of those `later`, in the order in
    /// which they were written.
    pub fn new((buffer, cursor): (B, Cursor<C>), mut later: Vec<(B, Cursor<C>)>) -> Self {
        later.reverse();
        Self {
            buffer,
            cursor,
            later,
        }
    }

    /// Goes on with the next buffer; `None` if there is none.
    #[cold]
    fn go_on(&mut self) -> Option<()> {
        (self.buffer, self.cursor) = self.later.pop()?;
        Some(())
    }
}

impl<B: CpuBuffer, C: AsRef<[SlotWords]> + AsMut<[SlotWords]>> EventSource for CpuEvents<B, C> {
    type Event = Event;

    fn cpu(&self) -> u32 {
        self.buffer.cpu()
    }

    #[inline(always)]
    fn next(&mut self) -> Option<Event> {
        loop {
            let event = self.cursor.next(self.buffer.ring());
            if event.is_some() {
                return event;
            }
            self.go_on()?;
        }
    }
}

/// The state of one reading of the trace.
pub struct TraceReader<B: CpuBuffer, C: AsRef<[SlotWords]> + AsMut<[SlotWords]>, K> {
    events: Merge<CpuEvents<B, C>>,
    lines: LineMaker,
    kernel: K,
    totals: BufferTotals,
    tracer: Tracer,
    /// CPUs that have shown an event, to say where the others begin; `None` if that is not said.
    started: Option<Vec<u32>>,
    /// Lines that wait for the time of the next event.
    held: Option<Held>,
}

/// Lines of an event, with the place of the mark in them that tells how much later the next came,
/// and the event's time.
struct Held {
    text: Text,
    delay: Option<(usize, u64)>,
}

impl<B: CpuBuffer, C: AsRef<[SlotWords]> + AsMut<[SlotWords]>, K: TracedKernel>
    TraceReader<B, C, K>
{
    /// Makes the reader, from the first of `events` on. If it `annotates`, as is of use if a CPU
    /// has lost events, lines say where the events of a CPU begin later than those of others.
    pub fn new(
        events: Merge<CpuEvents<B, C>>,
        lines: LineMaker,
        kernel: K,
        totals: BufferTotals,
        annotates: bool,
    ) -> Self {
        let tracer = lines.settings().tracer;
        // function_graph does not say so: print_trace_line() of kernel/trace/trace.c.
        let annotates = annotates && tracer != Tracer::FunctionGraph;
        Self {
            events,
            lines,
            kernel,
            totals,
            tracer,
            started: annotates.then(Vec::new),
            held: None,
        }
    }

    /// Returns the number of events.
    pub const fn present(&self) -> u64 {
        self.totals.present
    }

    /// Leaves the next event out; false if there is none.
    pub fn skip_next(&mut self) -> bool {
        self.events.next().is_some()
    }

    /// Writes the lines that come before all events.
    ///
    /// # Errors
    ///
    /// [`Error`] if there is no memory.
    #[cold]
    pub fn write_header(&self, text: &mut Text, machine: LatencyHeader<'_>) -> Result {
        (self.lines).write_header(text, self.tracer.name(), &self.totals, machine)
    }

    /// Writes the next event; false if there is none.
    ///
    /// # Errors
    ///
    /// [`Error`] if there is no memory.
    #[inline(always)]
    pub fn write_next(&mut self, text: &mut Text) -> core::result::Result<bool, Error> {
        match self.lines.is_latency() {
            true => self.write_held(text),
            false => self.write_event(text),
        }
    }

    /// Writes the lines of the next event once those of the one behind it are known.
    #[cold]
    fn write_held(&mut self, text: &mut Text) -> core::result::Result<bool, Error> {
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
                text.push_bytes(before)?;
                text.push_bytes(&[Style::delay(time, next)])?;
                text.push_bytes(after.get(1..).unwrap_or_default())?;
            }
            _ => text.push_bytes(bytes)?,
        }
        Ok(true)
    }

    /// Makes the lines of the next event.
    fn hold(&mut self) -> core::result::Result<Option<Held>, Error> {
        let mut text = Text::new();
        let is_there = self.write_event(&mut text)?;
        let delay = self.lines.take_delay();
        Ok(is_there.then_some(Held { text, delay }))
    }

    /// Writes the next event as far as it tells.
    #[inline(always)]
    fn write_event(&mut self, text: &mut Text) -> core::result::Result<bool, Error> {
        let Some((source, event)) = self.events.next() else {
            return Ok(false);
        };
        let cpu = source.cpu();
        if let Some(started) = &mut self.started {
            if !started.contains(&cpu) {
                if !started.is_empty() {
                    render::write_cpu_started(text, cpu)?;
                    // What it has lost is between what others have and this.
                    self.lines.skip(cpu)?;
                }
                started.push(cpu).map_err(|_| Error)?;
            }
        }
        let read = ReadEvent {
            cpu,
            event,
            extras: source.cursor.extras(),
            callers: &mut source.cursor.stack(),
            bytes: &mut source.cursor.text(),
        };
        self.lines.write_event(text, &mut self.kernel, read)?;
        Ok(true)
    }
}
