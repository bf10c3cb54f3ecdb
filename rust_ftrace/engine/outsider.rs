// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The task that a CPU has last found to be left out, so that it is looked up once, not at each of
//! its calls.
//!
//! A task is left out by what the lists say of its ID, and by nothing else: the answer is the same
//! on all CPUs, stays the same while tasks are switched, forked and reused, and follows an exec
//! that gives the task another ID. So an ID that is remembered is right until a list is changed.
//! Who changes one does that first and then makes all CPUs forget. Between the two halves of that
//! an ID may be looked up:
//!
//! | who looks up                         | who changes             |
//! |--------------------------------------|-------------------------|
//! | says here that it asks for an ID     | changes the list        |
//! | full fence                           | full fence              |
//! | asks the list                        | makes this word forget  |
//! | remembers the ID, if it still asks   |                         |
//!
//! Either the list was asked after it was changed, or the word forgets after it was said that
//! somebody asks: then nobody asks any more, and nothing is remembered.
//! (tests/litmus/outsider.litmus)

use super::pids::PID_LIMIT;
use crate::platform::{fence_full, Word};

/// The memory of one CPU. Only the lower half of the word is used.
#[repr(transparent)]
pub struct Outsider(Word);

impl Outsider {
    /// No task.
    const NOBODY: u32 = u32::MAX;
    /// Somebody asks for the task in the other bits.
    const ASKS: u32 = 1 << 31;

    const _NO_ID_IS_ANOTHER: () = assert!(PID_LIMIT <= Self::ASKS);

    /// No task is remembered.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(Word::new(u64::from(Self::NOBODY)))
    }

    /// Returns whether task `pid` is remembered: it is left out then.
    #[allow(dead_code)] // (the module looks by an instruction of its own)
    pub fn is(&self, pid: u32) -> bool {
        self.0.load_relaxed() as u32 == pid
    }

    /// Remembers task `pid`, which is below [`PID_LIMIT`], if it is left out. Called on this CPU
    /// only, with preemption off; those who interrupt it may call it, too.
    pub fn remember(&self, pid: u32, is_left_out: impl FnOnce() -> bool) {
        let asking = u64::from(pid | Self::ASKS);
        self.0.store_relaxed(asking);
        fence_full();
        let found = match is_left_out() {
            true => pid,
            false => Self::NOBODY,
        };
        // (who interrupted this has asked, too, and has left no question)
        self.0.exchange(asking, found.into());
    }

    /// Remembers nothing any more. To be called after a change of the lists and a [full
    /// fence](fence_full).
    pub fn forget(&self) {
        // (a plain store would do, too, but the models do not know that what an exchange writes
        // comes right after what it has read)
        const { assert!(Self::NOBODY == u32::MAX) };
        self.0.set_bits(Self::NOBODY.into());
    }

    /// Does as [`Self::forget`] after a change that concerns task `pid` only.
    pub fn forget_task(&self, pid: u32) {
        if self.0.load_relaxed() as u32 & !Self::ASKS == pid {
            self.forget();
        }
    }
}
