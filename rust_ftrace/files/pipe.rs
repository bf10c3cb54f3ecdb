// SPDX-License-Identifier: GPL-2.0

//! `trace_pipe`: the events as text, each given out once.

use kernel::iov::IovIterDest;
use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

use super::lines::Lines;
use super::Context;
use crate::engine::reader::{Event, Extras};
use crate::instance::buffers::{Source, Which};
use crate::instance::waiting::{Awaited, Waiting};
use crate::instance::Instance;
use crate::sys::stream::Stream;
use crate::sys::text::Text;
use crate::sys::wait::Poll;

/// Most bytes that are made ready at a time.
const MAX_READ: usize = 1 << 15;

/// What a reader that polls waits for: any event of all CPUs, or part of one CPU's buffer, as in
/// `trace_poll()` of kernel/trace/trace.c.
pub(super) fn awaited(context: &Context) -> Awaited {
    match (context.cpu, context.instance.buffer_percent()) {
        (Some(_), percent @ 1..) => Awaited::Percent(percent),
        _ => Awaited::Event,
    }
}

/// Polls, with `waiting` held as long as that takes.
pub(super) fn poll(context: &Context, waiting: &Mutex<Option<Waiting>>, poll: Poll<'_>) -> bool {
    let awaited = awaited(context);
    let mut waiting = waiting.lock();
    if awaited == Awaited::Event && waiting.is_none() {
        *waiting = Some(Waiting::new(&context.instance));
    }
    // Without memory it is for a read to say so.
    let ready = (context.instance)
        .poll(context.cpu, awaited, poll)
        .unwrap_or(true);
    if ready {
        *waiting = None;
    }
    ready
}

/// `trace_pipe`, of one CPU or all.
#[pin_data]
pub(super) struct PipeFile {
    #[pin]
    state: Mutex<State>,
    #[pin]
    waiting: Mutex<Option<Waiting>>,
}

struct State {
    lines: Lines,
    /// Lines of events that were taken out; `sent` bytes of it the user has.
    text: Text,
    sent: usize,
    /// Whether the user was given anything.
    has_read: bool,
    /// CPUs, and the index of the last event that was looked at and of the one behind it.
    next: KVec<(u32, u64, u64)>,
}

/// What comes next on a CPU.
struct Head {
    source: usize,
    cpu: u32,
    index: u64,
    event: Event,
    extras: Extras,
    /// The stack.
    callers: KVec<u64>,
}

impl Head {
    fn of(sources: &[Source], source: usize) -> Result<Option<Self>> {
        let Some(Source { cpu, buffer }) = sources.get(source) else {
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
            Ok::<_, Error>(Some(Self {
                source,
                cpu: cpu.as_u32(),
                index,
                event,
                extras: consumer.extras(),
                callers,
            }))
        })?;
        next
    }
}

impl State {
    /// Notes which event of `cpu` comes now. Others may be missing before it: they were cleared, or another
    /// reader has them.
    fn follow(&mut self, cpu: u32, index: u64, count: u64) -> Result {
        let now = (cpu, index, index.wrapping_add(count));
        match self.next.iter_mut().find(|known| known.0 == cpu) {
            Some(known) => {
                let (_, last, next) = core::mem::replace(known, now);
                if index != last && index != next {
                    self.lines.skip(cpu)?;
                }
            }
            None => {
                if index != 0 {
                    self.lines.skip(cpu)?;
                }
                self.next.push(now, GFP_KERNEL)?;
            }
        }
        Ok(())
    }

    /// Takes events out, in the order of time over all CPUs, until their lines make about `wanted`
    /// bytes.
    fn fill(&mut self, context: &Context, wanted: usize) -> Result {
        self.text.clear();
        self.sent = 0;
        let sources = context.instance.sources(context.cpu, Which::Live)?;
        let mut heads = KVec::new();
        for source in 0..sources.len() {
            if let Some(head) = Head::of(&sources, source)? {
                heads.push(head, GFP_KERNEL)?;
            }
        }
        if heads.is_empty() {
            return Ok(());
        }
        self.lines.refresh(&context.instance);
        let key = |(_, head): &(usize, &Head)| (head.event.time, head.cpu);
        while let Some((place, head)) = heads.iter().enumerate().min_by_key(key) {
            let length = self.text.as_bytes().len();
            self.follow(head.cpu, head.index, head.event.count())?;
            self.lines.follow_modules(&context.instance);
            let (event, extras) = (&head.event, &head.extras);
            let callers = &mut head.callers.iter().copied();
            let written = self
                .lines
                .write_event(&mut self.text, head.cpu, event, extras, callers);
            if written.is_err() {
                // Nothing was taken that is not all there.
                self.text.truncate(length);
                self.lines.take_back();
                written?;
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
            match (Head::of(&sources, head.source)?, heads.get_mut(place)) {
                (Some(next), Some(head)) => *head = next,
                _ => {
                    let _ = heads.remove(place);
                }
            }
        }
        Ok(())
    }

    /// Gives the user what is there.
    fn send(&mut self, into: &mut IovIterDest<'_>) -> Result<usize> {
        let rest = self.text.as_bytes().get(self.sent..).unwrap_or_default();
        let sent = into.copy_to_iter(rest);
        if sent == 0 && !rest.is_empty() {
            return Err(EFAULT);
        }
        self.sent += sent;
        self.has_read |= sent != 0;
        Ok(sent)
    }
}

impl Stream for PipeFile {
    type Context = Context;

    fn open(context: &Arc<Context>) -> Result<Pin<KBox<Self>>> {
        let state = State {
            lines: Lines::new(&context.instance)?,
            text: Text::new(),
            sent: 0,
            has_read: false,
            next: KVec::new(),
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
            if state.sent >= state.text.as_bytes().len() {
                state.fill(context, into.len().min(MAX_READ))?;
            }
            let sent = state.send(into)?;
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

    fn wait_to_splice(&self, _context: &Context, _block: bool) -> Result {
        Ok(())
    }

    fn poll(&self, context: &Context, poll: Poll<'_>) -> bool {
        let state = self.state.lock();
        let has_rest = state.sent < state.text.as_bytes().len();
        drop(state);
        has_rest || self::poll(context, &self.waiting, poll)
    }

    fn wake(&self, context: &Context) {
        context.instance.wake_readers();
    }
}

/// Waits, unless the stream ends here: nothing more is recorded, and something was read.
///
/// # Errors
///
/// - `EAGAIN` if there is nothing, and it may not `block`.
/// - Those of [`Instance::wait`].
pub(super) fn wait_for_more(
    context: &Context,
    awaited: Awaited,
    block: bool,
    has_read: bool,
) -> Result<bool> {
    if !block {
        return Err(EAGAIN);
    }
    let instance: &Arc<Instance> = &context.instance;
    // (before `is_on`: who switches recording off wakes all after that)
    let seen = instance.wakes_seen(context.cpu);
    if !instance.is_on() && has_read {
        // What was written before it was switched off is still to be read.
        return instance.has(context.cpu, Awaited::Event);
    }
    instance.wait(context.cpu, awaited, seen)?;
    Ok(true)
}
