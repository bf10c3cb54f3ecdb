// SPDX-License-Identifier: GPL-2.0

//! Reading a ring without disturbing its writer: copy a sub-buffer, check that it was not
//! overtaken, decode.

use super::context::Context;
use super::ring::{parity_of, Head, Ring, Storage, LAPS};
use super::slot::{text_address, Kind, Task, Words, TIME_BITS};
use crate::shim::{fence_acquire, spin_hint};

/// An event as the reader sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// When, in ticks of the trace clock.
    pub(crate) time: u64,
    /// The function.
    pub(crate) ip: u64,
    /// Where it was called from.
    pub(crate) parent_ip: u64,
    /// Stack offset and state.
    pub(crate) context: Context,
    /// Who called it.
    pub(crate) task: Task,
    /// Events of this CPU that were overwritten before this reader came to them, right before it.
    pub(crate) lost: u64,
}

/// What a ring holds at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The oldest sub-buffer that is not overwritten, 0 if nothing was ever written.
    pub(crate) oldest: u64,
    /// The sub-buffer being written.
    pub(crate) newest: u64,
    /// Index of the oldest event, which is also the number of events overwritten.
    pub(crate) first_event: u64,
    /// Number of events ever written.
    pub(crate) end_event: u64,
}

/// What came of copying a sub-buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copied {
    /// The index of its first event, and how many of its slots are complete.
    Whole(u64, usize),
    /// A writer has taken it for a later lap.
    Overtaken,
    /// It is not open yet.
    NotYet,
}

/// How often a reader looks again after a writer has changed what it looked at.
const PATIENCE: u32 = 1 << 14;

impl<S: Storage> Ring<S> {
    /// Index of the first slot of sub-buffer `seq`.
    fn place_of(&self, seq: u64) -> usize {
        let place = seq.wrapping_sub(1).checked_rem(self.subbufs());
        place.unwrap_or(0) as usize * self.subbuf_slots()
    }

    /// `seq` and first event of the sub-buffer at `place`, if its header stands still.
    fn header(&self, place: usize) -> Option<(u64, u64)> {
        let header = self.slots().get(place)?;
        let seq = header.0.load_acquire();
        let first_event = header.1.load_relaxed();
        fence_acquire();
        (seq != 0 && header.0.load_relaxed() == seq).then_some((seq, first_event))
    }

    /// The sub-buffer being written and the number of events written, as one moment saw them.
    fn newest(&self) -> Option<(u64, u64)> {
        let size = self.subbuf_slots();
        let head = self.head();
        // At a boundary this is the sub-buffer before it.
        let place = head.slot().checked_sub(1)? / size * size;
        let used = head.slot() - place - 1;
        let (seq, first_event) = self.header(place)?;
        // The header must be of the head's own lap, else they are of two moments.
        let lap = (seq - 1).checked_div(self.subbufs())?.wrapping_add(1);
        let same = self.place_of(seq) == place && lap & (LAPS - 1) == head.lap();
        let written = (used as u64).wrapping_sub(head.others());
        same.then_some((seq, first_event.wrapping_add(written)))
    }

    /// What the ring holds now.
    pub(crate) fn extent(&self) -> Extent {
        for _ in 0..PATIENCE {
            if self.head() == Head::start(self.slots().len(), self.subbuf_slots()) {
                return Extent::default();
            }
            if let Some((newest, end_event)) = self.newest() {
                let oldest = newest.saturating_sub(self.subbufs() - 1).max(1);
                // If a writer is just opening the oldest for the next lap, it is the one after it.
                for oldest in oldest..=newest.min(oldest.wrapping_add(1)) {
                    match self.header(self.place_of(oldest)) {
                        Some((seq, first_event)) if seq == oldest => {
                            return Extent {
                                oldest,
                                newest,
                                first_event,
                                end_event,
                            };
                        }
                        _ => {}
                    }
                }
            }
            spin_hint();
        }
        // The writer was faster than this every time.
        Extent::default()
    }

    /// Copies sub-buffer `seq` into `into`, which has room for all slots but the header.
    fn copy(&self, seq: u64, into: &mut [Words]) -> Copied {
        let place = self.place_of(seq);
        let size = self.subbuf_slots();
        let Some((header, rest)) = self
            .slots()
            .get(place..place + size)
            .and_then(|slots| slots.split_first())
        else {
            return Copied::NotYet;
        };
        match header.0.load_acquire() {
            found if found == seq => {}
            // Zero: being opened for the next lap.
            found if found > seq || found == 0 => return Copied::Overtaken,
            _ => return Copied::NotYet,
        }
        let first_event = header.1.load_relaxed();
        let parity = parity_of(seq, self.subbufs());
        let mut complete = 0;
        for (slot, words) in rest.iter().zip(into) {
            // Acquire: word 1 is at least as new as word 0.
            words.0 = slot.0.load_acquire();
            if !words.is_complete(parity) {
                break;
            }
            words.1 = slot.1.load_relaxed();
            complete += 1;
        }
        // If any word above came from a later lap, this load sees that lap's header.
        fence_acquire();
        match header.0.load_relaxed() {
            found if found == seq => Copied::Whole(first_event, complete),
            _ => Copied::Overtaken,
        }
    }
}

