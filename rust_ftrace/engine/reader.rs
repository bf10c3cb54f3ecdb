// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The reader of a ring, which does not disturb the writer: it copies a sub-buffer, checks that it
//! was not overtaken, and decodes.

use super::decode::{DecodedGroup, Decoder, Event, EventKind, Extras};
use super::extras::stack_at;
use super::marker::text_at;
use super::ring::{parity_of, Head, Ring, Slot, Storage, LAPS};
use super::slot::{SlotWords, PARITY};
use crate::platform::{fence_acquire, spin_hint};

/// The content of a ring at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The oldest sub-buffer that is not overwritten, 0 if nothing was ever written.
    pub oldest: u64,
    /// The sub-buffer being written.
    pub newest: u64,
    /// Index of the oldest event, which is also the number of events overwritten.
    pub first_event: u64,
    /// Number of events ever written.
    pub end_event: u64,
}

/// The outcome of copying a sub-buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copied {
    /// The copy is good: the index of its first event, and the number of its slots that are
    /// complete.
    Whole(u64, usize),
    /// A writer has taken it for a later lap, or it was never open: its header does not say which.
    Gone,
    /// It is not open yet.
    NotYet,
}

/// Times that a reader tries again after a writer has changed something meanwhile.
pub(super) const PATIENCE: u32 = 1 << 14;

impl<S: Storage> Ring<S> {
    /// Index of the first slot of sub-buffer `seq`.
    pub(super) fn place_of(&self, seq: u64) -> usize {
        let place = seq.wrapping_sub(1).checked_rem(self.subbufs());
        place.unwrap_or(0) as usize * self.subbuf_slots()
    }

    /// Returns `seq` and the first event of the sub-buffer at `place`, if its header does not
    /// change.
    fn header(&self, place: usize) -> Option<(u64, u64)> {
        let header = self.slots().get(place)?;
        let seq = header.0.load_acquire();
        let first_event = header.1.load_relaxed();
        fence_acquire();
        (seq != 0 && header.0.load_relaxed() == seq).then_some((seq, first_event))
    }

    /// Returns the sub-buffer being written and the number of events written, both of one moment.
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

    /// Index of the first event of sub-buffer `seq`, if it is there.
    pub(super) fn first_event_of(&self, seq: u64) -> Option<u64> {
        let (found, first_event) = self.header(self.place_of(seq))?;
        (found == seq).then_some(first_event)
    }

    /// Returns the sub-buffer that event `index` is in, if it is there; else one before it.
    /// `extent` is the ring's.
    pub(super) fn subbuf_of(&self, extent: &Extent, index: u64) -> u64 {
        let (mut first, mut last) = (extent.oldest, extent.newest);
        // Mostly nothing was cleared, and it is the first one.
        while index > extent.first_event && first < last {
            let middle = first.saturating_add(last.saturating_sub(first).div_ceil(2));
            match self.first_event_of(middle) {
                Some(event) if event > index => last = middle.saturating_sub(1),
                Some(_) => first = middle,
                // A writer is faster.
                None => break,
            }
        }
        first
    }

    /// Returns the content of the ring now; an empty one, if a writer was faster every time.
    pub fn extent(&self) -> Extent {
        self.try_extent().unwrap_or_default()
    }

    fn try_extent(&self) -> Option<Extent> {
        for _ in 0..PATIENCE {
            if self.head() == Head::start(self.slots().len(), self.subbuf_slots()) {
                return Some(Extent::default());
            }
            if let Some((newest, end_event)) = self.newest() {
                let oldest = newest.saturating_sub(self.subbufs() - 1).max(1);
                // A writer that is just opening the oldest for the next lap makes it the one after
                // it.
                for oldest in oldest..=newest.min(oldest.wrapping_add(1)) {
                    match self.header(self.place_of(oldest)) {
                        Some((seq, first_event)) if seq == oldest => {
                            return Some(Extent {
                                oldest,
                                newest,
                                first_event,
                                end_event,
                            });
                        }
                        _ => {}
                    }
                }
            }
            spin_hint();
        }
        None
    }

