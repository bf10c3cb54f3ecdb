// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The layout of the ring's content: slots of 16 bytes, read and written as two 64-bit words.
//!
//! | word | bits  | a function entry                             | other kinds         |
//! |------|-------|----------------------------------------------|---------------------|
//! | 0    | 0-30  | `ip`, low 31 bits                            | payload             |
//! | 0    | 31    | parity of the lap                            | the same            |
//! | 0    | 32-63 | time, low 32 bits                            | payload             |
//! | 1    | 0-23  | `parent_ip`, low 31 bits                     | payload             |
//! | 1    | 24-29 |                                              | [`SlotKind`]        |
//! | 1    | 30    |                                              | 1 if it is an event |
//! | 1    | 31    | 1                                            | 0                   |
//! | 1    | 32-63 | [`ContextWord`](super::context::ContextWord) | payload             |
//!
//! Word 0 is stored last, with release semantics: a slot whose parity bit equals the parity of its
//! sub-buffer's lap is complete, any other is not written yet. So every slot publishes itself, and
//! neither a commit counter nor a nesting counter is needed.
//!
//! The calls of the `function_graph` tracer are events of other kinds; a [`SlotKind::Call`] is a
//! whole call:
//!
//! | word | bits  | [`SlotKind::CallEntry`]  | [`SlotKind::Call`]    | [`SlotKind::Return`]  |
//! |------|-------|--------------------------|-----------------------|-----------------------|
//! | 0    | 0-30  | `ip`, low 31 bits        | the same              | the same              |
//! | 0    | 32-63 | time of the entry        | time of the entry     | time of the return    |
//! | 1    | 0-7   | depth, 255 for more      | the same              | the same              |
//! | 1    | 8-23  | context, bits 0-15       | that of the entry     | that of the return    |
//! | 1    | 32-63 | `parent_ip`, low 32 bits | duration, low 32 bits | duration, low 32 bits |
//!
//! The text of the kernel, of modules, of trampolines and of BPF programs lies in the top 2 GiB of
//! the address space, so the upper 33 bits of its addresses are ones, and 31 bits name any of it. A
//! `parent_ip` outside is kept by a [`SlotKind::Wide`] slot before the entry.
//!
//! The fields lie where the processor can put them in the fewest instructions: the counter's low
//! half and its high half (the *epoch*) come in registers of their own.

use core::num::NonZeroU64;

/// Bytes in a slot.
pub const SLOT_BYTES: usize = 16;

/// Bits of the time that each slot has, in ticks of the clock; the other bits are the epoch, which
/// a [`SlotKind::Time`] slot announces.
pub const TIME_BITS: u32 = 32;

const TIME_SHIFT: u32 = 32;
pub(super) const KIND_SHIFT: u32 = 24;
const KIND_MASK: u64 = 0x7f;
const _: () = assert!(OTHER_EVENT == (SlotKind::CallEntry as u64) << KIND_SHIFT);
/// Payload of word 1 below the kind.
const SMALL_MASK: u64 = (1 << KIND_SHIFT) - 1;

/// The lap's parity, in word 0. It takes the place of an address bit that is always 1.
pub const PARITY: u64 = 1 << 31;
/// The bit of word 1 that is set in function entries. It is also a bit that is always 1 in a text
/// address.
pub const ENTRY: u64 = 1 << 31;

/// The bit of word 1 that is set in events that are no function entries.
const OTHER_EVENT: u64 = 1 << 30;
/// The greatest depth that a slot of a call can hold.
pub const MAX_DEPTH: u32 = 0xff;
const DEPTH_MASK: u64 = MAX_DEPTH as u64;
const FLAGS_SHIFT: u32 = 8;

/// Start of the kernel's text.
const TEXT_START: u64 = 0xffff_ffff_8000_0000;

