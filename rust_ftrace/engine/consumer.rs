// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Taking events out of a ring, so that each is given out once.
//!
//! A ring has one consumer, which all of its readers share, under a lock of its own. It looks at
//! the next event without taking it ([`Consumer::peek`]), so that a reader can first see what
//! several CPUs have; [`Consumer::take`] then takes just that one, or nothing if another reader was
//! faster. Or it takes all slots that are ready, as they are ([`Consumer::take_chunk`]).

use core::ops::Range;

use super::decode::{Decoder, Event, Extras};
use super::reader::{EventExtras, Extent, Position, Refill, SubbufWindow, PATIENCE};
use super::ring::{Ring, Storage};
use super::slot::SlotWords;

/// Slots that were taken, as they were in the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenSlots {
    /// Their range in the room that [`Consumer::take_chunk`] was given. The last one is an event,
    /// or fills the sub-buffer up.
    pub slots: Range<usize>,
    /// The sub-buffer they are from.
    pub seq: u64,
    /// Index of their first event.
    pub first_event: u64,
    /// Number of their events.
    pub events: u64,
    /// Events that were lost right before them.
    pub lost: u64,
    /// The state that the slots before them left.
    pub decoder: Decoder,
}

/// Gets the events that [`Consumer::drain`] takes out.
///
/// A closure is a sink that gets each event by itself.
pub trait Sink<B> {
    /// Accepts the first of `slots`, as many as it can and as are entries of functions, and returns
    /// how many; it is asked of the next one by [`Sink::event`]. None of these slots has extras;
    /// `decoder` has their state.
    fn functions(&mut self, _decoder: &Decoder, _slots: &[SlotWords]) -> usize {
        0
    }

    /// Accepts an event, with its extras if there are any. Returns whether it did.
    fn event(&mut self, event: &Event, event_extras: Option<EventExtras<'_, B>>) -> bool;
}

impl<B, F: FnMut(&Event, Option<EventExtras<'_, B>>) -> bool> Sink<B> for F {
    fn event(&mut self, event: &Event, event_extras: Option<EventExtras<'_, B>>) -> bool {
        self(event, event_extras)
    }
}

/// Takes events out of a ring.
pub struct Consumer<B> {
    window: SubbufWindow<B>,
    /// The next event and its index, if it was looked at, and the position of the consumer behind
    /// it.
    peeked: Option<(u64, Event, Position)>,
    /// Events taken.
    read: u64,
    /// No more events are given out, since the ring was replaced.
    closed: bool,
    released: u64,
}

impl<B: AsRef<[SlotWords]> + AsMut<[SlotWords]>> Consumer<B> {
    /// Makes a consumer of a new ring. `copy` may be empty until [`Consumer::set_copy`].
    pub fn new(copy: B) -> Self {
        Self {
            window: SubbufWindow {
                copy,
                seq: 1,
                complete: 0,
                overtaken: 0,
                place: Position::default(),
                from: 0,
                until: u64::MAX,
            },
            peeked: None,
            read: 0,
            closed: false,
            released: 0,
        }
    }

    /// Returns whether it has room for a copy, without which it finds nothing.
    pub fn has_copy(&self) -> bool {
        !self.window.copy.as_ref().is_empty()
    }

    /// Gives it room for a sub-buffer less one slot.
    pub fn set_copy(&mut self, copy: B) {
        if !self.has_copy() {
            self.window.copy = copy;
        }
    }

    /// Returns the number of events taken.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// Returns the index before which all events are taken, cleared, or given up.
    pub fn position(&self) -> u64 {
        self.window.place.event.max(self.window.from)
    }

    /// Returns the number of events that can still be read, of a ring whose extent is `extent`.
    pub fn present(&self, extent: &Extent) -> u64 {
        let position = self.position();
        let there = extent
            .end_event
            .saturating_sub(position.max(extent.first_event));
        if position >= extent.first_event {
            return there;
        }
        // The ring has gone on, but the copy is still there.
        let rest = self
            .window
            .copy
            .as_ref()
            .get(self.window.place.decoded..self.window.complete);
        let rest = rest
            .unwrap_or_default()
            .iter()
            .filter(|words| words.is_event());
        let copied = self.window.place.event.saturating_add(rest.count() as u64);
        let held = copied.saturating_sub(position);
        // The copy may reach into the part that is still in the ring.
        let both = copied.saturating_sub(extent.first_event);
        held.saturating_add(there).saturating_sub(both)
    }

