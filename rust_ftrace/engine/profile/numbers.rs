// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Profile, the numbers of functions, by which all that is counted for them is found.

use crate::platform::{AllocError, Vec};

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

    /// The number of the function at `ip`, if it is in the first slot that it can be in.
    #[inline(always)]
    pub fn find_first(&self, ip: u64) -> Option<usize> {
        let key = ip as u32;
        let slot = *self.slots.get(self.start(key))?;
        (slot as u32 == key).then_some((slot >> 32) as usize)
    }

    /// The number of the function at `ip`.
    pub fn find(&self, ip: u64) -> Option<usize> {
        let key = ip as u32;
        let start = self.start(key);
        let mask = self.slots.len().wrapping_sub(1);
        for step in 0..self.slots.len() {
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