/// The kinds of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SlotKind {
    /// Entry of a function; such a slot has no bits for its kind.
    Function = 0,
    /// Fills the end of a sub-buffer, without meaning.
    Pad = 1,
    /// The epoch (time >> [`TIME_BITS`]) of the slots that follow, in bits 32-63 of word 1; bits
    /// 32-63 of word 0 are the time's low half.
    Time = 2,
    /// First half of the task of the slots that follow. Word 0: pid in bits 0-30, comm bytes 4-7 in
    /// bits 32-63; word 1: tgid in bits 0-23, comm bytes 0-3 in bits 32-63.
    Task = 3,
    /// Second half of the task. Word 0: comm bytes 8-11 in bits 32-63; word 1: comm bytes 12-15 in
    /// bits 32-63.
    TaskName = 4,
    /// The whole `parent_ip` of the entry that follows: its low half in bits 32-63 of word 0, its
    /// high half in bits 32-63 of word 1.
    Wide = 5,
    /// Bits 32-63 of the duration of the event that follows, in bits 32-63 of word 1.
    Long = 6,
    /// The return value of the call that follows: its low half in bits 32-63 of word 0, its high
    /// half in bits 32-63 of word 1.
    Retval = 7,
    /// The time at which the call began whose entry follows, if that was before the entry's own
    /// time; halves as above.
    Since = 8,
    /// The number of the task's calls that were too deep to be traced, up to the call that follows:
    /// bits 32-63 of word 1.
    Overrun = 9,
    /// The stack of the event that follows, and of later ones that refer to it.
    /// [`extras`](super::extras) describes this and those up to [`SlotKind::ArgsHigh`].
    Stack = 10,
    /// The event that follows has the same stack as an earlier one.
    SameStack = 11,
    /// More of a stack.
    MoreStack = 12,
    /// The container of the task of the slots that follow, right behind the task. Word 0: pid in
    /// bits 0-23, the lower half of the cgroup's ID in bits 32-63; word 1: tgid in bits 0-23, the
    /// upper half in bits 32-63.
    Container = 13,
    /// Calls within the one that follows are too deep to be traced.
    TooDeep = 14,
    /// The first two arguments of the call that follows.
    Args01 = 16,
    /// The third and fourth arguments.
    Args23 = 17,
    /// The fifth and sixth arguments.
    Args45 = 18,
    /// The upper bits of all arguments.
    ArgsHigh = 19,
    /// The waits in the call that follows, as [`waiting`](super::waiting) has them.
    Waited = 21,
    /// Bytes of the marker that follows. [`marker`](super::marker) describes these and the markers.
    Text = 20,
    /// A call that began.
    CallEntry = 0x40,
    /// A whole call, in which nothing else was recorded.
    Call = 0x41,
    /// A call that ended.
    Return = 0x42,
    /// A text that a program has written.
    Marker = 0x43,
    /// Bytes that a program has written, the first four of which are a number.
    RawMarker = 0x44,
}

impl SlotKind {
    const fn from_bits(bits: u64) -> Option<Self> {
        match bits {
            1 => Some(Self::Pad),
            2 => Some(Self::Time),
            3 => Some(Self::Task),
            4 => Some(Self::TaskName),
            5 => Some(Self::Wide),
            6 => Some(Self::Long),
            7 => Some(Self::Retval),
            8 => Some(Self::Since),
            9 => Some(Self::Overrun),
            10 => Some(Self::Stack),
            11 => Some(Self::SameStack),
            12 => Some(Self::MoreStack),
            13 => Some(Self::Container),
            14 => Some(Self::TooDeep),
            16 => Some(Self::Args01),
            17 => Some(Self::Args23),
            18 => Some(Self::Args45),
            19 => Some(Self::ArgsHigh),
            20 => Some(Self::Text),
            21 => Some(Self::Waited),
            0x40 => Some(Self::CallEntry),
            0x41 => Some(Self::Call),
            0x42 => Some(Self::Return),
            0x43 => Some(Self::Marker),
            0x44 => Some(Self::RawMarker),
            _ => None,
        }
    }
}

/// Both words of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SlotWords(pub u64, pub u64);

