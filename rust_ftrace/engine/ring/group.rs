// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The slots of one event that belong together.

use super::{Head, Ring, Storage};
use crate::engine::beside::StackSlots;
use crate::engine::slot::{Task, Words};

/// Slots that a sub-buffer must have for a group beside those that say something of its event: the header, time,
/// task (2), and the event.
pub(super) const GROUP_ROOM: usize = 5;

/// The data beside an event.
#[derive(Clone, Copy)]
pub(super) struct Beside<'a> {
    /// Slots right before it.
    pub(super) slots: &'a [Words],
    /// And its stack.
    pub(super) stack: Option<StackSlots<'a>>,
}

/// Data that is announced for later events, too.
pub(super) struct Announced {
    /// Time, task (2); `from` to `until` are not known yet.
    slots: [Words; 3],
    from: usize,
    until: usize,
    task: Task,
}

impl Announced {
    /// The slots for an event of `task` at `now`.
    pub(super) fn new(task: &Task, now: u64, needs_time: bool, needs_task: bool) -> Self {
        let [first, second] = Words::task_slots(task);
        Self {
            slots: [Words::time_slot(now), first, second],
            from: usize::from(!needs_time),
            until: if needs_task { 3 } else { 1 },
            task: *task,
        }
    }

    fn slots(&self) -> &[Words] {
        self.slots.get(self.from..self.until).unwrap_or_default()
    }
}

/// The stack of a group's event.
enum Stack<'a> {
    None,
    /// It is there already; the slot that says where.
    Same(Words),
    /// It comes at this place of the sub-buffer.
    New(usize, StackSlots<'a>),
}

/// The slots of one event: announcements it needs, then the event.
pub(super) struct Group<'a> {
    announced: Announced,
    extra: &'a [Words],
    stack: Stack<'a>,
    event: Words,
}

impl<'a> Group<'a> {
    /// `event` with what is `beside` it, from `start` on.
    #[inline(always)]
    pub(super) fn new<S: Storage>(
        ring: &Ring<S>,
        start: Head,
        announced: Announced,
        beside: Beside<'a>,
        event: Words,
    ) -> Self {
        let mut group = Self {
            announced,
            extra: beside.slots,
            stack: Stack::None,
            event,
        };
        if let Some(stack) = beside.stack {
            group.stack = group.place(ring, start, stack);
        }
        group
    }

    fn place<S: Storage>(&self, ring: &Ring<S>, start: Head, stack: StackSlots<'a>) -> Stack<'a> {
        let most = GROUP_ROOM
            .wrapping_add(self.extra.len())
            .wrapping_add(stack.len());
        match ring.find_stack(start, stack) {
            Some(found) => Stack::Same(Words::same_stack_slot(found)),
            // (it will be behind what is in the group without it, but for the event)
            None if most <= ring.subbuf_slots() => {
                Stack::New(ring.place(start).wrapping_add(self.others()), stack)
            }
            None => Stack::None,
        }
    }

    /// The task that runs.
    pub(super) fn task(&self) -> &Task {
        &self.announced.task
    }

    /// The number of slots.
    pub(super) fn length(&self) -> usize {
        self.others().wrapping_add(1)
    }

    /// The number of slots that are no events: all but the last.
    pub(super) fn others(&self) -> usize {
        let stack = match &self.stack {
            Stack::None => 0,
            Stack::Same(_) => 1,
            Stack::New(_, stack) => stack.len(),
        };
        // (nothing of this comes near the largest number)
        let announced = self.announced.slots().len();
        announced.wrapping_add(self.extra.len()).wrapping_add(stack)
    }

    /// The slots; the event is the last.
    pub(super) fn slots(&self) -> impl Iterator<Item = Words> + '_ {
        let (same, new) = match self.stack {
            Stack::None => (None, None),
            Stack::Same(words) => (Some(words), None),
            Stack::New(place, stack) => (None, Some(stack.at(place))),
        };
        let announced = self.announced.slots().iter().chain(self.extra);
        (announced.copied())
            .chain(same)
            .chain(new.into_iter().flatten())
            .chain([self.event])
    }

    /// Lets later events find its stack, which is written.
    pub(super) fn remember_stack(&self) {
        if let Stack::New(place, stack) = self.stack {
            stack.remember(place);
        }
    }
}
