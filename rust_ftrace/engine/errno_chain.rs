// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The chain of calls by which an error came to the call that is shown, with `tracing_errno`.
//!
//! A call that returns an error is in the chain if no call that its caller made later returned the
//! same error. The outermost call, the *root*, decides if the chain is shown, when it returns;
//! until then each call that has failed is kept as a *link*, in memory of the CPU that it returned
//! on ([`ErrnoLinks`]), and the frame of its caller has a *reference* to it. [`Ending`] is what is
//! done when a call returns.
//!
//! A frame has these words beyond those of [`shadow`](super::shadow):
//!
//! | word | bits  | what                                                                    |
//! |------|-------|-------------------------------------------------------------------------|
//! | 2    | 0-23  | depth and context                                                       |
//! | 2    | 24-26 | [`ResultKind`] of the function                                          |
//! | 2    | 27-35 | words from the caller's tag to that of the frame; 0 for a root          |
//! | 2    | 36-63 | when the last callee ended: ticks / 256 since the call began, saturated |
//! | 3    | 0-30  | the last callee: its `ip`; all of the word is 0 if there was none       |
//! | 3    | 31    | it is the one of word 6                                                 |
//! | 3    | 32-63 | how long it took: see [`pack_duration`]                                 |
//! | 5    |       | its result, if it is not the one of word 6                              |
//! | 6    |       | reference to the last callee that returned an error that is asked for   |
//!
//! The function of a call, and where it was called from, are in the kernel's frame.
//!
//! A reference names the error, and where the link is:
//!
//! | bits  | what                                                                     |
//! |-------|--------------------------------------------------------------------------|
//! | 0-11  | the error                                                                |
//! | 12-13 | the [`Level`] at which it was made                                       |
//! | 14-27 | the CPU                                                                  |
//! | 28-63 | the number of the link, from 1 on, per CPU and level; 0 if there is none |

mod ending;
mod links;

pub use self::ending::{Chains, Ending};
pub use self::links::{ErrnoLinks, Link, LinkReference};

use super::context::{ContextWord, Level, HARDIRQ, NMI, SOFTIRQ};
use super::errno::ResultKind;
use super::shadow::ShadowFrame;

/// Words of a frame.
pub const FRAME_WORDS: usize = 7;

/// Indices of words of a frame.
const START: usize = 1;
const INFO: usize = 2;
const LAST: usize = 3;
const SLEEP: usize = 4;
const RESULT: usize = 5;
const FAILED_ONE: usize = 6;

const KIND_SHIFT: u32 = 24;
const DISTANCE_SHIFT: u32 = 27;
const DISTANCE_MASK: u64 = (1 << 9) - 1;
const END_SHIFT: u32 = 36;
const END_UNIT: u32 = 8;
const MOST_END: u64 = u64::MAX >> END_SHIFT;

/// Bit of word 3: the last callee is the last that returned an error that is asked for.
const FAILED: u64 = 1 << 31;
const IP_MASK: u64 = FAILED - 1;

/// Bit of a duration: it is in units of so many ticks that the rest has room for it.
const LONG: u32 = 1 << 31;
const LONG_SHIFT: u32 = 12;

/// Packs a duration: bits 0-30 in ticks, or, with bit 31, in units of 4096; saturated.
#[inline(always)]
pub const fn pack_duration(ticks: u64) -> u32 {
    if ticks < LONG as u64 {
        ticks as u32
    } else if ticks >> LONG_SHIFT < LONG as u64 {
        (ticks >> LONG_SHIFT) as u32 | LONG
    } else {
        u32::MAX
    }
}

/// Unpacks a duration.
pub const fn unpack_duration(packed: u32) -> u64 {
    if packed & LONG == 0 {
        packed as u64
    } else {
        ((packed & !LONG) as u64) << LONG_SHIFT
    }
}

/// Returns whether calls in these contexts are of one level: an interrupt keeps the bits of what it
/// interrupts, and adds its own.
#[inline(always)]
const fn is_same_level(context: u32, other: u32) -> bool {
    (context ^ other) & (SOFTIRQ | HARDIRQ | NMI) == 0
}

/// Word 2 of a frame or of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallInfo(pub u64);

