// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The words on the shadow stack of a call that several parts of the module watch.
//!
//! Each of these parts, the tracer or the profile of an instance, has a *seat*, by a number that is
//! the same for all functions. The words are:
//!
//! | word | what                                                              |
//! |------|-------------------------------------------------------------------|
//! | 0    | tag, see [`shadow`](super::shadow), with the machine's secret     |
//! | 1    | marks                                                             |
//! | 2    | cycles of the time stamp counter at the entry                     |
//! | 3-6  | the words of the seats, which lie one after the other             |
//!
//! A seat's words begin with the token of an entry that was recorded (or what a late entry needs,
//! see [`shadow`](super::shadow)); the profile has there the time of calls within the call. Behind
//! that come the time of the entry, if the seat's clock is not the time stamp counter, the time for
//! which the task did not run, if that is measured, and the call's context, if the profile counts
//! these.
//!
//! | bits of marks | what                                                     |
//! |---------------|----------------------------------------------------------|
//! | 6n            | seat n took the call                                     |
//! | 6n+1 - 6n+3   | the flags of its tag                                     |
//! | 6n+4 - 6n+5   | the place of its first word, counted from word 3         |
//! | 48-63         | the turn in which the call was entered                   |
//!
//! A *turn* begins when a seat is given to another part, or means another thing: what was entered
//! before is not this part's.
//!
//! The profiles take a call before its time begins ([`begin`]), and each of them has its mark until
//! it has measured the time. So a call that an interrupt makes meanwhile is a part of this one, if
//! it began after this one did and ended before the profile measured it, and else of the call
//! around. Tracers take it after that, so that all that comes behind a recorded entry counts as
//! within the call.

use crate::platform::Word;

/// The number of words of a call.
pub const WORDS: usize = 7;
/// The number of seats.
pub const SEATS: usize = 8;
/// The number of words for all seats of a call.
pub const ROOM: usize = 4;

/// The words of a call.
pub type Frame = [Word; WORDS];

/// The index of the tag.
const TAG: usize = 0;
/// The index of the marks.
pub const MARKS: usize = 1;
/// The index of the time of the entry.
pub const START: usize = 2;
/// The index of the first word of seats.
const FIRST: usize = 3;

const SEAT_BITS: usize = 6;
const FLAGS: u64 = 7;
const PLACE: u64 = 3;
const TURN_SHIFT: u32 = 48;

/// A seat of a call, and the flags of the part that has it.
const fn shift(seat: usize) -> u32 {
    ((seat % SEATS) * SEAT_BITS) as u32
}

/// Returns the marks of a call that no seat took yet.
pub const fn marks(turn: u16) -> u64 {
    (turn as u64) << TURN_SHIFT
}

/// Returns the marks of a seat that took a call, to be added to those of others.
#[inline(always)]
pub const fn mark(seat: usize, flags: u64, place: usize) -> u64 {
    (1 | ((flags & FLAGS) << 1) | ((place as u64 & PLACE) << 4)) << shift(seat)
}

/// Returns the bit of marks that says that a seat took the call.
#[inline(always)]
pub const fn taken_bit(seat: usize) -> u64 {
    1 << shift(seat)
}

/// Returns whether a seat took the call.
#[inline(always)]
pub const fn is_taken(marks: u64, seat: usize) -> bool {
    (marks >> shift(seat)) & 1 != 0
}

/// Returns whether any seat took the call.
#[inline(always)]
pub const fn is_any_taken(marks: u64) -> bool {
    const ALL: u64 = 0x0000_0410_4104_1041;
    marks & ALL != 0
}

/// Returns the flags of a seat's tag.
pub const fn flags(marks: u64, seat: usize) -> u64 {
    (marks >> (shift(seat) + 1)) & FLAGS
}

/// Returns the bits of marks that set flags of a seat's tag.
pub const fn flag_bits(seat: usize, flags: u64) -> u64 {
    (flags & FLAGS) << (shift(seat) + 1)
}

/// Returns the index of a seat's first word.
#[inline(always)]
pub const fn first_word(marks: u64, seat: usize) -> usize {
    FIRST + ((marks >> (shift(seat) + 4)) & PLACE) as usize
}

/// Returns the index of the first word of a seat whose words are at `place`.
#[inline(always)]
pub const fn word_at(place: usize) -> usize {
    FIRST + (place & PLACE as usize)
}

/// Returns whether a call with these marks was entered in turn `since`, or later.
#[inline(always)]
pub const fn is_since(marks: u64, since: u16) -> bool {
    ((marks >> TURN_SHIFT) as u16).wrapping_sub(since) < 1 << 15
}

