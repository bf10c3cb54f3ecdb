// SPDX-License-Identifier: GPL-2.0

//! The time, context and task of the events that this CPU records.

use crate::engine::ring::EventContext;
use crate::engine::slot::{Container, Task};
use crate::sys::cgroup;
use crate::sys::context::{Current, PreemptOff};
use crate::sys::ftrace::Registers;

/// The time, context and task of an event that this CPU records now.
#[derive(Clone, Copy)]
pub(super) struct CpuContext<'a, C, S> {
    pub(super) token: PreemptOff<'a>,
    pub(super) clock: C,
    pub(super) state: S,
}

/// Makes the context word of an event.
pub(super) trait State: Copy {
    /// Returns the context word of the running task.
    fn word(&self, current: &Current<'_>) -> u32;
}

/// The state at a function's entry, in ftrace's callback, with the stack pointer of these
/// registers.
#[derive(Clone, Copy)]
pub(super) struct AtEntry<'a>(pub(super) Registers<'a>);

/// The state without the stack pointer, where tracing has raised the preempt count by `RAISED`.
#[derive(Clone, Copy)]
pub(super) struct Raised<const RAISED: u32>;

/// The state of a task that records an event itself, as ftrace shows it, which has preemption off
/// then.
pub(super) const IN_TASK: Raised<0> = Raised;

/// The state in fprobe's callbacks: `ftrace_test_recursion_trylock()` and
/// `rcu_read_lock_sched_notrace()` have raised the count.
pub(super) const IN_FPROBE: Raised<2> = Raised;

impl State for AtEntry<'_> {
    #[inline(always)]
    fn word(&self, current: &Current<'_>) -> u32 {
        current.context_word(self.0.sp())
    }
}

impl<const RAISED: u32> State for Raised<RAISED> {
    #[inline(always)]
    fn word(&self, current: &Current<'_>) -> u32 {
        current.state_word::<RAISED>()
    }
}

impl<C: Fn() -> u64 + Copy, S: State> EventContext for CpuContext<'_, C, S> {
    #[inline(always)]
    fn now(&self) -> u64 {
        (self.clock)()
    }

    #[inline(always)]
    fn context(&self) -> u32 {
        // This is not kept from `is_task` on: registers are enough for all but that.
        self.state.word(&self.token.current())
    }

    #[inline(always)]
    fn flags(&self) -> u32 {
        self.context()
    }

    #[inline(always)]
    fn task(&self) -> Task {
        self.token.current().identity()
    }

    fn container(&self) -> Container {
        cgroup::container_of(&self.token.current())
    }

    #[inline(always)]
    fn is_task(&self, word: impl Fn(usize) -> u64) -> bool {
        self.token.current().is_known_as(word)
    }
}
