// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The ring of one CPU: how events are written, and the properties that readers rely on.
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
//! - *head*: the position of the next slot; the only word that decides which writer gets which
//!   slot.
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
//! head:  63 parity | 62..47 lap | 46..32 other slots in this sub-buffer | 31..0 byte offset
//! ```
//!
//! "Other slots" are those that are no events, without the header. With it, the number of events is
//! known from the head and the header alone, and no counter is kept per event. A head whose offset
//! is a multiple of the sub-buffer's size is *at a boundary*: all before is closed, the next
//! sub-buffer is not open.
//!
//! A sub-buffer is opened in the cold path: its header is written first, then the head moves into
//! it. An interrupt may do the same in the middle of that; both write the same header, since all of
//! it follows from the boundary's head. So that the interrupt cannot come round the whole ring to
//! the same sub-buffer meanwhile, `opening` names the outermost one being opened, and a writer that
//! meets it again drops its event. A writer that meets a slot which is not complete yet, a lap
//! later (its owner sits below on the stack), drops its event too: tracefs calls this a commit
//! overrun.
//!
//! # Modes
//!
//! In overwrite mode the next sub-buffer is always taken, and what was in it is gone. In discard
//! mode it is taken only if a consumer has released it: all sub-buffers below `released`, whose
//! content is copied or not wanted any more. Otherwise the new event is dropped, and counted.
//!
//! # Readers
//!
//! A reader copies a sub-buffer and then looks whether the header still shows the same `seq`; if
//! not, a writer has overtaken it and the copy is thrown away. See [`reader`](super::reader).

mod call;
mod cold;
mod container;
mod group;
mod kept;

use super::slot::{is_text_address, Container, SlotWords, Task, PARITY, SLOT_BYTES, TIME_BITS};
use crate::platform::Word;

#[allow(unused_imports)] // The host names it in tests only.
pub use self::call::OpenCall;

/// A slot in the ring's memory.
#[repr(C)]
pub struct Slot(pub Word, pub Word);

/// The memory of a ring.
///
/// # Safety
///
/// `slots` returns the same slice every time, and it stays where it is, and pointers to it good,
/// while `self` lives, also when `self` moves (where a `Box` claims all that it owns).
pub unsafe trait Storage {
    /// The slots, zeroed when handed to [`Ring::new`].
    fn slots(&self) -> &[Slot];

    /// The sub-buffer that readers wait for ([`Ring::await_subbuf`]) was opened, and has its first
    /// event.
    ///
    /// Called by the writer, in any context.
    fn reached(&self) {}

    /// A sub-buffer was opened, and has its first event; or events are dropped, at every
    /// [`DROPS`]th of them. The ring was told of `hits` entries so far, written or not, at most
    /// `room` of them since the last time.
    ///
    /// Called by the writer, in any context.
    fn counted(&self, _hits: u64, _room: u64) {}

    /// An event was not written because the ring is closed. Called by writers, of any CPU.
    fn missed(&self) {}

    /// An event of which [`Storage::missed`] was told was the return of a call. Called in the same
    /// contexts.
    fn missed_return(&self) {}
}

/// Number of events that are dropped until [`Storage::counted`] is called: about as many as a
/// sub-buffer has.
pub const DROPS: u64 = 256;

/// The call of a function, as the hook sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Address of the traced function's ftrace location; always a text address.
    pub ip: u64,
    /// Address it will return to.
    pub parent_ip: u64,
}

/// The time, context and task of an event. They are asked for only where they are used, so that a
/// hook need not have them ready.
pub trait EventContext: Copy {
    /// Ticks of the clock, never fewer than before on this CPU.
    fn now(&self) -> u64;

    /// The context, as [`context`](super::context) describes it.
    fn context(&self) -> u32;

    /// The context without the stack pointer: bits 0-15.
    fn flags(&self) -> u32 {
        self.context()
    }

    /// The task that runs.
    fn task(&self) -> Task;

    /// The container that the task is in, now.
    fn container(&self) -> Container;

    /// Returns whether the task that runs is that of `word(0)`, `word(1)` and `word(2)`: ids and
    /// comm of a [`Task`].
    fn is_task(&self, word: impl Fn(usize) -> u64) -> bool;
}

