// SPDX-License-Identifier: GPL-2.0 OR MIT

//! From slots to events: an event as readers see it, and the decoding of slots.

use super::context::ContextWord;
use super::extras::ARGS;
use super::slot::{Container, SlotKind, SlotWords, Task, TIME_BITS};
use super::waiting::Waited;

/// An event as readers see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Its time, in ticks of the trace clock.
    pub time: u64,
    /// The function.
    pub ip: u64,
    /// The return address, 0 if it is not known.
    pub parent_ip: u64,
    /// Stack offset and state.
    pub context: ContextWord,
    /// The task that called the function.
    pub task: Task,
    /// The task's container, if it was recorded.
    pub container: Option<Container>,
    /// Events of this CPU right before it that were overwritten before this reader came to them.
    pub lost: u64,
    /// The kind of the event.
    pub what: EventKind,
    /// Depth of a call, 0 for the outermost of its task; 255 for more.
    pub depth: u8,
    /// There are [`Extras`].
    pub has_extras: bool,
    /// Its entry and its return were two events of the ring.
    pub joined: bool,
    /// The time that a call took, in ticks of the trace clock.
    pub duration: u64,
}

/// The kinds of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventKind {
    /// A function was entered; its end is not recorded.
    #[default]
    Function,
    /// A call began.
    Entry,
    /// A call between whose entry and return nothing else of its CPU was recorded.
    Call,
    /// A call ended.
    Return,
    /// A program has written text, which is shown as that of a function.
    Marker,
    /// A program has written a number of 32 bits, and bytes.
    RawMarker,
}

impl Event {
    /// Returns the number of events of the ring that it stands for: a [`EventKind::Call`] may have
    /// been two.
    pub const fn count(&self) -> u64 {
        1 + self.joined as u64
    }
}

/// The data that only some events have, in addition to [`Event`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// The return value of the call.
    pub retval: Option<u64>,
    /// The waits in the call.
    pub waited: Option<Waited>,
    /// The time at which the call began, or at which it ended if the event is its return, if that
    /// was before the event's own time.
    pub since: Option<u64>,
    /// The time at which a whole call ended, if that was before its return was recorded.
    pub ended: Option<u64>,
    /// Calls of the task so far that were too deep to be traced.
    pub overrun: Option<u32>,
    /// Calls within the call are too deep to be traced.
    pub too_deep: bool,
    /// The arguments of the call.
    pub args: Option<[u64; ARGS]>,
    /// The stack's place in the sub-buffer; see [`Cursor::stack`].
    pub stack: Option<usize>,
    /// Number of bytes that a program has written; see [`Cursor::text`].
    pub text: Option<u32>,
}

/// The state that slots leave for the events after them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decoder {
    /// Upper half of the time.
    pub epoch: u32,
    /// The task that runs.
    pub task: Task,
    /// Its container, if it was recorded.
    pub container: Option<Container>,
}

/// The content of a group's slots that belongs to the event at their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodedGroup {
    /// Bits 32-63 of the duration.
    long: u32,
    /// The event has been decoded.
    ended: bool,
    wide: Option<u64>,
    /// Some of `extras` is set.
    any: bool,
    /// Something is set that the next group must not find.
    said: bool,
    /// The extras of the event.
    pub extras: Extras,
}

impl DecodedGroup {
    /// Returns whether its event has been decoded.
    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Returns whether the event has extras.
    pub(super) fn is_any(&self) -> bool {
        self.any
    }

    /// Ends the group, so that the next slot begins another one.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// Adds the data of the group of a call's return to that of its entry.
    pub(super) fn join(&mut self, end: &Self) {
        self.any |= end.any;
        self.said = true;
        self.extras.retval = end.extras.retval;
        self.extras.waited = end.extras.waited;
        self.extras.ended = end.extras.since;
        self.extras.overrun = end.extras.overrun;
    }
}