/// A task, as far as events name it.
///
/// The three words compare as a whole, so a task that takes a new name, or another task in the
/// same memory, is never mistaken for the old one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Task {
    /// pid in bits 0-31, tgid in bits 32-63.
    pub ids: u64,
    /// comm, 16 bytes with zeroes after its end, as two little-endian words.
    pub comm: [u64; 2],
}

impl Task {
    /// The thread's ID, which `ps -L` calls LWP.
    pub const fn pid(&self) -> i32 {
        self.ids as u32 as i32
    }

    /// The ID of its thread group, which users call pid.
    pub const fn tgid(&self) -> i32 {
        (self.ids >> 32) as i32
    }

    /// The name, without the zeroes at its end.
    pub fn name<'a>(&self, bytes: &'a mut [u8; 16]) -> &'a [u8] {
        let (low, high) = bytes.split_at_mut(8);
        low.copy_from_slice(&self.comm[0].to_le_bytes());
        high.copy_from_slice(&self.comm[1].to_le_bytes());
        let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(16);
        bytes.get(..length).unwrap_or_default()
    }
}

/// A task as it is known in its container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Container {
    /// The ID of its cgroup in the unified hierarchy; 0 where there are no cgroups.
    pub cgroup: u64,
    /// pid in bits 0-23, tgid in bits 24-47. Bit 63 is set, so that an event needs no more room for
    /// a container that may not be known.
    ids: NonZeroU64,
}

impl Container {
    /// Makes the container of a task that has these IDs in it, both below 2^24.
    pub const fn new(cgroup: u64, pid: u32, tgid: u32) -> Self {
        let pid = pid as u64 & PID_MASK;
        let tgid = (tgid as u64 & PID_MASK) << PID_BITS;
        let ids = match NonZeroU64::new(pid | tgid | (1 << 63)) {
            Some(ids) => ids,
            None => NonZeroU64::MIN,
        };
        Self { cgroup, ids }
    }

    /// The thread's ID in its PID namespace; 0 once it has none any more, and of idle tasks.
    pub const fn pid(self) -> u32 {
        (self.ids.get() & PID_MASK) as u32
    }

    /// The ID of its thread group there.
    pub const fn tgid(self) -> u32 {
        ((self.ids.get() >> PID_BITS) & PID_MASK) as u32
    }
}

impl SlotWords {
    /// The memory of slots, for users of raw slots.
    pub fn as_bytes(slots: &[Self]) -> &[u8] {
        let length = core::mem::size_of_val(slots);
        // SAFETY: Both words are initialised, there is no padding, and any alignment will do for
        // bytes.
        unsafe { core::slice::from_raw_parts(slots.as_ptr().cast(), length) }
    }
}

/// Bits of a pid, and of a tgid, that a slot keeps; the kernel's `PID_MAX_LIMIT` is 2^22.
pub const PID_BITS: u32 = 24;
const PID_MASK: u64 = (1 << PID_BITS) - 1;

impl SlotWords {
    /// Packs a function entry. `ip_mask` is [`ip_mask`] of the lap's parity.
    #[inline(always)]
    pub const fn first_of_entry(ip: u64, ip_mask: u64, time: u64) -> u64 {
        (time << TIME_SHIFT) | (ip ^ ip_mask)
    }

    /// Packs the first word of the entry of a call, not complete.
    #[inline(always)]
    pub const fn first_of_open(ip: u64, ip_mask: u64, time: u64) -> u64 {
        let low = ip as u32 ^ ip_mask as u32 ^ PARITY as u32;
        (time << TIME_SHIFT) | low as u64
    }

    /// Packs a function entry, but for its parity.
    pub const fn entry(ip: u64, parent_ip: u64, context: u32, time: u64) -> Self {
        Self(
            Self::first_of_entry(ip, ip_mask(0), time),
            parent_ip & 0xffff_ffff | ENTRY | ((context as u64) << 32),
        )
    }

