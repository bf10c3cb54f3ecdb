// SPDX-License-Identifier: GPL-2.0

//! The ring of one CPU: who writes, how, and what a reader may rely on.
//!
//! # Terms
//!
//! - *slot*: 16 bytes, see [`slot`](super::slot). An *event* is a slot that a user asked for (a
//!   function entry); the others are there to decode it.
//! - *sub-buffer*: a power of two of slots. Its first slot is the header: the sub-buffer's number
//!   (`seq`, 1 for the first ever written, 0 while it is being opened) and the index of its first
//!   event, counted from 0 since the ring was made.
//! - *lap*: one time round all sub-buffers. Sub-buffer `seq` lies in lap `(seq - 1) / count`, at
//!   place `(seq - 1) % count`.
//! - *head*: where the next slot goes; the only word that decides who gets which slot.
//!
//! # Writers
//!
//! All writers of a ring run on its CPU with preemption off, so they nest like interrupts do: one
//! interrupts another, runs to its end, and the other goes on. A writer
//!
//! 1. loads the head, then reads the clock,
//! 2. moves the head by a compare-and-exchange; an interrupt that wrote in between makes it fail,
//! 3. fills the slots that it got, word 0 last.
//!
//! Because of 2 the times in a ring never decrease from slot to slot. Exclusion against other CPUs
//! is not needed, so the exchange has no lock prefix.
//!
//! ```text
//! head:  63 parity | 62..44 lap | 43..32 other slots in this sub-buffer | 31..0 slot number
//! ```
//!
//! "Other slots" are those that are no events, without the header. With it, the number of events
//! is known from the head and the header alone, and no counter is kept per event. A head whose slot
//! number is a multiple of the sub-buffer's size is *at a boundary*: all before is closed, the next
//! sub-buffer is not open.
//!
//! A sub-buffer is opened in the cold path: its header is written first, then the head moves into
//! it. An interrupt may do the same in the middle of that; both write the same header, since all of
//! it follows from the boundary's head. So that the interrupt cannot come round the whole ring to
//! the same sub-buffer meanwhile, `opening` names the outermost one being opened, and a writer that
//! meets it again drops its event. A writer that meets a slot which is not complete yet, a lap later
//! (its owner sits below on the stack), drops its event too: tracefs calls this a commit overrun.
//!
//! # Readers
//!
//! A reader copies a sub-buffer and then looks whether the header still shows the same `seq`; if
//! not, a writer has overtaken it and the copy is thrown away. See [`reader`](super::reader).

use super::slot::{is_text_address, Kind, Task, Words, PARITY, TIME_BITS};
use crate::shim::{fence_release, Word};

/// A slot in the ring's memory.
#[repr(C)]
pub(crate) struct Slot(pub(crate) Word, pub(crate) Word);

/// The memory of a ring.
///
/// # Safety
///
/// `slots` returns the same slice every time, and it stays where it is while `self` lives, also
/// when `self` moves.
pub(crate) unsafe trait Storage {
    /// The slots, zeroed when handed to [`Ring::new`].
    fn slots(&self) -> &[Slot];
}

/// One function entry, as the hook sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Address of the traced function's ftrace location; always a text address.
    pub(crate) ip: u64,
    /// Address it will return to.
    pub(crate) parent_ip: u64,
    /// See [`context`](super::context).
    pub(crate) context: u32,
}

impl Entry {
    #[inline(always)]
    const fn pack(&self, parity: u64, now: u64) -> Words {
        let second = self.parent_ip as u32 as u64 | ((self.context as u64) << 32);
        Words::pack(Kind::Function, parity, now, self.ip as u32, second)
    }
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is in the ring.
    Written,
    /// It is not, and is counted as commit overrun.
    Overrun,
}

const OTHERS_SHIFT: u32 = 32;
const OTHERS_MASK: u64 = 0xfff;
const LAP_SHIFT: u32 = 44;
const LAP_MASK: u64 = (PARITY - 1) >> LAP_SHIFT << LAP_SHIFT;