impl CallInfo {
    /// Packs the word at a call's entry. `distance` is that to the caller's tag, in words.
    #[inline(always)]
    pub const fn new(depth: u32, context: u32, kind: ResultKind, distance: usize) -> Self {
        let distance = match distance as u64 <= DISTANCE_MASK {
            true => (distance as u64) << DISTANCE_SHIFT,
            false => 0,
        };
        let depth = if depth < 0xff { depth as u64 } else { 0xff };
        let context = ((context & 0xffff) as u64) << 8;
        Self(depth | context | ((kind as u64) << KIND_SHIFT) | distance)
    }

    /// Packs the word at a call's entry, with `outer` as the innermost call around it. An interrupt
    /// is not called by what it interrupts.
    #[inline(always)]
    pub fn within(
        outer: Option<&ShadowFrame<'_>>,
        depth: u32,
        context: u32,
        kind: ResultKind,
    ) -> Self {
        let distance = match outer {
            Some(outer) if is_same_level(context, Self(outer.word(INFO)).context()) => {
                outer.distance()
            }
            _ => 0,
        };
        Self::new(depth, context, kind, distance)
    }

    /// The depth of the call.
    pub const fn depth(self) -> u32 {
        self.0 as u32 & 0xff
    }

    /// The context of the call: the lower half of its context word.
    #[inline(always)]
    pub const fn context(self) -> u32 {
        (self.0 >> 8) as u32 & 0xffff
    }

    /// The word with depth and context alone.
    pub const fn of_entry(self) -> Self {
        Self(self.0 & ((1 << KIND_SHIFT) - 1))
    }

    /// The level of the call.
    #[inline(always)]
    pub const fn level(self) -> Level {
        ContextWord(self.context()).level()
    }

    /// The ways in which its result can be an error.
    #[inline(always)]
    pub const fn kind(self) -> ResultKind {
        ResultKind::from_bits(self.0 >> KIND_SHIFT)
    }

    /// The words from the caller's tag to its own; 0 for a root.
    #[inline(always)]
    pub const fn distance(self) -> usize {
        ((self.0 >> DISTANCE_SHIFT) & DISTANCE_MASK) as usize
    }

    /// The word when the last callee has ended `ticks` after the call began.
    #[inline(always)]
    pub const fn with_end(self, ticks: u64) -> Self {
        let end = if ticks >> END_UNIT < MOST_END {
            ticks >> END_UNIT
        } else {
            MOST_END
        };
        Self((self.0 & !(u64::MAX << END_SHIFT)) | (end << END_SHIFT))
    }

    /// The ticks after which the last callee has ended, rounded up; as many as can be if that is
    /// not known.
    pub const fn end(self) -> u64 {
        match self.0 >> END_SHIFT {
            MOST_END => u64::MAX,
            end => (end + 1) << END_UNIT,
        }
    }
}

/// The callees of a call that are remembered, as words 3, 5 and 6 have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastCallee {
    /// The last one: its `ip`, the packed duration, and if it is that of `failed`; 0 for none.
    pub packed: u64,
    /// Its result, if it is not that of `failed`.
    pub result: u64,
    /// The last one that returned an error that is asked for.
    pub failed: LinkReference,
}

impl LastCallee {
    /// Returns whether there was a callee.
    pub const fn is_any(self) -> bool {
        self.packed != 0
    }

    /// Returns whether the last one returned an error that is asked for.
    pub const fn has_failed(self) -> bool {
        self.packed & FAILED != 0
    }

    /// The reference to the last callee that returned `errno`, and that no other error followed.
    pub const fn link(self, errno: u64) -> Option<LinkReference> {
        if self.failed.errno() == errno {
            Some(self.failed)
        } else {
            None
        }
    }

    /// The last one's ftrace location, as an address of the kernel's text.
    pub const fn ip(self) -> u64 {
        super::slot::text_address(self.packed)
    }

    /// The last one's result.
    pub const fn value(self) -> u64 {
        if self.has_failed() {
            self.failed.errno().wrapping_neg()
        } else {
            self.result
        }
    }

    /// The times at which the last one began and ended, if its caller, with word 2 `info`, ran from
    /// `start` to `end`: to within 256 ticks, and within these.
    pub fn times(self, info: CallInfo, start: u64, end: u64) -> (u64, u64) {
        let ended = start.saturating_add(info.end()).min(end);
        let took = unpack_duration((self.packed >> 32) as u32);
        (ended.saturating_sub(took).max(start), ended)
    }
}