impl Decoder {
    /// Returns the event of a slot that has no extras before it, if nothing behind the slot needs
    /// to be looked at for it.
    #[inline(always)]
    pub(super) fn plain(&self, words: SlotWords) -> Option<Event> {
        let what = match words.kind() {
            Some(SlotKind::Function) => EventKind::Function,
            Some(SlotKind::Call) => EventKind::Call,
            Some(SlotKind::Return) => EventKind::Return,
            _ => return None,
        };
        let event = Event {
            time: (u64::from(self.epoch) << TIME_BITS) | u64::from(words.high0()),
            ip: words.ip(),
            task: self.task,
            container: self.container,
            what,
            ..Event::default()
        };
        Some(match what {
            EventKind::Function => Event {
                parent_ip: words.parent_ip(),
                context: ContextWord(words.high1()),
                ..event
            },
            _ => Event {
                context: ContextWord(words.flags()),
                depth: words.depth() as u8,
                duration: words.high1().into(),
                ..event
            },
        })
    }

    /// Decodes one slot, and returns the event if it is one. `group` has the slots since the event
    /// before it, and stays until the next slot is decoded.
    #[inline(always)]
    pub fn decode(&mut self, words: SlotWords, group: &mut DecodedGroup) -> Option<Event> {
        if group.ended {
            // A group is large, and most groups are nothing but an event.
            group.ended = false;
            if group.said {
                *group = DecodedGroup::default();
            }
        }
        let (what, parent_ip, context) = match words.kind() {
            Some(SlotKind::Function) => (EventKind::Function, words.parent_ip(), words.high1()),
            Some(SlotKind::CallEntry) => (EventKind::Entry, words.call_parent_ip(), words.flags()),
            Some(SlotKind::Call) => (EventKind::Call, 0, words.flags()),
            Some(SlotKind::Return) => (EventKind::Return, 0, words.flags()),
            Some(kind @ (SlotKind::Marker | SlotKind::RawMarker)) => {
                group.extras.text = Some(words.high1());
                group.any = true;
                group.said = true;
                let is_raw = kind == SlotKind::RawMarker;
                let what = if is_raw {
                    EventKind::RawMarker
                } else {
                    EventKind::Marker
                };
                (what, 0, words.flags())
            }
            other => {
                self.decode_extra(other, words, group);
                return None;
            }
        };
        group.ended = true;
        let duration = match what {
            EventKind::Call | EventKind::Return => {
                (u64::from(group.long) << 32) | u64::from(words.high1())
            }
            EventKind::Function | EventKind::Entry | EventKind::Marker | EventKind::RawMarker => 0,
        };
        Some(Event {
            time: (u64::from(self.epoch) << TIME_BITS) | u64::from(words.high0()),
            ip: words.ip(),
            parent_ip: group.wide.unwrap_or(parent_ip),
            context: ContextWord(context),
            task: self.task,
            container: self.container,
            lost: 0,
            what,
            depth: match what {
                EventKind::Function => 0,
                _ => words.depth() as u8,
            },
            has_extras: group.any,
            joined: false,
            duration,
        })
    }

    #[inline(never)]
    fn decode_extra(&mut self, kind: Option<SlotKind>, words: SlotWords, group: &mut DecodedGroup) {
        let extras = &mut group.extras;
        group.said = true;
        match kind {
            Some(SlotKind::Time) => self.epoch = words.high1(),
            Some(SlotKind::Task) => {
                words.first_half(&mut self.task);
                self.container = None;
            }
            Some(SlotKind::Container) => self.container = Some(words.container()),
            Some(SlotKind::TaskName) => words.second_half(&mut self.task),
            Some(SlotKind::Long) => group.long = words.high1(),
            Some(SlotKind::Wide) => group.wide = Some(words.wide()),
            Some(SlotKind::Retval) => extras.retval = Some(words.wide()),
            Some(SlotKind::Waited) => extras.waited = Some(words.waited()),
            Some(SlotKind::Since) => extras.since = Some(words.wide()),
            Some(SlotKind::Overrun) => extras.overrun = Some(words.high1()),
            Some(SlotKind::TooDeep) => extras.too_deep = true,
            Some(SlotKind::Args01 | SlotKind::Args23 | SlotKind::Args45 | SlotKind::ArgsHigh) => {
                words.read_args(extras.args.get_or_insert_default());
            }
            Some(SlotKind::Stack | SlotKind::SameStack) => extras.stack = Some(words.stack_place()),
            _ => {}
        }
        group.any = *extras != Extras::default();
    }
}