/// Laps that the head can tell apart.
pub(crate) const LAPS: u64 = 1 << (63 - LAP_SHIFT);

/// Fewest slots in a sub-buffer: room for the header, the longest group of slots, and more.
pub(crate) const MIN_SUBBUF_SLOTS: usize = 8;
/// Most slots in a sub-buffer, so that the head can count them.
pub(crate) const MAX_SUBBUF_SLOTS: usize = 4096;

/// A value of the ring's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head(pub(crate) u64);

impl Head {
    /// Number of the next slot, in the whole ring.
    pub(crate) const fn slot(self) -> usize {
        self.0 as u32 as usize
    }

    /// Slots of the current sub-buffer that are no events, the header not counted.
    pub(crate) const fn others(self) -> u64 {
        (self.0 >> OTHERS_SHIFT) & OTHERS_MASK
    }

    /// How often the head has come to the ring's start, modulo [`LAPS`].
    pub(crate) const fn lap(self) -> u64 {
        (self.0 & LAP_MASK) >> LAP_SHIFT
    }

    /// Where a ring begins: the boundary behind an imaginary lap of no events, so that the first
    /// lap is like others. No sub-buffer is without events, so the head is never the same again.
    pub(crate) const fn start(slots: usize, subbuf_slots: usize) -> Self {
        Self::compose(slots, subbuf_slots - 1, 0)
    }

    const fn compose(slot: usize, others: usize, lap_bits: u64) -> Self {
        Self(lap_bits & (PARITY | LAP_MASK) | ((others as u64) << OTHERS_SHIFT) | slot as u64)
    }

    /// The lap's bits one lap on: parity turned, count raised.
    const fn next_lap(self) -> u64 {
        ((self.0 & LAP_MASK).wrapping_add(1 << LAP_SHIFT) & LAP_MASK) | ((self.0 ^ PARITY) & PARITY)
    }
}

/// Parity of the lap in which sub-buffer `seq` of a ring of `count` sub-buffers lies.
pub(crate) const fn parity_of(seq: u64, count: u64) -> u64 {
    match seq.wrapping_sub(1).checked_div(count) {
        Some(lap) if lap & 1 == 0 => PARITY,
        _ => 0,
    }
}

/// The ring buffer of one CPU.
///
/// # Invariants
///
/// - `base` points to the `sub_mask + 1` times `subbufs` slots of `storage`; `sub_mask + 1` is a
///   power of two between [`MIN_SUBBUF_SLOTS`] and [`MAX_SUBBUF_SLOTS`], `subbufs` at least 2.
/// - `head` names a slot of `base`, or the one behind the last; its slot number is a multiple of
///   `sub_mask + 1` only at a boundary.
/// - A slot is filled only by the writer whose exchange moved `head` over it.
#[repr(C, align(64))]
pub(crate) struct Ring<S: Storage> {
    // What every event touches is one cache line, written by this CPU alone.
    head: Word,
    /// Epoch of the last [`Kind::Time`] slot.
    epoch: Word,
    /// The task of the last [`Kind::Task`] slots.
    task: [Word; 3],
    base: *const Slot,
    sub_mask: u64,
    subbufs: u64,
    // Cold.
    /// The outermost sub-buffer being opened, 0 for none.
    opening: Word,
    /// Events that could not be written because a writer below was not finished.
    overrun: Word,
    storage: S,
}

// SAFETY: `base` points into `storage`, which is `Sync` itself; all else is atomic or constant.
unsafe impl<S: Storage + Sync> Sync for Ring<S> {}
// SAFETY: `base` does not depend on the thread, and `storage` may be sent.
unsafe impl<S: Storage + Send> Send for Ring<S> {}

