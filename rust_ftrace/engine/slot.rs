// SPDX-License-Identifier: GPL-2.0

//! The layout of what the ring holds: slots of 16 bytes, read and written as two 64-bit words.
//!
//! | word | bits  | a function entry       | other kinds                     |
//! |------|-------|------------------------|---------------------------------|
//! | 0    | 0-31  | `ip`, low 32 bits      | payload                         |
//! | 0    | 32-59 | time, low 28 bits      | the same                        |
//! | 0    | 60-62 | [`Kind`]               | [`Kind`]                        |
//! | 0    | 63    | parity of the lap      | the same                        |
//! | 1    | 0-31  | `parent_ip`, low 32    | payload                         |
//! | 1    | 32-63 | [`Context`](super::context::Context) | payload           |
//!
//! Word 0 is stored last, with release semantics: a slot whose parity bit equals the parity of its
//! sub-buffer's lap is complete, any other is not written yet. So every slot publishes itself, and
//! neither a commit counter nor a nesting counter is needed.
//!
//! The text of the kernel, of modules, of trampolines and of BPF programs lies in the top 2 GiB of
//! the address space, so 32 bits sign-extended name any of it. A `parent_ip` outside is kept by a
//! [`Kind::Wide`] slot before the entry.

/// Bytes in a slot.
pub(crate) const SLOT_BYTES: usize = 16;

/// Bits of the time that a slot carries itself, in ticks of the clock; the rest is the epoch, which
/// a [`Kind::Time`] slot announces.
pub(crate) const TIME_BITS: u32 = 28;

const TIME_SHIFT: u32 = 32;
const KIND_SHIFT: u32 = TIME_SHIFT + TIME_BITS;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;

/// The lap's parity, bit 63 of word 0 (and of the ring's head).
pub(crate) const PARITY: u64 = 1 << 63;

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Entry of a function.
    Function = 0,
    /// Nothing: fills the end of a sub-buffer.
    Pad = 1,
    /// The epoch (time >> [`TIME_BITS`]) of the slots that follow, in word 1.
    Time = 2,
    /// First half of the task that the slots after it belong to: pid, tgid, comm bytes 0-3.
    Task = 3,
    /// Second half: comm bytes 4-15.
    TaskName = 4,
    /// The whole `parent_ip` of the entry that follows, in word 1.
    Wide = 5,
}

impl Kind {
    const fn from_bits(bits: u64) -> Option<Self> {
        match bits {
            0 => Some(Self::Function),
            1 => Some(Self::Pad),
            2 => Some(Self::Time),
            3 => Some(Self::Task),
            4 => Some(Self::TaskName),
            5 => Some(Self::Wide),
            _ => None,
        }
    }
}

/// Both words of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Words(pub(crate) u64, pub(crate) u64);

/// Who runs: what a task is known by.
///
/// The three words compare as a whole, so a task that takes a new name, or another task in the
/// same memory, is never mistaken for the old one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Task {
    /// pid in bits 0-31, tgid in bits 32-63.
    pub(crate) ids: u64,
    /// comm, 16 bytes with zeroes after its end, as two little-endian words.
    pub(crate) comm: [u64; 2],
}

impl Task {
    /// The thread's number, as `ps -L` calls it LWP.
    pub(crate) const fn pid(&self) -> i32 {
        self.ids as u32 as i32
    }

    /// The name, without the zeroes that fill it up.
    pub(crate) fn name<'a>(&self, bytes: &'a mut [u8; 16]) -> &'a [u8] {
        let (low, high) = bytes.split_at_mut(8);
        low.copy_from_slice(&self.comm[0].to_le_bytes());
        high.copy_from_slice(&self.comm[1].to_le_bytes());
        let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(16);
        bytes.get(..length).unwrap_or_default()
    }
}

impl Words {
    /// Packs a slot of `kind`; only the low bits of `time` that fit are kept.
    #[inline(always)]
    pub(crate) const fn pack(kind: Kind, parity: u64, time: u64, low: u32, second: u64) -> Self {
        Self(
            (parity & PARITY)
                | ((kind as u64) << KIND_SHIFT)
                | ((time & TIME_MASK) << TIME_SHIFT)
                | low as u64,
            second,
        )
    }

    /// Packs the two slots that say which task the following slots belong to.
    pub(crate) const fn pack_task(parity: u64, time: u64, task: &Task) -> [Self; 2] {
        let [first, second] = task.comm;
        [
            Self::pack(
                Kind::Task,
                parity,
                time,
                task.ids as u32,
                (task.ids >> 32) | (first << 32),
            ),
            Self::pack(Kind::TaskName, parity, time, (first >> 32) as u32, second),
        ]
    }

    /// The low half of word 0: `ip`, or payload.
    pub(crate) const fn low(self) -> u32 {
        self.0 as u32
    }

    /// The slot's own bits of the time.
    pub(crate) const fn time(self) -> u64 {
        (self.0 >> TIME_SHIFT) & TIME_MASK
    }

    /// What the slot holds, `None` for a kind that no version writes.
    pub(crate) const fn kind(self) -> Option<Kind> {
        Kind::from_bits((self.0 & !PARITY) >> KIND_SHIFT)
    }

    /// Whether the slot was completed in a lap of parity `parity`.
    pub(crate) const fn is_complete(self, parity: u64) -> bool {
        (self.0 ^ parity) & PARITY == 0
    }
}

/// Widens the low 32 bits of a text address.
#[inline(always)]
pub(crate) const fn text_address(low: u32) -> u64 {
    low as i32 as i64 as u64
}

/// Whether 32 bits are enough for `address`.
#[inline(always)]
pub(crate) const fn is_text_address(address: u64) -> bool {
    text_address(address as u32) == address
}