    /// Copies sub-buffer `seq` into `into`, which has room for all slots but the header; the first
    /// `have` are there already.
    pub(super) fn copy(&self, seq: u64, into: &mut [SlotWords], have: usize) -> Copied {
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
            // Zero: being opened, for this lap or the next.
            found if found > seq || found == 0 => return Copied::Gone,
            _ => return Copied::NotYet,
        }
        let first_event = header.1.load_relaxed();
        let parity = parity_of(seq, self.subbufs());
        let (Some(slots), Some(copies)) = (rest.get(have..), into.get_mut(have..)) else {
            return Copied::NotYet;
        };
        let complete = match copy_slots(slots, copies, parity) {
            true => rest.len(),
            false => {
                let end = copies.iter().position(|words| !words.is_complete(parity));
                have.saturating_add(end.unwrap_or(0))
            }
        };
        // If any word above came from a later lap, this load sees that lap's header.
        fence_acquire();
        match header.0.load_relaxed() {
            found if found == seq => Copied::Whole(first_event, complete),
            _ => Copied::Gone,
        }
    }
}

/// Copies slots. Returns whether all were complete in a lap of parity `parity`.
fn copy_slots(slots: &[Slot], copies: &mut [SlotWords], parity: u64) -> bool {
    // The bit must be set in all, or in none.
    if parity == 0 {
        fold_copies(slots, copies, 0, |any, word| any | word) & PARITY == 0
    } else {
        fold_copies(slots, copies, u64::MAX, |all, word| all & word) & PARITY != 0
    }
}

/// Copies slots, and combines the first words of all.
#[inline(always)]
fn fold_copies(
    slots: &[Slot],
    copies: &mut [SlotWords],
    mut folded: u64,
    fold: impl Fn(u64, u64) -> u64,
) -> u64 {
    /// As many as the compiler makes one pass of a loop of. Draining a ring is this work, and
    /// copying the result to the user.
    const AT_A_TIME: usize = 8;
    let mut copy = |(slot, words): (&Slot, &mut SlotWords)| {
        // Acquire: word 1 is at least as new as word 0.
        words.0 = slot.0.load_acquire();
        words.1 = slot.1.load_relaxed();
        folded = fold(folded, words.0);
    };
    let whole = slots.len().min(copies.len()) & !(AT_A_TIME - 1);
    if let (Some((slots, last_slots)), Some((copies, last_copies))) = (
        slots.split_at_checked(whole),
        copies.split_at_mut_checked(whole),
    ) {
        let copies = copies.chunks_exact_mut(AT_A_TIME);
        for (slots, copies) in slots.chunks_exact(AT_A_TIME).zip(copies) {
            slots.iter().zip(copies).for_each(&mut copy);
        }
        last_slots.iter().zip(last_copies).for_each(copy);
    }
    folded
}

/// The position of a reader in the ring's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// Index of the next event.
    pub(super) event: u64,
    /// Slots of the copy that are decoded.
    pub(super) decoded: usize,
    pub(super) decoder: Decoder,
    /// The state that the last slots left.
    pub(super) group: DecodedGroup,
    /// Events given up since the last one was given out.
    pub(super) lost: u64,
}

impl Position {
    /// Returns whether the next slot has nothing to do with those before it.
    pub(super) fn is_between_groups(&self) -> bool {
        self.group.is_ended() || self.decoded == 0
    }
}

/// The data beside the last event.
pub struct EventExtras<'a, B>(pub(super) &'a SubbufWindow<B>);

impl<'a, B: AsRef<[SlotWords]> + AsMut<[SlotWords]>> EventExtras<'a, B> {
    /// The extras of fixed length.
    pub fn extras(&self) -> &'a Extras {
        self.0.extras()
    }

    /// The return addresses behind its `parent_ip`, if its stack was recorded.
    pub fn stack(&self) -> impl Iterator<Item = u64> + 'a {
        self.0.stack(self.0.extras())
    }

    /// The bytes that a program has written, if that is the event.
    pub fn text(&self) -> impl Iterator<Item = u8> + 'a {
        self.0.text(self.0.extras(), self.0.place.decoded)
    }
}

