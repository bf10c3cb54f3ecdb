// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Extras: data that an event can have in slots right before its own, which are the arguments of
//! the call and the stack.
//!
//! # Arguments
//!
//! The arguments are six registers, of which almost all values are 59 bits, sign-extended: two of
//! them in each of three slots ([`SlotKind::Args01`] to [`SlotKind::Args45`]). If they are not,
//! [`SlotKind::ArgsHigh`] has bits 59-63 of all.
//!
//! | word | bits  | first value | second value | [`SlotKind::ArgsHigh`]                     |
//! |------|-------|-------------|--------------|--------------------------------------------|
//! | 0    | 0-30  | bits 0-30   |              |                                            |
//! | 0    | 32-63 |             | bits 0-31    |                                            |
//! | 1    | 0-23  |             | bits 32-55   |                                            |
//! | 1    | 32-59 | bits 31-58  |              | bits 59-63 of values 0 to 5, in bits 32-61 |
//! | 1    | 60-62 |             | bits 56-58   |                                            |
//!
//! # Stacks
//!
//! A stack is the return addresses behind `parent_ip`. Its first addresses, `ip` and `parent_ip`,
//! are the event's own, so that many events have one stack. It is kept once in a sub-buffer: three
//! addresses of 31 bits in each slot ([`SlotKind::Stack`], then [`SlotKind::MoreStack`]), in bits
//! 0-30 and 32-63 of word 0 and bits 32-63 of word 1. Bits 0-7 of the first one's word 1 are the
//! number of addresses, and bits 8-22 the slot's own place in its sub-buffer, counted from 0 for
//! the header. Later events say only that place ([`SlotKind::SameStack`], bits 8-22 of word 1).
//!
//! The writer has a hint at the place of a stack, from a table that all contexts of a CPU share,
//! and trusts it only if the very slots of the stack are there. So interrupts that change hints do
//! no harm.

use super::ring::Slot;
use super::slot::{is_text_address, SlotKind, SlotWords};
use crate::platform::Word;

/// Number of arguments that are recorded: those that are passed in registers.
pub const ARGS: usize = 6;

/// Most slots of arguments.
pub const ARGS_SLOTS: usize = 4;

/// Most return addresses of a stack.
pub const STACK_ENTRIES: usize = 126;

/// Most slots of a stack.
pub const STACK_SLOTS: usize = STACK_ENTRIES.div_ceil(PER_SLOT);

const PER_SLOT: usize = 3;
/// Number of low bits that slots keep of a value.
const LOW_BITS: u32 = 59;
const HIGH_BITS: u32 = u64::BITS - LOW_BITS;
const HIGH_MASK: u64 = (1 << HIGH_BITS) - 1;
const PLACE_SHIFT: u32 = 8;
const PLACE_MASK: u64 = 0x7fff;
const COUNT_MASK: u64 = 0xff;

/// The slots of a call's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgsSlots {
    slots: [SlotWords; ARGS_SLOTS],
    length: usize,
}

impl ArgsSlots {
    /// Returns the slots, in their order.
    pub fn slots(&self) -> &[SlotWords] {
        self.slots.get(..self.length).unwrap_or_default()
    }
}

/// Returns bits `from` to `to` of `value`.
const fn bits(value: u64, from: u32, to: u32) -> u64 {
    (value >> from) & (u64::MAX >> (63 - to + from))
}

const fn pair(kind: SlotKind, first: u64, second: u64) -> SlotWords {
    SlotWords::other(
        kind,
        bits(first, 0, 30),
        bits(second, 0, 31) as u32,
        bits(second, 32, 55),
        (bits(first, 31, 58) | (bits(second, 56, 58) << 28)) as u32,
    )
}

/// Returns both values of a slot, sign-extended.
const fn values(words: SlotWords) -> (u64, u64) {
    let high1 = words.high1() as u64;
    let first = bits(words.0, 0, 30) | (bits(high1, 0, 27) << 31);
    let second = words.high0() as u64 | (words.small() << 32) | (bits(high1, 28, 30) << 56);
    (extended(first), extended(second))
}

const fn extended(value: u64) -> u64 {
    ((value << HIGH_BITS) as i64 >> HIGH_BITS) as u64
}

