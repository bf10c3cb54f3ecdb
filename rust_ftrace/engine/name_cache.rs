// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A cache of names of addresses: in the kernel a look-up costs thousands of instructions, and
//! traces name the same functions again and again.

use core::ops::Range;

use crate::platform::{AllocError, Vec};

/// Places of the first table.
const FIRST_PLACES: usize = 256;

/// Most places: three quarters of them hold the names of all functions of a usual kernel.
const MAX_PLACES: usize = 1 << 16;

/// An address and the place of its name.
#[derive(Clone, Copy, Default)]
struct NamePlace {
    /// The address; 0 if the place is free.
    address: u64,
    start: u32,
    length: u32,
}

/// A hash table of names.
///
/// # Invariants
///
/// - `places` has none or a power of two, at most [`MAX_PLACES`], a quarter of which are free.
/// - Between the place that an address hashes to and the one it is at, none is free.
pub struct NameCache {
    places: Vec<NamePlace>,
    used: usize,
    /// The names, one behind the other.
    text: Vec<u8>,
}

impl NameCache {
    /// An empty cache.
    pub const fn new() -> Self {
        Self {
            places: Vec::new(),
            used: 0,
            text: Vec::new(),
        }
    }

    /// The place where the search for `address` begins.
    fn hash(address: u64) -> usize {
        (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
    }

    /// Finds the name that was kept for `address`; [`NameCache::text`] has it.
    pub fn find(&self, address: u64) -> Option<Range<usize>> {
        let mask = self.places.len().wrapping_sub(1);
        let mut index = Self::hash(address);
        loop {
            let place = self.places.get(index & mask)?;
            if place.address == 0 {
                return None;
            }
            if place.address == address {
                let start = place.start as usize;
                return Some(start..start.wrapping_add(place.length as usize));
            }
            index = index.wrapping_add(1);
        }
    }

    /// The text of a name that was found, and is still kept.
    pub fn text(&self, found: Range<usize>) -> &[u8] {
        self.text.get(found).unwrap_or_default()
    }

    /// Keeps the name of an address that has none here, unless there are too many already.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory; the cache is as before then.
    pub fn keep(&mut self, address: u64, name: &[u8]) -> Result<(), AllocError> {
        if self.used >= self.places.len() / 4 * 3 {
            if self.places.len() == MAX_PLACES {
                return Ok(());
            }
            self.grow()?;
        }
        let (Ok(start), Ok(length)) = (self.text.len().try_into(), name.len().try_into()) else {
            return Ok(());
        };
        if address == 0 {
            return Ok(());
        }
        for byte in name {
            self.text.push(*byte)?;
        }
        // INVARIANT: One place less is free, and more than a quarter were.
        Self::put(
            &mut self.places,
            NamePlace {
                address,
                start,
                length,
            },
        );
        self.used += 1;
        Ok(())
    }

    /// Forgets all names, but keeps the memory.
    pub fn clear(&mut self) {
        if self.used != 0 {
            self.places.fill(NamePlace::default());
        }
        self.text.clear();
        self.used = 0;
    }

    /// Makes the table twice as large.
    fn grow(&mut self) -> Result<(), AllocError> {
        let mut places = Vec::new();
        for _ in 0..(self.places.len() * 2).max(FIRST_PLACES) {
            places.push(NamePlace::default())?;
        }
        for place in self.places.iter().filter(|place| place.address != 0) {
            Self::put(&mut places, *place);
        }
        self.places = places;
        Ok(())
    }

    /// Puts `new` at the first free place from where its address hashes to.
    fn put(places: &mut [NamePlace], new: NamePlace) {
        let mask = places.len().wrapping_sub(1);
        let mut index = Self::hash(new.address) & mask;
        while let Some(place) = places.get_mut(index) {
            if place.address == 0 {
                *place = new;
                return;
            }
            index = (index + 1) & mask;
        }
    }
}