/// A copy of the sub-buffer that is being read.
pub(super) struct SubbufWindow<B> {
    /// Room for one sub-buffer without its header.
    pub(super) copy: B,
    /// The sub-buffer in `copy`, or the next to be copied if `complete` is 0.
    pub(super) seq: u64,
    /// Slots of `copy` that are valid.
    pub(super) complete: usize,
    /// Times that the reader was overtaken since it last copied anything.
    pub(super) overtaken: u64,
    pub(super) place: Position,
    /// Index of the first event that is wanted.
    pub(super) from: u64,
    /// Index behind the last event that is wanted.
    pub(super) until: u64,
}

/// The outcome of looking for more slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refill {
    /// There are slots to decode.
    More,
    /// The next slot belongs to a writer that is not finished, or to none yet; or writers are too
    /// fast for the reader.
    Unfinished,
    /// The next sub-buffer is not open yet.
    NotYet,
    /// The next sub-buffer has changed, and may have been overtaken: the window is at a later one
    /// then.
    Again,
}

impl<B: AsRef<[SlotWords]> + AsMut<[SlotWords]>> SubbufWindow<B> {
    /// Gets slots to decode: more of this sub-buffer, or those of the next.
    pub(super) fn refill<S: Storage>(&mut self, ring: &Ring<S>) -> Refill {
        if self.complete == ring.subbuf_slots() - 1 {
            self.enter(self.seq.wrapping_add(1));
        }
        match ring.copy(self.seq, self.copy.as_mut(), self.complete) {
            Copied::Whole(first_event, complete) => {
                if self.place.decoded == 0 {
                    self.skip_to(first_event);
                }
                self.complete = complete;
                self.overtaken = 0;
                match complete > self.place.decoded {
                    true => Refill::More,
                    false => Refill::Unfinished,
                }
            }
            Copied::Gone => match ring.try_extent() {
                None => Refill::Unfinished,
                Some(extent) if extent.newest < self.seq => Refill::NotYet,
                Some(extent) if extent.oldest <= self.seq => Refill::Again,
                Some(extent) => {
                    // The oldest may be overtaken next: the window goes further each time that it
                    // was.
                    let next = extent.oldest.wrapping_add(self.overtaken);
                    self.enter(next.min(extent.newest));
                    self.overtaken = self.overtaken.wrapping_add(1);
                    Refill::Again
                }
            },
            Copied::NotYet => Refill::NotYet,
        }
    }

    /// Makes `seq` the sub-buffer to be copied next.
    pub(super) fn enter(&mut self, seq: u64) {
        self.seq = seq;
        self.complete = 0;
        self.place.decoded = 0;
        self.place.group = DecodedGroup::default();
    }

    /// Moves on to `event`. Counts the wanted events before it that are no longer there as lost.
    fn skip_to(&mut self, event: u64) {
        let wanted = self.place.event.max(self.from);
        let missed = event.min(self.until).saturating_sub(wanted);
        self.place.lost = self.place.lost.wrapping_add(missed);
        self.place.event = event;
    }

    /// Decodes slots of the copy up to the next wanted event.
    #[inline(always)]
    pub(super) fn decode(&mut self) -> Option<Event> {
        while self.place.decoded < self.complete {
            let words = *self.copy.as_ref().get(self.place.decoded)?;
            self.place.decoded += 1;
            let Some(mut event) = self.place.decoder.decode(words, &mut self.place.group) else {
                continue;
            };
            let index = self.place.event;
            self.place.event = index.wrapping_add(1);
            if index < self.from {
                continue;
            }
            if event.what == EventKind::Entry {
                self.join_return(&mut event);
            }
            event.lost = core::mem::take(&mut self.place.lost);
            return Some(event);
        }
        None
    }

