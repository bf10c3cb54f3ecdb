// SPDX-License-Identifier: GPL-2.0

//! Profile, hook side: calls that other parts of the module watch, too.
//!
//! Such a call has its words in common with them ([`shared_frame`]), of which one is the profile's:
//! the time of calls within it, and another one with its context, if calls are counted by these.
//! Which function it is of, its address says.

use super::nested::NestedReturn;
use super::{Counting, Profiler};
use crate::engine::profile::contexts::CallContext;
use crate::engine::profile::frame::{self, end_shared, Outer, Timed, Times, CONTEXT_WORDS};
use crate::engine::shared_frame::{self, Frame, START, WORDS};
use crate::engine::sharing::Part;
use crate::sys::context::{cycles, PreemptOff};
use crate::sys::fprobe::frame_words;
use crate::sys::ftrace::FunctionEntry;

/// The distance of the words of two such calls, where nothing else hooks them.
const STRIDE: usize = frame_words(WORDS);

/// A call that the profile has taken in its seat.
#[derive(Clone, Copy)]
pub(in super::super) struct SharedCall<'a> {
    /// The function's ftrace location.
    pub(in super::super) ip: u64,
    pub(in super::super) words: &'a Frame,
    pub(in super::super) marks: u64,
    pub(in super::super) seat: usize,
    /// The index of the word with the context.
    pub(in super::super) context: Option<usize>,
}

impl SharedCall<'_> {
    #[inline(always)]
    fn address(&self) -> u64 {
        self.words.as_ptr() as u64
    }

    fn word(&self, index: usize) -> u64 {
        self.words.get(index).map_or(0, |word| word.load_relaxed())
    }

    fn context(&self) -> Option<CallContext> {
        let word = self.words.get(self.context?)?;
        Some(CallContext(word.load_relaxed()))
    }
}

impl Profiler {
    /// Counts a call whose whole time counts. Returns whether its return is wanted.
    #[inline(always)]
    pub(in super::super) fn enter_shared(&self, ip: u64, token: PreemptOff<'_>) -> bool {
        if self.bounds().is_bounded() || self.this_table(token).functions.enter(ip).is_none() {
            return self.enter_shared_behind(ip, token);
        }
        true
    }

    /// Counts a call by its context, too. Its words lie at `address`. Returns the context, and the
    /// time if not all of it counts, as for [`Self::enter_shared_nested`]; `None` if its return is
    /// not wanted.
    #[cold]
    #[inline(never)]
    pub(in super::super) fn enter_shared_context(
        &self,
        site: FunctionEntry<'_>,
        address: u64,
        token: PreemptOff<'_>,
    ) -> Option<(CallContext, u64)> {
        let number = self.enter_behind(token, site.call.ip)?;
        let context = self.find_context(token, site, address, None, number)?;
        let now = match self.is_nested() {
            true => self.now(token)?,
            false => 0,
        };
        Some((context, now))
    }

    /// Counts a call of a function that is not in its first place, or where only some are counted.
    #[cold]
    #[inline(never)]
    fn enter_shared_behind(&self, ip: u64, token: PreemptOff<'_>) -> bool {
        self.enter_behind(token, ip).is_some()
    }

    /// Counts a call of whose time not all may count. Returns the time; `None` if its return is not
    /// wanted.
    pub(in super::super) fn enter_shared_nested(
        &self,
        ip: u64,
        token: PreemptOff<'_>,
    ) -> Option<u64> {
        self.enter_behind(token, ip)?;
        self.now(token)
    }

    /// Counts the return of a call whose whole time counts.
    #[inline(always)]
    pub(in super::super) fn leave_shared(&self, call: &SharedCall<'_>, token: PreemptOff<'_>) {
        let SharedCall {
            ip,
            words,
            marks,
            seat,
            ..
        } = *call;
        let Some(timed) = Timed::of_shared(words, marks, seat) else {
            return;
        };
        let Some(times) = timed.measure(cycles) else {
            return self.leave_shared_between(call, token);
        };
        let current = token.current();
        let next = current.shadow_words(words, STRIDE);
        let outer = match Outer::next_shared(next, self.seat.known()) {
            Outer::Known(outer) => Some(outer),
            Outer::None => None,
            Outer::Unknown => return self.leave_shared_slow(call, token, times),
        };
        let table = self.this_table(token);
        let number = table.functions.places().find_first(ip);
        let record = number.and_then(|number| table.functions.record(number as u64));
        let Some(record) = record.filter(|record| record.is_usual(times.time)) else {
            return self.leave_shared_slow(call, token, times);
        };
        let added = end_shared(words, seat, timed, times);
        if let Some(outer) = outer {
            outer.local_add(added);
        }
        record.add(times.time, times.within);
        if let Some(context) = call.context() {
            table.leave_context(context, times);
        }
    }