    /// Packs a slot that is no function entry, but for its parity: `high0` and `high1` are bits
    /// 32-63 of the words, `low0` is below 2^31, and `low1` below 2^24.
    pub(super) const fn other(
        kind: SlotKind,
        low0: u64,
        high0: u32,
        low1: u64,
        high1: u32,
    ) -> Self {
        Self(
            (low0 & !PARITY) | ((high0 as u64) << 32),
            low1 | ((kind as u64) << KIND_SHIFT) | ((high1 as u64) << 32),
        )
    }

    /// A slot without meaning.
    pub const PAD: Self = Self::other(SlotKind::Pad, 0, 0, 0, 0);

    /// The slot that says which epoch the time `now` lies in.
    pub const fn time_slot(now: u64) -> Self {
        Self::other(SlotKind::Time, 0, now as u32, 0, (now >> TIME_BITS) as u32)
    }

    /// The slot with the whole of a `parent_ip` that is no text address.
    pub const fn wide_slot(parent_ip: u64) -> Self {
        Self::other(
            SlotKind::Wide,
            0,
            parent_ip as u32,
            0,
            (parent_ip >> 32) as u32,
        )
    }

    #[allow(dead_code)]
    /// The slot that says when the call whose entry follows began.
    pub const fn since_slot(time: u64) -> Self {
        Self::other(SlotKind::Since, 0, time as u32, 0, (time >> 32) as u32)
    }

    /// The slot with what the call that follows has returned.
    pub const fn retval_slot(value: u64) -> Self {
        Self::other(SlotKind::Retval, 0, value as u32, 0, (value >> 32) as u32)
    }

    /// The slot with the high half of the duration of what follows.
    pub const fn long_slot(duration: u64) -> Self {
        Self::other(SlotKind::Long, 0, 0, 0, (duration >> 32) as u32)
    }

    /// The slot with the number of calls that were too deep.
    pub const fn overrun_slot(overrun: u32) -> Self {
        Self::other(SlotKind::Overrun, 0, 0, 0, overrun)
    }

    /// The slot that says that calls within the one that follows are too deep.
    pub const fn too_deep_slot() -> Self {
        Self::other(SlotKind::TooDeep, 0, 0, 0, 0)
    }

    /// Word 1 of an event of the `function_graph` tracer; `high` is the duration, or the
    /// `parent_ip`.
    #[inline(always)]
    pub const fn second_of_call(kind: SlotKind, depth: u32, context: u32, high: u32) -> u64 {
        Self::small_of_call(kind, depth, context) as u64 | ((high as u64) << 32)
    }

    /// Bits 0-31 of word 1 of such an event.
    #[inline(always)]
    pub const fn small_of_call(kind: SlotKind, depth: u32, context: u32) -> u32 {
        let depth = if depth > MAX_DEPTH { MAX_DEPTH } else { depth };
        depth | ((context & 0xffff) << FLAGS_SHIFT) | ((kind as u32) << KIND_SHIFT)
    }

    /// An event of the `function_graph` tracer, but for its parity.
    pub const fn call(
        kind: SlotKind,
        ip: u64,
        time: u64,
        depth: u32,
        context: u32,
        high: u32,
    ) -> Self {
        Self(
            Self::first_of_entry(ip, ip_mask(0), time),
            Self::second_of_call(kind, depth, context, high),
        )
    }

    /// The two slots that say which task the following slots belong to.
    pub const fn task_slots(task: &Task) -> [Self; 2] {
        let [first, second] = task.comm;
        [
            Self::other(
                SlotKind::Task,
                task.ids & PID_MASK,
                (first >> 32) as u32,
                (task.ids >> 32) & PID_MASK,
                first as u32,
            ),
            Self::other(
                SlotKind::TaskName,
                0,
                second as u32,
                0,
                (second >> 32) as u32,
            ),
        ]
    }

    /// The slot that says which container the task of the following slots is in.
    pub const fn container_slot(container: Container) -> Self {
        Self::other(
            SlotKind::Container,
            container.pid() as u64,
            container.cgroup as u32,
            container.tgid() as u64,
            (container.cgroup >> 32) as u32,
        )
    }

