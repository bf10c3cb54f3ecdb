// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Process IDs, the sets: bitmaps that the hook looks at for every call.
//!
//! A bitmap has two levels, so that a look costs the same for one ID and for all of them. Its parts
//! are made when they are first needed and stay as long as the set, so nothing that the hook may be
//! looking at ever goes away.
//!
//! The words that users write:
//!
//! ```text
//! word   = ["!"] number
//! number = as kstrtoul() takes it: decimal, 0x.., 0..
//! ```

use super::filter::words;
use super::parse::{parse_any_base, ParseError};
use crate::platform::{fence_full, AllocError, LazyWords, Table, Word, LAZY_WORDS};

/// IDs are below this (PID_MAX_LIMIT of a 64-bit kernel). The idle tasks have 0.
pub const PID_LIMIT: u32 = 4 << 20;

/// Bits of a part.
const CHUNK_BITS: u32 = LAZY_WORDS as u32 * u64::BITS;
const CHUNKS: usize = (PID_LIMIT / CHUNK_BITS) as usize;

/// A set of process IDs. One thread may [edit](PidSet::assign) it while hooks look at it, or while
/// it is told of tasks that [come](PidSet::forked) and [go](PidSet::freed).
pub struct PidSet {
    chunks: Table<LazyWords, CHUNKS>,
}

/// The error of a word that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PidError {
    /// The word is no number.
    NotANumber,
    /// No task can have this ID.
    TooLarge,
    /// The word is nothing but an exclamation mark.
    Empty,
}

impl PidError {
    /// The error as a sentence for users.
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotANumber => "Not a process ID",
            Self::TooLarge => "No process can have such an ID",
            Self::Empty => "Nothing to remove after '!'",
        }
    }
}

/// The error of words that are not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PidSetError {
    /// The word at this byte is refused.
    Word(usize, PidError),
    /// There is no memory.
    NoMemory,
}

impl From<AllocError> for PidSetError {
    fn from(_: AllocError) -> Self {
        Self::NoMemory
    }
}

/// Parses one word into its ID and whether that is to be removed.
fn parse(word: &[u8]) -> Result<(bool, u32), PidError> {
    let (remove, number) = match word.split_first() {
        Some((b'!', [])) => return Err(PidError::Empty),
        Some((b'!', number)) => (true, number),
        _ => (false, word),
    };
    match parse_any_base(number) {
        Ok(pid) if pid < u64::from(PID_LIMIT) => Ok((remove, pid as u32)),
        Ok(_) | Err(ParseError::Range) => Err(PidError::TooLarge),
        Err(ParseError::Invalid) => Err(PidError::NotANumber),
    }
}

/// Returns whether `word` is valid, or becomes so with more bytes: for words that come in parts.
pub fn is_beginning(word: &[u8]) -> bool {
    // A digit is the test for more bytes: if any byte can follow, a digit can. No ID has so many
    // zeroes.
    let mut longer = [b'0'; 32];
    let longer = longer.get_mut(..=word.len());
    let longer_is_good = longer.is_some_and(|longer| {
        let [room @ .., _] = longer else {
            return false;
        };
        room.copy_from_slice(word);
        parse(longer).is_ok()
    });
    longer_is_good || parse(word).is_ok()
}

