// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Profile, the frames: what is kept of a call that is open, on the task's shadow stack.
//!
//! | word | what                                                   |
//! |------|--------------------------------------------------------|
//! | 0    | tag: the function's number, by exclusive or with below |
//! | 1    | when the call began                                    |
//! | 2    | the time of calls within it that have returned         |
//! | 3    | with contexts: its [`CallContext`]                     |
//!
//! A tag is mixed with the word's own address, 24 bits to the left, and with a random secret. So a
//! word that is none is taken for one by a chance of 2^-40, and less.
//!
//! A call's time is added to word 2 of the call around it, which is found by its tag: as a rule it
//! is right below. Calls are counted to a tick, whatever interrupts come in between, and call what
//! is counted: the time of these is part of a call if they began after it did and ended before it
//! ended, and else of the call around that. So the clock is read between two looks at word 2.
//!
//! Calls that several parts of the module watch have other words: see [`shared_frame`].

use super::contexts::CallContext;
use crate::engine::shadow;
use crate::engine::shared_frame::{self, first_word, Seat};
use crate::platform::Word;

/// The words of a frame without a context.
pub const WORDS: usize = 3;
/// The words of a frame with a context.
pub const CONTEXT_WORDS: usize = 4;

/// The words of a frame.
pub type Frame = [Word; WORDS];

const TAG: usize = 0;
const START: usize = 1;
const WITHIN: usize = 2;
/// The index of the context.
pub const CONTEXT: usize = 3;

/// Bits of a function's number in a tag.
const NUMBER_BITS: u32 = 24;

/// Returns the tag of a call of the function with this number, whose words lie at `address`.
#[inline(always)]
const fn tag(address: u64, secret: u64, number: u64) -> u64 {
    (address << NUMBER_BITS) ^ secret ^ number
}

/// Begins a call of the function with this number. Returns whether that is all: if not,
/// [`begin_again`] is to be called.
#[inline(always)]
pub fn begin(
    frame: &Frame,
    address: u64,
    secret: u64,
    number: u64,
    now: impl FnOnce() -> u64,
) -> bool {
    frame[WITHIN].store_relaxed(0);
    frame[TAG].store_relaxed(tag(address, secret, number));
    frame[START].store_relaxed(now());
    frame[WITHIN].load_relaxed() == 0
}

/// Begins a call at a later time, at which no interrupt comes. What interrupts have called is no
/// part of it, but of the call whose word is `outer`.
pub fn begin_again(frame: &Frame, outer: Option<&Word>, now: impl Fn() -> u64) {
    loop {
        let before = frame[WITHIN].load_relaxed();
        if before == 0 {
            break;
        }
        if frame[WITHIN].local_exchange(before, 0) {
            if let Some(outer) = outer {
                outer.local_add(before);
            }
            frame[START].store_relaxed(now());
        }
    }
}

/// Forgets what was there before, which is no call.
#[inline(always)]
pub fn forget(frame: &Frame) {
    frame[TAG].store_relaxed(0);
}

/// Returns the number of the function of a call whose words lie at `address`; `None` if the first
/// is no tag.
#[inline(always)]
pub fn number(frame: &Frame, address: u64, secret: u64) -> Option<u64> {
    let number = frame[TAG].load_relaxed() ^ tag(address, secret, 0);
    (number >> NUMBER_BITS == 0).then_some(number)
}

/// The times of a call that ends.
#[derive(Clone, Copy)]
pub struct Times {
    /// Its duration.
    pub time: u64,
    /// The part of it in calls within it.
    pub within: u64,
}

/// The words of an open call that say how long it takes.
#[derive(Clone, Copy)]
pub struct Timed<'a> {
    start: &'a Word,
    within: &'a Word,
}

impl<'a> Timed<'a> {
    /// Those of a frame.
    #[inline(always)]
    pub fn of(frame: &'a Frame) -> Self {
        Self {
            start: &frame[START],
            within: &frame[WITHIN],
        }
    }

    /// Those of a shared call with these marks, for a seat that has taken it.
    #[inline(always)]
    pub fn of_shared(frame: &'a shared_frame::Frame, marks: u64, seat: usize) -> Option<Self> {
        Some(Self {
            start: &frame[shared_frame::START],
            within: frame.get(first_word(marks, seat))?,
        })
    }

    /// Reads the times of a call that ends now. `None` if an interrupt came, that may have called
    /// something before or after that, or the time goes back: [`Timed::measure_again`] is to be
    /// called.
    #[inline(always)]
    pub fn measure(self, now: impl FnOnce() -> u64) -> Option<Times> {
        let within = self.within.load_relaxed();
        let now = now();
        if self.within.load_relaxed() != within {
            return None;
        }
        let time = now.checked_sub(self.start.load_relaxed())?;
        Some(Times { time, within })
    }

    /// Reads the times of a call that ends, however many interrupts come.
    pub fn measure_again(self, now: impl Fn() -> u64) -> Times {
        loop {
            let within = self.within.load_relaxed();
            let now = now();
            if self.within.load_relaxed() == within {
                // The counters of two CPUs may differ a little.
                let time = now.saturating_sub(self.start.load_relaxed());
                return Times { time, within };
            }
        }
    }

