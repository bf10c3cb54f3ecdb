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
//! | 5    | the tracer's: its [`Wait`]; the profiler's: the call's [`CallContext`]        |
//! | 6    | the profiler's: its [`Wait`]                                                  |
//!
//! In the profiler's tags the two flags besides [`SKIP`] are the [`Level`] at which the call was
//! entered.
//!
//! [`Level`]: super::context::Level
//!
//! Words from 3 on exist only if they are needed. The profiler has other data in words 1 to 3, and
//! with `tracing_errno` there are others from 5 on ([`errno_chain`](super::errno_chain)).
//!
//! The words of a call that several users share have one tag for all of them, and are others: see
//! [`shared_frame`].

use super::profile::contexts::CallContext;
use super::shared_frame::{self, Seat, MARKS};
use super::waiting::{Wait, Waker};
use crate::platform::Word;

/// Flag: nothing is recorded of this call and those below it.
pub const SKIP: u64 = 1;
/// Flag of the tracer's: the call was entered in a hardware interrupt, and is traced all the same.
pub const IN_IRQ: u64 = 2;
/// Flag of the tracer's: the call's entry was recorded.
pub const SHOWN: u64 = 4;
const FLAGS: u64 = 7;

/// The index of the word with the time of the entry.
const START: usize = 1;
/// The index of the word with the token, or what a late entry needs.
const INFO: usize = 2;
/// The index of the word with the function and where it was called from.
const CALL: usize = 3;
/// The index of the word in which the profiler has the time of calls within a call.
const WITHIN: usize = 3;
/// The index of the word with the time for which the task did not run.
const SLEEP: usize = 4;
const SLEEPS: u64 = 1 << 63;
/// The index of the word in which the profiler has the context.
const CONTEXT: usize = 5;
/// The index of the word in which the tracer has what the task waited for.
pub const WAIT: usize = 5;

/// The number of words of a call with that.
pub const WAIT_WORDS: usize = 6;

/// A task's shadow stack, as far as it is used.
#[derive(Clone, Copy)]
pub struct Shadow<'a> {
    words: &'a [Word],
    /// The address of the first word.
    base: u64,
    secret: u64,
    /// The user's seat in calls that are shared, and the secret of their tags.
    shared: Option<(Seat, u64)>,
    /// The index of the word with a call's [`Wait`], if there is one.
    wait: Option<usize>,
}

/// The secret for words of `length` that are written in `session`, a random number.
pub const fn secret(session: u64, length: usize) -> u64 {
    (session ^ ((length as u64) << 3)) & !FLAGS
}

/// The tag of a call whose words lie at `address`.
#[inline(always)]
pub const fn tag(address: u64, secret: u64, flags: u64) -> u64 {
    (address ^ secret) & !FLAGS | flags & FLAGS
}

/// The flags of the tag at `address`; `None` if the word is not a tag.
#[inline(always)]
pub const fn flags_of(tag: u64, address: u64, secret: u64) -> Option<u64> {
    if (tag ^ address ^ secret) & !FLAGS == 0 {
        Some(tag & FLAGS)
    } else {
        None
    }
}

/// Returns the marks of the shared call whose words begin `words`, at `address`; `None` if they are
/// not those of one.
#[inline(always)]
pub fn shared_marks(words: &[Word], address: u64, secret: u64) -> Option<u64> {
    flags_of(words.first()?.load_relaxed(), address, secret)?;
    Some(words.get(MARKS)?.load_relaxed())
}

impl<'a> Shadow<'a> {
    /// The shadow stack of `words`, of which the first lies at `base`, and whose tags are made with
    /// `secret`.
    pub const fn new(words: &'a [Word], base: u64, secret: u64) -> Self {
        Self {
            words,
            base,
            secret,
            shared: None,
            wait: None,
        }
    }

    /// Has waits in the word with that index, which calls with such tags have; in none if there is
    /// no index.
    pub const fn with_waits_at(self, wait: Option<usize>) -> Self {
        Self { wait, ..self }
    }

