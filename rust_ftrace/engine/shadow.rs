// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Tags on a task's shadow stack, by which a hook knows the calls around a call.
//!
//! fgraph keeps a frame for each call that is open, and in it some words for each of its users.
//! Those of a call that is tagged begin with a *tag*: their own address, by exclusive or with a
//! random secret of the user that wrote them, and three flags where an address has zeroes. So the
//! tags of calls that are open can be found by looking at all words below, and no table of tasks is
//! needed: the data of a task goes with it.
//!
//! | word | what                                                                          |
//! |------|-------------------------------------------------------------------------------|
//! | 0    | tag                                                                           |
//! | 1    | when the call began                                                           |
//! | 2    | its token, or depth (bits 0-7) and context (8-23), if it is not announced yet |
//! | 3    | low half: `ip`; high half: `parent_ip`                                        |
//! | 4    | bits 0-62: how long the task did not run; 63: it does not run now             |
//!
//! Words 3 and 4 exist only if they are needed. The profiler has other data in words 1 to 3.

use crate::platform::Word;

/// Flag: nothing is recorded of this call and those below it.
pub const SKIP: u64 = 1;
/// Flag: the call was entered in a hardware interrupt, and is traced all the same.
pub const IN_IRQ: u64 = 2;
/// Flag: the call's entry was recorded.
pub const SHOWN: u64 = 4;
const FLAGS: u64 = 7;

/// Index of the word with the time for which the task did not run.
const SLEEP: usize = 4;
const SLEEPS: u64 = 1 << 63;

/// A task's shadow stack, as far as it is used.
#[derive(Clone, Copy)]
pub struct Shadow<'a> {
    words: &'a [Word],
    /// The address of the first word.
    base: u64,
    secret: u64,
}

/// The secret for words of `length` that are written in `session`, a random number.
pub const fn secret(session: u64, length: usize) -> u64 {
    (session ^ ((length as u64) << 3)) & !FLAGS
}

/// The tag of a call whose words lie at `address`.
pub const fn tag(address: u64, secret: u64, flags: u64) -> u64 {
    (address ^ secret) & !FLAGS | flags & FLAGS
}

/// The flags of the tag at `address`; `None` if the word is not a tag.
pub const fn flags_of(tag: u64, address: u64, secret: u64) -> Option<u64> {
    if (tag ^ address ^ secret) & !FLAGS == 0 {
        Some(tag & FLAGS)
    } else {
        None
    }
}

impl<'a> Shadow<'a> {
    /// The shadow stack of `words`, of which the first lies at `base`, and whose tags are made with
    /// `secret`.
    pub const fn new(words: &'a [Word], base: u64, secret: u64) -> Self {
        Self {
            words,
            base,
            secret,
        }
    }

    fn frame(&self, index: usize) -> Option<ShadowFrame<'a>> {
        let words = self.words.get(index..)?;
        let address = self.base.wrapping_add((index as u64).wrapping_mul(8));
        flags_of(words.first()?.load_relaxed(), address, self.secret)?;
        Some(ShadowFrame { words })
    }

    /// The innermost call.
    pub fn innermost(&self) -> Option<ShadowFrame<'a>> {
        let indices = 0..self.words.len();
        indices.rev().find_map(|index| self.frame(index))
    }

    /// Iterates over all calls, the outermost first.
    pub fn frames(self) -> impl Iterator<Item = ShadowFrame<'a>> {
        (0..self.words.len()).filter_map(move |index| self.frame(index))
    }
}

/// Notes for the calls that both tasks are in that a task with shadow stack `prev` stops running,
/// and one with `next` goes on. The time, which may not be there, is asked for only if one of them
/// is tagged.
pub fn switched(prev: Shadow<'_>, next: Shadow<'_>, now: impl FnOnce() -> Option<u64>) {
    let (prev, next) = (prev.innermost(), next.innermost());
    if prev.is_none() && next.is_none() {
        return;
    }
    if let Some(now) = now() {
        if let Some(frame) = prev {
            frame.sleeps(now);
        }
        if let Some(frame) = next {
            frame.wakes(now);
        }
    }
}

/// The words of a call on the shadow stack.
#[derive(Clone, Copy)]
pub struct ShadowFrame<'a> {
    words: &'a [Word],
}

impl ShadowFrame<'_> {
    /// One of the words.
    pub fn word(&self, index: usize) -> u64 {
        self.words.get(index).map_or(0, Word::load_relaxed)
    }

    fn store(&self, index: usize, value: u64) {
        if let Some(word) = self.words.get(index) {
            word.store_relaxed(value);
        }
    }

    /// The tag's flags.
    pub fn flags(&self) -> u64 {
        self.word(0) & FLAGS
    }

    /// Sets flags of the tag.
    pub fn set(&self, flags: u64) {
        self.store(0, self.word(0) | flags & FLAGS);
    }

    /// Notes that the task stops running at `now`.
    pub fn sleeps(&self, now: u64) {
        let slept = self.word(SLEEP);
        if slept & SLEEPS == 0 {
            self.store(SLEEP, slept.wrapping_sub(now) | SLEEPS);
        }
    }

    /// Notes that the task goes on at `now`, if it was noted that it stopped.
    pub fn wakes(&self, now: u64) {
        let slept = self.word(SLEEP);
        if slept & SLEEPS != 0 {
            self.store(SLEEP, slept.wrapping_add(now) & !SLEEPS);
        }
    }

    /// Adds to one of the words.
    pub fn add(&self, index: usize, value: u64) {
        if let Some(word) = self.words.get(index) {
            word.local_add(value);
        }
    }

    /// Adds the time for which the task did not run in a call within this one.
    pub fn add_sleep(&self, slept: u64) {
        self.store(SLEEP, self.word(SLEEP).wrapping_add(slept) & !SLEEPS);
    }
}
