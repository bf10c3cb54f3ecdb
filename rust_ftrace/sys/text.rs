// SPDX-License-Identifier: GPL-2.0

//! Text that grows.

use core::fmt;

use kernel::prelude::*;

use crate::engine::line::{LineOutput, ROOM};

/// Bytes that there is room for once there is any.
const FIRST_ROOM: usize = 256;

/// Bytes in the making; writing fails only for want of memory.
///
/// # Invariants
///
/// `length` is at most the length of `room`.
pub(crate) struct Text {
    room: KVVec<u8>,
    length: usize,
}

impl Text {
    /// No text.
    pub(crate) const fn new() -> Self {
        // INVARIANT: Both are 0.
        Self {
            room: KVVec::new(),
            length: 0,
        }
    }

    /// Removes all, but keeps the room.
    pub(crate) fn clear(&mut self) {
        self.length = 0;
    }

    /// Takes away all behind the first `length` bytes.
    pub(crate) fn truncate(&mut self, length: usize) {
        // INVARIANT: No longer than before.
        self.length = self.length.min(length);
    }

    /// The bytes that were written.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.room.get(..self.length).unwrap_or_default()
    }

    /// Appends bytes, which need not be UTF-8.
    ///
    /// # Errors
    ///
    /// [`fmt::Error`] if there is no memory; nothing is appended then.
    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) -> fmt::Result {
        let end = self.length.saturating_add(bytes.len());
        if end > self.room.len() {
            self.grow(end)?;
        }
        let room = self.room.get_mut(self.length..end).ok_or(fmt::Error)?;
        room.copy_from_slice(bytes);
        // INVARIANT: There was room.
        self.length = end;
        Ok(())
    }

    #[cold]
    fn grow(&mut self, least: usize) -> fmt::Result {
        let size = least.max(self.room.len().saturating_mul(2)).max(FIRST_ROOM);
        self.room
            .resize(size, 0, GFP_KERNEL)
            .map_err(|_| fmt::Error)
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push_bytes(text.as_bytes())
    }
}

impl LineOutput for Text {
    fn write_bytes(&mut self, bytes: &[u8]) -> fmt::Result {
        self.push_bytes(bytes)
    }

    fn room(&mut self) -> core::result::Result<&mut [u8; ROOM], fmt::Error> {
        let end = self.length.saturating_add(ROOM);
        if end > self.room.len() {
            self.grow(end)?;
        }
        let rest = self.room.get_mut(self.length..);
        rest.and_then(|rest| rest.first_chunk_mut())
            .ok_or(fmt::Error)
    }

    fn advance(&mut self, length: usize) {
        // INVARIANT: Not beyond the end.
        self.length = self.length.saturating_add(length).min(self.room.len());
    }
}