/// The outcome of writing an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The event is in the ring.
    Written,
    /// The event is not in the ring, and is counted as commit overrun.
    CommitOverrun,
    /// The event is not in the ring, and is counted as dropped: the ring is full, in discard mode.
    Full,
    /// The event is not in the ring, which is [closed](Ring::closed). The storage is told.
    Closed,
}

const OTHERS_SHIFT: u32 = 32;
const OTHERS_MASK: u64 = 0x7fff;
const LAP_SHIFT: u32 = 47;
const LAP_MASK: u64 = (HEAD_PARITY - 1) >> LAP_SHIFT << LAP_SHIFT;
/// The lap's parity.
const HEAD_PARITY: u64 = 1 << 63;
/// Bits to shift the head's parity by, to its place in a slot.
const PARITY_SHIFT: u32 = HEAD_PARITY.trailing_zeros() - PARITY.trailing_zeros();
/// The distance from one slot to the next, in bytes.
const STEP: u64 = SLOT_BYTES as u64;

/// Laps that the head can tell apart.
pub const LAPS: u64 = 1 << (63 - LAP_SHIFT);

/// Fewest slots in a sub-buffer: room for the header, the longest group of slots, and more.
pub const MIN_SUBBUF_SLOTS: usize = 8;
/// Most extra slots that [`Ring::enter_call`] and its like take.
pub const MAX_CALL_EXTRAS: usize = 6;
/// Most slots in a sub-buffer, so that the head can count them.
pub const MAX_SUBBUF_SLOTS: usize = OTHERS_MASK as usize + 1;

/// A value of the ring's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head(pub u64);

impl Head {
    /// Position of the next slot, in bytes from the ring's start.
    #[inline(always)]
    const fn offset(self) -> usize {
        self.0 as u32 as usize
    }

    /// Number of the next slot, in the whole ring.
    pub const fn slot(self) -> usize {
        self.offset() / SLOT_BYTES
    }

    /// The parity of its lap, as slots have it.
    const fn parity(self) -> u64 {
        (self.0 & HEAD_PARITY) >> PARITY_SHIFT
    }

    /// Slots of the current sub-buffer that are no events, the header not counted.
    pub const fn others(self) -> u64 {
        (self.0 >> OTHERS_SHIFT) & OTHERS_MASK
    }

    /// Times that the head has come to the ring's start, modulo [`LAPS`].
    pub const fn lap(self) -> u64 {
        (self.0 & LAP_MASK) >> LAP_SHIFT
    }

    /// The head of an empty ring: the boundary behind an imaginary lap of no events, so that the
    /// first lap is like others. No sub-buffer is without events, so the head never has this value
    /// again.
    pub const fn start(slots: usize, subbuf_slots: usize) -> Self {
        Self::compose(slots, subbuf_slots - 1, 0)
    }

    const fn compose(slot: usize, others: usize, lap_bits: u64) -> Self {
        let lap_bits = lap_bits & (HEAD_PARITY | LAP_MASK);
        Self(lap_bits | ((others as u64) << OTHERS_SHIFT) | (slot as u64).wrapping_mul(STEP))
    }

    /// The head after `slots` more slots, of which `others` are no events.
    #[inline(always)]
    const fn behind(self, slots: usize, others: usize) -> Self {
        let moved = self.0.wrapping_add((slots as u64).wrapping_mul(STEP));
        Self(moved.wrapping_add((others as u64) << OTHERS_SHIFT))
    }

    /// The bits of the next lap: parity turned, count raised.
    const fn next_lap(self) -> u64 {
        let lap = (self.0 & LAP_MASK).wrapping_add(1 << LAP_SHIFT) & LAP_MASK;
        lap | ((self.0 ^ HEAD_PARITY) & HEAD_PARITY)
    }
}

/// Parity of the lap in which sub-buffer `seq` of a ring of `count` sub-buffers lies.
pub const fn parity_of(seq: u64, count: u64) -> u64 {
    match seq.wrapping_sub(1).checked_div(count) {
        Some(lap) if lap & 1 == 0 => PARITY,
        _ => 0,
    }
}

