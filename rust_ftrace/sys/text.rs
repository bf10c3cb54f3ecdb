// SPDX-License-Identifier: GPL-2.0

//! Text that grows.

use core::fmt;

use kernel::prelude::*;

/// Bytes in the making; writing fails only for want of memory.
pub(crate) struct Text(KVVec<u8>);

impl Text {
    /// No text.
    pub(crate) const fn new() -> Self {
        Self(KVVec::new())
    }

    /// Removes all, but keeps the room.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Takes away all behind the first `length` bytes.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.0.truncate(length);
    }

    /// What was written.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Appends bytes, which need not be UTF-8.
    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) -> fmt::Result {
        self.0
            .extend_from_slice(bytes, GFP_KERNEL)
            .map_err(|_| fmt::Error)
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push_bytes(text.as_bytes())
    }
}
