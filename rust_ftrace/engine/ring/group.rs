// SPDX-License-Identifier: GPL-2.0

//! The slots of one event that belong together.

use crate::engine::slot::{Task, Words};

/// The slots of one event: announcements it needs, then the event.
pub(super) struct Group<'a> {
    /// Time, task (2): the first `known` are left out.
    announced: [Words; 3],
    from: usize,
    until: usize,
    extra: &'a [Words],
    event: Words,
    pub(super) task: Task,
}

impl<'a> Group<'a> {
    /// `event` of `task` at `now`, behind its announcements `extra`.
    pub(super) fn new(
        task: &Task,
        now: u64,
        needs_time: bool,
        needs_task: bool,
        extra: &'a [Words],
        event: Words,
    ) -> Self {
        let [first, second] = Words::task_slots(task);
        Self {
            announced: [Words::time_slot(now), first, second],
            from: usize::from(!needs_time),
            until: if needs_task { 3 } else { 1 },
            extra,
            event,
            task: *task,
        }
    }

    fn announced(&self) -> &[Words] {
        (self.announced.get(self.from..self.until)).unwrap_or_default()
    }

    /// How many slots there are.
    pub(super) fn length(&self) -> usize {
        self.announced().len() + self.extra.len() + 1
    }

    /// The slots; the event is the last.
    pub(super) fn slots(&self) -> impl Iterator<Item = Words> + '_ {
        let announced = self.announced().iter().chain(self.extra);
        announced.copied().chain([self.event])
    }
}
