// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Profile, the tables: the number of calls of each function and the time they took, counted by
//! each CPU in a table of its own. Every count is one instruction without a lock, which interrupts
//! and NMIs come before or after.
//!
//! Functions have numbers, which they keep as long as anything is counted for them, also while
//! their module is not there. [`FunctionNumbers`] has them, for all CPUs. The lines are those of
//! `function_stat_show()` of kernel/trace/ftrace.c.

use core::fmt::{Result as FmtResult, Write};
use core::ops::Deref;

use super::duration;
use super::line::{Line, LineOutput};
use crate::platform::{local_add_wide, AllocError, Vec, Word};

/// 2^32 divided by the golden ratio: it spreads addresses that lie close together.
const SPREAD: u32 = 0x9e37_79b9;

/// The numbers of functions.
///
/// # Invariants
///
/// - `slots` has a power of two, which `shift` follows from, and at least half of them are free.
/// - A slot is free, 0, or has the lower half of a function's address in its lower half, and in its
///   upper half an index of `ips`.
/// - Between the slot that an address hashes to and the one it is in, none is free.
pub struct FunctionNumbers {
    slots: Vec<u64>,
    shift: u32,
    /// Addresses by number; 0 for one that is not in `slots`.
    ips: Vec<usize>,
}

impl FunctionNumbers {
    /// Makes the numbers of functions with the ftrace locations `ips`, whose lower halves differ
    /// and are not 0: the number of a function is its index in `ips`. An entry that is 0 stands for
    /// no function.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn new(ips: Vec<usize>) -> Result<Self, AllocError> {
        let size = ips.len().saturating_mul(2).max(2).next_power_of_two();
        let mut slots = Vec::new();
        for _ in 0..size {
            slots.push(0)?;
        }
        // INVARIANT: All slots are free.
        let mut places = Self {
            slots,
            shift: 32u32.saturating_sub(size.trailing_zeros()),
            ips: Vec::new(),
        };
        for (number, ip) in ips.iter().enumerate().filter(|(_, ip)| **ip != 0) {
            places.put(*ip as u32, number as u32);
        }
        places.ips = ips;
        Ok(places)
    }

    /// Puts an address into the first free slot from where it hashes to, unless it is there.
    fn put(&mut self, key: u32, number: u32) {
        let start = self.start(key);
        let mask = self.slots.len().wrapping_sub(1);
        for step in 0..self.slots.len() {
            let Some(slot) = self.slots.get_mut(start.wrapping_add(step) & mask) else {
                return;
            };
            if *slot as u32 == key {
                return;
            }
            if *slot == 0 {
                // INVARIANT: This is the first free slot; there are at least twice as many slots as
                // addresses.
                *slot = u64::from(key) | (u64::from(number) << 32);
                return;
            }
        }
    }

    #[inline(always)]
    fn start(&self, key: u32) -> usize {
        key.wrapping_mul(SPREAD).wrapping_shr(self.shift) as usize
    }

    /// The number of the function at `ip`.
    #[inline(always)]
    pub fn find(&self, ip: u64) -> Option<usize> {
        let key = ip as u32;
        let start = self.start(key);
        let slot = *self.slots.get(start)?;
        if slot as u32 == key {
            return Some((slot >> 32) as usize);
        }
        self.find_behind(start, key)
    }

    /// Finds a function that is not in the first slot that it can be in.
    #[cold]
    #[inline(never)]
    fn find_behind(&self, start: usize, key: u32) -> Option<usize> {
        let mask = self.slots.len().wrapping_sub(1);
        for step in 1..self.slots.len() {
            let slot = *self.slots.get(start.wrapping_add(step) & mask)?;
            if slot as u32 == key {
                return Some((slot >> 32) as usize);
            }
            if slot == 0 {
                break;
            }
        }
        None
    }

    /// The addresses of the functions by number; 0 for one that has gone.
    pub fn ips(&self) -> &[usize] {
        &self.ips
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.slots).wrapping_add(size_of_val(&*self.ips))
    }
}

