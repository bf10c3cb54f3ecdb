// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Sets of functions, by the addresses of their ftrace locations.

use crate::platform::{AllocError, Vec};

/// A set of addresses.
///
/// # Invariants
///
/// `ips` is sorted, and no address is there twice.
pub struct FunctionSet {
    ips: Vec<usize>,
}

impl FunctionSet {
    /// Makes an empty set.
    pub const fn new() -> Self {
        Self { ips: Vec::new() }
    }

    /// Makes a set of addresses that come in ascending order; others are left out.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn from_sorted(ips: impl Iterator<Item = usize>) -> Result<Self, AllocError> {
        let mut set = Self::new();
        for ip in ips {
            // INVARIANT: Only an address that is larger than the last one is taken.
            if set.ips.last().is_none_or(|&last| last < ip) {
                set.ips.push(ip)?;
            }
        }
        Ok(set)
    }

    /// Adds an address that comes after all others; another one is left out.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn append(&mut self, ip: usize) -> Result<(), AllocError> {
        // INVARIANT: Only an address that is larger than the last one is taken.
        match self.ips.last().is_none_or(|&last| last < ip) {
            true => self.ips.push(ip),
            false => Ok(()),
        }
    }

    /// Returns the addresses, in ascending order.
    pub fn as_slice(&self) -> &[usize] {
        &self.ips
    }

    /// Returns the number of functions.
    pub fn len(&self) -> usize {
        self.ips.len()
    }

    /// Returns whether there are no functions.
    pub fn is_empty(&self) -> bool {
        self.ips.is_empty()
    }

    /// Returns whether `ip` is in the set.
    pub fn contains(&self, ip: usize) -> bool {
        self.ips.binary_search(&ip).is_ok()
    }

    /// Returns the union of this set and `other`.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn union(&self, other: &Self) -> Result<Self, AllocError> {
        let (mut left, mut right) = (self.as_slice(), other.as_slice());
        let merged = core::iter::from_fn(|| match (left.split_first(), right.split_first()) {
            (Some((&a, rest)), Some((&b, _))) if a <= b => {
                left = rest;
                Some(a)
            }
            (_, Some((&b, rest))) => {
                right = rest;
                Some(b)
            }
            (Some((&a, rest)), None) => {
                left = rest;
                Some(a)
            }
            (None, None) => None,
        });
        Self::from_sorted(merged)
    }

    /// Returns the functions of this set that are not in `other`.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn difference(&self, other: &Self) -> Result<Self, AllocError> {
        let kept = self.ips.iter().copied().filter(|&ip| !other.contains(ip));
        Self::from_sorted(kept)
    }

    /// Takes out the addresses in `range`. Returns whether there were any.
    pub fn remove_range(&mut self, range: &core::ops::Range<usize>) -> bool {
        let before = self.len();
        self.ips.retain(|ip| !range.contains(ip));
        self.len() != before
    }

    /// Returns a copy of the set.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn duplicate(&self) -> Result<Self, AllocError> {
        let mut ips = Vec::new();
        ips.extend_from_slice(&self.ips)?;
        // INVARIANT: The addresses are those of this set.
        Ok(Self { ips })
    }

    /// Returns the bytes of memory that this takes.
    pub fn bytes(&self) -> usize {
        self.ips.capacity() * size_of::<usize>()
    }
}
