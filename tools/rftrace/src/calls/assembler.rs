// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The assembler: puts calls together from events.

use std::cell::RefCell;
use std::rc::Rc;

use rftrace_engine::engine::context::Level;
use rftrace_engine::engine::decode::{Event, EventKind};

use super::losses::Losses;
use super::tasks::Tasks;
use super::{BegunCall, CallEnd, Finished, Visitor};
use crate::stream::{end_of, task_key, Error, Events, SeenEvent};
use crate::symbolizer::{FunctionId, Symbolizer};

/// The depth from which on events do not tell the depth: it stands for all deeper calls.
const DEEP: usize = u8::MAX as usize;
/// Maximum number of open calls of a task; a kernel's stack has no room for as many.
const MAX_OPEN: usize = 1 << 10;
/// Number of functions in the cache of their numbers, a power of two.
const AT_HAND: usize = 1 << 11;
/// Maximum difference between the times of one call, in ns, by the conversion of its clock.
const SLACK: u64 = 16;
/// Number of items between two reports of progress.
const STEP: u64 = 1 << 16;

/// A call that is open.
#[derive(Clone, Copy, Debug)]
struct AssembledCall<F> {
    frame: F,
    /// The function; `None` if its entry was not seen.
    function: Option<FunctionId>,
    level: Level,
    /// True if the duration is known: it came with the entry.
    is_whole: bool,
    /// True if a call in it was over at an unknown time.
    is_unclear: bool,
    begin: u64,
    /// The duration of a call that is whole, or has returned.
    duration: u64,
    /// Time at which it was over, as far as is known.
    until: u64,
    /// The part of its time that others had: the calls in it, and the interrupts.
    others: u64,
    /// Number of the item that it began with.
    item: u64,
}

impl<F> AssembledCall<F> {
    /// Returns whether the call is whole, and has ended by then.
    fn is_over(&self, time: u64) -> bool {
        self.is_whole && self.until <= time
    }
}

/// Counts of events, losses and calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// Events.
    pub events: u64,
    /// Events that were lost, as far as others tell of them.
    pub lost: u64,
    /// Calls that have returned.
    pub returned: u64,
    /// Returned calls whose own time is not known.
    pub self_unknown: u64,
    /// Calls that are still open at the end.
    pub open: u64,
    /// Calls whose return was not seen, and that are over all the same.
    pub missed: u64,
    /// Time of the first event, in ns.
    pub first: u64,
    /// Time of the last event, in ns.
    pub last: u64,
}

/// Follows the open calls of all tasks.
pub struct Assembler<V: Visitor> {
    visitor: V,
    counts: CallCounts,
    losses: Losses,
    tasks: Tasks<AssembledCall<V::Frame>>,
    symbolizer: Rc<RefCell<Symbolizer>>,
    at_hand: Box<[(u64, FunctionId)]>,
    forgotten: Vec<Vec<AssembledCall<V::Frame>>>,
}

impl<V: Visitor> Assembler<V> {
    /// Returns an assembler that reports to `visitor`; functions have the numbers that `symbolizer`
    /// gives them.
    pub fn new(visitor: V, symbolizer: Rc<RefCell<Symbolizer>>) -> Self {
        Self {
            visitor,
            counts: CallCounts::default(),
            losses: Losses::default(),
            tasks: Tasks::new(),
            symbolizer,
            // No event has this address.
            at_hand: vec![(0, FunctionId(0)); AT_HAND].into(),
            forgotten: Vec::new(),
        }
    }