/// Returns the functions by number, once `new` ones have joined the `old`: those in `back`, which
/// is sorted by address, get the numbers that are beside them there, others get free numbers (0 in
/// `old`), or new ones.
///
/// # Errors
///
/// [`AllocError`] if there is no memory.
pub fn numbered(
    old: &[usize],
    new: impl Iterator<Item = usize>,
    back: &[(usize, usize)],
    is_free: impl Fn(usize) -> bool,
) -> Result<Vec<usize>, AllocError> {
    let mut ips = Vec::new();
    for ip in old {
        ips.push(*ip)?;
    }
    // The search goes on where it was: each number is looked at once.
    let mut numbers = 0..old.len();
    for ip in new {
        let known = back.binary_search_by_key(&ip, |(ip, _)| *ip).ok();
        let known = known.and_then(|index| Some(back.get(index)?.1));
        let number = known.or_else(|| {
            numbers.find(|number| {
                let is_kept = back.iter().any(|(_, kept)| kept == number);
                old.get(*number) == Some(&0) && !is_kept && is_free(*number)
            })
        });
        match number.and_then(|number| ips.get_mut(number)) {
            Some(slot) if *slot == 0 => *slot = ip,
            _ => ips.push(ip)?,
        }
    }
    Ok(ips)
}

/// The counts of a CPU for a function, written by that CPU only.
struct FunctionCounts {
    hits: Word,
    /// The time of the calls, in ticks of the clock.
    time: Word,
    /// The squares of their times, added up: the lower half first.
    squares: [Word; 2],
}

/// The counts of a CPU.
pub struct ProfileTable<P> {
    places: P,
    records: Vec<FunctionCounts>,
    /// The number of the session, in the upper half; it tells apart calls of different times.
    session: u64,
}

impl<P: Deref<Target = FunctionNumbers>> ProfileTable<P> {
    /// Makes a table for all functions of `places`. Calls that were entered in a table of another
    /// `session` are not known to it.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn new(places: P, session: u32) -> Result<Self, AllocError> {
        let mut records = Vec::new();
        for _ in 0..places.ips().len() {
            records.push(FunctionCounts {
                hits: Word::new(0),
                time: Word::new(0),
                squares: [Word::new(0), Word::new(0)],
            })?;
        }
        Ok(Self {
            places,
            records,
            session: u64::from(session) << 32,
        })
    }

    /// Counts a call of the function at `ip`. Returns the value that its return is to be counted
    /// by; `None` if the function has no number.
    ///
    /// To be called on the table's CPU, with preemption off.
    #[inline(always)]
    pub fn enter(&self, ip: u64) -> Option<u64> {
        let number = self.places.find(ip)?;
        self.records.get(number)?.hits.local_add(1);
        Some(self.session | number as u64)
    }

    /// Adds the time of a call, by the value that [`ProfileTable::enter`] returned. Calls of
    /// another session are ignored.
    ///
    /// To be called as [`ProfileTable::enter`]; the call may have been entered on another CPU.
    #[inline(always)]
    pub fn leave(&self, call: u64, time: u64) {
        // A call of another session gives no number of a function.
        if let Some(record) = self.records.get((call ^ self.session) as usize) {
            record.time.local_add(time);
            let time = u128::from(time);
            local_add_wide(&record.squares, time.wrapping_mul(time));
        }
    }

    /// The counts for the function with this number, inexact while counting goes on.
    pub fn totals(&self, number: usize) -> FunctionTotals {
        let Some(record) = self.records.get(number) else {
            return FunctionTotals::default();
        };
        let [low, high] = [&record.squares[0], &record.squares[1]].map(Word::load_relaxed);
        FunctionTotals {
            hits: record.hits.load_relaxed(),
            time: record.time.load_relaxed(),
            squares: u128::from(low) | (u128::from(high) << 64),
        }
    }

    /// The numbers of the functions.
    pub fn places(&self) -> &P {
        &self.places
    }

    /// Bytes of memory, without those of the numbers.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.records)
    }
}