impl SlotWords {
    /// Returns the slots with the arguments of the call that follows.
    #[inline(always)]
    pub const fn args_slots(args: &[u64; ARGS]) -> ArgsSlots {
        let [a, b, c, d, e, f] = *args;
        // Half of the range of values that fit makes these the numbers below 2^59.
        const HALF: u64 = 1 << (LOW_BITS - 1);
        let mut all = 0;
        let mut index = 0;
        while index < ARGS {
            all |= args[index].wrapping_add(HALF);
            index += 1;
        }
        let fits = all >> LOW_BITS == 0;
        ArgsSlots {
            slots: [
                pair(SlotKind::Args01, a, b),
                pair(SlotKind::Args23, c, d),
                pair(SlotKind::Args45, e, f),
                if fits {
                    Self::PAD
                } else {
                    Self::high_slot(args)
                },
            ],
            length: if fits { ARGS_SLOTS - 1 } else { ARGS_SLOTS },
        }
    }

    /// Returns the slot with the bits of arguments that the others have no room for.
    #[cold]
    #[inline(never)]
    const fn high_slot(args: &[u64; ARGS]) -> Self {
        let mut high = 0;
        let mut index = 0;
        while index < ARGS {
            high |= (args[index] >> LOW_BITS) << (HIGH_BITS * index as u32);
            index += 1;
        }
        Self::other(SlotKind::ArgsHigh, 0, 0, 0, high as u32)
    }

    /// Reads the arguments that a slot has.
    pub fn read_args(self, args: &mut [u64; ARGS]) {
        let [a, b, c, d, e, f] = args;
        match self.kind() {
            Some(SlotKind::Args01) => (*a, *b) = values(self),
            Some(SlotKind::Args23) => (*c, *d) = values(self),
            Some(SlotKind::Args45) => (*e, *f) = values(self),
            Some(SlotKind::ArgsHigh) => {
                for (value, shift) in args.iter_mut().zip((0u32..).step_by(HIGH_BITS as usize)) {
                    let high = u64::from(self.high1()).wrapping_shr(shift) & HIGH_MASK;
                    *value = (*value & (u64::MAX >> HIGH_BITS)) | (high << LOW_BITS);
                }
            }
            _ => {}
        }
    }

    /// Makes the slot that says at which place the stack of the event that follows is.
    pub const fn same_stack_slot(place: usize) -> Self {
        let place = (place as u64 & PLACE_MASK) << PLACE_SHIFT;
        Self::other(SlotKind::SameStack, 0, 0, place, 0)
    }

    /// Returns the place that a [`SlotKind::Stack`] or [`SlotKind::SameStack`] slot says.
    pub const fn stack_place(self) -> usize {
        ((self.small() >> PLACE_SHIFT) & PLACE_MASK) as usize
    }

    /// Returns the addresses in a slot of a stack.
    fn stack_addresses(self) -> [u64; PER_SLOT] {
        let text = |low: u32| u64::from(low) | 0xffff_ffff_8000_0000;
        [
            text(bits(self.0, 0, 30) as u32),
            text(self.high0()),
            text(self.high1()),
        ]
    }
}

/// Returns the addresses of the stack that begins at `place` of a sub-buffer, of which `copy` is
/// all but the header; none if there is no stack.
pub fn stack_at(copy: &[SlotWords], place: usize) -> impl Iterator<Item = u64> + '_ {
    let slots = copy.get(place.wrapping_sub(1)..).unwrap_or_default();
    let count = match slots.first() {
        Some(first) if first.kind() == Some(SlotKind::Stack) => first.small() & COUNT_MASK,
        _ => 0,
    };
    slots
        .iter()
        .enumerate()
        .take_while(|(index, words)| *index == 0 || words.kind() == Some(SlotKind::MoreStack))
        .flat_map(|(_, words)| words.stack_addresses())
        .take(count as usize)
}

/// Room for a stack in the making, as slots. Only one writer uses it at a time.
pub struct StackRoom([Slot; STACK_SLOTS]);

impl StackRoom {
    /// Makes room without a stack.
    pub fn new() -> Self {
        Self(core::array::from_fn(|_| Slot(Word::new(0), Word::new(0))))
    }

    /// Begins a new stack.
    pub fn begin(&self) -> StackWriter<'_> {
        StackWriter {
            room: &self.0,
            slots: 0,
            partial: [0; PER_SLOT],
            pending: 0,
            hash: 0,
        }
    }
}