/// Words that readers write, rarely, and the writer reads when it opens a sub-buffer. They have a
/// cache line of their own.
#[repr(align(64))]
struct ReaderSide {
    /// 1 in discard mode, 0 in overwrite mode.
    discard: Word,
    /// Sub-buffers below this one may be overwritten in discard mode.
    released: Word,
    /// A reader waits for this sub-buffer to be opened.
    awaited: Word,
    /// Says that containers are announced, and counts changes of these; see [`container`].
    containers: Word,
}

/// Most slots of a ring: the head counts bytes in 32 bits.
pub const MAX_SLOTS: usize = u32::MAX as usize / SLOT_BYTES / MAX_SUBBUF_SLOTS * MAX_SUBBUF_SLOTS;

/// The ring buffer of one CPU.
///
/// Three cache lines: the first is all that an event touches mostly, written by the ring's CPU
/// only; the second is for its cold path; the third is written by readers.
///
/// # Invariants
///
/// - `base` points to the slots of `storage`: `subbufs` sub-buffers of `sub_mask + 1` bytes each, a
///   power of two of [`MIN_SUBBUF_SLOTS`] to [`MAX_SUBBUF_SLOTS`] slots; `subbufs` is at least 2.
///   Or the ring is closed: it has no slots, and `head` and `sub_mask` are 0.
/// - `head` names a slot of `base`, or the one behind the last; its offset is a multiple of
///   `sub_mask + 1` only at a boundary.
/// - A slot is filled only by the writer whose exchange moved `head` over it.
/// - When `head` is not at a boundary, `ip_mask` is the one of its lap's parity.
#[repr(C, align(64))]
pub struct Ring<S: Storage> {
    head: Word,
    /// Epoch of the last [`SlotKind::Time`](super::slot::SlotKind::Time) slot.
    epoch: Word,
    /// The task of the last [`SlotKind::Task`](super::slot::SlotKind::Task) slots, unless it is to
    /// be announced again.
    task: [Word; 3],
    /// The mask for the `ip` of entries in this lap; see [`ip_mask`].
    ip_mask: Word,
    base: *const Slot,
    sub_mask: u32,

    cold: Cold,
    readers: ReaderSide,
    storage: S,
}

/// State that only the cold path needs.
#[repr(align(64))]
struct Cold {
    subbufs: u64,
    /// The outermost sub-buffer being opened, 0 for none.
    opening: Word,
    /// Events that could not be written because a writer below was not finished.
    commit_overrun: Word,
    /// Events that could not be written because the ring was full.
    dropped: Word,
    /// Markers, those included that could not be written.
    markers: Word,
    /// Returns that are events of their own, those included that could not be written.
    returns: Word,
    /// The token of the call whose entry is not complete yet, 0 for none. See [`call`].
    pending: Word,
    /// The bits by which this ring's tokens differ from those of others.
    identity: u64,
}

// SAFETY: `base` points into `storage`, which is `Sync` itself; all else is atomic or constant.
unsafe impl<S: Storage + Sync> Sync for Ring<S> {}
// SAFETY: `base` does not depend on the thread, and `storage` may be sent.
unsafe impl<S: Storage + Send> Send for Ring<S> {}

impl<S: Storage> Ring<S> {
    /// One cache line each for the writer, its cold path, and readers.
    const LAYOUT: () = {
        use core::mem::offset_of;
        assert!(align_of::<Self>() == 64);
        #[cfg(not(loom))]
        assert!(offset_of!(Self, sub_mask) + size_of::<u32>() <= 64);
        assert!(offset_of!(Self, cold) % 64 == 0);
        assert!(offset_of!(Self, readers) % 64 == 0);
        assert!(offset_of!(Self, storage) % 64 == 0);
    };

