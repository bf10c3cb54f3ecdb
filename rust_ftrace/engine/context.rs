// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The context word of an event: the place on the stack at which the function was entered, and the
//! state of interrupts and preemption.
//!
//! | bits  | what                                                                     |
//! |-------|--------------------------------------------------------------------------|
//! | 0-3   | preemption depth, 15 for more                                             |
//! | 4-7   | migrate-disable depth, 15 for more                                        |
//! | 8     | TIF_NEED_RESCHED                                                          |
//! | 9     | interrupts on (the flag's place in EFLAGS)                                |
//! | 10    | TIF_NEED_RESCHED_LAZY                                                     |
//! | 11    | the preempt count's need-resched                                          |
//! | 12    | bottom halves off                                                         |
//! | 13    | in a softirq                                                              |
//! | 14    | in a hardirq                                                              |
//! | 15    | in an NMI                                                                 |
//! | 16-18 | entry tag: low bits of the number of the system call, or what led to the kernel |
//! | 19-31 | stack pointer at the entry, bits 3-15: a window of 64 KiB, 8-byte units    |
//!
//! No stack is larger than half the window, so the order of two entries of one stack follows from
//! the difference of their offsets modulo the window, wherever the stack begins.

/// TIF_NEED_RESCHED was set.
pub const NEED_RESCHED: u32 = 1 << 8;
/// Interrupts were on.
pub const IRQS_ON: u32 = 1 << 9;
/// TIF_NEED_RESCHED_LAZY was set.
pub const NEED_RESCHED_LAZY: u32 = 1 << 10;
/// The preempt count asked for rescheduling.
pub const PREEMPT_RESCHED: u32 = 1 << 11;
/// Bottom halves were disabled.
pub const BH_OFF: u32 = 1 << 12;
/// A softirq was being served.
pub const SOFTIRQ: u32 = 1 << 13;
/// A hardirq was being served.
pub const HARDIRQ: u32 = 1 << 14;
/// An NMI was being served.
pub const NMI: u32 = 1 << 15;

/// Largest preemption or migrate-disable depth that is told from larger ones.
pub const MAX_DEPTH: u32 = 0xf;
/// Lowest bit of the migrate-disable depth.
pub const MIGRATE_SHIFT: u32 = 4;

/// Lowest bit of the entry tag.
pub const ENTRY_TAG_SHIFT: u32 = 16;
const ENTRY_TAG_MASK: u32 = 7;
/// Lowest bit of the stack offset.
pub const STACK_SHIFT: u32 = 19;
/// Number of bits of the stack offset.
pub const STACK_BITS: u32 = 13;
const STACK_MASK: u32 = (1 << STACK_BITS) - 1;

/// The context word of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextWord(pub u32);

/// One of a CPU's nested levels of execution, each of which has frames of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// A task, on its own stack.
    Task = 0,
    /// A softirq on top of it.
    Softirq = 1,
    /// A hardirq on top of these.
    Hardirq = 2,
    /// An NMI on top of all.
    Nmi = 3,
}

impl ContextWord {
    /// Returns the fields of the stack offset and the entry tag, in place, for stack pointer `sp`,
    /// of which the lowest three bits are zero.
    #[inline(always)]
    pub const fn place(sp: u64, entry_word: u32) -> u32 {
        (sp as u32 | (entry_word & ENTRY_TAG_MASK)) << ENTRY_TAG_SHIFT
    }

    /// Returns the level that the event belongs to.
    pub const fn level(self) -> Level {
        if self.0 & NMI != 0 {
            Level::Nmi
        } else if self.0 & HARDIRQ != 0 {
            Level::Hardirq
        } else if self.0 & SOFTIRQ != 0 {
            Level::Softirq
        } else {
            Level::Task
        }
    }

    /// Returns the stack pointer within its window, in units of 8 bytes.
    pub const fn stack_offset(self) -> u16 {
        (self.0 >> STACK_SHIFT) as u16
    }

    /// Returns a tag of what brought the task into the kernel, which mostly tells system calls
    /// apart: all events of one system call have one tag, and many other system calls have another.
    pub const fn entry_tag(self) -> u8 {
        ((self.0 >> ENTRY_TAG_SHIFT) & ENTRY_TAG_MASK) as u8
    }

    /// Returns the preemption depth, at most 15.
    pub const fn preempt_depth(self) -> u32 {
        self.0 & 0xf
    }

    /// Returns the migrate-disable depth, at most 15.
    pub const fn migrate_depth(self) -> u32 {
        (self.0 >> 4) & 0xf
    }

    /// Returns whether any of the bits `mask` is set.
    pub const fn has(self, mask: u32) -> bool {
        self.0 & mask != 0
    }
}

/// Returns whether stack offset `a` lies deeper in the stack than `b`, that is, at a lower address.
pub const fn is_deeper(a: u16, b: u16) -> bool {
    let difference = b.wrapping_sub(a) & STACK_MASK as u16;
    difference != 0 && difference < 1 << (STACK_BITS - 1)
}
