// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Room for calls that have returned errors, until the root returns.

use super::{CallInfo, LastCallee};
use crate::engine::context::Level;
use crate::platform::{fence_acquire, fence_release, AllocError, Vec, Word};

/// A reference to a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkReference(pub u64);

const ERRNO_MASK: u64 = (1 << 12) - 1;
const LEVEL_SHIFT: u32 = 12;
const CPU_SHIFT: u32 = 14;
const CPU_MASK: u64 = (1 << 14) - 1;
const NUMBER_SHIFT: u32 = 28;

impl LinkReference {
    /// A reference to no link, of a call that returned `errno`.
    pub const fn without_link(errno: u64) -> Self {
        Self(errno & ERRNO_MASK)
    }

    /// Returns whether there is a link, or was one.
    pub const fn has_link(self) -> bool {
        self.number() != 0
    }

    /// The error.
    #[inline(always)]
    pub const fn errno(self) -> u64 {
        self.0 & ERRNO_MASK
    }

    const fn level(self) -> usize {
        (self.0 >> LEVEL_SHIFT) as usize & 3
    }

    const fn cpu(self) -> usize {
        ((self.0 >> CPU_SHIFT) & CPU_MASK) as usize
    }

    const fn number(self) -> u64 {
        self.0 >> NUMBER_SHIFT
    }
}

/// A call that returned an error, and that may be in the chain of one that has not returned yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// The time at which it began.
    pub start: u64,
    /// The time at which it ended.
    pub end: u64,
    /// For how long the task did not run.
    pub slept: u64,
    /// Word 2 of its frame.
    pub info: CallInfo,
    /// Its place: low half `ip`, high half `parent_ip`.
    pub place: u64,
    /// The last callee.
    pub last: LastCallee,
}

impl Link {
    /// The time that it took, without that for which the task did not run.
    pub(super) fn ticks(&self) -> u64 {
        let whole = self.end.saturating_sub(self.start);
        whole.saturating_sub(self.slept)
    }
}

/// Words of a link.
const LINK_WORDS: usize = 9;
/// Links of each level, powers of two: most errors are of tasks.
const LINKS: [usize; 4] = [1024, 128, 128, 128];
/// Words of a CPU, before those of links: for each level the number of its links so far, and then
/// that of chains that were cut.
const HEAD_WORDS: usize = 8;
const CUT: usize = 4;
const CPU_WORDS: usize = HEAD_WORDS + LINK_WORDS * (LINKS[0] + LINKS[1] + LINKS[2] + LINKS[3]);

/// The links of all CPUs. Each level of each CPU has a ring of its own, in which no writer
/// interrupts another.
///
/// A link's words begin with its reference, which is taken away while they change: a reader on
/// another CPU, where the task came to be, finds it before and after it has copied the others, or
/// has no link.
pub struct ErrnoLinks {
    words: Vec<Word>,
}

impl ErrnoLinks {
    /// Makes room for links of CPUs whose numbers are below `cpus`.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn new(cpus: u32) -> Result<Self, AllocError> {
        let count = CPU_WORDS.saturating_mul(cpus as usize);
        let mut words = Vec::new();
        words.reserve(count)?;
        for _ in 0..count {
            words.push(Word::new(0))?;
        }
        Ok(Self { words })
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        self.words.len() * 8
    }

    fn cpu(&self, cpu: usize) -> Option<&[Word]> {
        let from = cpu.checked_mul(CPU_WORDS)?;
        self.words.get(from..from.checked_add(CPU_WORDS)?)
    }

    /// The words of link `number` of a level.
    fn link(cpu: &[Word], level: usize, number: u64) -> Option<&[Word]> {
        let links = *LINKS.get(level)?;
        let before = LINKS
            .iter()
            .take(level)
            .fold(0_usize, |sum, links| sum.wrapping_add(*links));
        let index = before.wrapping_add(number as usize & links.wrapping_sub(1));
        let from = HEAD_WORDS.wrapping_add(LINK_WORDS.wrapping_mul(index));
        cpu.get(from..)?.get(..LINK_WORDS)
    }

    /// Keeps a link of a call that returned `errno`, in the place of the oldest, and returns the
    /// reference to it.
    ///
    /// To be called on `cpu`, with preemption off; `level` is the one that it is called at.
    pub fn keep(&self, cpu: u32, level: Level, errno: u64, link: &Link) -> LinkReference {
        let none = LinkReference::without_link(errno);
        let level = level as usize;
        let Some(words) = self.cpu(cpu as usize) else {
            return none;
        };
        let Some(count) = words.get(level) else {
            return none;
        };
        let number = count.load_relaxed().wrapping_add(1) & (u64::MAX >> NUMBER_SHIFT);
        count.store_relaxed(number);
        let place = ((u64::from(cpu) & CPU_MASK) << CPU_SHIFT) | ((level as u64) << LEVEL_SHIFT);
        let reference = LinkReference((number << NUMBER_SHIFT) | place | (errno & ERRNO_MASK));
        let Some([head, rest @ ..]) = Self::link(words, level, number) else {
            return none;
        };
        head.store_relaxed(0);
        fence_release();
        let values = [
            link.start,
            link.end,
            link.info.0,
            link.place,
            link.last.packed,
            link.last.result,
            link.last.failed.0,
            link.slept,
        ];
        for (word, value) in rest.iter().zip(values) {
            word.store_relaxed(value);
        }
        head.store_release(reference.0);
        reference
    }

    /// Returns the link of a reference; `None` if it has been replaced.
    pub fn find(&self, reference: LinkReference) -> Option<Link> {
        let words = self.cpu(reference.cpu())?;
        let words = Self::link(words, reference.level(), reference.number())?;
        let [head, start, end, info, place, packed, result, failed, slept] = words else {
            return None;
        };
        if reference.number() == 0 || head.load_acquire() != reference.0 {
            return None;
        }
        let link = Link {
            start: start.load_relaxed(),
            end: end.load_relaxed(),
            slept: slept.load_relaxed(),
            info: CallInfo(info.load_relaxed()),
            place: place.load_relaxed(),
            last: LastCallee {
                packed: packed.load_relaxed(),
                result: result.load_relaxed(),
                failed: LinkReference(failed.load_relaxed()),
            },
        };
        fence_acquire();
        (head.load_relaxed() == reference.0).then_some(link)
    }

    /// Counts a chain of which a link was replaced. To be called on `cpu`.
    pub fn count_cut(&self, cpu: u32) {
        if let Some(word) = self.cpu(cpu as usize).and_then(|words| words.get(CUT)) {
            word.local_add(1);
        }
    }

    /// The number of chains that were cut.
    pub fn cut(&self) -> u64 {
        let counts = self
            .words
            .chunks_exact(CPU_WORDS)
            .filter_map(|words| words.get(CUT));
        counts.fold(0, |sum, word| sum.wrapping_add(word.load_relaxed()))
    }
}
