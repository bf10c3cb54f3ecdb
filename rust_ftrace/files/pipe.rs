// SPDX-License-Identifier: GPL-2.0

//! `trace_pipe`: the events as text, each given out once.

use kernel::prelude::*;

use super::attribute::no_memory;
use super::context::FileContext;
use super::drain::{Contents, Drain};
use super::lines::{line_maker, settings_of, RunningKernel};
use crate::engine::decode::{Event, Extras};
use crate::engine::lines::{LineMaker, ReadEvent};
use crate::engine::text::Text;
use crate::instance::buffers::BufferSource;

/// Most bytes that are made ready at a time.
const MAX_READ: usize = 1 << 15;

/// `trace_pipe`, of one CPU or all.
pub(super) type PipeFile = Drain<PipeLines>;

/// Lines of events that were taken out.
pub(super) struct PipeLines {
    lines: LineMaker,
    kernel: RunningKernel,
    text: Text,
    /// CPUs, and the index of the last event that was looked at and of the one behind it.
    next: KVec<(u32, u64, u64)>,
}

/// The next event of a CPU.
struct PipeHead {
    source: usize,
    cpu: u32,
    index: u64,
    event: Event,
    extras: Extras,
    /// The stack.
    callers: KVec<u64>,
    /// The bytes that a program has written.
    said: KVec<u8>,
}

impl PipeHead {
    fn of(sources: &[BufferSource], source: usize) -> Result<Option<Self>> {
        let Some(BufferSource { cpu, buffer }) = sources.get(source) else {
            return Ok(None);
        };
        let next: Result<_> = buffer.consume(|ring, consumer| {
            let Some((index, event)) = consumer.peek(ring) else {
                return Ok(None);
            };
            let mut callers = KVec::new();
            for address in consumer.stack() {
                callers.push(address, GFP_KERNEL)?;
            }
            let mut said = KVec::new();
            for byte in consumer.text() {
                said.push(byte, GFP_KERNEL)?;
            }
            Ok::<_, Error>(Some(Self {
                source,
                cpu: cpu.as_u32(),
                index,
                event,
                extras: consumer.extras(),
                callers,
                said,
            }))
        })?;
        next
    }
}

impl PipeLines {
    /// Notes which event of `cpu` comes now. Others may be missing before it: they were cleared, or
    /// another reader has them.
    fn follow(&mut self, cpu: u32, index: u64, count: u64) -> Result {
        let now = (cpu, index, index.wrapping_add(count));
        match self.next.iter_mut().find(|known| known.0 == cpu) {
            Some(known) => {
                let (_, last, next) = core::mem::replace(known, now);
                if index != last && index != next {
                    self.lines.skip(cpu).map_err(no_memory)?;
                }
            }
            None => {
                if index != 0 {
                    self.lines.skip(cpu).map_err(no_memory)?;
                }
                self.next.push(now, GFP_KERNEL)?;
            }
        }
        Ok(())
    }
}

impl Contents for PipeLines {
    const SPLICES_AS_POLLS: bool = false;

    fn new(context: &FileContext) -> Result<Self> {
        Ok(Self {
            lines: line_maker(&context.instance),
            kernel: RunningKernel::new(&context.instance)?,
            text: Text::new(),
            next: KVec::new(),
        })
    }

    /// Takes events out, in the order of time over all CPUs, until their lines make about `wanted`
    /// bytes.
    fn fill(&mut self, context: &FileContext, sources: &[BufferSource], wanted: usize) -> Result {
        let wanted = wanted.min(MAX_READ);
        self.text.clear();
        let mut heads = KVec::new();
        for source in 0..sources.len() {
            if let Some(head) = PipeHead::of(sources, source)? {
                heads.push(head, GFP_KERNEL)?;
            }
        }
        if heads.is_empty() {
            return Ok(());
        }
        self.kernel.forget_passing();
        self.lines.set(settings_of(&context.instance));
        let key = |(_, head): &(usize, &PipeHead)| (head.event.time, head.cpu);
        while let Some((place, head)) = heads.iter().enumerate().min_by_key(key) {
            let length = self.text.as_bytes().len();
            self.follow(head.cpu, head.index, head.event.count())?;
            self.kernel.follow_modules();
            let read = ReadEvent {
                cpu: head.cpu,
                event: &head.event,
                extras: &head.extras,
                callers: &mut head.callers.iter().copied(),
                bytes: &mut head.said.iter().copied(),
            };
            let (text, kernel) = (&mut self.text, &mut self.kernel);
            let written = self.lines.write_event(text, kernel, read);
            if written.is_err() {
                // Nothing was taken that is not all there.
                self.text.truncate(length);
                self.lines.take_back();
                written.map_err(no_memory)?;
            }
            if length > 0 && self.text.as_bytes().len() > wanted {
                // It is for the next read, or for another reader.
                self.text.truncate(length);
                self.lines.take_back();
                break;
            }
            let Some(source) = sources.get(head.source) else {
                break;
            };
            if !source
                .buffer
                .consume(|_, consumer| consumer.take(head.index))?
            {
                // Another reader was faster.
                self.text.truncate(length);
                self.lines.take_back();
            }
            match (PipeHead::of(sources, head.source)?, heads.get_mut(place)) {
                (Some(next), Some(head)) => *head = next,
                _ => {
                    let _ = heads.remove(place);
                }
            }
        }
        Ok(())
    }

    fn parts(&self) -> [&[u8]; 2] {
        [self.text.as_bytes(), &[]]
    }

    /// One part a read: it is for others to take out what comes then.
    fn least_room(&self) -> usize {
        usize::MAX
    }
}