/// The counts of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionTotals {
    /// Times that the function was entered.
    pub hits: u64,
    /// Time of all its calls that have returned.
    pub time: u64,
    /// The squares of these times, added up.
    pub squares: u128,
}

impl FunctionTotals {
    /// Adds the counts of `other`.
    pub fn plus(self, other: Self) -> Self {
        Self {
            hits: self.hits.wrapping_add(other.hits),
            time: self.time.wrapping_add(other.time),
            squares: self.squares.wrapping_add(other.squares),
        }
    }

    /// The time that a call took on average.
    pub fn average(&self) -> u64 {
        self.time.checked_div(self.hits).unwrap_or(0)
    }

    /// The sample variance: `1/(n * (n-1)) * (n * sum of squares - square of sum)`.
    pub fn variance(&self) -> u128 {
        let (Some(mean), Some(rest)) = (
            self.time.checked_div(self.hits),
            self.time.checked_rem(self.hits),
        ) else {
            return 0;
        };
        // The square of the sum, divided by n, in parts that do not overflow.
        let (time, rest) = (u128::from(self.time), u128::from(rest));
        let of_mean = u128::from(mean).saturating_mul(time.wrapping_add(rest));
        let of_rest = divide(rest.wrapping_mul(rest), self.hits);
        // The sums may be a call apart, so the differences saturate.
        let spread = self.squares.saturating_sub(of_mean).saturating_sub(of_rest);
        divide(spread, self.hits.wrapping_sub(1))
    }
}

/// Returns `value / by`, which the kernel has no function for; 0 if `by` is 0.
fn divide(value: u128, by: u64) -> u128 {
    let (high, low) = ((value >> 64) as u64, value as u64);
    let (Some(top), Some(mut rest)) = (high.checked_div(by), high.checked_rem(by)) else {
        return 0;
    };
    let top = u128::from(top) << 64;
    if rest == 0 {
        return top | u128::from(low.checked_div(by).unwrap_or(0));
    }
    let mut quotient = 0;
    for bit in (0..64).rev() {
        let carry = rest >> 63;
        rest = (rest << 1) | ((low >> bit) & 1);
        if carry != 0 || rest >= by {
            rest = rest.wrapping_sub(by);
            quotient |= 1 << bit;
        }
    }
    top | quotient
}

/// The lines above the columns.
pub const HEADER: &str = concat!(
    "  Function                               Hit    Time            Avg             s^2\n",
    "  --------                               ---    ----            ---             ---\n",
);

/// Columns of a function's name; the rest is cut off.
const NAME_WIDTH: usize = 30;

/// Writes the line of a function; `to_ns` says how many ns some ticks are.
pub fn write_row(
    out: &mut impl LineOutput,
    name: &[u8],
    totals: &FunctionTotals,
    to_ns: impl Fn(u64) -> u64,
) -> FmtResult {
    let square_to_ns = |square: u128| match u64::try_from(square) {
        Ok(square) => u128::from(to_ns(to_ns(square))),
        // Such a call takes a second and more: the lowest bits do not matter.
        Err(_) => u128::from(to_ns(to_ns((square >> 32).try_into().unwrap_or(u64::MAX)))) << 32,
    };
    // In us^2, with three decimals.
    let variance = divide(square_to_ns(totals.variance()), 1000);
    let name = name.get(..NAME_WIDTH).unwrap_or(name);
    let mut line = Line::new(out.room()?);
    line.blanks(2);
    line.push_all(name);
    line.blanks(NAME_WIDTH.saturating_sub(name.len()).saturating_add(2));
    line.long_number(totals.hits, 10, b' ');
    for ns in [
        to_ns(totals.time),
        to_ns(totals.average()),
        variance.try_into().unwrap_or(u64::MAX),
    ] {
        line.blanks(4);
        duration::write(&mut line, ns);
    }
    line.push(b'\n');
    let length = line.length();
    out.advance(length);
    Ok(())
}

/// Writes a function's address in place of a name that is not known any more.
pub fn write_address(out: &mut dyn Write, ip: usize) -> FmtResult {
    write!(out, "{ip:#x}")
}
