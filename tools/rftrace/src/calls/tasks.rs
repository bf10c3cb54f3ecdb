// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The open calls of all tasks, in bounded memory.

use rustc_hash::FxHashMap;

/// Number of tasks from which on those that have no open calls are forgotten now and then.
const SWEEP_AT: usize = 1 << 13;
/// Maximum number of tasks that are remembered; beyond, those that were seen longest ago are
/// forgotten.
const MAX_TASKS: usize = 1 << 16;
/// Number of places for tasks that were seen just now.
const RECENT: usize = 64;

/// A task's open calls, outermost first.
#[derive(Debug)]
pub(super) struct TaskCalls<O> {
    /// The open calls.
    pub(super) open: Vec<O>,
    key: u64,
    /// Number of the item at which the task was last looked up anew.
    seen: u64,
}

/// The open calls of all tasks.
#[derive(Debug)]
pub(super) struct Tasks<O> {
    all: Vec<TaskCalls<O>>,
    by_key: FxHashMap<u64, u32>,
    /// Keys and places in `all` of the tasks seen last, by CPU.
    recent: [(u64, u32); RECENT],
    sweep_at: usize,
}

impl<O> Tasks<O> {
    pub(super) fn new() -> Self {
        Self {
            all: Vec::new(),
            by_key: FxHashMap::default(),
            recent: [(u64::MAX, 0); RECENT],
            sweep_at: SWEEP_AT,
        }
    }

    /// Returns the place of a task, if it was seen just now on this CPU.
    #[inline]
    pub(super) fn recent(&self, cpu: u32, key: u64) -> Option<usize> {
        let (found, place) = self.recent[cpu as usize % RECENT];
        (found == key).then_some(place as usize)
    }

    /// Returns the place of a task; open calls of tasks that are forgotten for it go to
    /// `forgotten`.
    pub(super) fn find(
        &mut self,
        cpu: u32,
        key: u64,
        item: u64,
        forgotten: &mut Vec<Vec<O>>,
    ) -> usize {
        let place = match self.by_key.get(&key) {
            Some(place) => *place,
            None => {
                if self.all.len() >= self.sweep_at {
                    self.sweep(forgotten);
                }
                let place = self.all.len() as u32;
                self.all.push(TaskCalls {
                    open: Vec::new(),
                    key,
                    seen: item,
                });
                self.by_key.insert(key, place);
                place
            }
        };
        self.all[place as usize].seen = item;
        self.recent[cpu as usize % RECENT] = (key, place);
        place as usize
    }

    /// Returns the open calls of the task at a place.
    #[inline]
    pub(super) fn open(&mut self, place: usize) -> &mut Vec<O> {
        &mut self.all[place].open
    }

    /// Forgets tasks without open calls, and half of all if there are too many.
    #[cold]
    fn sweep(&mut self, forgotten: &mut Vec<Vec<O>>) {
        self.all.retain(|task| !task.open.is_empty());
        if self.all.len() >= MAX_TASKS / 2 {
            self.all
                .sort_unstable_by_key(|task| std::cmp::Reverse(task.seen));
            let old = self.all.drain(MAX_TASKS / 4..);
            forgotten.extend(old.map(|task| task.open));
        }
        self.by_key.clear();
        for (place, task) in self.all.iter().enumerate() {
            self.by_key.insert(task.key, place as u32);
        }
        self.recent = [(u64::MAX, 0); RECENT];
        self.sweep_at = (self.all.len() * 2).max(SWEEP_AT);
    }

    /// Takes the open calls of all tasks.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Vec<O>> + use<O> {
        self.by_key.clear();
        self.recent = [(u64::MAX, 0); RECENT];
        let mut all = std::mem::take(&mut self.all);
        all.sort_unstable_by_key(|task| task.key);
        all.into_iter().map(|task| task.open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_those_seen_last_stay() {
        let mut tasks = Tasks::new();
        let mut forgotten = Vec::new();
        let mut most = 0;
        for key in 0..4 * MAX_TASKS as u64 {
            let place = tasks.find(0, key, key, &mut forgotten);
            // Every other task has an open call.
            if key % 2 == 0 {
                tasks.open(place).push(key);
            }
            most = most.max(tasks.all.len());
        }
        assert!(most <= MAX_TASKS, "{most}");
        let last = 4 * MAX_TASKS as u64 - 2;
        let place = tasks.find(1, last, last, &mut forgotten);
        assert_eq!(*tasks.open(place), [last]);
        assert_eq!(tasks.recent(1, last), Some(place));
        // Nothing is forgotten without being reported.
        let kept: usize = tasks.take().map(|open| open.len()).sum();
        assert_eq!(kept + forgotten.len(), 2 * MAX_TASKS);
    }
}