impl<S: Storage> Ring<S> {
    /// Makes an empty ring in `storage`, of sub-buffers of `subbuf_slots` slots.
    ///
    /// Returns `None` if the invariants cannot hold: a sub-buffer size that is no power of two or
    /// out of bounds, or memory that is no multiple of it, too small or too large for 32 bits.
    pub(crate) fn new(storage: S, subbuf_slots: usize) -> Option<Self> {
        let length = storage.slots().len();
        let subbufs = length.checked_div(subbuf_slots)?;
        if !subbuf_slots.is_power_of_two()
            || !(MIN_SUBBUF_SLOTS..=MAX_SUBBUF_SLOTS).contains(&subbuf_slots)
            || subbufs < 2
            || subbufs.checked_mul(subbuf_slots)? != length
            || u32::try_from(length).is_err()
        {
            return None;
        }
        let base = storage.slots().as_ptr();
        // INVARIANT: checked above; the head is at a boundary.
        Some(Self {
            head: Word::new(Head::start(length, subbuf_slots).0),
            epoch: Word::new(u64::MAX),
            task: [Word::new(0), Word::new(0), Word::new(0)],
            base,
            sub_mask: subbuf_slots as u64 - 1,
            subbufs: subbufs as u64,
            opening: Word::new(0),
            overrun: Word::new(0),
            storage,
        })
    }

    /// Number of sub-buffers.
    pub(crate) fn subbufs(&self) -> u64 {
        self.subbufs
    }

    /// Slots in a sub-buffer, the header included.
    pub(crate) fn subbuf_slots(&self) -> usize {
        self.sub_mask as usize + 1
    }

    /// Bytes of the ring, its administration included.
    pub(crate) fn bytes(&self) -> usize {
        core::mem::size_of_val(self.storage.slots()) + core::mem::size_of::<Self>()
    }

    /// Events dropped because a writer below on the stack was not finished (commit overrun).
    pub(crate) fn overrun(&self) -> u64 {
        self.overrun.load_relaxed()
    }

    /// The head as it is now; a hint for all but the writer.
    pub(crate) fn head(&self) -> Head {
        Head(self.head.load_relaxed())
    }

    /// All slots, for readers.
    pub(crate) fn slots(&self) -> &[Slot] {
        self.storage.slots()
    }

    /// Writes one function entry.
    ///
    /// `clock` returns ticks, never fewer than before on this CPU; it is read after the head.
    ///
    /// # Safety
    ///
    /// - The caller runs on the ring's CPU, with preemption off, from before the call to its end.
    /// - Other writers of this ring only interrupt this one and end before it goes on.
    #[inline(always)]
    pub(crate) unsafe fn write<C: Fn() -> u64>(
        &self,
        entry: &Entry,
        task: &Task,
        clock: C,
    ) -> Outcome {
        let head = self.head.load_relaxed();
        let now = clock();
        let hot = head & self.sub_mask != 0
            && now >> TIME_BITS == self.epoch.load_relaxed()
            && self.is_task(task)
            && is_text_address(entry.parent_ip)
            && self.head.local_exchange(head, head.wrapping_add(1));
        if !hot {
            // SAFETY: The caller's obligations are the same.
            return unsafe { self.write_cold(entry, task, clock) };
        }
        // SAFETY: The exchange moved the head over this slot, which is not at a boundary, so it
        // exists and is ours.
        unsafe { self.fill(Head(head).slot(), entry.pack(head, now)) };
        Outcome::Written
    }

    #[inline(always)]
    fn is_task(&self, task: &Task) -> bool {
        self.task[0].load_relaxed() == task.ids
            && self.task[1].load_relaxed() == task.comm[0]
            && self.task[2].load_relaxed() == task.comm[1]
    }

    /// Completes slot `index`.
    ///
    /// # Safety
    ///
    /// `index` is a slot of the ring that the caller got from the head.
    #[inline(always)]
    unsafe fn fill(&self, index: usize, words: Words) {
        // SAFETY: The caller promises that the slot exists.
        let slot = unsafe { &*self.base.add(index) };
        slot.1.store_relaxed(words.1);
        slot.0.store_release(words.0);
    }

