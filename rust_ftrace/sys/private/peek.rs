// SPDX-License-Identifier: GPL-2.0

//! Reads memory whose layout is assumed, so that a wrong assumption is found and does no harm.

use crate::sys::code;

/// The word at `address` of the kernel; `None` if there is none.
pub(super) fn word(address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    code::read(address, &mut bytes).then(|| u64::from_ne_bytes(bytes))
}

/// The word `offset` bytes behind `address`; `None` if `address` is 0, or there is none.
pub(super) fn field(address: u64, offset: usize) -> Option<u64> {
    word(
        address
            .checked_add(offset as u64)
            .filter(|_| address != 0)?,
    )
}
