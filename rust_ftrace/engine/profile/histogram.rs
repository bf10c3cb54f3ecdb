// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Profile, the histograms: the number of calls by how long they took.
//!
//! A bucket is a tick wide below 16 ticks; from there on each octave has eight of the same width.
//! So a bucket is at most an eighth of its lower end wide, or one tick, for any value of 64 bits.
//! The eight counts of an octave are a cache line.
//!
//! | bucket          | values                                                    |
//! |-----------------|-----------------------------------------------------------|
//! | `b` below 16    | `b`                                                       |
//! | `8 * s + 8 + i` | `(8 + i) << s` up to `((9 + i) << s) - 1`, `i` from 0 to 7 |
//!
//! A CPU has a pool of histograms. A function takes one when it returns there for the first time.
//! When all are taken, those that come later share the first one, the *rest*.

use core::array;
use core::ops::Deref;

use crate::platform::{highest_bit, AllocError, Table, Vec, Word};

/// The number of buckets: enough for values of 64 bits.
pub const BUCKETS: usize = 496;

/// The counts of a histogram.
pub type Counts = [Word; BUCKETS];

/// Histograms of a chunk.
pub const CHUNK: usize = 16;

/// Bytes of memory of a chunk.
pub const CHUNK_BYTES: usize = size_of::<Chunk>() + CHUNK * BUCKETS * size_of::<Word>();

/// Stands for the functions that have no histogram of their own.
const REST: u64 = u64::MAX;

/// Returns the bucket that `value` is in.
#[inline(always)]
pub fn bucket_of(value: u64) -> usize {
    let shift = highest_bit(value).wrapping_sub(3);
    let octave = (shift as usize).wrapping_mul(8);
    octave.wrapping_add(value.wrapping_shr(shift) as usize)
}

/// Returns the lowest value of a bucket.
pub const fn lower_end(bucket: usize) -> u64 {
    match bucket {
        0..16 => bucket as u64,
        BUCKETS.. => u64::MAX,
        _ => (8 + (bucket % 8) as u64) << (bucket / 8 - 1),
    }
}

/// Returns the highest value of a bucket.
pub const fn upper_end(bucket: usize) -> u64 {
    match bucket.saturating_add(1) {
        BUCKETS.. => u64::MAX,
        next => lower_end(next).wrapping_sub(1),
    }
}

/// Histograms that a CPU's functions take, each the next one.
///
/// # Invariants
///
/// The first `used` are taken, or about to be. Their owners are 0 (nothing is counted there yet),
/// or a function's number plus one, or `REST`.
pub struct Chunk {
    used: Word,
    /// The number of histograms that may be taken.
    limit: usize,
    owners: [Word; CHUNK],
    counts: Table<Word, { CHUNK * BUCKETS }>,
}

impl Chunk {
    /// Makes histograms, of which no more than `limit` are given out.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn new(limit: usize) -> Result<Self, AllocError> {
        // INVARIANT: None is taken.
        Ok(Self {
            used: Word::new(0),
            limit: limit.min(CHUNK),
            owners: array::from_fn(|_| Word::new(0)),
            counts: Table::new(|| Word::new(0))?,
        })
    }

    /// The number of histograms that may be taken.
    pub const fn limit(&self) -> usize {
        self.limit
    }

    fn counts(&self, index: usize) -> Option<&Counts> {
        let counts = self.counts.get(index.checked_mul(BUCKETS)?..)?;
        counts.first_chunk()
    }

    /// Takes a histogram for `owner`; `None` if none is left. To be called on the CPU, with
    /// preemption off.
    fn take(&self, owner: u64) -> Option<&Counts> {
        loop {
            let used = self.used.load_relaxed();
            let index = usize::try_from(used).ok()?;
            let word = self.owners.get(index).filter(|_| index < self.limit)?;
            if self.used.local_exchange(used, used.wrapping_add(1)) {
                // INVARIANT: It was just taken.
                word.store_relaxed(owner);
                return self.counts(index);
            }
        }
    }
}

/// The histograms of a CPU.
///
/// # Invariants
///
/// The first of the first chunk, if there is one, is the rest.
pub struct Pool<C>(Vec<C>);

impl<C: Deref<Target = Chunk>> Pool<C> {
    /// Makes a pool without histograms.
    pub const fn new() -> Self {
        // INVARIANT: There is no chunk.
        Self(Vec::new())
    }