    /// Knows calls that are shared, too, in which the user has `seat`, and whose tags are made with
    /// `secret`.
    pub const fn seated(self, seat: Seat, secret: u64) -> Self {
        let shared = Some((seat, secret));
        Self { shared, ..self }
    }

    fn frame(&self, index: usize) -> Option<ShadowFrame<'a>> {
        let words = self.words.get(index..)?;
        let address = self.base.wrapping_add((index as u64).wrapping_mul(8));
        let tag = words.first()?.load_relaxed();
        let seat = match flags_of(tag, address, self.secret) {
            Some(_) => None,
            None => {
                let (seat, secret) = self.shared?;
                let marks = shared_marks(words, address, secret)?;
                Some(seat).filter(|seat| seat.knows(marks))?;
                Some(seat)
            }
        };
        Some(ShadowFrame {
            words,
            index,
            seat,
            wait: self.wait,
        })
    }

    /// The call whose tag is so many words below the end.
    #[inline(always)]
    pub fn at_distance(&self, distance: usize) -> Option<ShadowFrame<'a>> {
        self.frame(self.words.len().checked_sub(distance)?)
    }

    /// The innermost call.
    pub fn innermost(&self) -> Option<ShadowFrame<'a>> {
        let indices = 0..self.words.len();
        indices.rev().find_map(|index| self.frame(index))
    }

    /// The innermost call, which mostly is so many words below the end, and never nearer.
    #[inline(always)]
    pub fn innermost_from(&self, distance: usize) -> Option<ShadowFrame<'a>> {
        match self.at_distance(distance) {
            None => self.innermost(),
            call => call,
        }
    }

    /// Iterates over all calls, the outermost first.
    pub fn frames(self) -> impl Iterator<Item = ShadowFrame<'a>> {
        (0..self.words.len()).filter_map(move |index| self.frame(index))
    }
}

/// The innermost calls of two tasks, of which one stops running, and the other goes on.
pub struct Switched<'a> {
    /// The time.
    pub now: u64,
    /// The call of the first, if it is tagged.
    pub stopped: Option<ShadowFrame<'a>>,
    /// The call of the second, if it was noted that it stopped.
    pub gone_on: Option<ShadowFrame<'a>>,
}

/// Notes for the calls that both tasks are in that a task with shadow stack `prev` stops running,
/// and one with `next` goes on, and returns these calls, for their waits. The time, which may not
/// be there, is asked for only if one of them is tagged.
pub fn switched<'a>(
    prev: Shadow<'a>,
    next: Shadow<'a>,
    now: impl FnOnce() -> Option<u64>,
) -> Option<Switched<'a>> {
    let (prev, next) = (prev.innermost(), next.innermost());
    if prev.is_none() && next.is_none() {
        return None;
    }
    let now = now()?;
    Some(Switched {
        now,
        stopped: prev.filter(|frame| frame.sleeps(now)),
        gone_on: next.filter(|frame| frame.wakes(now)),
    })
}

/// The words of a call on the shadow stack.
#[derive(Clone, Copy)]
pub struct ShadowFrame<'a> {
    words: &'a [Word],
    /// The index of the first of them on the stack.
    index: usize,
    /// The user's seat, if the call is shared.
    seat: Option<Seat>,
    /// The index of the word with its waits, if there is one.
    wait: Option<usize>,
}