/// Returns the number of turns since a call was entered.
pub const fn age(marks: u64, turn: u16) -> u16 {
    turn.wrapping_sub((marks >> TURN_SHIFT) as u16)
}

/// Prepares the words of a call: no tag is there, and all that seats have in theirs is 0.
#[inline(always)]
pub fn clear(frame: &Frame) {
    forget(frame);
    for word in frame.iter().skip(FIRST) {
        word.store_relaxed(0);
    }
}

/// Ends a call for all, or forgets what was there before, which is no call.
#[inline(always)]
pub fn forget(frame: &Frame) {
    frame[TAG].store_relaxed(0);
}

/// A sum that is another one once anything was added to a word of a seat.
#[inline(always)]
fn sum(frame: &Frame) -> u64 {
    let words = frame.iter().skip(FIRST).map(Word::load_relaxed);
    words.fold(0, u64::wrapping_add)
}

/// Begins a call that the profiles have taken whose `marks` these are. Returns whether that is all:
/// if not, [`begin_again`] is to be called.
#[inline(always)]
pub fn begin(frame: &Frame, tag: u64, marks: u64, now: impl FnOnce() -> u64) -> bool {
    let before = sum(frame);
    frame[MARKS].store_relaxed(marks);
    // An interrupt that finds the tag finds the rest.
    frame[TAG].store_release(tag);
    frame[START].store_relaxed(now());
    sum(frame) == before
}

/// Begins a call at a later time, at which no interrupt comes. What interrupts have called is no
/// part of it: `pass_on` gets the seat and the time, to be told to the call around.
pub fn begin_again(frame: &Frame, marks: u64, pass_on: impl Fn(usize, u64), now: impl Fn() -> u64) {
    loop {
        let mut any = false;
        for seat in (0..SEATS).filter(|seat| is_taken(marks, *seat)) {
            let Some(within) = frame.get(first_word(marks, seat)) else {
                continue;
            };
            let before = within.load_relaxed();
            any |= before != 0;
            if before != 0 && within.local_exchange(before, 0) {
                pass_on(seat, before);
            }
        }
        if !any {
            break;
        }
        frame[START].store_relaxed(now());
    }
}

/// Takes a seat's mark of a call away, which others do not find for that one from here on.
#[inline(always)]
pub fn leave(frame: &Frame, seat: usize) {
    frame[MARKS].local_clear(taken_bit(seat));
}

/// A seat, as the part that has it knows it.
///
/// | bits of its word | what                                        |
/// |------------------|---------------------------------------------|
/// | 0-2              | the number                                  |
/// | 3                | it has a time of its own                    |
/// | 4                | there is a seat                             |
/// | 5                | it has the time for which tasks did not run |
/// | 16-31            | the turn since when it is this part's       |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The number of the seat.
    pub number: usize,
    /// The time of an entry is among its words.
    pub own_start: bool,
    /// The time for which the task did not run is among its words.
    pub sleeps: bool,
    /// The turn since when it is this part's.
    pub since: u16,
}

impl Seat {
    /// Returns the seat as a word; that of no seat is 0.
    pub const fn word(self) -> u64 {
        (self.number % SEATS) as u64
            | ((self.own_start as u64) << 3)
            | (1 << 4)
            | ((self.sleeps as u64) << 5)
            | ((self.since as u64) << 16)
    }

    /// Returns the seat of a word.
    pub const fn of(word: u64) -> Option<Self> {
        match (word >> 4) & 1 {
            0 => None,
            _ => Some(Self {
                number: word as usize % SEATS,
                own_start: (word >> 3) & 1 != 0,
                sleeps: (word >> 5) & 1 != 0,
                since: (word >> 16) as u16,
            }),
        }
    }

    /// Returns whether a call with these marks is known to this part.
    pub const fn knows(self, marks: u64) -> bool {
        is_taken(marks, self.number) && is_since(marks, self.since)
    }

    /// Returns the index of the word with the time of the entry.
    pub const fn start(self, marks: u64) -> usize {
        match self.own_start {
            true => first_word(marks, self.number) + 1,
            false => START,
        }
    }

    /// Returns the index of the word with the time for which the task did not run.
    pub const fn slept(self, marks: u64) -> usize {
        first_word(marks, self.number) + 1 + self.own_start as usize
    }

    /// Returns the index of the word with the call's context.
    pub const fn context(self, marks: u64) -> usize {
        self.slept(marks) + self.sleeps as usize
    }
}