    /// Makes a pool with the histograms of another, and more: for `functions` of them, beside the
    /// rest. `chunk` makes chunks with the limit that it is given.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn grown<E: From<AllocError>>(
        &self,
        functions: usize,
        mut chunk: impl FnMut(usize) -> Result<C, E>,
    ) -> Result<Self, E>
    where
        C: Clone,
    {
        let Self(mut chunks) = self.duplicate()?;
        let mut left = (functions.saturating_add(1)).saturating_sub(self.limit());
        while left != 0 {
            let new = chunk(left.min(CHUNK))?;
            left = left.saturating_sub(CHUNK);
            if chunks.is_empty() {
                new.take(REST);
            }
            // INVARIANT: The first was given its rest.
            chunks.push(new)?;
        }
        Ok(Self(chunks))
    }

    /// Returns a pool with the same histograms.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn duplicate(&self) -> Result<Self, AllocError>
    where
        C: Clone,
    {
        let mut chunks = Vec::new();
        for chunk in self.0.iter() {
            chunks.push(chunk.clone())?;
        }
        // INVARIANT: The first chunk is that of the other one.
        Ok(Self(chunks))
    }

    /// The number of histograms, the rest included.
    fn limit(&self) -> usize {
        let limits = self.0.iter().map(|chunk| chunk.limit());
        limits.fold(0, usize::saturating_add)
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.0.len().saturating_mul(CHUNK_BYTES)
    }

    /// The rest.
    pub fn rest(&self) -> Option<&Counts> {
        self.0.first()?.counts(0)
    }

    /// Takes a histogram for the function with this number; `None` if none is left. To be called on
    /// the CPU, with preemption off.
    pub fn take(&self, number: usize) -> Option<&Counts> {
        let owner = (number as u64).wrapping_add(1);
        self.0.iter().find_map(|chunk| chunk.take(owner))
    }

    /// The number of places for histograms.
    pub fn places(&self) -> usize {
        self.0.len().saturating_mul(CHUNK)
    }

    /// The number of the function that has the histogram at a place, and its counts; `None` if no
    /// function has. A function may have more than one.
    pub fn at(&self, place: usize) -> Option<(usize, &Counts)> {
        let (chunk, index) = (self.0.get(place / CHUNK)?, place % CHUNK);
        match chunk.owners.get(index)?.load_relaxed() {
            0 | REST => None,
            owner => Some((owner.wrapping_sub(1) as usize, chunk.counts(index)?)),
        }
    }
}

/// The sums of histograms.
pub struct Distribution(Vec<u64>);

impl Distribution {
    /// Makes a distribution of no values.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn new() -> Result<Self, AllocError> {
        let mut counts = Vec::new();
        counts.resize(BUCKETS, 0)?;
        Ok(Self(counts))
    }

    /// Forgets all values.
    pub fn clear(&mut self) {
        self.0.iter_mut().for_each(|count| *count = 0);
    }

    /// Adds what was counted since `base` was read, which is empty if that was nothing yet.
    pub fn add(&mut self, counts: &Counts, base: &[u64]) {
        for (bucket, (sum, count)) in self.0.iter_mut().zip(counts).enumerate() {
            let before = base.get(bucket).copied().unwrap_or(0);
            let since = count.load_relaxed().wrapping_sub(before);
            *sum = sum.wrapping_add(since);
        }
    }

    /// The number of values.
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, count| sum.wrapping_add(*count))
    }

    /// The buckets that values are in, in order, and how many.
    pub fn buckets(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let all = self.0.iter().copied().enumerate();
        all.filter(|(_, count)| *count != 0)
    }

    /// The upper end of the bucket with the value that `percent` of all values do not exceed:
    /// counted from the smallest, the first one with so many at or before it. `None` if there is no
    /// value.
    pub fn percentile(&self, percent: u64) -> Option<u64> {
        let total = self.total();
        let of_rest = (total % 100).saturating_mul(percent).div_ceil(100);
        let rank = (total / 100)
            .saturating_mul(percent)
            .saturating_add(of_rest);
        let rank = rank.max(1);
        let mut seen = 0u64;
        let mut buckets = self.buckets();
        let found = buckets.find(|(_, count)| {
            seen = seen.saturating_add(*count);
            seen >= rank
        });
        found.map(|(bucket, _)| upper_end(bucket))
    }
}