    /// The way of all events that need more than one slot, or a new sub-buffer, or were interrupted.
    ///
    /// It goes round again only if an interrupt wrote an event in between.
    ///
    /// # Safety
    ///
    /// As for [`Ring::write`].
    #[cold]
    #[inline(never)]
    unsafe fn write_cold<C: Fn() -> u64>(&self, entry: &Entry, task: &Task, clock: C) -> Outcome {
        loop {
            let head = self.head();
            let now = clock();
            let place = head.0 & self.sub_mask;
            if place == 0 {
                match self.open(head) {
                    Opening::Raced => continue,
                    Opening::Blocked => {
                        self.overrun.local_add(1);
                        return Outcome::Overrun;
                    }
                    Opening::Ready(start, ours) => {
                        let group = Group::new(entry, task, now, true, true);
                        let won = self.take(head, start, &group);
                        if ours {
                            self.opening.store_relaxed(0);
                        }
                        if won {
                            // SAFETY: `take` moved the head over the group's slots.
                            unsafe { self.fill_group(start, &group, now) };
                            return Outcome::Written;
                        }
                    }
                }
                continue;
            }
            let needs_time = now >> TIME_BITS != self.epoch.load_relaxed();
            let group = Group::new(entry, task, now, needs_time, !self.is_task(task));
            if place as usize + group.length() > self.subbuf_slots() {
                self.close(head);
            } else if self.take(head, head, &group) {
                // SAFETY: `take` moved the head over the group's slots.
                unsafe { self.fill_group(head, &group, now) };
                return Outcome::Written;
            }
        }
    }

    /// Moves the head from `old` to behind `group`, which begins at `start`.
    fn take(&self, old: Head, start: Head, group: &Group) -> bool {
        let others = (group.length() as u64 - 1) << OTHERS_SHIFT;
        let new = start
            .0
            .wrapping_add(group.length() as u64)
            .wrapping_add(others);
        self.head.local_exchange(old.0, new)
    }

    /// Fills a group's slots from `start` on, and remembers what it announced.
    ///
    /// # Safety
    ///
    /// The caller got these slots from the head.
    unsafe fn fill_group(&self, start: Head, group: &Group, now: u64) {
        for (index, words) in (start.slot()..).zip(group.slots()) {
            // SAFETY: The caller promises that the slot is its own.
            unsafe { self.fill(index, Words(words.0 | start.0 & PARITY, words.1)) };
        }
        // After the exchange: an interrupt between the two announces the same again, no more. Its
        // own announcements stay true, since the task is the same and an older epoch never comes
        // back.
        self.epoch.store_relaxed(now >> TIME_BITS);
        self.task[0].store_relaxed(group.task.ids);
        self.task[1].store_relaxed(group.task.comm[0]);
        self.task[2].store_relaxed(group.task.comm[1]);
    }

    /// Moves the head to the next boundary and fills what is left before it.
    fn close(&self, head: Head) {
        let left = self.subbuf_slots() - (head.0 & self.sub_mask) as usize;
        let new = (head.0)
            .wrapping_add(left as u64)
            .wrapping_add((left as u64) << OTHERS_SHIFT);
        if !self.head.local_exchange(head.0, new) {
            return;
        }
        for index in (head.slot()..).take(left) {
            // SAFETY: The exchange moved the head over these slots.
            unsafe { self.fill(index, Words::pack(Kind::Pad, head.0, 0, 0, 0)) };
        }
    }