    /// Makes an empty ring in `storage`, of sub-buffers of `subbuf_slots` slots.
    ///
    /// Returns `None` if the invariants cannot hold: a sub-buffer size that is no power of two or
    /// out of bounds, or memory that is no multiple of it, too small or too large.
    pub fn new(storage: S, subbuf_slots: usize) -> Option<Self> {
        let () = Self::LAYOUT;
        let length = storage.slots().len();
        let subbufs = length.checked_div(subbuf_slots)?;
        if !subbuf_slots.is_power_of_two()
            || !(MIN_SUBBUF_SLOTS..=MAX_SUBBUF_SLOTS).contains(&subbuf_slots)
            || subbufs < 2
            || subbufs.checked_mul(subbuf_slots)? != length
            || length > MAX_SLOTS
        {
            return None;
        }
        let sub_mask = (subbuf_slots * SLOT_BYTES) as u32 - 1;
        let head = Head::start(length, subbuf_slots);
        // INVARIANT: Checked above; the head is at a boundary.
        Some(Self::compose(storage, head, sub_mask, subbufs as u64))
    }

    /// A ring without memory: every write ends with [`WriteOutcome::Closed`].
    pub fn closed(storage: S) -> Self {
        // INVARIANT: A closed ring: there are no slots, and `head` and `sub_mask` are 0.
        Self::compose(storage, Head(0), 0, 0)
    }

    fn compose(storage: S, head: Head, sub_mask: u32, subbufs: u64) -> Self {
        Self {
            head: Word::new(head.0),
            epoch: Word::new(u64::MAX),
            task: [Word::new(0), Word::new(0), Word::new(0)],
            ip_mask: Word::new(0),
            base: storage.slots().as_ptr(),
            sub_mask,
            cold: Cold {
                subbufs,
                opening: Word::new(0),
                commit_overrun: Word::new(0),
                dropped: Word::new(0),
                markers: Word::new(0),
                returns: Word::new(0),
                pending: Word::new(0),
                identity: 0,
            },
            readers: ReaderSide {
                discard: Word::new(0),
                released: Word::new(0),
                awaited: Word::new(u64::MAX),
                containers: Word::new(0),
            },
            storage,
        }
    }

    /// Number of sub-buffers.
    pub fn subbufs(&self) -> u64 {
        self.cold.subbufs
    }

    /// Slots in a sub-buffer, the header included.
    pub fn subbuf_slots(&self) -> usize {
        (self.sub_mask as usize + 1) / SLOT_BYTES
    }

    /// Bytes of the ring, its administration included.
    pub fn bytes(&self) -> usize {
        core::mem::size_of_val(self.storage.slots()) + core::mem::size_of::<Self>()
    }

    /// Events dropped because a writer below on the stack was not finished (commit overrun).
    pub fn commit_overrun(&self) -> u64 {
        self.cold.commit_overrun.load_relaxed()
    }

    /// Events dropped because the ring was full, in discard mode.
    pub fn dropped(&self) -> u64 {
        self.cold.dropped.load_relaxed()
    }

    /// Events, written or not, that are markers of programs, and no entry of a function.
    pub fn markers(&self) -> u64 {
        self.cold.markers.load_relaxed()
    }

    /// Events, written or not, that are returns of calls, and no entry of a function.
    pub fn returns(&self) -> u64 {
        self.cold.returns.load_relaxed()
    }

    /// Sets whether new events are dropped when the ring is full, or take the place of the oldest.
    pub fn set_discard(&self, discard: bool) {
        self.readers.discard.store_relaxed(discard.into());
    }

    /// Gives the sub-buffers below `seq` to the writer. Their content has been read, or is not
    /// wanted.
    pub fn release(&self, seq: u64) {
        // Release: all loads of what is given away were done before.
        self.readers.released.store_release(seq);
    }

    /// Makes the next event say its time in full, for another clock. No writer may be active.
    pub fn forget_time(&self) {
        self.epoch.store_relaxed(u64::MAX);
    }

    /// Makes the writer call [`Storage::reached`] whenever it opens sub-buffer `seq` or a later
    /// one.
    pub fn await_subbuf(&self, seq: u64) {
        self.readers.awaited.store_relaxed(seq);
    }

    /// The head as it is now; a hint for all but the writer.
    pub fn head(&self) -> Head {
        Head(self.head.load_relaxed())
    }

    /// The ring's memory.
    pub fn storage(&self) -> &S {
        &self.storage
    }

