// SPDX-License-Identifier: GPL-2.0

//! `function_graph`, the scheduler's side: notes for how long tasks do not run in calls, and what
//! woke them.

use crate::engine::errno_chain::FRAME_WORDS;
use crate::engine::shadow::{self, WAIT, WAIT_WORDS};
use crate::engine::waiting::{WakeContext, Waker};
use crate::sys::context::PreemptOff;
use crate::sys::sched_switch::{ShadowStack, SwitchHandler};
use crate::sys::wakeups::WakeHandler;
use crate::tracer::recorder::Recorder;

impl SwitchHandler for Recorder {
    /// Adds up the time for which tasks do not run.
    fn switched(
        &self,
        prev: ShadowStack<'_>,
        is_queued: bool,
        next: ShadowStack<'_>,
        token: PreemptOff<'_>,
    ) {
        let graph = self.graph();
        // Both are read once, as other words than those of waits are not to be written.
        let asks_for_any = graph.asks_for_any();
        let wakers = graph.wakers().filter(|_| !asks_for_any);
        let secret = match (asks_for_any, wakers) {
            (true, _) => self.secret::<FRAME_WORDS>(),
            (false, Some(_)) => self.secret::<WAIT_WORDS>(),
            (false, None) => self.secret::<5>(),
        };
        let waits = wakers.map(|_| WAIT);
        let [prev_calls, next_calls] =
            [prev, next].map(|stack| graph.seat.seated(stack.tagged(secret).with_waits_at(waits)));
        let switched = shadow::switched(prev_calls, next_calls, || self.now(token));
        let Some((switched, wakers)) = switched.zip(wakers) else {
            return;
        };
        if let Some(call) = switched.stopped {
            call.begin_wait(prev.queued_before());
            // What is preempted goes on by itself.
            if !is_queued {
                wakers.sleeps(prev.pid());
            }
        }
        if let Some(call) = switched.gone_on {
            let waker = wakers.take(next.pid()).unwrap_or_default();
            call.end_wait(next.queued(token), waker);
        }
    }
}

/// Returns the kind of code that is running, and wakes a task.
pub(super) fn wake_context(token: PreemptOff<'_>) -> WakeContext {
    match token.context_level() {
        1 => WakeContext::Task,
        2 => WakeContext::Softirq,
        4 => WakeContext::Hardirq,
        _ => WakeContext::Nmi,
    }
}

impl WakeHandler for Recorder {
    /// Notes the task that wakes another.
    fn woken(&self, pid: u32, token: PreemptOff<'_>) {
        if let Some(wakers) = self.graph().wakers() {
            let context = wake_context(token);
            wakers.note(pid, Waker::new(token.current().pid(), context));
        }
    }
}
