// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The task that a CPU has last found to be left out, kept so that it is looked up once, not at
//! each of its calls.
//!
//! A task is left out by what the lists say of its ID, and by nothing else: the answer is the same
//! on all CPUs, stays the same while tasks are switched, forked and reused, and follows an exec
//! that gives the task another ID. So an ID that is remembered is right until a list is changed.
//! After a change all CPUs are made to forget. Between the two an ID may be looked up:
//!
//! | a CPU that looks an ID up            | the task that changes   |
//! |--------------------------------------|-------------------------|
//! | says here that it asks for an ID     | changes the list        |
//! | full fence                           | full fence              |
//! | asks the list                        | makes this word forget  |
//! | remembers the ID, if it still asks   |                         |
//!
//! Either the list was asked after it was changed, or the word forgets after the question was
//! written to it: then there is no question any more, and nothing is remembered.
//! tests/litmus/outsider.litmus has this.

use super::pids::PID_LIMIT;
use crate::platform::{fence_full, Word};

/// The memory of one CPU. Only the lower half of the word is used.
#[repr(transparent)]
pub struct Outsider(Word);

impl Outsider {
    /// No task is remembered.
    const NOBODY: u32 = u32::MAX;
    /// A lookup is under way for the task in the other bits.
    const ASKS: u32 = 1 << 31;

    const _NO_ID_IS_ANOTHER: () = assert!(PID_LIMIT <= Self::ASKS);

    /// Makes a memory of no task.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(Word::new(u64::from(Self::NOBODY)))
    }

    /// Returns whether task `pid` is remembered: it is left out then.
    #[allow(dead_code)] // The module looks by an instruction of its own.
    pub fn is(&self, pid: u32) -> bool {
        self.0.load_relaxed() as u32 == pid
    }

    /// Remembers task `pid`, which is below [`PID_LIMIT`], if it is left out. Called on this CPU
    /// only, with preemption off; interrupts in it may call it, too.
    pub fn remember(&self, pid: u32, is_left_out: impl FnOnce() -> bool) {
        let asking = u64::from(pid | Self::ASKS);
        self.0.store_relaxed(asking);
        fence_full();
        let found = match is_left_out() {
            true => pid,
            false => Self::NOBODY,
        };
        // An interrupt in this has asked, too, and has left no question.
        self.0.exchange(asking, found.into());
    }

    /// Forgets the task. To be called after a change of the lists and a full fence
    /// ([`fence_full`]).
    pub fn forget(&self) {
        // A plain store would do, too, but the models do not know that the store of an exchange
        // comes right after its load.
        const { assert!(Self::NOBODY == u32::MAX) };
        self.0.set_bits(Self::NOBODY.into());
    }

    /// Forgets task `pid`, as [`Self::forget`] does, after a change that concerns it only.
    pub fn forget_task(&self, pid: u32) {
        if self.0.load_relaxed() as u32 & !Self::ASKS == pid {
            self.forget();
        }
    }
}