// A stack that is full has no slot that is not.
const _: () = assert!(STACK_ENTRIES % PER_SLOT == 0);

/// Puts the addresses of a stack into slots.
pub struct StackWriter<'a> {
    room: &'a [Slot; STACK_SLOTS],
    /// Number of slots that are done.
    slots: usize,
    /// The addresses of the next slot.
    partial: [u32; PER_SLOT],
    /// Number of these.
    pending: usize,
    hash: u64,
}

impl<'a> StackWriter<'a> {
    /// Adds an address. Returns false if there is no room for another.
    #[inline]
    pub fn push(&mut self, address: u64) -> bool {
        // No other address is a return address; if one were, no name would be found for it.
        let low = match is_text_address(address) {
            true => address as u32 & 0x7fff_ffff,
            false => 0,
        };
        if let Some(place) = self.partial.get_mut(self.pending) {
            *place = low;
        }
        self.pending = self.pending.wrapping_add(1);
        self.hash = (self.hash ^ u64::from(low)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        if self.pending < PER_SLOT {
            return true;
        }
        self.put();
        self.slots < STACK_SLOTS
    }

    fn put(&mut self) {
        let [a, b, c] = core::mem::take(&mut self.partial);
        self.pending = 0;
        let kind = match self.slots {
            0 => SlotKind::Stack,
            _ => SlotKind::MoreStack,
        };
        let words = SlotWords::other(kind, a.into(), b, 0, c);
        if let Some(slot) = self.room.get(self.slots) {
            slot.0.store_relaxed(words.0);
            slot.1.store_relaxed(words.1);
            self.slots = self.slots.wrapping_add(1);
        }
    }

    /// Returns the stack, and a hash of it.
    pub fn end(mut self) -> (&'a [Slot], u64) {
        let count = (self.slots.wrapping_mul(PER_SLOT)).wrapping_add(self.pending);
        if self.pending != 0 || count == 0 {
            self.put();
        }
        let [first, ..] = self.room;
        let count = count as u64 & COUNT_MASK;
        first.1.store_relaxed(first.1.load_relaxed() | count);
        (
            self.room.get(..self.slots).unwrap_or_default(),
            // The lower bits of a product do not depend on the upper bits of its factors.
            self.hash >> 32,
        )
    }
}

/// A stack to be written, and a hint at the place of one like it.
#[derive(Clone, Copy)]
pub struct StackSlots<'a> {
    slots: &'a [Slot],
    hint: &'a Word,
}

impl<'a> StackSlots<'a> {
    /// Makes one of the `slots` from [`StackWriter::end`]. The hint may be anything.
    pub fn new(slots: &'a [Slot], hint: &'a Word) -> Self {
        Self { slots, hint }
    }

    /// Returns the number of slots.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns the slots, for a stack at `place` of its sub-buffer.
    pub fn at(self, place: usize) -> impl Iterator<Item = SlotWords> + 'a {
        let place = (place as u64 & PLACE_MASK) << PLACE_SHIFT;
        let mut slots = self.slots.iter();
        let load = |slot: &Slot| SlotWords(slot.0.load_relaxed(), slot.1.load_relaxed());
        let first = (slots.next()).map(|slot| SlotWords(0, place) | load(slot));
        first.into_iter().chain(slots.map(load))
    }

    /// Returns the place of an equal stack among `before`, the slots of the sub-buffer that are
    /// taken, with its header. They have the parity `parity`, if they are complete.
    pub fn find(self, before: &[Slot], parity: u64) -> Option<usize> {
        let place = self.hint.load_relaxed() as usize;
        let there = before.get(place..place.checked_add(self.len())?)?;
        let equal = there.iter().zip(self.at(place)).all(|(slot, words)| {
            let words = words.with_parity(parity);
            (slot.0.load_acquire(), slot.1.load_relaxed()) == (words.0, words.1)
        });
        (equal && place != 0).then_some(place)
    }

    /// Keeps `place`, where the stack was written, as the hint.
    pub fn remember(self, place: usize) {
        self.hint.store_relaxed(place as u64);
    }
}

impl core::ops::BitOr for SlotWords {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0, self.1 | other.1)
    }
}