    /// Returns the visitor.
    pub fn visitor(&self) -> &V {
        &self.visitor
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> &CallCounts {
        &self.counts
    }

    /// Follows events to their end. `progress` is called, now and then, with their number.
    ///
    /// # Errors
    ///
    /// [`Error`] of the events: what was before stays.
    pub fn run(
        &mut self,
        events: &mut impl Events,
        mut progress: impl FnMut(u64),
    ) -> Result<(), Error> {
        events.for_each(|seen| {
            self.add(&seen);
            if self.counts.events % STEP == 0 {
                progress(self.counts.events);
            }
        })
    }

    /// Follows one event.
    #[inline]
    pub fn add(&mut self, seen: &SeenEvent<'_>) {
        let (cpu, event) = (seen.cpu, seen.event);
        if self.counts.events == 0 {
            self.counts.first = event.time;
        }
        self.counts.events += 1;
        if seen.lost_since.is_some() || event.lost != 0 {
            // Where no time is recorded for the start of the loss, it is that of the event before,
            // at most.
            self.losses.add(
                seen.lost_since.unwrap_or(self.counts.last),
                self.counts.events,
            );
            self.counts.lost = self.counts.lost.saturating_add(event.lost);
        }
        self.counts.last = self.counts.last.max(end_of(event));
        match event.what {
            EventKind::Entry | EventKind::Call => self.begin(cpu, event, seen.since()),
            EventKind::Return => self.end(cpu, event, seen.since()),
            EventKind::Function => {
                let function = self.function(event.ip);
                let caller = (event.parent_ip != 0).then(|| self.function(event.parent_ip));
                self.visitor.hit(&event.task, function, caller);
            }
            EventKind::Marker | EventKind::RawMarker => {}
        }
    }

    /// Ends all open calls, and returns the visitor and the counts.
    pub fn finish(mut self) -> (V, CallCounts) {
        self.forget();
        for open in self.tasks.take() {
            self.forgotten.push(open);
        }
        self.forget();
        (self.visitor, self.counts)
    }

    #[inline(always)]
    fn function(&mut self, ip: u64) -> FunctionId {
        let place = (ip ^ (ip >> 11)) as usize % AT_HAND;
        match self.at_hand[place] {
            (found, function) if found == ip && ip != 0 => function,
            _ => self.look_up(ip, place),
        }
    }

    #[inline(never)]
    fn look_up(&mut self, ip: u64, place: usize) -> FunctionId {
        let function = self.symbolizer.borrow_mut().function(ip);
        self.at_hand[place] = (ip, function);
        function
    }

    /// Returns the place of the task of an event.
    #[inline]
    fn task(&mut self, cpu: u32, event: &Event) -> usize {
        let key = task_key(cpu, event);
        match self.tasks.recent(cpu, key) {
            Some(place) => place,
            None => self.switch(cpu, key),
        }
    }

    #[inline(never)]
    fn switch(&mut self, cpu: u32, key: u64) -> usize {
        let item = self.counts.events;
        let place = self.tasks.find(cpu, key, item, &mut self.forgotten);
        if !self.forgotten.is_empty() {
            self.forget();
        }
        place
    }

    /// Ends the calls of tasks that are forgotten, or of all at the end.
    #[cold]
    fn forget(&mut self) {
        for mut open in std::mem::take(&mut self.forgotten) {
            let mut calls = CallStack {
                open: &mut open,
                visitor: &mut self.visitor,
                counts: &mut self.counts,
                losses: &self.losses,
            };
            while !calls.open.is_empty() {
                calls.leave(CallEnd::Open);
            }
        }
    }

    /// Follows an entry, or a whole call.
    #[inline(always)]
    fn begin(&mut self, cpu: u32, event: &Event, since: Option<u64>) {
        let function = self.function(event.ip);
        let place = self.task(cpu, event);
        let stack = self.tasks.open(place);
        let mut calls = CallStack {
            open: stack,
            visitor: &mut self.visitor,
            counts: &mut self.counts,
            losses: &self.losses,
        };
        calls.come_to(cpu, event);
        calls.push(cpu, event, Some(function), since.unwrap_or(event.time));
    }

    /// Follows a return, which was at `since` if it was recorded late.
    #[inline(always)]
    fn end(&mut self, cpu: u32, event: &Event, since: Option<u64>) {
        let function = self.function(event.ip);
        let place = self.task(cpu, event);
        let stack = self.tasks.open(place);
        let mut calls = CallStack {
            open: stack,
            visitor: &mut self.visitor,
            counts: &mut self.counts,
            losses: &self.losses,
        };
        calls.returned(cpu, event, function, since.unwrap_or(event.time));
    }
}

/// The open calls of the task at hand, and the visitor that is told of them.
struct CallStack<'a, V: Visitor> {
    open: &'a mut Vec<AssembledCall<V::Frame>>,
    visitor: &'a mut V,
    counts: &'a mut CallCounts,
    losses: &'a Losses,
}