    /// Prepares the sub-buffer behind the boundary `head`.
    fn open(&self, head: Head) -> Opening {
        let slots = self.storage.slots();
        let size = self.subbuf_slots();
        let wraps = head.slot() >= slots.len();
        let (index, lap) = if wraps {
            (0, head.next_lap())
        } else {
            (head.slot(), head.0)
        };
        let (Some(last), Some(next)) = (
            slots.get(head.slot().wrapping_sub(size)),
            slots.get(index..index.wrapping_add(size)),
        ) else {
            // The invariants exclude it; an event lost and counted is better than a panic.
            return Opening::Blocked;
        };
        let Some((header, rest)) = next.split_first() else {
            return Opening::Blocked;
        };
        let seq = last.0.load_relaxed().wrapping_add(1);
        let events = (size as u64 - 1).wrapping_sub(head.others());
        let first_event = last.1.load_relaxed().wrapping_add(events);
        let found = header.0.load_relaxed();

        let outer = self.opening.load_relaxed();
        let ours = outer == 0 && self.opening.local_exchange(0, seq);
        // From here on nobody comes round to this sub-buffer again. If the head is still as it was
        // after all has been looked at, nobody has written, and what was seen belongs together.
        let moved = || self.head() != head;
        let blocked = || {
            let distance = seq.wrapping_sub(outer);
            let meets_outer =
                outer != 0 && distance != 0 && distance.checked_rem(self.subbufs) == Some(0);
            // A slot that was not completed in the last lap belongs to a writer below on the stack.
            let old_parity = !lap & PARITY;
            let unfinished = rest.iter().fold(0, |mixed, slot| {
                mixed | (slot.0.load_relaxed() ^ old_parity)
            });
            meets_outer || unfinished & PARITY != 0
        };
        let opening = match (blocked(), moved()) {
            (true, false) => Opening::Blocked,
            (false, false) if found == seq || self.announce(header, found, seq, first_event) => {
                Opening::Ready(Head::compose(index + 1, 0, lap), ours)
            }
            _ => Opening::Raced,
        };
        if ours && !matches!(opening, Opening::Ready(..)) {
            self.opening.store_relaxed(0);
        }
        opening
    }

    /// Writes a sub-buffer's header, which was `found`; whether it still was.
    ///
    /// It is zero in between, but never when the head is behind it: an interrupt that finds the head
    /// at the next boundary takes the `seq` after this one from here. Once an interrupt has moved
    /// the head, the header is no more as found, and stays.
    fn announce(&self, header: &Slot, found: u64, seq: u64, first_event: u64) -> bool {
        if !header.0.local_exchange(found, 0) {
            return false;
        }
        // A reader that sees anything stored from here on sees the zero, or what came after it.
        fence_release();
        header.1.store_relaxed(first_event);
        header.0.store_release(seq);
        true
    }
}

/// What [`Ring::open`] found.
enum Opening {
    /// The sub-buffer is ready; its first free slot, and whether `opening` was set here.
    Ready(Head, bool),
    /// An interrupt moved the head.
    Raced,
    /// The next sub-buffer cannot be had now.
    Blocked,
}

/// The slots of one event: announcements it needs, then the entry.
struct Group {
    slots: [Words; Group::MOST],
    length: usize,
    task: Task,
}

impl Group {
    /// Time, task (2), wide parent, entry.
    const MOST: usize = 5;

    fn new(entry: &Entry, task: &Task, now: u64, needs_time: bool, needs_task: bool) -> Self {
        let mut group = Self {
            slots: [Words::default(); Self::MOST],
            length: 0,
            task: *task,
        };
        if needs_time {
            group.push(Words::pack(Kind::Time, 0, now, 0, now >> TIME_BITS));
        }
        if needs_task {
            let [first, second] = Words::pack_task(0, now, task);
            group.push(first);
            group.push(second);
        }
        if !is_text_address(entry.parent_ip) {
            group.push(Words::pack(Kind::Wide, 0, now, 0, entry.parent_ip));
        }
        group.push(entry.pack(0, now));
        group
    }

    fn push(&mut self, words: Words) {
        if let Some(slot) = self.slots.get_mut(self.length) {
            *slot = words;
            self.length += 1;
        }
    }

    fn length(&self) -> usize {
        self.length
    }

    fn slots(&self) -> impl Iterator<Item = Words> + '_ {
        self.slots.iter().copied().take(self.length)
    }
}
