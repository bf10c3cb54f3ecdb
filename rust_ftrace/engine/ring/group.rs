// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Groups: the slots of one event that belong together.

use super::{Head, Ring, Storage};
use crate::engine::extras::StackSlots;
use crate::engine::slot::{Container, SlotWords, Task};

/// Slots that a sub-buffer must have for a group, apart from the event's extra slots: the header,
/// time, task (2), its container, and the event.
pub(super) const GROUP_ROOM: usize = 6;

/// The data written beside an event.
#[derive(Clone, Copy)]
pub(super) struct ExtraSlots<'a> {
    /// Slots right before the event.
    pub(super) slots: &'a [SlotWords],
    /// The event's stack.
    pub(super) stack: Option<StackSlots<'a>>,
}

/// The state that is announced for later events, too.
pub(super) struct StateSlots {
    /// Time, task (2), container; those from `from` to `until` are not announced yet.
    slots: [SlotWords; 4],
    from: usize,
    until: usize,
}

/// The task of an event, as a writer finds it.
pub(super) struct FoundTask {
    /// The task.
    pub(super) task: Task,
    /// The [`containers`](super::container) before its container was looked at.
    pub(super) containers: u64,
    /// Its container, if it is wanted.
    pub(super) container: Option<Container>,
}

impl StateSlots {
    /// The slots for an event of a task at `now`.
    pub(super) fn new(found: &FoundTask, now: u64, needs_time: bool, needs_task: bool) -> Self {
        let [first, second] = SlotWords::task_slots(&found.task);
        let container = found
            .container
            .map_or(SlotWords::PAD, SlotWords::container_slot);
        let until = if found.container.is_some() { 4 } else { 3 };
        Self {
            slots: [SlotWords::time_slot(now), first, second, container],
            from: usize::from(!needs_time),
            until: if needs_task { until } else { 1 },
        }
    }

    /// Returns whether the task is announced.
    fn has_task(&self) -> bool {
        self.until > 1
    }

    fn slots(&self) -> &[SlotWords] {
        self.slots.get(self.from..self.until).unwrap_or_default()
    }
}

/// The stack of a group's event.
enum GroupStack<'a> {
    None,
    /// The slot that names an equal stack, which is there already.
    Same(SlotWords),
    /// A stack that comes at this place of the sub-buffer.
    New(usize, StackSlots<'a>),
}

/// The slots of one event: the extra slots that it needs, then the event.
pub(super) struct SlotGroup<'a> {
    state: StateSlots,
    extras: &'a [SlotWords],
    stack: GroupStack<'a>,
    event: SlotWords,
}

impl<'a> SlotGroup<'a> {
    /// Makes the group of `event` with `extra_slots`, from `start` on.
    #[inline(always)]
    pub(super) fn new<S: Storage>(
        ring: &Ring<S>,
        start: Head,
        state: StateSlots,
        extra_slots: ExtraSlots<'a>,
        event: SlotWords,
    ) -> Self {
        let mut group = Self {
            state,
            extras: extra_slots.slots,
            stack: GroupStack::None,
            event,
        };
        if let Some(stack) = extra_slots.stack {
            group.stack = group.place(ring, start, stack);
        }
        group
    }

    fn place<S: Storage>(
        &self,
        ring: &Ring<S>,
        start: Head,
        stack: StackSlots<'a>,
    ) -> GroupStack<'a> {
        let most = GROUP_ROOM
            .wrapping_add(self.extras.len())
            .wrapping_add(stack.len());
        match ring.find_stack(start, stack) {
            Some(found) => GroupStack::Same(SlotWords::same_stack_slot(found)),
            // The stack will be behind all slots of the group without it, but for the event.
            None if most <= ring.subbuf_slots() => {
                GroupStack::New(ring.place(start).wrapping_add(self.others()), stack)
            }
            None => GroupStack::None,
        }
    }

    /// Returns whether the task is announced.
    pub(super) fn has_task(&self) -> bool {
        self.state.has_task()
    }

    /// The number of slots.
    pub(super) fn length(&self) -> usize {
        self.others().wrapping_add(1)
    }

    /// The number of slots that are no events: all but the last.
    pub(super) fn others(&self) -> usize {
        let stack = match &self.stack {
            GroupStack::None => 0,
            GroupStack::Same(_) => 1,
            GroupStack::New(_, stack) => stack.len(),
        };
        // No sum here comes near the largest number.
        let state = self.state.slots().len();
        state.wrapping_add(self.extras.len()).wrapping_add(stack)
    }

    /// The slots; the event is the last.
    pub(super) fn slots(&self) -> impl Iterator<Item = SlotWords> + '_ {
        let (same, new) = match self.stack {
            GroupStack::None => (None, None),
            GroupStack::Same(words) => (Some(words), None),
            GroupStack::New(place, stack) => (None, Some(stack.at(place))),
        };
        let state = self.state.slots().iter().chain(self.extras);
        (state.copied())
            .chain(same)
            .chain(new.into_iter().flatten())
            .chain([self.event])
    }

    /// Lets later events find the group's stack, which is written.
    pub(super) fn remember_stack(&self) {
        if let GroupStack::New(place, stack) = self.stack {
            stack.remember(place);
        }
    }
}
