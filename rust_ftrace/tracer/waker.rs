// SPDX-License-Identifier: GPL-2.0

//! Waking, hook side: wakes readers not at once, as the hook may be anywhere, but by an irq_work.
//! The readers' side is in [`instance::waiting`](crate::instance::waiting).

use core::mem::offset_of;

use kernel::prelude::*;
use kernel::sync::Arc;

use crate::platform::Word;
use crate::sys::context::PreemptOff;
use crate::sys::irq_work::{self, HasIrqWork, IrqWork};
use crate::sys::wait::WaitQueue;

/// Wakes the readers of one CPU's events, or of all.
#[pin_data]
pub(crate) struct Waker {
    // Field order is teardown order: nothing is woken any more when the queue goes.
    #[pin]
    irq_work: IrqWork<Self>,
    #[pin]
    queue: WaitQueue,
    /// 1 if a reader waits for the next event, else 0.
    wanted: Word,
    /// The waker of the readers of all CPUs.
    all: Option<Arc<Waker>>,
}

// SAFETY: `OFFSET` is that of `irq_work`, the only field of type `IrqWork<Self>`.
unsafe impl HasIrqWork for Waker {
    const OFFSET: usize = offset_of!(Self, irq_work);

    fn run(&self) {
        self.wake();
    }
}

impl Waker {
    /// Creates a waker that also wakes the readers of `all`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn new(all: Option<Arc<Self>>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                irq_work <- IrqWork::new(),
                queue <- WaitQueue::new(),
                wanted: Word::new(0),
                all,
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the queue of the readers that wait.
    pub(crate) fn queue(&self) -> &WaitQueue {
        &self.queue
    }

    /// Has the waiting readers woken at the next event, if
    /// [`HookFlag::Wake`](super::hook_flags::HookFlag::Wake) is set.
    pub(crate) fn want(&self) {
        // Full: before the ring is looked at once more. Pairs with `written`, which comes after the
        // event: that is found there, or this is.
        self.wanted.swap(1);
    }

    /// Wakes the waiting readers. Not to be called from the hook.
    pub(crate) fn wake(&self) {
        self.queue.wake_all();
        if let Some(all) = &self.all {
            all.queue.wake_all();
        }
    }

    /// Wakes the waiting readers soon. May be called anywhere. On a CPU that comes or goes,
    /// [`sys::hotplug::CpuWatcher`](crate::sys::hotplug::CpuWatcher) has to do it.
    pub(crate) fn wake_soon(&self, token: PreemptOff<'_>) {
        self.irq_work.queue(token);
    }

    /// Wakes readers that wait for the event that was just written, if there are any.
    pub(crate) fn written(&self, token: PreemptOff<'_>) {
        if !irq_work::is_served_here(token) {
            return;
        }
        // Full: after the event that was written; pairs with `want`.
        let take = |waker: &Self| waker.wanted.swap(0) != 0;
        if take(self) | self.all.as_deref().is_some_and(take) {
            self.wake_soon(token);
        }
    }

    /// Waits until all readers that were to be woken soon have been.
    pub(crate) fn settle(&self) {
        self.irq_work.sync();
    }
}
