// SPDX-License-Identifier: GPL-2.0

//! Profile, the scheduler's side: for how long tasks do not run in calls, and what wakes them.

use kernel::prelude::*;

use super::{CpuTable, Profiler};
use crate::engine::profile::contexts::CallContext;
use crate::engine::profile::sleeps::{Sleep, Sleeps};
use crate::engine::shadow::{self, SKIP};
use crate::engine::waiting::Waker;
use crate::platform::Ordering;
use crate::sys::context::PreemptOff;
use crate::sys::sched_switch::{ShadowStack, SwitchHandler};
use crate::sys::wakeups::WakeHandler;
use crate::tracer::graph_switches::wake_context;

impl Profiler {
    /// Makes room for tasks that sleep in calls, if there is none. Callers exclude each other.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn make_sleeps(&self) -> Result {
        if self.sleeps.load(Ordering::Relaxed).is_null() {
            let sleeps = KBox::new(Sleeps::new()?, GFP_KERNEL)?;
            // INVARIANT: It is a box's, and replaces no other, as callers exclude each other.
            self.sleeps.store(KBox::into_raw(sleeps), Ordering::Release);
        }
        Ok(())
    }

    /// Returns the tasks that sleep in calls, if there is room for them.
    pub(crate) fn sleeps(&self) -> Option<&Sleeps> {
        // SAFETY: By the type's invariants the pointer is null, or a box's that stays as long as
        // this does.
        unsafe { self.sleeps.load(Ordering::Acquire).as_ref() }
    }
}

impl CpuTable {
    /// Counts a sleep in a call by its context, and what ended it.
    fn slept_in_context(&self, context: CallContext, sleep: Sleep) {
        let Some((contexts, waits)) = self.contexts.as_ref().zip(self.waits.as_ref()) else {
            return;
        };
        // The call may have begun when there were no contexts.
        if !sleep.waker.is_known() || context.node() == CallContext::NOWHERE.node() {
            return;
        }
        // Without room for it the waker is not told.
        if let Some(node) = contexts.tree().woken(context.node(), sleep.waker) {
            waits.add(node.index(), sleep.slept, sleep.queued);
        }
    }
}

impl SwitchHandler for Profiler {
    /// Adds up the time for which tasks do not run.
    fn switched(
        &self,
        prev: ShadowStack<'_>,
        is_queued: bool,
        next: ShadowStack<'_>,
        token: PreemptOff<'_>,
    ) {
        let (secret, waits) = self.frames();
        let [prev_calls, next_calls] = [prev, next].map(|stack| {
            let shadow = stack.tagged(secret).with_waits_at(waits);
            self.seat.seated(shadow)
        });
        let Some(switched) = shadow::switched(prev_calls, next_calls, || self.now(token)) else {
            return;
        };
        let Some(sleeps) = self.sleeps().filter(|_| waits.is_some()) else {
            return;
        };
        if let Some(call) = switched.stopped {
            let life = prev.queued_before();
            call.begin_wait(life);
            if !is_queued {
                sleeps.begin(prev.pid(), switched.now, life);
            }
        }
        if let Some(call) = switched.gone_on {
            let life = next.queued(token);
            let sleep = sleeps.end(next.pid(), switched.now, life);
            let waker = sleep.map_or(Waker::default(), |sleep| sleep.waker);
            call.end_wait(life, waker);
            if let Some(sleep) = sleep.filter(|_| call.flags() & SKIP == 0) {
                self.this_table(token)
                    .slept_in_context(call.context(), sleep);
            }
        }
    }
}

impl WakeHandler for Profiler {
    /// Notes what wakes a task.
    fn woken(&self, pid: u32, token: PreemptOff<'_>) {
        if let Some(sleeps) = self.sleeps() {
            let name = || token.current().identity().comm;
            sleeps.note(pid, wake_context(token), name);
        }
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        let sleeps = *self.sleeps.get_mut();
        if !sleeps.is_null() {
            // SAFETY: By the type's invariants it is a box's, which nothing uses any more.
            drop(unsafe { KBox::from_raw(sleeps) });
        }
    }
}