    /// All slots, for readers.
    pub fn slots(&self) -> &[Slot] {
        self.storage.slots()
    }

    /// Writes one function entry.
    ///
    /// # Safety
    ///
    /// - The thread runs on the ring's CPU, with preemption off, from before the call to its end.
    /// - Other writers of this ring only interrupt this one and end before it goes on.
    #[inline(always)]
    pub unsafe fn write(&self, call: Call, ctx: impl EventContext) -> WriteOutcome {
        // SAFETY: By caller precondition:
        // - The thread runs on the ring's CPU, with preemption off, until this has returned.
        // - Other writers of the ring only interrupt this one, and end before it goes on.
        if unsafe { self.write_hot(call, ctx) } {
            return WriteOutcome::Written;
        }
        // SAFETY: By caller precondition:
        // - The thread runs on the ring's CPU, with preemption off, until this has returned.
        // - Other writers of the ring only interrupt this one, and end before it goes on.
        unsafe { Self::write_cold(call, self, ctx) }
    }

    /// Writes one function entry, if that needs one slot and nothing else. Returns whether it did.
    ///
    /// # Safety
    ///
    /// As for [`Ring::write`].
    #[inline(always)]
    unsafe fn write_hot(&self, call: Call, ctx: impl EventContext) -> bool {
        let head = self.head.load_relaxed();
        if head as u32 & self.sub_mask == 0 {
            return false;
        }
        let now = ctx.now();
        if !self.is_plain(call, now, &ctx) {
            return false;
        }
        // The mask is right for this head if the exchange finds the head unchanged.
        let ip_mask = self.ip_mask.load_relaxed();
        if !self.head.local_exchange(head, head.wrapping_add(STEP)) {
            return false;
        }
        // SAFETY: The exchange moved the head over this slot, which is not at a boundary, so it
        // exists and is ours.
        let slot = unsafe { self.slot(Head(head).offset()) };
        // This order keeps few values alive at a time.
        let first = SlotWords::first_of_entry(call.ip, ip_mask, now);
        slot.1.store_low(call.parent_ip as u32);
        slot.1.store_high(ctx.context());
        slot.0.store_release(first);
        true
    }

    /// Returns whether an entry at `now` needs no extra slot: the epoch and the task are known
    /// already.
    #[inline(always)]
    fn is_plain(&self, call: Call, now: u64, ctx: &impl EventContext) -> bool {
        is_text_address(call.parent_ip)
            && !self.needs_time(now)
            && ctx.is_task(|index| self.task_word(index))
    }

    /// Returns whether an event at `now` has to say its time in full.
    #[inline(always)]
    fn needs_time(&self, now: u64) -> bool {
        now >> TIME_BITS != self.epoch.load_relaxed()
    }

    /// The distance of `head` from the start of its sub-buffer, in slots; 0 at a boundary.
    #[inline(always)]
    fn place(&self, head: Head) -> usize {
        head.slot() & self.subbuf_slots().wrapping_sub(1)
    }

    #[inline(always)]
    fn task_word(&self, index: usize) -> u64 {
        self.task.get(index).map_or(0, Word::load_relaxed)
    }

    /// The slot at a byte offset.
    ///
    /// # Safety
    ///
    /// `offset` is that of a slot of the ring.
    #[inline(always)]
    unsafe fn slot(&self, offset: usize) -> &Slot {
        // SAFETY: `offset` is that of a slot, by caller precondition, and so within the memory of
        // `storage`, where `base` leads by the type's invariants.
        let slot = unsafe { self.base.byte_add(offset) };
        // SAFETY: There is a slot, as above, which lives as long as `storage`, and so `self`; its
        // words are only shared.
        unsafe { &*slot }
    }

    /// Completes slot `index`.
    ///
    /// # Safety
    ///
    /// `index` is a slot of the ring that the caller got from the head.
    unsafe fn fill(&self, index: usize, words: SlotWords) {
        // SAFETY: `index` is a slot of the ring, by caller precondition, so this is its offset.
        let slot = unsafe { self.slot(index.wrapping_mul(SLOT_BYTES)) };
        slot.1.store_relaxed(words.1);
        slot.0.store_release(words.0);
    }
}