    /// Returns the container in a [`SlotKind::Container`] slot.
    pub const fn container(self) -> Container {
        let pid = (self.0 & PID_MASK) as u32;
        Container::new(self.wide(), pid, self.small() as u32)
    }

    /// Returns the slot as completed in a lap of parity `parity`.
    pub const fn with_parity(self, parity: u64) -> Self {
        Self(self.0 & !PARITY | parity & PARITY, self.1)
    }

    /// The slot's kind, `None` for one that no version writes.
    #[inline]
    pub const fn kind(self) -> Option<SlotKind> {
        if self.is_entry() {
            Some(SlotKind::Function)
        } else {
            SlotKind::from_bits((self.1 >> KIND_SHIFT) & KIND_MASK)
        }
    }

    /// Returns whether the slot is a function entry.
    #[inline(always)]
    pub const fn is_entry(self) -> bool {
        self.1 & ENTRY != 0
    }

    /// Returns whether the slot is an event, of any kind.
    #[inline(always)]
    pub const fn is_event(self) -> bool {
        self.1 & (ENTRY | OTHER_EVENT) != 0
    }

    /// The depth of an event of the `function_graph` tracer.
    pub const fn depth(self) -> u32 {
        (self.1 & DEPTH_MASK) as u32
    }

    /// The context of an event of the `function_graph` tracer, bits 0-15.
    pub const fn flags(self) -> u32 {
        (self.1 >> FLAGS_SHIFT) as u32 & 0xffff
    }

    /// Returns whether the slot was completed in a lap of parity `parity`.
    #[inline(always)]
    pub const fn is_complete(self, parity: u64) -> bool {
        (self.0 ^ parity) & PARITY == 0
    }

    /// Bits 32-63 of word 0: the time's low half, for entries and [`SlotKind::Time`].
    pub const fn high0(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Bits 32-63 of word 1: the context of entries.
    pub const fn high1(self) -> u32 {
        (self.1 >> 32) as u32
    }

    /// Bits 0-23 of word 1.
    pub(super) const fn small(self) -> u64 {
        self.1 & SMALL_MASK
    }

    /// An entry's `ip`.
    pub const fn ip(self) -> u64 {
        text_address(self.0)
    }

    /// An entry's `parent_ip`, if no [`SlotKind::Wide`] slot came before it.
    pub const fn parent_ip(self) -> u64 {
        text_address(self.1)
    }

    /// The `parent_ip` of a [`SlotKind::CallEntry`] slot, if no [`SlotKind::Wide`] slot came before
    /// it.
    pub const fn call_parent_ip(self) -> u64 {
        text_address(self.high1() as u64)
    }

    /// The address in a [`SlotKind::Wide`] slot, and the values that other kinds keep in halves.
    pub const fn wide(self) -> u64 {
        self.high0() as u64 | ((self.high1() as u64) << 32)
    }

    /// Takes the part of `task` that a [`SlotKind::Task`] slot has.
    pub const fn first_half(self, task: &mut Task) {
        let pid = self.0 & PID_MASK;
        task.ids = pid | (self.small() << 32);
        task.comm[0] = self.high1() as u64 | ((self.high0() as u64) << 32);
    }

    /// Takes the part of `task` that a [`SlotKind::TaskName`] slot has.
    pub const fn second_half(self, task: &mut Task) {
        task.comm[1] = self.high0() as u64 | ((self.high1() as u64) << 32);
    }
}

/// The mask that turns a text address into bits 0-31 of word 0, by exclusive or: it clears the
/// upper half, and puts the parity in the place of bit 31.
pub const fn ip_mask(parity: u64) -> u64 {
    0xffff_ffff_0000_0000 | ((parity ^ PARITY) & PARITY)
}

/// The text address that has bits 0-30 of `word`.
pub const fn text_address(word: u64) -> u64 {
    TEXT_START | (word & !PARITY & 0xffff_ffff)
}

/// Returns whether 31 bits are enough to name `address`.
#[inline(always)]
pub const fn is_text_address(address: u64) -> bool {
    address >= TEXT_START
}
