// SPDX-License-Identifier: GPL-2.0

//! Drain files, which give out each event once: how they wait for events, and give out bytes.

use kernel::iov::IovIterDest;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Relaxed, Release};
use kernel::sync::{new_mutex, Arc, Mutex};

use super::context::FileContext;
use crate::instance::buffers::{BufferKind, BufferSource};
use crate::instance::waiting::{Awaited, Waiter};
use crate::sys::stream::Stream;
use crate::sys::wait::Poll;

/// The contents of a drain file.
pub(super) trait Contents: Sized + Send + Unpin + 'static {
    /// A splice waits for as many events as a poll does; otherwise for any event, as a read does.
    const SPLICES_AS_POLLS: bool;

    /// Makes empty contents.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    fn new(context: &FileContext) -> Result<Self>;

    /// Takes events of `sources` out, if there are any, for a user with room for about `wanted`
    /// bytes. Those that were taken out before are given out, and forgotten in any case.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    fn fill(&mut self, context: &FileContext, sources: &[BufferSource], wanted: usize) -> Result;

    /// The bytes of the events that were taken out last, one part behind the other; none if there
    /// were no events.
    fn parts(&self) -> [&[u8]; 2];

    /// The bytes more that the user must have room for, if a read that gave some is to take more
    /// events out.
    fn least_room(&self) -> usize;
}

/// A drain file.
#[pin_data]
pub(super) struct Drain<C> {
    /// Held while a user's memory is written, for however long that takes: code that may not wait
    /// does not take it.
    #[pin]
    state: Mutex<DrainState<C>>,
    progress: DrainProgress,
    #[pin]
    waiting: Mutex<Option<Waiter>>,
    /// Number of requests to wake the reader that waits here.
    woken: Atomic<u32>,
}

struct DrainState<C> {
    contents: C,
    /// Bytes of the contents that the user has got.
    sent: usize,
}

/// Properties of the state that are known without its lock; the holder of the lock writes them.
struct DrainProgress {
    /// There may be bytes of events that were taken out, and that the user does not have yet.
    has_rest: Atomic<bool>,
    /// The user was given something.
    has_read: Atomic<bool>,
}

impl DrainProgress {
    fn has_rest(&self) -> bool {
        self.has_rest.load(Acquire)
    }

    fn set_rest(&self, has_rest: bool) {
        self.has_rest.store(has_rest, Release);
    }

    fn has_read(&self) -> bool {
        self.has_read.load(Relaxed)
    }
}

impl<C: Contents> DrainState<C> {
    /// Returns whether there are bytes of events that were taken out, and that the user does not
    /// have yet.
    fn has_rest(&self) -> bool {
        let length: usize = self.contents.parts().iter().map(|part| part.len()).sum();
        self.sent < length
    }

    /// Gives the user the bytes that there are, as many as `into` takes. Returns their number.
    ///
    /// # Errors
    ///
    /// - `EFAULT` if the user's memory cannot be written; nothing is lost.
    /// - `ENOMEM` if there is no memory.
    fn read(
        &mut self,
        context: &FileContext,
        into: &mut IovIterDest<'_>,
        progress: &DrainProgress,
    ) -> Result<usize> {
        let room = into.len();
        let result = self.give(context, into, progress);
        progress.set_rest(self.has_rest());
        match room - into.len() {
            0 => result.map(|()| 0),
            given => {
                // An error is repeated by the next read, unless that gives the rest.
                progress.has_read.store(true, Relaxed);
                Ok(given)
            }
        }
    }

    fn give(
        &mut self,
        context: &FileContext,
        into: &mut IovIterDest<'_>,
        progress: &DrainProgress,
    ) -> Result {
        let room = into.len();
        self.send(into)?;
        // The contents are unchanged: nothing was given yet.
        let least_room = self.contents.least_room();
        let takes_more = |into: &IovIterDest<'_>| match into.len() {
            0 => false,
            left => left == room || left >= least_room,
        };
        if !takes_more(into) {
            return Ok(());
        }
        let sources = context
            .instance
            .recording()
            .sources(context.cpu, BufferKind::Live)?;
        while takes_more(into) {
            self.sent = 0;
            // This is before events are taken out: a task that polls finds them there or here.
            progress.set_rest(true);
            self.contents.fill(context, &sources, into.len())?;
            if !self.has_rest() {
                break;
            }
            self.send(into)?;
        }
        Ok(())
    }

    /// Gives the user the rest of the events that were taken out, as much as `into` takes.
    fn send(&mut self, into: &mut IovIterDest<'_>) -> Result {
        let mut skip = self.sent;
        for part in self.contents.parts() {
            let rest = part.get(skip..).unwrap_or_default();
            let sent = into.copy_to_iter(rest);
            self.sent += sent;
            if sent < rest.len() {
                return match into.is_empty() {
                    true => Ok(()),
                    false => Err(EFAULT),
                };
            }
            skip = skip.saturating_sub(part.len());
        }
        Ok(())
    }
}

