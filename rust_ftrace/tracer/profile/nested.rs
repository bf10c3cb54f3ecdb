// SPDX-License-Identifier: GPL-2.0

//! Profile, hook side: calls of whose time not all may count, or that are timed by another clock
//! than the time stamp counter.

use super::{Counting, Nested, Profiler, NESTED_WORDS};
use crate::engine::profile::contexts::CallContext;
use crate::engine::profile::frame::Times;
use crate::engine::shadow::{self, Shadow, ShadowFrame, SKIP};
use crate::engine::waiting::Wait;
use crate::platform::Ordering;
use crate::sys::context::{Current, PreemptOff};
use crate::sys::fprobe::{CallEntry, CallHandler, CallReturn, Interest};
use crate::sys::ftrace::FunctionEntry;
use crate::tracer::call_role::CallRole;

/// A call that returns, of whose time not all may count.
pub(super) struct NestedReturn {
    /// The address of its words.
    pub(super) address: *const u64,
    /// The time of its entry.
    pub(super) start: u64,
    /// The time of its return; `None` if that is not known.
    pub(super) now: Option<u64>,
    /// The time of calls within it.
    pub(super) within: u64,
    /// The time for which the task did not run.
    pub(super) slept: u64,
    /// Its waits, if they are counted.
    pub(super) wait: Option<Wait>,
    pub(super) context: Option<CallContext>,
}

impl Profiler {
    /// The secret of frames of so many words that are [`Nested`].
    fn nested_secret(&self, words: usize) -> u64 {
        shadow::secret(self.key.load(Ordering::Relaxed), words)
    }

    /// That of those frames that there are now, and the index of the word for waits in them, if
    /// they have one.
    pub(super) fn frames(&self) -> (u64, Option<usize>) {
        let [without, with_context, with_wait] = NESTED_WORDS;
        let has_waits = self.counting.has(Counting::Waits);
        let words = match (has_waits, self.counting.has(Counting::Contexts)) {
            (true, _) => with_wait,
            (false, true) => with_context,
            (false, false) => without,
        };
        (self.nested_secret(words), has_waits.then_some(with_context))
    }

    /// Returns the innermost of the calls around the one whose words are at `address`, if a part of
    /// their time may not count.
    pub(super) fn outer<'a>(
        &self,
        current: &'a Current<'_>,
        address: *const u64,
    ) -> Option<ShadowFrame<'a>> {
        let (words, base) = current.shadow_below(address);
        let (secret, waits) = self.frames();
        let shadow = Shadow::new(words, base, secret).with_waits_at(waits);
        self.seat.seated(shadow).innermost()
    }

    /// Ends a call whose tag or mark was just taken away, of the function that has the `number` in
    /// the tables. The tag had these `flags`.
    pub(super) fn leave_nested(
        &self,
        call: NestedReturn,
        flags: u64,
        number: Option<u64>,
        token: PreemptOff<'_>,
    ) {
        let NestedReturn {
            address,
            start,
            now,
            within,
            slept,
            wait,
            context,
        } = call;
        // The highest bit says that the task stopped running, and was not seen to go on: switches
        // are watched no more.
        let slept = if slept >> 63 == 0 { slept } else { 0 };
        let current = token.current();
        let outer = self.outer(&current, address);
        let without = |what, time| if self.counting.has(what) { time } else { 0 };
        if slept != 0 {
            if let Some(outer) = outer {
                outer.add_sleep(slept);
                if let Some(wait) = wait {
                    outer.add_wait(wait);
                }
            }
        }
        if flags & SKIP != 0 {
            // Interrupts that came into it are counted, and not a part of the call around's own.
            if let Some(outer) = outer {
                outer.add_within(within);
            }
            return;
        }
        let Some(now) = now else {
            return;
        };
        let awake = now.saturating_sub(start);
        let awake = awake.saturating_sub(without(Counting::WithoutSleep, slept));
        if let Some(outer) = outer {
            outer.add_within(awake);
        }
        let uncounted = without(Counting::WithoutCalls, within).min(awake);
        let table = self.this_table(token);
        if let Some(record) = number.and_then(|number| table.functions.record(number)) {
            if !record.is_usual(awake) {
                record.note_longest(awake);
            }
            record.add_part(awake, within, uncounted);
            if let Some(wait) = wait.filter(|_| slept != 0) {
                record.add_wait(slept, wait);
            }
        }
        if let Some(context) = context {
            let time = awake;
            table.leave_context(context, Times { time, within });
            if let Some(wait) = wait.filter(|_| slept != 0) {
                table.wait_in_context(context, slept, wait.queued());
            }
        }
    }
}

/// A call of whose time not all may count, once it has begun.
struct Entered {
    /// The time.
    now: u64,
    /// The number of the function in the tables.
    number: u64,
    context: CallContext,
}

impl Entered {
    /// A call that is not counted.
    const SKIPPED: Self = Self {
        now: 0,
        number: 0,
        context: CallContext::NOWHERE,
    };
}

impl Profiler {
    /// Counts the entry of a call with `N` words, which lie at `address`. `None` if its return is
    /// not wanted.
    fn enter_nested<const N: usize>(
        &self,
        site: FunctionEntry<'_>,
        address: u64,
        token: PreemptOff<'_>,
    ) -> Option<Entered> {
        let number = self.enter_behind(token, site.call.ip)?;
        let has_context = match N > NESTED_WORDS[1] {
            true => self.counting.has(Counting::Contexts),
            false => N > NESTED_WORDS[0],
        };
        let context = match has_context {
            true => self.find_context(token, site, address, None, number)?,
            false => CallContext::NOWHERE,
        };
        Some(Entered {
            now: self.now(token)?,
            number,
            context,
        })
    }
}

impl<const N: usize> CallHandler<Nested<N>> for Profiler {
    type Role = CallRole;

    fn called(&self, role: CallRole, call: CallEntry<'_, Nested<N>>) -> Interest {
        let CallEntry { site, token, data } = call;
        // A word that was there before is no tag.
        *data = Nested([0; N]);
        let address = data.0.as_ptr() as u64;
        let Some(flags) = self.admits(role, address as *const u64, token) else {
            return Interest::Nothing;
        };
        let entered = match flags & SKIP {
            0 => self.enter_nested::<N>(site, address, token),
            _ => Some(Entered::SKIPPED),
        };
        let Some(entered) = entered else {
            return Interest::Nothing;
        };
        let tag = shadow::tag(address, self.nested_secret(N), flags);
        let Entered {
            now,
            number,
            context,
        } = entered;
        let words = [tag, now, number, 0, 0, context.0, 0];
        for (word, value) in data.0.iter_mut().zip(words) {
            *word = value;
        }
        Interest::Return
    }

    fn returned(&self, call: CallReturn<'_, Nested<N>>) {
        let CallReturn { token, data, .. } = call;
        let now = self.now(token);
        let address = data.0.as_ptr();
        // This is checked before anything is written: only `called` can have left that here.
        let flags = shadow::flags_of(data.0[0], address as u64, self.nested_secret(N));
        let Some(flags) = flags else {
            return;
        };
        let words = core::mem::replace(data, Nested([0; N])).0;
        let Some([_, start, number, within, slept]) = words.first_chunk() else {
            return;
        };
        let call = NestedReturn {
            address,
            start: *start,
            now,
            within: *within,
            slept: *slept,
            wait: words.get(NESTED_WORDS[1]).copied().map(Wait),
            context: words.get(NESTED_WORDS[0]).copied().map(CallContext),
        };
        self.leave_nested(call, flags, Some(*number), token);
    }
}