    /// Returns the time that the call around is to be told of, once nothing is added to this one
    /// any more: that of this one, and of what interrupts called since it was measured.
    #[inline(always)]
    fn told(self, times: Times) -> u64 {
        let late = self.within.load_relaxed().wrapping_sub(times.within);
        times.time.wrapping_add(late)
    }
}

/// Ends a call. Returns the time that the call around it is to be told of.
#[inline(always)]
pub fn end(frame: &Frame, times: Times) -> u64 {
    forget(frame);
    Timed::of(frame).told(times)
}

/// Ends a shared call for a seat, whose words are `timed`. Returns the time that the call around it
/// is to be told of.
#[inline(always)]
pub fn end_shared(frame: &shared_frame::Frame, seat: usize, timed: Timed<'_>, times: Times) -> u64 {
    shared_frame::leave(frame, seat);
    timed.told(times)
}

/// The words of a shadow stack below a call.
#[derive(Clone, Copy)]
pub struct Below<'a> {
    words: &'a [Word],
    /// The address of the first.
    base: u64,
    /// The profile's seat in calls that are shared, and the secret of their tags.
    shared: Option<(Seat, u64)>,
}

/// The call around one, as far as it is known without a search.
#[derive(Clone, Copy)]
pub enum Outer<'a> {
    /// The word for the time of calls within it.
    Known(&'a Word),
    /// There is no call around.
    None,
    /// It is to be [searched for](Below::search).
    Unknown,
}

impl<'a> Outer<'a> {
    /// The call around, if it is right below: `words` are those that it would have then, and their
    /// address; `None` if there is no room for it.
    #[inline(always)]
    pub fn next(words: Option<(&'a Frame, u64)>, secret: u64) -> Self {
        let Some((words, address)) = words else {
            return Self::None;
        };
        match number(words, address, secret) {
            Some(_) => Self::Known(&words[WITHIN]),
            None => Self::Unknown,
        }
    }

    /// The call around one that is shared, if it is right below, and shared, too. As [`Self::next`]
    /// for a profile with such a seat, and the secret of tags of shared calls.
    #[inline(always)]
    pub fn next_shared(
        words: Option<(&'a shared_frame::Frame, u64)>,
        shared: Option<(Seat, u64)>,
    ) -> Self {
        let Some((words, address)) = words else {
            return Self::None;
        };
        match shared.and_then(|shared| within_shared(words, address, shared)) {
            Some(within) => Self::Known(within),
            None => Self::Unknown,
        }
    }
}

/// The word for the time of calls within a shared one whose words begin `words`, at `address`;
/// `None` if they are not those of a call that the seat took.
#[inline(always)]
fn within_shared(words: &[Word], address: u64, (seat, secret): (Seat, u64)) -> Option<&Word> {
    let marks = shadow::shared_marks(words, address, secret)?;
    match seat.knows(marks) {
        true => words.get(first_word(marks, seat.number)),
        false => None,
    }
}

impl<'a> Below<'a> {
    /// Makes that of `words`, of which the first lies at `base`. In calls that are shared the
    /// profile has the seat in `shared`, if any, beside the secret of their tags.
    pub const fn new(words: &'a [Word], base: u64, shared: Option<(Seat, u64)>) -> Self {
        Self {
            words,
            base,
            shared,
        }
    }

    /// The words from `index` on, and their address.
    fn at(self, index: usize) -> Option<(&'a [Word], u64)> {
        let words = self.words.get(index..)?;
        let address = self.base.wrapping_add((index as u64).wrapping_mul(8));
        Some((words, address))
    }

    fn within(self, index: usize, secret: u64) -> Option<&'a Word> {
        let (words, address) = self.at(index)?;
        let own = words.first_chunk::<WORDS>();
        match own.filter(|own| number(own, address, secret).is_some()) {
            Some(own) => Some(&own[WITHIN]),
            None => within_shared(words, address, self.shared?),
        }
    }

    /// The call around, wherever it is.
    pub fn search(self, secret: u64) -> Option<&'a Word> {
        let indices = 0..self.words.len();
        indices.rev().find_map(|index| self.within(index, secret))
    }

    fn context(self, index: usize, secret: u64) -> Option<CallContext> {
        let (words, address) = self.at(index)?;
        let own = words.first_chunk::<WORDS>();
        let word = match own.filter(|own| number(own, address, secret).is_some()) {
            Some(_) => words.get(CONTEXT)?,
            None => {
                let (seat, secret) = self.shared?;
                let marks = shadow::shared_marks(words, address, secret)?;
                let word = words.get(seat.context(marks));
                word.filter(|_| seat.knows(marks))?
            }
        };
        Some(CallContext(word.load_relaxed()))
    }

    /// The context of the call around, wherever it is.
    pub fn search_context(self, secret: u64) -> Option<CallContext> {
        let indices = 0..self.words.len();
        indices.rev().find_map(|index| self.context(index, secret))
    }
}