    /// Returns the number of sub-buffers that hold events to be read.
    pub fn filled<S: Storage>(&self, ring: &Ring<S>) -> u64 {
        let extent = ring.extent();
        let first = self.window.seq.max(extent.oldest);
        extent.newest.saturating_add(1).saturating_sub(first)
    }

    /// Gives up all events before index `from`, which lies in sub-buffer `seq` or behind it.
    pub fn clear<S: Storage>(&mut self, ring: &Ring<S>, from: u64, seq: u64) {
        self.window.from = self.window.from.max(from);
        self.window.place.lost = 0;
        if self
            .peeked
            .is_some_and(|(index, ..)| index < self.window.from)
        {
            self.peeked = None;
        }
        if seq > self.window.seq {
            self.window.enter(seq);
            self.window.place.event = self.window.place.event.max(from);
        }
        self.release(ring, seq);
    }

    /// Gives out nothing any more; events that were not read count as lost.
    pub fn close(&mut self) {
        self.closed = true;
        self.peeked = None;
    }

    fn release<S: Storage>(&mut self, ring: &Ring<S>, seq: u64) {
        if seq > self.released {
            self.released = seq;
            ring.release(seq);
        }
    }

    /// Returns whether there are slots to decode, after looking for more.
    fn has_slots<S: Storage>(&mut self, ring: &Ring<S>) -> bool {
        if self.closed || !self.has_copy() {
            return false;
        }
        for _ in 0..PATIENCE {
            if self.window.place.decoded < self.window.complete {
                return true;
            }
            let refilled = self.window.refill(ring);
            // A sub-buffer that is copied whole needs the ring's memory no more.
            let whole = u64::from(self.window.complete == ring.subbuf_slots() - 1);
            self.release(ring, self.window.seq.wrapping_add(whole));
            if matches!(refilled, Refill::Unfinished | Refill::NotYet) {
                break;
            }
        }
        false
    }

    /// Returns the next event and its index, without taking it.
    pub fn peek<S: Storage>(&mut self, ring: &Ring<S>) -> Option<(u64, Event)> {
        while self.peeked.is_none() {
            if !self.has_slots(ring) {
                return None;
            }
            let before = self.window.place;
            let event = self.window.decode();
            let after = self.window.place;
            if let Some(event) = event {
                let index = after.event.wrapping_sub(event.count());
                self.peeked = Some((index, event, after));
                self.window.place = before;
            }
        }
        self.peeked.map(|(index, event, _)| (index, event))
    }

    /// Returns the extras of the event that [`Consumer::peek`] returned.
    pub fn extras(&self) -> Extras {
        (self.peeked).map_or_else(Extras::default, |(_, _, after)| after.group.extras)
    }

    /// Returns the return addresses behind its `parent_ip`, if its stack was recorded.
    pub fn stack(&self) -> impl Iterator<Item = u64> + '_ {
        self.window.stack(&self.extras())
    }

