// SPDX-License-Identifier: GPL-2.0

//! `per_cpu/cpuN/raw`: the events as they are recorded, each given out once. See
//! [`engine::raw`](crate::engine::raw) for the format.

use kernel::iov::IovIterDest;
use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

use super::pipe::{awaited, poll, wait_for_more};
use super::Context;
use crate::engine::consumer::Chunk;
use crate::engine::raw::{self, TimeFormat, HEADER_BYTES};
use crate::engine::slot::{Words, SLOT_BYTES};
use crate::instance::buffer::SubbufCopy;
use crate::instance::buffers::{Source, Which};
use crate::instance::waiting::{Awaited, Waiting};
use crate::sys::stream::Stream;
use crate::sys::wait::Poll;

/// `raw`, of one CPU.
#[pin_data]
pub(super) struct RawFile {
    #[pin]
    state: Mutex<State>,
    #[pin]
    waiting: Mutex<Option<Waiting>>,
}

/// A record whose events were taken out.
struct State {
    header: [u8; HEADER_BYTES],
    slots: SubbufCopy,
    /// Where in `slots` those of the record are.
    first: usize,
    /// Bytes of the record, and how many of them the user has.
    length: usize,
    sent: usize,
    /// Whether the user was given anything.
    has_read: bool,
}

impl State {
    /// Takes the next record of `source`, if there is one; `time` says how its times are to be read.
    fn fill(&mut self, source: &Source, time: &TimeFormat) -> Result {
        let Source { cpu, buffer } = source;
        self.length = 0;
        self.sent = HEADER_BYTES;
        if self.slots.as_ref().len() != buffer.ring().subbuf_slots() - 1 {
            self.slots = SubbufCopy::new(buffer.ring())?;
        }
        let slots = &mut self.slots;
        let chunk: Option<Chunk> =
            buffer.consume(|ring, consumer| consumer.take_chunk(ring, usize::MAX, slots))?;
        if let Some(chunk) = chunk {
            raw::fill_header(&mut self.header, &chunk, cpu.as_u32(), time);
            self.first = chunk.slots.start;
            self.length = HEADER_BYTES + chunk.slots.len() * SLOT_BYTES;
            self.sent = 0;
        }
        Ok(())
    }

    /// Gives the user as many records as there are and `into` takes.
    fn read(&mut self, context: &Context, into: &mut IovIterDest<'_>) -> Result<usize> {
        let mut total = 0;
        if self.sent < self.length {
            total = self.send(into)?;
        }
        let instance = &context.instance;
        let sources = instance.sources(context.cpu, Which::Live)?;
        if let Some(source) = sources.first() {
            let time = instance.timeline().format(instance.clock());
            while !into.is_empty() {
                self.fill(source, &time)?;
                if self.length == 0 {
                    break;
                }
                match self.send(into) {
                    // What could not be sent comes with the next read.
                    Err(_) if total != 0 => break,
                    result => total += result?,
                }
            }
        }
        Ok(total)
    }

    /// Gives the user what is there of the record.
    fn send(&mut self, into: &mut IovIterDest<'_>) -> Result<usize> {
        let mut sent = 0;
        if let Some(rest) = self.header.get(self.sent..) {
            sent += into.copy_to_iter(rest);
        }
        if self.sent + sent >= HEADER_BYTES && self.sent < self.length {
            let skip = self.sent + sent - HEADER_BYTES;
            let end = self.length - HEADER_BYTES;
            let bytes = Words::as_bytes(self.slots.as_ref().get(self.first..).unwrap_or_default());
            sent += into.copy_to_iter(bytes.get(skip..end).unwrap_or_default());
        }
        if sent == 0 && self.sent < self.length {
            return Err(EFAULT);
        }
        self.sent += sent;
        self.has_read |= sent != 0;
        Ok(sent)
    }
}

impl Stream for RawFile {
    type Context = Context;

    fn open(_context: &Arc<Context>) -> Result<Pin<KBox<Self>>> {
        let state = State {
            header: [0; HEADER_BYTES],
            slots: SubbufCopy::none(),
            first: 0,
            length: 0,
            sent: 0,
            has_read: false,
        };
        KBox::pin_init(
            pin_init!(Self {
                state <- new_mutex!(state),
                waiting <- new_mutex!(None),
            }),
            GFP_KERNEL,
        )
    }

    fn read(&self, context: &Context, into: &mut IovIterDest<'_>, block: bool) -> Result<usize> {
        *self.waiting.lock() = None;
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            let mut state = self.state.lock();
            let sent = state.read(context, into)?;
            if sent != 0 {
                return Ok(sent);
            }
            let has_read = state.has_read;
            drop(state);
            if !wait_for_more(context, Awaited::Event, block, has_read)? {
                return Ok(0);
            }
        }
    }

    fn wait_to_splice(&self, context: &Context, block: bool) -> Result {
        let state = self.state.lock();
        let (has_rest, has_read) = (state.sent < state.length, state.has_read);
        drop(state);
        while !has_rest && !context.instance.has(context.cpu, awaited(context))? {
            let on = context.instance.is_on();
            if !on && context.instance.has(context.cpu, Awaited::Event)? {
                // No more will come: what there is will do.
                break;
            }
            if !wait_for_more(context, awaited(context), block, has_read)? {
                break;
            }
        }
        Ok(())
    }

    fn poll(&self, context: &Context, poll: Poll<'_>) -> bool {
        let state = self.state.lock();
        let has_rest = state.sent < state.length;
        drop(state);
        has_rest || self::poll(context, &self.waiting, poll)
    }

    fn wake(&self, context: &Context) {
        context.instance.wake_readers();
    }
}