/// The events that a reader that polls waits for: any of all CPUs, or part of one CPU's buffer, as
/// in `trace_poll()` of kernel/trace/trace.c.
fn awaited(context: &FileContext) -> Awaited {
    match (context.cpu, context.instance.recording().buffer_percent()) {
        (Some(_), percent @ 1..) => Awaited::Percent(percent),
        _ => Awaited::Event,
    }
}

/// Polls, with `waiting` locked meanwhile.
fn poll(context: &FileContext, waiting: &Mutex<Option<Waiter>>, poll: Poll<'_>) -> bool {
    let awaited = awaited(context);
    let mut waiting = waiting.lock();
    if awaited == Awaited::Event && waiting.is_none() {
        *waiting = Some(Waiter::new(context.instance.recording()));
    }
    // Lack of memory is for a read to report.
    let ready = (context.instance)
        .recording()
        .poll(context.cpu, awaited, poll)
        .unwrap_or(true);
    if ready {
        *waiting = None;
    }
    ready
}

impl<C: Contents> Stream for Drain<C> {
    type Context = FileContext;

    fn open(context: &Arc<FileContext>) -> Result<Pin<KBox<Self>>> {
        let state = DrainState {
            contents: C::new(context)?,
            sent: 0,
        };
        KBox::pin_init(
            pin_init!(Self {
                state <- new_mutex!(state),
                progress: DrainProgress {
                    has_rest: Atomic::new(false),
                    has_read: Atomic::new(false),
                },
                waiting <- new_mutex!(None),
                woken: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    fn read(
        &self,
        context: &FileContext,
        into: &mut IovIterDest<'_>,
        block: bool,
    ) -> Result<usize> {
        *self.waiting.lock() = None;
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            let mut state = match block {
                true => self.state.lock(),
                false => self.state.try_lock().ok_or(EAGAIN)?,
            };
            let sent = state.read(context, into, &self.progress)?;
            if sent != 0 {
                return Ok(sent);
            }
            drop(state);
            let has_read = self.progress.has_read();
            if !wait_for_more(context, Awaited::Event, block, has_read, || false)? {
                return Ok(0);
            }
        }
    }

    /// Waits until there is enough, or until the reader is [woken](Self::wake): a program does that
    /// to end its splice. A read goes on, as in tracefs.
    fn wait_to_splice(&self, context: &FileContext, block: bool) -> Result<bool> {
        if !C::SPLICES_AS_POLLS {
            return Ok(true);
        }
        let woken = self.woken.load(Relaxed);
        let (has_rest, has_read) = (self.progress.has_rest(), self.progress.has_read());
        let recording = context.instance.recording();
        while !has_rest && !recording.has(context.cpu, awaited(context))? {
            if !recording.is_on() && recording.has(context.cpu, Awaited::Event)? {
                // No more events will come: the splice takes those that there are.
                break;
            }
            let is_woken = || self.woken.load(Relaxed) != woken;
            if !wait_for_more(context, awaited(context), block, has_read, is_woken)? {
                if is_woken() {
                    return recording.has(context.cpu, Awaited::Event);
                }
                break;
            }
        }
        Ok(true)
    }

    fn poll(&self, context: &FileContext, poll: Poll<'_>) -> bool {
        self.progress.has_rest() || self::poll(context, &self.waiting, poll)
    }

    fn wake(&self, context: &FileContext) {
        self.woken.fetch_add(1_u32, Relaxed);
        context.instance.recording().wake_readers();
    }
}

/// Waits for more events, unless the stream ends here: nothing more is recorded, and something was
/// read.
///
/// # Errors
///
/// - `EAGAIN` if there is nothing, and it may not `block`.
/// - Those of [`Recording::wait`](crate::instance::recording::Recording::wait).
fn wait_for_more(
    context: &FileContext,
    awaited: Awaited,
    block: bool,
    has_read: bool,
    is_over: impl FnOnce() -> bool,
) -> Result<bool> {
    if !block {
        return Err(EAGAIN);
    }
    let recording = context.instance.recording();
    // This is before `is_on`: all readers are woken after recording is switched off.
    let seen = recording.wakes_seen(context.cpu);
    // `is_over` is checked after that for the same reason.
    if is_over() {
        return Ok(false);
    }
    if !recording.is_on() && has_read {
        // Events that were written before recording was switched off are still to be read.
        return recording.has(context.cpu, Awaited::Event);
    }
    recording.wait(context.cpu, awaited, seen)?;
    Ok(true)
}
