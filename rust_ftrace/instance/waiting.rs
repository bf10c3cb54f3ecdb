// SPDX-License-Identifier: GPL-2.0

//! Waking, the readers' side: waiting for events, and the order by which none is missed.
//!
//! A reader that waits for the next event sets the flag ([`HookFlag::Wake`]), so that the hook goes
//! its slow way, and sets `wanted` of the waker of its CPU (or of all). The hook writes its event,
//! takes `wanted` back, and queues the irq_work, which wakes. A hook that was on its way already
//! when the flag was set does not do that: so the reader waits for RCU before it looks for events
//! the last time and sleeps; for a reader that polls, and must not wait, a work item does both.
//!
//! A reader that waits for a part of the buffer to fill has the ring tell when a sub-buffer is
//! opened, which costs other events nothing.

use core::mem::offset_of;

use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::buffers::BufferKind;
use super::recording::Recording;
use crate::sys::rcu;
use crate::sys::wait::{Poll, SeenWakeups};
use crate::sys::work::HasWork;
use crate::tracer::hook_flags::HookFlag;
use crate::tracer::waker::Waker;

/// The events that a reader waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// An event.
    Event,
    /// So many percent of a CPU's buffer.
    Percent(u8),
}

/// A reader that waits for the next event, as long as this lives.
pub(crate) struct Waiter {
    recording: Arc<Recording>,
}

impl Waiter {
    /// Adds a reader that waits for the next event, and sets the flag.
    pub(crate) fn new(recording: &Arc<Recording>) -> Self {
        let mut wakers = recording.wakers.lock();
        wakers.waiting += 1;
        recording.hook.handler().set_flag(HookFlag::Wake, true);
        Self {
            recording: recording.clone(),
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut wakers = self.recording.wakers.lock();
        wakers.waiting = wakers.waiting.saturating_sub(1);
        if wakers.waiting == 0 {
            self.recording
                .hook
                .handler()
                .set_flag(HookFlag::Wake, false);
        }
    }
}

impl Recording {
    pub(super) fn waker(&self, cpu: Option<CpuId>) -> Arc<Waker> {
        self.wakers.lock().of(cpu).clone()
    }

    /// Returns whether a reader of `cpu`, or of all, has what it waits for.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn has(&self, cpu: Option<CpuId>, awaited: Awaited) -> Result<bool> {
        for source in self.sources(cpu, BufferKind::Live)? {
            let found = source.buffer.consume(|ring, consumer| match awaited {
                Awaited::Event => consumer.peek(ring).is_some(),
                Awaited::Percent(percent) => {
                    let wanted = ring.subbufs().saturating_mul(percent.into()).div_ceil(100);
                    consumer.peek(ring).is_some() && consumer.filled(ring) >= wanted
                }
            })?;
            if found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Has the reader woken when there is what it waits for. A wait for an event also needs
    /// [`Waiter`].
    fn arm(&self, cpu: Option<CpuId>, awaited: Awaited) -> Result {
        match awaited {
            Awaited::Event => self.waker(cpu).want(),
            Awaited::Percent(percent) => {
                for source in self.sources(cpu, BufferKind::Live)? {
                    source.buffer.consume(|ring, consumer| {
                        let wanted = ring.subbufs().saturating_mul(percent.into()).div_ceil(100);
                        let missing = wanted.saturating_sub(consumer.filled(ring)).max(1);
                        ring.await_subbuf(ring.extent().newest.saturating_add(missing));
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Returns the wake-ups so far, which [`Recording::wait`] is not to be woken by.
    pub(crate) fn wakes_seen(&self, cpu: Option<CpuId>) -> SeenWakeups {
        self.waker(cpu).queue().seen()
    }

    /// Waits until there is what is waited for on `cpu`, or any, or until all readers are woken
    /// after `seen`.
    ///
    /// # Errors
    ///
    /// - `ERESTARTSYS` if a signal came.
    /// - `ENOMEM` if there is no memory.
    pub(crate) fn wait(
        self: &Arc<Self>,
        cpu: Option<CpuId>,
        awaited: Awaited,
        seen: SeenWakeups,
    ) -> Result {
        let _waiting = (awaited == Awaited::Event).then(|| Waiter::new(self));
        let waker = self.waker(cpu);
        self.arm(cpu, awaited)?;
        // Every hook that may not know of the wait has ended then.
        rcu::synchronize_preempt_off();
        if self.has(cpu, awaited)? {
            return Ok(());
        }
        waker.queue().wait(seen)
    }

    /// Returns whether there is what is waited for on `cpu`, or any; if not, `poll` is told when
    /// there is.
    ///
    /// A wait for an event also needs [`Waiter`] until it ends.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn poll(
        &self,
        cpu: Option<CpuId>,
        awaited: Awaited,
        poll: Poll<'_>,
    ) -> Result<bool> {
        // The waker lives as long as the instance, hence as long as the file is open.
        poll.watch(self.waker(cpu).queue());
        if self.has(cpu, awaited)? {
            return Ok(true);
        }
        self.arm(cpu, awaited)?;
        if self.has(cpu, awaited)? {
            return Ok(true);
        }
        self.recheck.queue();
        Ok(false)
    }

    /// Wakes all readers, though there may be nothing for them.
    pub(crate) fn wake_readers(&self) {
        let wakers = self.wakers.lock();
        for waker in &wakers.cpus {
            waker.queue().wake_all();
        }
        wakers.all.queue().wake_all();
    }
}

// SAFETY: `OFFSET` is that of `recheck`, the only field of type `Work<Self>`.
unsafe impl HasWork for Recording {
    const OFFSET: usize = offset_of!(Self, recheck);

    /// Looks for events that were written by hooks which did not know yet that a reader polls.
    fn run(&self) {
        rcu::synchronize_preempt_off();
        let percent = self.buffer_percent();
        for cpu in crate::sys::cpu::possible() {
            // A poll of one CPU waits for a part of its buffer, a poll of all waits for any event.
            let awaited = Awaited::Percent(percent);
            if self.has(Some(cpu), awaited).unwrap_or(true) {
                self.waker(Some(cpu)).queue().wake_all();
            }
        }
        if self.has(None, Awaited::Event).unwrap_or(true) {
            self.waker(None).queue().wake_all();
        }
    }
}