    /// Counts the return of a call in whose end an interrupt came in, or for which time went back.
    #[cold]
    #[inline(never)]
    fn leave_shared_between(&self, call: &SharedCall<'_>, token: PreemptOff<'_>) {
        let timed = Timed::of_shared(call.words, call.marks, call.seat);
        if let Some(times) = timed.map(|timed| timed.measure_again(cycles)) {
            self.leave_shared_slow(call, token, times);
        }
    }

    /// Counts the return of a call that is the first or the longest, or that is not in the first
    /// place of its function, or for which the one around it is to be searched for.
    #[cold]
    #[inline(never)]
    fn leave_shared_slow(&self, call: &SharedCall<'_>, token: PreemptOff<'_>, times: Times) {
        let Some(timed) = Timed::of_shared(call.words, call.marks, call.seat) else {
            return;
        };
        let table = self.this_table(token);
        let record = self.shared_number(call.ip, token);
        let record = record.and_then(|number| table.functions.record(number));
        if let Some(record) = &record {
            if !record.is_usual(times.time) {
                record.note_longest(times.time);
            }
        }
        let current = token.current();
        let outer = self.search(&current, call.address(), self.frame_words());
        let added = end_shared(call.words, call.seat, timed, times);
        if let Some(outer) = outer {
            outer.local_add(added);
        }
        match record {
            Some(record) => record.add(times.time, times.within),
            // The CPU came when there was no memory for its table.
            None => self.lose(token),
        }
        if let Some(context) = call.context() {
            table.leave_context(context, times);
        }
    }

    /// The words of a frame of a call whose whole time counts.
    fn frame_words(&self) -> usize {
        match self.counting.has(Counting::Contexts) {
            true => CONTEXT_WORDS,
            false => frame::WORDS,
        }
    }

    /// Returns the number of the function at `ip` in the tables.
    fn shared_number(&self, ip: u64, token: PreemptOff<'_>) -> Option<u64> {
        let number = self.this_table(token).functions.places().find(ip)?;
        Some(number as u64)
    }

    /// Ends a call of whose time not all may count; the profile is `part` in its seat.
    pub(in super::super) fn leave_shared_nested(
        &self,
        call: &SharedCall<'_>,
        part: Part,
        token: PreemptOff<'_>,
    ) {
        let now = self.now(token);
        shared_frame::leave(call.words, call.seat);
        let first = shared_frame::first_word(call.marks, call.seat);
        let own_start = usize::from(part.own_start());
        let returned = NestedReturn {
            wait: None,
            address: call.words.as_ptr().cast(),
            start: match part.own_start() {
                true => call.word(first + 1),
                false => call.word(START),
            },
            now,
            within: call.word(first),
            slept: match part.sleeps() {
                true => call.word(first + 1 + own_start),
                false => 0,
            },
            context: call.context(),
        };
        let flags = shared_frame::flags(call.marks, call.seat);
        let number = self.shared_number(call.ip, token);
        self.leave_nested(returned, flags, number, token);
    }

    /// Adds time of calls within a call that has just begun to that of the call around it instead.
    pub(in super::super) fn pass_on(
        &self,
        words: &Frame,
        is_nested: bool,
        time: u64,
        token: PreemptOff<'_>,
    ) {
        let current = token.current();
        match is_nested {
            true => {
                if let Some(outer) = self.outer(&current, words.as_ptr().cast()) {
                    outer.add_within(time);
                }
            }
            false => {
                let address = words.as_ptr() as u64;
                if let Some(outer) = self.search(&current, address, self.frame_words()) {
                    outer.local_add(time);
                }
            }
        }
    }
}
