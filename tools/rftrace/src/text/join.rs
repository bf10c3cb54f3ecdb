// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Joins an entry and its return to one event, if nothing of its CPU comes between them: such a
//! call takes one line.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use rftrace_engine::engine::decode::EventKind;

use crate::stream::{Error, Events, Item, OwnedExtras};

/// Maximum number of events that wait for the one behind an entry.
const MOST: usize = 4096;

struct WaitingEntry {
    item: Item,
    owned_extras: Option<Box<OwnedExtras>>,
    /// True if the next event of its CPU is known, or does not matter.
    is_known: bool,
}

/// Events in which entries are joined with their returns.
pub struct Joined<E> {
    events: E,
    queue: VecDeque<WaitingEntry>,
    /// Number of events that have left the queue.
    left: u64,
    /// Number of the entry that was the last event of each CPU.
    entries: FxHashMap<u32, u64>,
    owned_extras: OwnedExtras,
    /// True if more may come behind an end.
    is_live: bool,
    /// True if all is given out, whatever comes behind it.
    flushes: bool,
}

impl<E: Events> Joined<E> {
    /// Joins entries and returns of `events`, which end.
    pub fn new(events: E) -> Self {
        Self {
            is_live: false,
            ..Self::live(events)
        }
    }

    /// Joins those of `events`, which have an end whenever there are none yet; see
    /// [`Joined::flush`].
    pub fn live(events: E) -> Self {
        Self {
            events,
            queue: VecDeque::new(),
            left: 0,
            entries: FxHashMap::default(),
            owned_extras: OwnedExtras::default(),
            is_live: true,
            flushes: false,
        }
    }

    /// Returns the events that are joined.
    pub fn events(&mut self) -> &mut E {
        &mut self.events
    }

    /// Gives out all events so far, whatever comes behind them.
    pub fn flush(&mut self) {
        self.flushes = true;
        self.entries.clear();
    }

    fn waiting(&mut self, number: u64) -> Option<&mut WaitingEntry> {
        let index = number.checked_sub(self.left)?;
        self.queue.get_mut(index as usize)
    }

    fn push(&mut self, item: Item) {
        let event = &item.event;
        let owned_extras = event
            .has_extras
            .then(|| Box::new(self.events.owned_extras().clone()));
        let entry = self.entries.remove(&item.cpu);
        if let Some(entry) = entry.and_then(|number| self.waiting(number)) {
            entry.is_known = true;
            let call = &mut entry.item.event;
            if event.what == EventKind::Return
                && (event.ip, event.depth, event.task) == (call.ip, call.depth, call.task)
                && event.lost == 0
            {
                call.what = EventKind::Call;
                call.joined = true;
                call.duration = event.duration;
                if let Some(end) = owned_extras {
                    let all = entry.owned_extras.get_or_insert_default();
                    all.extras.retval = end.extras.retval;
                    all.extras.waited = end.extras.waited;
                    all.extras.ended = end.extras.since;
                    all.extras.overrun = end.extras.overrun;
                    call.has_extras = true;
                }
                return;
            }
        }
        let is_entry = event.what == EventKind::Entry;
        if is_entry {
            let number = self.left + self.queue.len() as u64;
            self.entries.insert(item.cpu, number);
        }
        self.queue.push_back(WaitingEntry {
            item,
            owned_extras,
            is_known: !is_entry,
        });
    }
}

impl<E: Events> Events for Joined<E> {
    fn next(&mut self) -> Result<Option<Item>, Error> {
        loop {
            let is_full = self.queue.len() > MOST;
            let first = self.queue.front();
            if first.is_some_and(|first| first.is_known || is_full || self.flushes) {
                break;
            }
            self.flushes = false;
            match self.events.next()? {
                Some(item) => self.push(item),
                None if self.is_live || self.queue.is_empty() => return Ok(None),
                None => self.flush(),
            }
        }
        self.left += 1;
        let first = self.queue.pop_front();
        Ok(first.map(|first| {
            if let Some(owned_extras) = first.owned_extras {
                self.owned_extras = *owned_extras;
            }
            first.item
        }))
    }

    fn owned_extras(&self) -> &OwnedExtras {
        &self.owned_extras
    }
}
