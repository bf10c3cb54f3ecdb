// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Profile, the extents of functions: whether an address on the stack is one of a function that is
//! counted.

use core::ops::Range;

use crate::platform::{AllocError, Vec};

/// The upper half of all text addresses.
const UPPER: u64 = 0xffff_ffff;

/// The addresses of functions.
///
/// # Invariants
///
/// They are in order.
pub struct Extents(Vec<Range<u32>>);

impl Extents {
    /// Makes that of no function.
    pub const fn new() -> Self {
        // INVARIANT: There is none.
        Self(Vec::new())
    }

    /// Makes that of functions whose ftrace locations are `ips`, in order; `extent` finds where one
    /// begins and ends.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn of(
        ips: &[usize],
        mut extent: impl FnMut(usize) -> Option<Range<usize>>,
    ) -> Result<Self, AllocError> {
        let mut extents: Vec<Range<u32>> = Vec::new();
        extents.reserve(ips.len())?;
        for ip in ips {
            let Some(Range { start, end }) = extent(*ip) else {
                continue;
            };
            // One may have two names of which the longer begins before.
            let least = extents.last().map_or(0, |last| last.end);
            let start = (start as u32).max(least);
            // INVARIANT: It begins behind the end of the last one.
            extents.push(start..(end as u32).max(start))?;
        }
        Ok(Self(extents))
    }

    /// Makes the same without the functions that begin at addresses in `gone`.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn without(&self, gone: &Range<usize>) -> Result<Self, AllocError> {
        let mut extents = Vec::new();
        let gone = gone.start as u32..gone.end as u32;
        for extent in self.0.iter().filter(|extent| !gone.contains(&extent.start)) {
            // INVARIANT: They are in the order that they were in.
            extents.push(extent.clone())?;
        }
        Ok(Self(extents))
    }

    /// Returns whether `address` is within a function. To be called in any context.
    pub fn contain(&self, address: u64) -> bool {
        let low = address as u32;
        // `partition_point` adds numbers, and would panic if the sum were too large: nothing that a
        // hook calls may do that.
        let (mut rest, mut last) = (&*self.0, None);
        while let Some((lower, upper)) = rest.split_at_checked(rest.len() / 2) {
            let Some((extent, after)) = upper.split_first() else {
                break;
            };
            rest = match extent.start <= low {
                true => {
                    last = Some(extent);
                    after
                }
                false => lower,
            };
        }
        address >> 32 == UPPER && last.is_some_and(|extent| extent.contains(&low))
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

/// Returns where the function at `address` begins and ends, by what the kernel says of it:
/// `name+0x4/0x1a0`, perhaps with more behind. `None` if that says no size.
pub fn extent_of(text: &[u8], address: usize) -> Option<Range<usize>> {
    let mut words = text.split(|byte| *byte == b' ');
    let place = words.next()?;
    let plus = place.iter().rposition(|byte| *byte == b'+')?;
    let place = core::str::from_utf8(place.get(plus.wrapping_add(1)..)?).ok()?;
    let (offset, size) = place.split_once('/')?;
    let number = |text: &str| usize::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let start = address.checked_sub(number(offset)?)?;
    Some(start..start.checked_add(number(size)?)?)
}
