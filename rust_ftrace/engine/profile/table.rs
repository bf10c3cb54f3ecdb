// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Profile, the tables: the counts of a CPU, a cache line for each function.
//!
//! | word | what                                                                              |
//! |------|-----------------------------------------------------------------------------------|
//! | 0    | calls that were entered                                                           |
//! | 1    | time of those that have returned, in ticks of the clock                           |
//! | 2    | the part of it in calls within them                                               |
//! | 3, 4 | the squares of the times that count, the lower half first                         |
//! | 5    | the longest time (bits 0-47), and the number of clears before it and one (48-63)  |
//! | 6    | the address of its histogram                                                      |
//! | 7    | the part of word 1 that the options said not to count                             |
//!
//! A call touches this line, and one of the histogram. The first call of a function, and any that
//! is longer than all before it, is on the cold path: so that is where a function gets its
//! histogram, and the others need not look for one.

use core::array;
use core::ops::Deref;

use super::histogram::{bucket_of, Chunk, Counts, Pool};
use super::numbers::FunctionNumbers;
use super::totals::{epoch, longest, FunctionTotals};
use super::waits::FunctionWaits;
use crate::engine::waiting::Wait;
use crate::platform::{local_add_sums, AllocError, Vec, Word};

/// The counts of a CPU for a function, written by that CPU only.
///
/// # Invariants
///
/// `histogram` is the address of [`Counts`] in the pool of the table that this is in.
#[repr(C, align(64))]
struct FunctionCounts {
    hits: Word,
    /// Time, time within, and the squares.
    sums: [Word; 4],
    longest: Word,
    histogram: Word,
    uncounted: Word,
}

/// The counts of a CPU.
///
/// # Invariants
///
/// `pool` has a rest if there are any records.
pub struct ProfileTable<P, C> {
    places: P,
    records: Vec<FunctionCounts>,
    /// The waits in calls, by the number of the function, if they are counted.
    waits: FunctionWaits,
    pool: Pool<C>,
    /// The number of clears, as longest times have it.
    epoch: Word,
}

fn address_of(counts: &Counts) -> u64 {
    let counts: *const Counts = counts;
    counts as u64
}

impl<P, C> ProfileTable<P, C>
where
    P: Deref<Target = FunctionNumbers>,
    C: Deref<Target = Chunk>,
{
    /// Makes a table for all functions of `places`, with the histograms of `pool`, after so many
    /// `clears`. Without a rest in the pool it counts nothing.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn new(places: P, pool: Pool<C>, clears: u64) -> Result<Self, AllocError> {
        let mut records = Vec::new();
        if let Some(rest) = pool.rest().map(address_of) {
            records.reserve(places.ips().len())?;
            for _ in places.ips() {
                // INVARIANT: The rest is in the pool.
                records.push(FunctionCounts {
                    hits: Word::new(0),
                    sums: array::from_fn(|_| Word::new(0)),
                    longest: Word::new(0),
                    histogram: Word::new(rest),
                    uncounted: Word::new(0),
                })?;
            }
        }
        for (number, counts) in (0..pool.places()).filter_map(|place| pool.at(place)) {
            if let Some(record) = records.get(number) {
                // INVARIANT: It is in the pool.
                record.histogram.store_relaxed(address_of(counts));
            }
        }
        // INVARIANT: There are records only if there is a rest.
        Ok(Self {
            places,
            records,
            waits: FunctionWaits::none(),
            pool,
            epoch: Word::new(epoch(clears)),
        })
    }

    /// Counts waits, too.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn with_waits(self) -> Result<Self, AllocError> {
        let waits = FunctionWaits::new(self.places.ips().len())?;
        Ok(Self { waits, ..self })
    }

    /// Tells longest times from here on from those before. May be called on any CPU.
    pub fn set_clears(&self, clears: u64) {
        self.epoch.store_relaxed(epoch(clears));
    }

    /// Counts a call of the function at `ip`. Returns the number by which its return is to be
    /// counted; `None` if the function is not in the first place that it can be in, and nothing was
    /// counted: [`ProfileTable::enter_behind`] is to be called then.
    ///
    /// To be called on the table's CPU, with preemption off.
    #[inline(always)]
    pub fn enter(&self, ip: u64) -> Option<u64> {
        self.count(self.places.find_first(ip)?)
    }

    /// Counts a call of the function at `ip`, wherever it is. Returns the number by which its
    /// return is to be counted; `None` if the function has none.
    ///
    /// To be called as [`ProfileTable::enter`].
    pub fn enter_behind(&self, ip: u64) -> Option<u64> {
        self.count(self.places.find(ip)?)
    }

    /// Takes back a call that was counted, by its number. To be called as [`ProfileTable::enter`].
    pub fn take_back(&self, number: u64) {
        if let Some(record) = self.records.get(number as usize) {
            record.hits.local_add(u64::MAX);
        }
    }

    #[inline(always)]
    fn count(&self, number: usize) -> Option<u64> {
        self.records.get(number)?.hits.local_increment();
        Some(number as u64)
    }

    /// Returns the counts for the return of a call, by the number that [`ProfileTable::enter`]
    /// returned, perhaps of another CPU's table.
    #[inline(always)]
    pub fn record(&self, number: u64) -> Option<Record<'_, P, C>> {
        let record = self.records.get(number as usize)?;
        Some(Record {
            table: self,
            record,
            number,
        })
    }

    /// The counts for the function with this number, inexact while counting goes on.
    pub fn totals(&self, number: usize) -> FunctionTotals {
        let Some(record) = self.records.get(number) else {
            return FunctionTotals::default();
        };
        // What is a part is read before the whole.
        let [within, uncounted] = [&record.sums[1], &record.uncounted].map(Word::load_relaxed);
        let [total, low, high] =
            [&record.sums[0], &record.sums[2], &record.sums[3]].map(Word::load_relaxed);
        let totals = FunctionTotals {
            hits: record.hits.load_relaxed(),
            total,
            within,
            uncounted,
            squares: u128::from(low) | (u128::from(high) << 64),
            longest: record.longest.load_relaxed(),
            ..FunctionTotals::default()
        };
        self.waits.with(totals, number)
    }

    /// Returns whether calls of the function with this number have returned that are in the rest.
    pub fn is_in_rest(&self, number: usize) -> bool {
        let rest = self.pool.rest().map(address_of);
        self.records.get(number).is_some_and(|record| {
            record.longest.load_relaxed() != 0 && Some(record.histogram.load_relaxed()) == rest
        })
    }

    /// The numbers of the functions.
    pub fn places(&self) -> &P {
        &self.places
    }

    /// Bytes of memory, without those of the numbers and histograms.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.records) + self.waits.bytes()
    }
}

