// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Profile, the names of tasks that wake others: each has a number, from 1.
//!
//! A name has two words, as a task has them, and what is behind its end is 0. The highest bit of
//! the second, whose byte is the end of the longest name, says that the name is whole. Each word is
//! written once, by an exchange, in any context. Code that finds the first of two words that are
//! its own, and no second, writes that: so nothing waits.

use crate::engine::waiting::{WakeContext, Waker};
use crate::platform::{AllocError, Table, Word};

/// The number of names that there may be.
pub const MOST_NAMES: usize = 4096;
/// Most places that are looked at for a name.
const PROBES: usize = 32;
/// 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Flag of the second word: the name is whole.
const WHOLE: u64 = 1 << 63;

/// Names of tasks.
pub struct TaskNames(Table<[Word; 2], MOST_NAMES>);

/// A waker, as it is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WokenBy {
    /// It is not known, or there is none.
    #[default]
    Unknown,
    /// A task with this name, which ends with the first 0.
    Task([u8; 16]),
    /// Code that is no task's.
    Context(WakeContext),
}

impl WokenBy {
    /// Puts it into `bytes` as it is written, `-` if it is not known; returns what it takes of
    /// them. Characters that lines have a meaning for are others.
    pub fn written(self, bytes: &mut [u8; 16]) -> &[u8] {
        match self {
            Self::Unknown => b"-",
            Self::Task(name) => {
                let mut length = 0;
                for (byte, put) in name.into_iter().zip(bytes.iter_mut()) {
                    if byte == 0 {
                        break;
                    }
                    *put = written(byte);
                    length += 1;
                }
                bytes.get(..length).unwrap_or_default()
            }
            Self::Context(WakeContext::Softirq) => b"[softirq]",
            Self::Context(WakeContext::Hardirq) => b"[hardirq]",
            Self::Context(WakeContext::Nmi) => b"[nmi]",
            Self::Context(WakeContext::Task) => b"?",
        }
    }
}

/// The character that stands for a byte of a task's name in a word of a line.
pub const fn written(byte: u8) -> u8 {
    match byte {
        b' ' => b'_',
        b';' => b':',
        b'!'..=b'~' => byte,
        _ => b'?',
    }
}

/// Cuts off what is behind the end of a name. One of no characters is `?`.
fn whole(name: [u64; 2]) -> [u64; 2] {
    let mut bytes = u128::from(name[0]) | (u128::from(name[1]) << 64);
    // The last byte ends it in any case.
    bytes &= u128::MAX >> 8;
    let mut mask = 0;
    for byte in 0..15 {
        if (bytes >> (byte * 8)) & 0xff == 0 {
            break;
        }
        mask = (mask << 8) | 0xff;
    }
    match bytes & mask {
        0 => [u64::from(b'?'), WHOLE],
        bytes => [bytes as u64, (bytes >> 64) as u64 | WHOLE],
    }
}

impl TaskNames {
    /// Makes a table of none.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn new() -> Result<Self, AllocError> {
        Ok(Self(Table::new(|| [0; 2].map(Word::new))?))
    }

    /// Returns the number of a name, which stays; `None` if there is no room for it. To be called
    /// in any context.
    pub fn number(&self, name: [u64; 2]) -> Option<u32> {
        let name = whole(name);
        let hash = (name[0] ^ name[1].rotate_left(7)).wrapping_mul(SPREAD);
        // The highest bits depend on all of the name.
        let start = (hash >> 48) as usize;
        (0..PROBES).find_map(|probe| {
            let place = start.wrapping_add(probe) % MOST_NAMES;
            let words = self.0.get(place)?;
            let is_there = words.iter().zip(name).all(|(word, wanted)| {
                let found = word.load_relaxed();
                found == wanted
                    || found == 0 && (word.exchange(0, wanted) || word.load_relaxed() == wanted)
            });
            is_there.then_some((place as u32).wrapping_add(1))
        })
    }

    /// Returns a waker whose ID is the number of a name, as it is told.
    pub fn woken_by(&self, waker: Waker) -> WokenBy {
        if !waker.is_known() {
            return WokenBy::Unknown;
        }
        if waker.context() != WakeContext::Task {
            return WokenBy::Context(waker.context());
        }
        let place = (waker.pid() as usize).wrapping_sub(1);
        let Some([first, second]) = self.0.get(place) else {
            return WokenBy::Unknown;
        };
        let name = u128::from(first.load_relaxed());
        let name = name | (u128::from(second.load_relaxed() & !WHOLE) << 64);
        WokenBy::Task(name.to_le_bytes())
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}