impl PidSet {
    /// Makes an empty set.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn new() -> Result<Self, AllocError> {
        Ok(Self {
            chunks: Table::new(LazyWords::new)?,
        })
    }

    /// Returns whether `pid`, which is below [`PID_LIMIT`], is in the set.
    #[inline(always)]
    pub fn contains(&self, pid: u32) -> bool {
        let word = self.chunk(pid).load((pid / u64::BITS) as usize);
        (word >> (pid % u64::BITS)) & 1 != 0
    }

    /// The part that has the bit of `pid`.
    #[inline(always)]
    fn chunk(&self, pid: u32) -> &LazyWords {
        // In bounds by the remainder, which costs a mask.
        &self.chunks[(pid / CHUNK_BITS) as usize % CHUNKS]
    }

    /// Puts `pid` in, or takes it out.
    fn put(&self, pid: u32, present: bool) -> Result<(), AllocError> {
        let bit = 1 << (pid % u64::BITS);
        let chunk = self.chunk(pid);
        let words = match present {
            true => chunk.get_or_make().map(Some)?,
            false => chunk.get(),
        };
        if let Some(word) = words.and_then(|words| words.get(Self::place(pid))) {
            match present {
                true => word.set_bits(bit),
                false => word.clear_bits(bit),
            }
        }
        Ok(())
    }

    /// Makes memory for the IDs that are in `other`.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory; what was made stays.
    pub fn make_room_for(&self, other: &Self) -> Result<(), AllocError> {
        for (first, word) in other.words() {
            if word.load_relaxed() != 0 {
                self.chunk(first).get_or_make()?;
            }
        }
        Ok(())
    }

    /// Makes memory for `pid`, which is below [`PID_LIMIT`].
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn make_room(&self, pid: u32) -> Result<(), AllocError> {
        self.chunk(pid).get_or_make().map(|_| ())
    }

    /// Makes memory for `pid` as [`PidSet::make_room`] does, but does not sleep.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory at once.
    pub fn make_room_now(&self, pid: u32) -> Result<(), AllocError> {
        self.chunk(pid).get_or_make_now().map(|_| ())
    }

    /// Returns whether there is memory for `pid`, which is below [`PID_LIMIT`].
    pub fn has_room(&self, pid: u32) -> bool {
        self.chunk(pid).get().is_some()
    }

    /// Has `pid`, which is below [`PID_LIMIT`], in the set while `is_in` says so of it: whatever
    /// others do at the same time, once all have returned the set is as it said last. Returns what
    /// it said. Makes no memory.
    ///
    /// What `is_in` looks at is to be changed before this is called.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if `pid` is to be in, and there is no [room](PidSet::make_room) for it.
    pub fn follow(&self, pid: u32, is_in: impl Fn() -> bool) -> Result<bool, AllocError> {
        loop {
            let wanted = is_in();
            if self.contains(pid) != wanted {
                if !self.has_room(pid) {
                    return Err(AllocError);
                }
                self.put(pid, wanted)?;
            }
            // Of two that follow at the same time, the one that writes last looks again after the
            // other has written.
            fence_full();
            if is_in() == wanted && self.contains(pid) == wanted {
                return Ok(wanted);
            }
        }
    }

    /// Takes all IDs out.
    pub fn clear(&self) {
        for (_, word) in self.words() {
            word.clear_bits(u64::MAX);
        }
    }

    /// Calls `user` with each ID, in order.
    pub fn for_each(&self, mut user: impl FnMut(u32)) {
        for (first, word) in self.words() {
            let mut bits = word.load_relaxed();
            while bits != 0 {
                user(first.wrapping_add(bits.trailing_zeros()));
                bits &= bits.wrapping_sub(1);
            }
        }
    }

    /// Puts `child` in if `parent` is. Does not sleep. Both are below [`PID_LIMIT`].
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory at once.
    pub fn forked(&self, parent: u32, child: u32) -> Result<(), AllocError> {
        if self.contains(parent) {
            self.chunk(child).get_or_make_now()?;
            self.put(child, true)?;
        }
        Ok(())
    }

    /// Takes `pid` out. Does not sleep.
    pub fn freed(&self, pid: u32) {
        if self.contains(pid) {
            // Memory is needed only to put an ID in.
            let _ = self.put(pid, false);
        }
    }

    /// The index of the word that has the bit of `pid`, in its part.
    const fn place(pid: u32) -> usize {
        (pid / u64::BITS) as usize % LAZY_WORDS
    }

    /// The words that have been made, from the chunk of ID `from` on, each with the ID of its first
    /// bit.
    fn words_from(&self, from: u32) -> impl Iterator<Item = (u32, &Word)> {
        let chunks = (0..PID_LIMIT)
            .step_by(CHUNK_BITS as usize)
            .zip(self.chunks.iter());
        chunks
            .skip((from / CHUNK_BITS) as usize)
            .filter_map(|(first, chunk)| Some((first, chunk.get()?)))
            .flat_map(|(first, chunk)| (first..).step_by(u64::BITS as usize).zip(chunk))
    }

    /// All words that have been made, each with the ID of its first bit.
    fn words(&self) -> impl Iterator<Item = (u32, &Word)> {
        self.words_from(0)
    }

    /// Number of IDs.
    pub fn len(&self) -> usize {
        self.words()
            .map(|(_, word)| word.load_relaxed().count_ones() as usize)
            .sum()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words().all(|(_, word)| word.load_relaxed() == 0)
    }

    /// The smallest ID that is `from` or larger.
    pub fn next(&self, from: u32) -> Option<u32> {
        self.words_from(from).find_map(|(first, word)| {
            let wanted = u64::MAX.checked_shl(from.saturating_sub(first))?;
            let bits = word.load_relaxed() & wanted;
            (bits != 0).then(|| first + bits.trailing_zeros())
        })
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        let words = self.words().count();
        core::mem::size_of_val(&*self.chunks) + words * core::mem::size_of::<Word>()
    }

    /// Makes a set by the words in `text`, in their order, of this one, or of an empty one if it is
    /// to `replace` this.
    ///
    /// # Errors
    ///
    /// The first word that is wrong, or lack of memory.
    pub fn edited(&self, text: &[u8], replace: bool) -> Result<Self, PidSetError> {
        let new = match replace {
            true => Self::new()?,
            false => self.duplicate()?,
        };
        for (at, word) in words(text) {
            let (remove, pid) = parse(word).map_err(|refusal| PidSetError::Word(at, refusal))?;
            new.put(pid, !remove)?;
        }
        Ok(new)
    }

    /// Makes this set equal to `new`. A hook that looks meanwhile finds the IDs that are in both,
    /// and the added ones before others are removed: never an empty set, unless one of the two is
    /// empty.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory; nothing is changed then.
    pub fn assign(&self, new: &Self) -> Result<(), AllocError> {
        self.make_room_for(new)?;
        for (first, word) in self.words() {
            word.set_bits(new.bits(first));
        }
        for (first, word) in self.words() {
            word.clear_bits(!new.bits(first));
        }
        Ok(())
    }

    /// Changes this set by the difference between `new` and `base`, a former state of this set: IDs
    /// that have come and gone since stay so. A hook that looks meanwhile finds added IDs before
    /// others are removed.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory; nothing is changed then.
    pub fn change(&self, base: &Self, new: &Self) -> Result<(), AllocError> {
        self.make_room_for(new)?;
        for (first, word) in self.words() {
            word.set_bits(new.bits(first) & !base.bits(first));
        }
        for (first, word) in self.words() {
            word.clear_bits(base.bits(first) & !new.bits(first));
        }
        Ok(())
    }

    /// Makes a set of the IDs in this one.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn duplicate(&self) -> Result<Self, AllocError> {
        let new = Self::new()?;
        new.assign(self)?;
        Ok(new)
    }

    /// The word that has the bit of `pid`.
    fn bits(&self, pid: u32) -> u64 {
        self.chunk(pid).load(Self::place(pid))
    }
}