    /// Makes an entry a whole call, if its return comes next.
    fn join_return(&mut self, entry: &mut Event) {
        let mut decoder = self.place.decoder;
        let mut group = DecodedGroup::default();
        let rest = self.copy.as_ref().get(self.place.decoded..self.complete);
        for (words, decoded) in rest
            .unwrap_or_default()
            .iter()
            .zip(self.place.decoded + 1..)
        {
            let Some(event) = decoder.decode(*words, &mut group) else {
                continue;
            };
            if event.what == EventKind::Return
                && (event.ip, event.depth, event.task) == (entry.ip, entry.depth, entry.task)
            {
                entry.what = EventKind::Call;
                entry.joined = true;
                entry.duration = event.duration;
                self.place.event = self.place.event.wrapping_add(1);
                self.place.decoded = decoded;
                self.place.decoder = decoder;
                self.place.group.join(&group);
                entry.has_extras = self.place.group.is_any();
            }
            break;
        }
    }

    /// The data beside the last event.
    pub(super) fn extras(&self) -> &Extras {
        &self.place.group.extras
    }

    /// The bytes that a program has written, if the event in the slot before `end` says so.
    pub(super) fn text(&self, extras: &Extras, end: usize) -> impl Iterator<Item = u8> + '_ {
        let at = move |length| text_at(self.copy.as_ref(), end.wrapping_sub(1), length as usize);
        // It is not called if there is no text.
        extras.text.into_iter().flat_map(at)
    }

    /// The stack of an event of this sub-buffer, behind its `parent_ip`.
    pub(super) fn stack(&self, extras: &Extras) -> impl Iterator<Item = u64> + '_ {
        let at = |place| stack_at(self.copy.as_ref(), place);
        extras.stack.into_iter().flat_map(at)
    }
}

/// Reads a ring's events in order, from the oldest to the last one that was there when the cursor
/// was made, and takes none out.
pub struct Cursor<B>(SubbufWindow<B>);

impl<B: AsRef<[SlotWords]> + AsMut<[SlotWords]>> Cursor<B> {
    /// Makes a cursor over the events that `ring` holds now, without those before index `from`.
    ///
    /// `copy` must have room for a sub-buffer less one slot.
    pub fn new<S: Storage>(ring: &Ring<S>, copy: B, from: u64) -> Self {
        let extent = ring.extent();
        Self(SubbufWindow {
            copy,
            seq: ring.subbuf_of(&extent, from),
            complete: 0,
            overtaken: 0,
            place: Position {
                event: extent.first_event,
                ..Position::default()
            },
            from: from.max(extent.first_event),
            until: extent.end_event,
        })
    }

    /// The next event; `None` at the end.
    #[inline(always)]
    pub fn next<S: Storage>(&mut self, ring: &Ring<S>) -> Option<Event> {
        while self.0.place.event < self.0.until {
            if let Some(event) = self.0.decode() {
                return Some(event);
            }
            self.refill(ring)?;
        }
        None
    }

    /// The data beside the last event.
    pub fn extras(&self) -> &Extras {
        self.0.extras()
    }

    /// The return addresses behind the `parent_ip` of the last event, if its stack was recorded.
    pub fn stack(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.stack(self.0.extras())
    }

    /// The bytes that a program has written, if that is the last event.
    pub fn text(&self) -> impl Iterator<Item = u8> + '_ {
        self.0.text(self.0.extras(), self.0.place.decoded)
    }

    /// Waits for a writer that is just opening a sub-buffer, but not for one that is not finished.
    fn refill<S: Storage>(&mut self, ring: &Ring<S>) -> Option<()> {
        for _ in 0..PATIENCE {
            match self.0.refill(ring) {
                Refill::More => return Some(()),
                Refill::Unfinished => return None,
                Refill::NotYet => spin_hint(),
                Refill::Again => {}
            }
        }
        None
    }
}