impl<'a> ShadowFrame<'a> {
    /// The first words.
    #[inline(always)]
    pub fn words<const N: usize>(&self) -> Option<&'a [Word; N]> {
        self.words.first_chunk()
    }

    /// One of the words.
    pub fn word(&self, index: usize) -> u64 {
        self.words.get(index).map_or(0, Word::load_relaxed)
    }

    /// The words from the call's tag to the end of those that were looked at.
    pub const fn distance(&self) -> usize {
        self.words.len()
    }

    /// Sets one of the words.
    pub fn store(&self, index: usize, value: u64) {
        if let Some(word) = self.words.get(index) {
            word.store_relaxed(value);
        }
    }

    /// The index of the first word on the stack.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The tag's flags.
    pub fn flags(&self) -> u64 {
        match self.seat {
            Some(seat) => shared_frame::flags(self.word(MARKS), seat.number),
            None => self.word(0) & FLAGS,
        }
    }

    /// Sets flags of the tag.
    pub fn set(&self, flags: u64) {
        let (index, bits) = match self.seat {
            Some(seat) => (MARKS, shared_frame::flag_bits(seat.number, flags)),
            None => (0, flags & FLAGS),
        };
        // An interrupt may set flags of other seats meanwhile.
        if let Some(word) = self.words.get(index) {
            word.local_or(bits);
        }
    }

    /// The time of the entry.
    pub fn start(&self) -> u64 {
        let index = self.seat.map_or(START, |seat| seat.start(self.word(MARKS)));
        self.word(index)
    }

    /// The index of the first word that is the user's own.
    fn first(&self, alone: usize) -> usize {
        let marks = self.word(MARKS);
        self.seat
            .map_or(alone, |seat| shared_frame::first_word(marks, seat.number))
    }

    /// The token, or what a late entry needs.
    pub fn info(&self) -> u64 {
        self.word(self.first(INFO))
    }

    /// The word with the function and where it was called from; `None` if the call is shared: see
    /// [`call_at`](super::fgraph::call_at).
    pub fn call(&self) -> Option<u64> {
        match self.seat {
            Some(_) => None,
            None => Some(self.word(CALL)),
        }
    }

    /// The context of a call for which the profiler has one.
    pub fn context(&self) -> CallContext {
        let seat = self.seat;
        let index = seat.map_or(CONTEXT, |seat| seat.context(self.word(MARKS)));
        CallContext(self.word(index))
    }

    fn sleep(&self) -> usize {
        self.seat.map_or(SLEEP, |seat| seat.slept(self.word(MARKS)))
    }

    /// Notes that the task stops running at `now`, unless that is noted already. Returns whether it
    /// was not.
    pub fn sleeps(&self, now: u64) -> bool {
        let slept = self.word(self.sleep());
        let is_awake = slept & SLEEPS == 0;
        if is_awake {
            self.store(self.sleep(), slept.wrapping_sub(now) | SLEEPS);
        }
        is_awake
    }

    /// Notes that the task goes on at `now`, if it was noted that it stopped. Returns whether it
    /// was.
    pub fn wakes(&self, now: u64) -> bool {
        let slept = self.word(self.sleep());
        let is_asleep = slept & SLEEPS != 0;
        if is_asleep {
            self.store(self.sleep(), slept.wrapping_add(now) & !SLEEPS);
        }
        is_asleep
    }

    /// Changes what the task has waited for, if the call has a word for that.
    fn update_wait(&self, change: impl FnOnce(Wait) -> Wait) {
        if let Some(index) = self.wait.filter(|_| self.seat.is_none()) {
            self.store(index, change(Wait(self.word(index))).0);
        }
    }

    /// Notes that the task stops running, and has been in run queues for `life` ns in its life.
    pub fn begin_wait(&self, life: u64) {
        self.update_wait(|wait| wait.stopped(life));
    }

    /// Notes that the task goes on, has been in run queues for `life` ns in its life, and was woken
    /// by `waker`.
    pub fn end_wait(&self, life: u64, waker: Waker) {
        self.update_wait(|wait| wait.gone_on(life, waker));
    }

    /// Adds the waits of a call within this one.
    pub fn add_wait(&self, wait: Wait) {
        self.update_wait(|before| before.and(wait));
    }

    /// Adds to the time of calls within this one.
    pub fn add_within(&self, time: u64) {
        if let Some(word) = self.words.get(self.first(WITHIN)) {
            word.local_add(time);
        }
    }

    /// Adds the time for which the task did not run in a call within this one.
    pub fn add_sleep(&self, slept: u64) {
        let sum = self.word(self.sleep()).wrapping_add(slept);
        self.store(self.sleep(), sum & !SLEEPS);
    }
}
