// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Wakers of tasks that sleep in calls, by the task's ID.
//!
//! A task has a place, which others may have, too. It takes that as it falls asleep, and gives it
//! back as it goes on:
//!
//! | bits  | what                                          |
//! |-------|-----------------------------------------------|
//! | 0-23  | the last [`Waker`] of the task, 0 for none yet |
//! | 24-45 | the ID of the task                            |
//! | 46    | it sleeps in a call                           |
//!
//! Wakers of tasks that are not known to sleep are noted, too, if the place is free: they may have
//! come before the scheduler said that the task sleeps.

use super::waiting::Waker;
use crate::platform::{AllocError, Table, Word};

/// The number of places.
pub const PLACES: usize = 8192;

const PID_SHIFT: u32 = 24;
const PID_MASK: u64 = (1 << 22) - 1;
const ASLEEP: u64 = 1 << 46;

/// The last wakers of tasks.
pub struct Wakers {
    places: Table<Word, PLACES>,
    /// The number of tasks that were driven out of their places.
    lost: Word,
}

/// Returns whether a place is that of the task with this ID.
const fn is_of(word: u64, pid: u32) -> bool {
    pid != 0 && (word >> PID_SHIFT) & PID_MASK == pid as u64
}

impl Wakers {
    /// Makes places that are free.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn new() -> Result<Self, AllocError> {
        Ok(Self {
            places: Table::new(|| Word::new(0))?,
            lost: Word::new(0),
        })
    }

    /// Returns the index of a task's place.
    pub const fn place(pid: u32) -> usize {
        pid as usize % PLACES
    }

    fn word(&self, pid: u32) -> &Word {
        // In bounds by the remainder, which costs a mask.
        &self.places[Self::place(pid)]
    }

    /// Notes that the task with this ID falls asleep in a call.
    pub fn sleeps(&self, pid: u32) {
        let word = self.word(pid);
        let before = word.load_relaxed();
        let waker = match is_of(before, pid) {
            true => u64::from(Waker::of_word(before).0),
            false => 0,
        };
        if before & ASLEEP != 0 && !is_of(before, pid) {
            self.lose();
        }
        word.store_relaxed(ASLEEP | ((u64::from(pid) & PID_MASK) << PID_SHIFT) | waker);
    }

    /// Notes that `waker` wakes a task.
    pub fn note(&self, pid: u32, waker: Waker) {
        let word = self.word(pid);
        let before = word.load_relaxed();
        let is_asleep = before & ASLEEP;
        if is_asleep == 0 || is_of(before, pid) {
            let pid = (u64::from(pid) & PID_MASK) << PID_SHIFT;
            word.store_relaxed(is_asleep | pid | u64::from(waker.0));
        }
    }

    /// Frees the place of a task that goes on. Returns what has woken it, which may not be known;
    /// `None` if it did not sleep, or lost its place.
    pub fn take(&self, pid: u32) -> Option<Waker> {
        let word = self.word(pid);
        let before = word.load_relaxed();
        if before & ASLEEP == 0 || !is_of(before, pid) {
            return None;
        }
        word.store_relaxed(0);
        Some(Waker::of_word(before))
    }

    /// Notes that something that woke a task will not be told.
    pub fn lose(&self) {
        loop {
            let before = self.lost.load_relaxed();
            if self.lost.exchange(before, before.wrapping_add(1)) {
                return;
            }
        }
    }

    /// The number of sleeps whose waker was lost.
    pub fn lost(&self) -> u64 {
        self.lost.load_relaxed()
    }

    /// Frees all places, and counts from 0. Hooks may be at work, and lose a waker.
    pub fn clear(&self) {
        for place in self.places.iter() {
            place.store_relaxed(0);
        }
        self.lost.store_relaxed(0);
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.places)
    }
}