    /// Returns the bytes that a program has written, if it is a marker.
    pub fn text(&self) -> impl Iterator<Item = u8> + '_ {
        let end = (self.peeked).map_or(0, |(_, _, after)| after.decoded);
        self.window.text(&self.extras(), end)
    }

    /// Takes event `index`, if it is still the next one. Returns whether it was.
    pub fn take(&mut self, index: u64) -> bool {
        match self.peeked {
            Some((next, event, after)) if next == index => {
                self.peeked = None;
                self.window.place = after;
                self.read = self.read.wrapping_add(event.count());
                true
            }
            _ => false,
        }
    }

    /// Gives `sink` one event after the other; takes those that it accepts, and ends with the first
    /// that it does not.
    ///
    /// It does as [`Consumer::peek`] and [`Consumer::take`] do, in fewer instructions: little is
    /// kept from one event to the next.
    pub fn drain<S: Storage>(&mut self, ring: &Ring<S>, sink: &mut impl Sink<B>) {
        self.peeked = None;
        let mut start = self.window.place;
        while self.has_slots(ring) {
            if !self.drain_plain(sink) {
                return;
            }
            let place = &self.window.place;
            if place.is_between_groups() {
                start.event = place.event;
                start.decoded = place.decoded;
                start.decoder = place.decoder;
                start.group.end();
            }
            let Some(event) = self.window.decode() else {
                continue;
            };
            let event_extras = event.has_extras.then_some(EventExtras(&self.window));
            if !sink.event(&event, event_extras) {
                start.lost = event.lost;
                self.window.place = start;
                return;
            }
            self.read = self.read.wrapping_add(event.count());
        }
    }

    /// Drains the next slots as long as they are events without extras. Returns whether all were
    /// accepted.
    #[inline(always)]
    fn drain_plain(&mut self, sink: &mut impl Sink<B>) -> bool {
        let SubbufWindow {
            copy,
            complete,
            place,
            from,
            ..
        } = &mut self.window;
        if !place.is_between_groups() || place.event < *from || place.lost != 0 {
            return true;
        }
        let decoder = place.decoder;
        let ready = copy.as_ref().get(place.decoded..*complete);
        let mut rest = ready.unwrap_or_default();
        let before = rest.len();
        let accepted = loop {
            let functions = sink.functions(&decoder, rest);
            rest = rest.get(functions..).unwrap_or_default();
            let Some((words, behind)) = rest.split_first() else {
                break true;
            };
            let Some(event) = decoder.plain(*words) else {
                break true;
            };
            if !sink.event(&event, None) {
                break false;
            }
            rest = behind;
        };
        let taken = before.wrapping_sub(rest.len());
        if taken != 0 {
            place.group.end();
        }
        place.decoded = place.decoded.wrapping_add(taken);
        place.event = place.event.wrapping_add(taken as u64);
        self.read = self.read.wrapping_add(taken as u64);
        accepted
    }

    /// Takes all slots that are ready, at most `most` of them, and puts them into `into`, which has
    /// room for a sub-buffer less one slot. `None` if there is no event.
    pub fn take_chunk<S: Storage>(
        &mut self,
        ring: &Ring<S>,
        most: usize,
        into: &mut B,
    ) -> Option<TakenSlots> {
        let (length, events, whole) = self.find_chunk(ring, most)?;
        // A position is large, so it is changed in place.
        let place = &mut self.window.place;
        let first_event = place.event;
        let decoder = match place.decoded {
            // The first slots of a sub-buffer say it.
            0 => Decoder::default(),
            _ => place.decoder,
        };
        let slots = place.decoded..place.decoded.saturating_add(length);
        let slots = if whole {
            place.decoded = slots.end;
            // Nothing of the copy is needed any more, and the next sub-buffer says its state anew.
            core::mem::swap(&mut self.window.copy, into);
            slots
        } else {
            let from = self.window.copy.as_ref().get(slots)?;
            into.as_mut().get_mut(..length)?.copy_from_slice(from);
            place.decoded = place.decoded.saturating_add(length);
            for words in from {
                place.decoder.decode(*words, &mut place.group);
            }
            0..length
        };
        self.peeked = None;
        place.event = first_event.wrapping_add(events);
        self.read = self.read.wrapping_add(events);
        Some(TakenSlots {
            slots,
            seq: self.window.seq,
            first_event,
            events,
            lost: core::mem::take(&mut place.lost),
            decoder,
        })
    }

    /// Finds the next slots that make a chunk. Returns their number, that of their events, and
    /// whether they are all that is left of their sub-buffer.
    fn find_chunk<S: Storage>(
        &mut self,
        ring: &Ring<S>,
        most: usize,
    ) -> Option<(usize, u64, bool)> {
        loop {
            if !self.has_slots(ring) {
                return None;
            }
            if self.window.place.event < self.window.from {
                self.skip_one();
                continue;
            }
            let ended = self.window.complete == ring.subbuf_slots() - 1;
            let copy = self.window.copy.as_ref();
            let ready = copy.get(self.window.place.decoded..self.window.complete)?;
            let whole = ended && ready.len() <= most;
            let slots = ready.get(..most).unwrap_or(ready);
            let next = whole.then(|| ring.first_event_of(self.window.seq.wrapping_add(1)));
            let events = match next.flatten() {
                Some(next) => next.saturating_sub(self.window.place.event),
                None => slots.iter().map(|words| u64::from(words.is_event())).sum(),
            };
            if events != 0 {
                let last = match whole {
                    true => slots.len() - 1,
                    false => slots.iter().rposition(|words| words.is_event())?,
                };
                return Some((last + 1, events, whole));
            }
            if !whole {
                // No event is ready, or there is no room for one with the slots before it.
                return None;
            }
            self.window.place.decoded = self.window.complete;
        }
    }

    /// Steps over one slot.
    fn skip_one(&mut self) {
        let place = &mut self.window.place;
        if let Some(words) = self.window.copy.as_ref().get(place.decoded) {
            place.decoded += 1;
            if place.decoder.decode(*words, &mut place.group).is_some() {
                place.event = place.event.wrapping_add(1);
            }
        }
    }
}