/// The counts for the return of a call.
pub struct Record<'a, P, C> {
    table: &'a ProfileTable<P, C>,
    record: &'a FunctionCounts,
    number: u64,
}

impl<P, C: Deref<Target = Chunk>> Record<'_, P, C> {
    /// Returns whether a call of `time` is counted by [`Record::add`] alone: if it is neither the
    /// longest nor the first.
    #[inline(always)]
    pub fn is_usual(&self, time: u64) -> bool {
        // A time of more than 48 bits makes for a later epoch, and so is the longest always. That
        // none is so long that this overflows, some thousand years, needs no check.
        let word = self.table.epoch.load_relaxed().wrapping_add(time);
        word <= self.record.longest.load_relaxed()
    }

    /// Adds the time of a call, and the part of it that was in calls within it.
    ///
    /// To be called on the table's CPU, with preemption off, if it [is usual](Record::is_usual);
    /// else after [`Record::note_longest`]. The call may have been entered on another CPU.
    #[inline(always)]
    pub fn add(&self, time: u64, within: u64) {
        let wide = u128::from(time);
        local_add_sums(&self.record.sums, time, within, wide.wrapping_mul(wide));
        self.distribute(time);
    }

    /// Adds the time of a call of which a part does not count.
    ///
    /// To be called as [`Record::add`].
    pub fn add_part(&self, time: u64, within: u64, uncounted: u64) {
        self.record.uncounted.local_add(uncounted);
        let wide = u128::from(time.saturating_sub(uncounted));
        local_add_sums(&self.record.sums, time, within, wide.wrapping_mul(wide));
        self.distribute(time);
    }

    /// Adds for how long the task did not run in a call, in ticks, and its waits; nothing if that
    /// is not counted.
    ///
    /// To be called as [`Record::add`].
    pub fn add_wait(&self, slept: u64, wait: Wait) {
        let number = self.number as usize;
        let longest = longest(self.table.epoch.load_relaxed(), slept);
        (self.table.waits).add(number, slept, wait.queued(), longest, wait.waker());
    }

    #[inline(always)]
    fn distribute(&self, time: u64) {
        let counts = self.record.histogram.load_relaxed() as *const Counts;
        // SAFETY: By the invariant of `FunctionCounts` there is a histogram in the table's pool at
        // this address, which lives as long as the table, and so as `self`. It is only shared.
        let counts = unsafe { &*counts };
        if let Some(count) = counts.get(bucket_of(time)) {
            count.local_increment();
        }
    }

    /// Notes the longest time, and gives the function a histogram if it has none and there is one.
    ///
    /// To be called on the table's CPU, with preemption off.
    pub fn note_longest(&self, time: u64) {
        let rest = self.table.pool.rest().map(address_of);
        let histogram = self.record.histogram.load_relaxed();
        if Some(histogram) == rest {
            if let Some(counts) = self.table.pool.take(self.number as usize) {
                // An interrupt may have taken one meanwhile: then this one stays the function's
                // too, without counts.
                //
                // INVARIANT: It is in the pool.
                (self.record.histogram).local_exchange(histogram, address_of(counts));
            }
        }
        let word = longest(self.table.epoch.load_relaxed(), time);
        loop {
            let before = self.record.longest.load_relaxed();
            if before >= word || self.record.longest.local_exchange(before, word) {
                break;
            }
        }
    }
}