impl<V: Visitor> CallStack<'_, V> {
    /// Ends the calls from a depth on.
    #[inline]
    fn end_from(&mut self, depth: usize) {
        while self.open.len() > depth {
            self.end();
        }
    }

    /// Ends the innermost call, whose return was not seen.
    #[inline(never)]
    fn end(&mut self) {
        let is_whole = self.open.last().is_some_and(|call| call.is_whole);
        self.leave(if is_whole {
            CallEnd::Returned
        } else {
            CallEnd::Missed
        });
    }

    /// Ends whole calls that are over: deeper ones are in another call, which was lost, or is not
    /// recorded yet.
    #[inline]
    fn end_over(&mut self, time: u64) {
        while self.open.last().is_some_and(|call| call.is_over(time)) {
            self.end_from(self.open.len() - 1);
        }
    }

    /// Goes to the depth at which a call begins.
    #[inline(always)]
    fn come_to(&mut self, cpu: u32, event: &Event) {
        let depth = usize::from(event.depth);
        if depth >= DEEP {
            return self.come_deep(cpu, event);
        }
        self.end_from(depth);
        // A whole call that is over may have been around something else that was lost, or is not
        // recorded yet.
        while self
            .open
            .last()
            .is_some_and(|call| call.is_over(event.time))
        {
            self.end_from(self.open.len() - 1);
        }
        if self.open.len() < depth {
            self.fill(cpu, event, depth);
        }
    }

    /// Goes to the place of a call that is too deep for its depth to be known.
    #[cold]
    fn come_deep(&mut self, cpu: u32, event: &Event) {
        if self.open.len() >= MAX_OPEN {
            self.end_from(DEEP);
        }
        while self
            .open
            .last()
            .is_some_and(|call| call.is_over(event.time))
        {
            self.end_from(self.open.len() - 1);
        }
        self.fill(cpu, event, DEEP);
    }

    /// Opens stand-ins for calls whose entries were not seen, up to a depth.
    #[cold]
    fn fill(&mut self, cpu: u32, event: &Event, depth: usize) {
        while self.open.len() < depth {
            self.push(cpu, event, None, event.time);
        }
    }

    /// Opens a call at the innermost place.
    #[inline(always)]
    fn push(&mut self, cpu: u32, event: &Event, function: Option<FunctionId>, begin: u64) {
        let level = match function {
            Some(_) => event.context.level(),
            None => Level::Task,
        };
        let frame = self.enter(cpu, event, function, level);
        let is_whole = event.what == EventKind::Call && function.is_some();
        let until = match is_whole {
            true => begin.saturating_add(event.duration),
            false => u64::MAX,
        };
        self.open.push(AssembledCall {
            frame,
            function,
            level,
            is_whole,
            until,
            is_unclear: function.is_none(),
            begin,
            duration: event.duration,
            others: 0,
            item: self.counts.events,
        });
    }

    /// Reports a call that begins at the innermost place.
    #[inline(always)]
    fn enter(
        &mut self,
        cpu: u32,
        event: &Event,
        function: Option<FunctionId>,
        level: Level,
    ) -> V::Frame {
        let is_interrupt = level != Level::Task && self.interrupts(level);
        let call = BegunCall {
            cpu,
            task: &event.task,
            function,
            level,
            is_interrupt,
            is_nested: self.open.iter().any(|call| call.function.is_some()),
        };
        let around = match self.open.last() {
            Some(around) if !is_interrupt => Some(around.frame),
            _ => None,
        };
        self.visitor.enter(&call, around)
    }

    /// Returns whether a call at this level has interrupted those that are open.
    fn interrupts(&self, level: Level) -> bool {
        let known = self.open.iter().rev().find(|call| call.function.is_some());
        known.is_none_or(|call| call.level < level)
    }

    /// Ends the call that a return at `time` belongs to.
    #[inline(always)]
    fn returned(&mut self, cpu: u32, event: &Event, function: FunctionId, time: u64) {
        let mut depth = usize::from(event.depth);
        // Where events were lost, another call of the function may have returned.
        let begin = time.saturating_sub(event.duration);
        let losses = self.losses;
        let is_it = |call: &AssembledCall<V::Frame>| {
            call.function == Some(function)
                && !call.is_whole
                && (!losses.any_since(call.item) || begin <= call.begin.saturating_add(SLACK))
        };
        if depth >= DEEP {
            let deep = self.open.get(DEEP..).unwrap_or_default();
            depth += deep.iter().rposition(is_it).unwrap_or(0);
        }
        self.end_from(depth + 1);
        self.end_over(time);
        if self.open.len() == depth + 1 {
            match self.open.last_mut() {
                Some(call) if is_it(call) => {
                    call.duration = event.duration;
                    call.until = time;
                    return self.leave(CallEnd::Returned);
                }
                // Another call, whose return was missed.
                _ => self.end(),
            }
        }
        self.fill(cpu, event, depth);
        self.returned_unseen(cpu, event, function, time);
    }

    /// Reports a call whose entry was not seen, at the innermost place.
    #[cold]
    fn returned_unseen(&mut self, cpu: u32, event: &Event, function: FunctionId, time: u64) {
        let level = event.context.level();
        let frame = self.enter(cpu, event, Some(function), level);
        self.open.push(AssembledCall {
            frame,
            function: Some(function),
            level,
            is_whole: false,
            is_unclear: true,
            begin: time.saturating_sub(event.duration),
            duration: event.duration,
            until: time,
            others: 0,
            item: self.counts.events,
        });
        self.leave(CallEnd::Returned);
    }

    /// Ends the innermost call, and reports it.
    #[inline]
    fn leave(&mut self, mut end: CallEnd) {
        let Some((call, around)) = self.open.split_last_mut() else {
            return;
        };
        let around = around.last_mut();
        if call.function.is_none() {
            // It stands for one that is around, or for an entry that counts for the depth before it
            // is recorded; then what interrupted that has interrupted the one around it.
            if let Some(around) = around {
                around.others = around.others.saturating_add(call.others);
            }
            self.open.pop();
            return;
        }
        let duration = match end {
            CallEnd::Open if call.is_whole => {
                end = CallEnd::Returned;
                call.duration
            }
            CallEnd::Returned => call.duration,
            CallEnd::Open => self.counts.last.saturating_sub(call.begin),
            CallEnd::Missed => 0,
        };
        let is_unclear = call.is_unclear
            || end == CallEnd::Missed
            || self.losses.any_between(call.item, call.until);
        match end {
            CallEnd::Returned => {
                self.counts.returned += 1;
                self.counts.self_unknown += u64::from(is_unclear);
            }
            CallEnd::Open => self.counts.open += 1,
            CallEnd::Missed => self.counts.missed += 1,
        }
        if let Some(around) = around {
            around.others = around.others.saturating_add(duration);
            around.is_unclear |= end == CallEnd::Missed;
        }
        let finished = Finished {
            begin: call.begin,
            duration,
            self_time: (!is_unclear).then(|| duration.saturating_sub(call.others)),
            end,
        };
        self.visitor.leave(call.frame, &finished);
        self.open.pop();
    }
}
