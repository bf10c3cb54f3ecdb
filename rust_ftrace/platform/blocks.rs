// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The division of a fixed piece of memory into blocks, for where no other memory can be had. This
//! knows places, and not the memory itself.

/// Sizes of blocks are powers of two: the smallest, and how many sizes there are.
const SMALLEST: u32 = 6;
const SIZES: usize = 20;

/// Most free blocks of a size that are remembered; others are given out no more.
const REMEMBERED: usize = 16;

/// Blocks of a page and more begin at a page.
const PAGE: usize = 4096;

/// Free blocks of one size.
///
/// # Invariants
///
/// The first `count` of `places` are those of blocks that were given out, and back.
#[derive(Clone, Copy)]
struct FreeBlocks {
    places: [u32; REMEMBERED],
    count: usize,
}

/// A piece of memory and the blocks of it that are given out.
///
/// # Invariants
///
/// What is given out lies below `end`, which is at most `size`, and no two blocks overlap.
pub struct Blocks {
    size: usize,
    end: usize,
    free: [FreeBlocks; SIZES],
}

impl Blocks {
    /// Makes the division of `size` bytes, of which nothing is given out yet.
    pub const fn new(size: usize) -> Self {
        // INVARIANT: Nothing is given out.
        Self {
            size,
            end: 0,
            free: [FreeBlocks {
                places: [0; REMEMBERED],
                count: 0,
            }; SIZES],
        }
    }

    /// Takes all back that was given out.
    pub fn reset(&mut self) {
        // INVARIANT: Nothing is given out any more.
        self.end = 0;
        for free in &mut self.free {
            free.count = 0;
        }
    }

    /// Returns the index of the size that `bytes` take, and that size.
    fn size_of(bytes: usize) -> Option<(usize, usize)> {
        let size = bytes.checked_next_power_of_two()?.max(1 << SMALLEST);
        let index = size.trailing_zeros().wrapping_sub(SMALLEST) as usize;
        (index < SIZES).then_some((index, size))
    }

    /// Returns the bytes that a block of so many takes, with what may be lost before it.
    pub fn bytes_for(bytes: usize) -> usize {
        let size = Self::size_of(bytes).map_or(bytes, |(_, size)| size);
        size.saturating_add(size.min(PAGE))
    }

    /// Returns whether a block has room for both numbers of bytes.
    pub fn are_alike(bytes: usize, others: usize) -> bool {
        Self::size_of(bytes) == Self::size_of(others)
    }

    /// Gives out a block of so many bytes: returns its place, a multiple of its size or of 4096;
    /// `None` if there is no room.
    pub fn take(&mut self, bytes: usize) -> Option<usize> {
        let (index, size) = Self::size_of(bytes)?;
        let free = self.free.get_mut(index)?;
        if let Some(last) = free.count.checked_sub(1) {
            // INVARIANT: Those before it are still there; the block was given back.
            free.count = last;
            return free.places.get(last).map(|&place| place as usize);
        }
        let place = self.end.checked_next_multiple_of(size.min(PAGE))?;
        let end = place.checked_add(size)?;
        if end > self.size {
            return None;
        }
        // INVARIANT: The block lies behind all others, and below the new end.
        self.end = end;
        Some(place)
    }

    /// Takes the block back that was given out at `place` for so many bytes.
    pub fn give_back(&mut self, place: usize, bytes: usize) {
        let Some((index, _)) = Self::size_of(bytes) else {
            return;
        };
        let Some(free) = self.free.get_mut(index) else {
            return;
        };
        let Ok(place) = place.try_into() else {
            return;
        };
        if let Some(room) = free.places.get_mut(free.count) {
            // INVARIANT: One more block that was given out, and back.
            *room = place;
            free.count += 1;
        }
    }
}