/// Reads a ring's events in order, from the oldest to the last one that was there when the cursor
/// was made.
pub(crate) struct Cursor<B> {
    /// Room for one sub-buffer.
    copy: B,
    /// The sub-buffer in `copy`, or the next to be copied if `complete` is 0.
    seq: u64,
    /// Slots of `copy` that are valid, and how many of them are decoded.
    complete: usize,
    decoded: usize,
    /// Index of the next event.
    event: u64,
    /// Events from here on are given out.
    from: u64,
    /// And up to here.
    until: u64,
    /// Events given up since the last one given out.
    lost: u64,
    epoch: u64,
    task: Task,
    wide: Option<u64>,
}

impl<B: AsRef<[Words]> + AsMut<[Words]>> Cursor<B> {
    /// A cursor over what `ring` holds now, without the events before index `from`.
    ///
    /// `copy` must have room for a sub-buffer less one slot.
    pub(crate) fn new<S: Storage>(ring: &Ring<S>, copy: B, from: u64) -> Self {
        let extent = ring.extent();
        Self {
            copy,
            seq: extent.oldest,
            complete: 0,
            decoded: 0,
            event: extent.first_event,
            from: from.max(extent.first_event),
            until: extent.end_event,
            lost: 0,
            epoch: 0,
            task: Task::default(),
            wide: None,
        }
    }

    /// The next event; `None` at the end.
    pub(crate) fn next<S: Storage>(&mut self, ring: &Ring<S>) -> Option<Event> {
        while self.event < self.until {
            if self.decoded == self.complete && !self.refill(ring) {
                return None;
            }
            if let Some(event) = self.decode() {
                return Some(event);
            }
        }
        None
    }

    /// Gets slots to decode: more of this sub-buffer, or those of the next.
    fn refill<S: Storage>(&mut self, ring: &Ring<S>) -> bool {
        let capacity = ring.subbuf_slots() - 1;
        if self.complete == capacity {
            self.enter(self.seq.wrapping_add(1));
        }
        for _ in 0..PATIENCE {
            match ring.copy(self.seq, self.copy.as_mut()) {
                Copied::Whole(first_event, complete) => {
                    if self.decoded == 0 {
                        self.skip_to(first_event);
                    }
                    self.complete = complete;
                    // Else its next slot belongs to a writer that is not finished.
                    return complete > self.decoded;
                }
                Copied::Overtaken => {
                    // One further than the oldest: that one is overtaken next.
                    let extent = ring.extent();
                    let next = extent.oldest.wrapping_add(1).min(extent.newest);
                    self.enter(next.max(self.seq.wrapping_add(1)));
                }
                Copied::NotYet => spin_hint(),
            }
        }
        false
    }

    /// Makes `seq` the sub-buffer to be copied next.
    fn enter(&mut self, seq: u64) {
        self.seq = seq;
        self.complete = 0;
        self.decoded = 0;
        self.wide = None;
    }

    /// Counts the events before `event` that are wanted and no longer there as lost.
    fn skip_to(&mut self, event: u64) {
        let wanted = self.event.max(self.from);
        self.lost = self
            .lost
            .wrapping_add(event.min(self.until).saturating_sub(wanted));
        self.event = event;
    }

    /// Decodes one slot; an event, if it is one that is wanted.
    fn decode(&mut self) -> Option<Event> {
        let words = *self.copy.as_ref().get(self.decoded)?;
        self.decoded += 1;
        match words.kind() {
            Some(Kind::Time) => self.epoch = words.1,
            Some(Kind::Task) => {
                self.task.ids = u64::from(words.low()) | (words.1 << 32);
                self.task.comm[0] = words.1 >> 32;
            }
            Some(Kind::TaskName) => {
                self.task.comm[0] |= u64::from(words.low()) << 32;
                self.task.comm[1] = words.1;
            }
            Some(Kind::Wide) => self.wide = Some(words.1),
            Some(Kind::Function) => {
                let index = self.event;
                self.event = self.event.wrapping_add(1);
                let wide = self.wide.take();
                if index >= self.from {
                    return Some(Event {
                        time: (self.epoch << TIME_BITS) | words.time(),
                        ip: text_address(words.low()),
                        parent_ip: wide.unwrap_or(text_address(words.1 as u32)),
                        context: Context((words.1 >> 32) as u32),
                        task: self.task,
                        lost: core::mem::take(&mut self.lost),
                    });
                }
            }
            Some(Kind::Pad) | None => {}
        }
        None
    }
}
