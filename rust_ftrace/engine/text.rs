// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Text that grows.

use core::fmt::{self, Result, Write};

use super::line::{LineOutput, ROOM};
use crate::platform::Vec;

/// Bytes that there is room for once there is any.
const FIRST_ROOM: usize = 256;

/// Bytes in the making; writing fails only for want of memory.
///
/// # Invariants
///
/// `length` is at most the length of `room`.
pub struct Text {
    room: Vec<u8>,
    length: usize,
}

impl Text {
    /// Makes an empty text.
    pub const fn new() -> Self {
        // INVARIANT: Both are 0.
        Self {
            room: Vec::new(),
            length: 0,
        }
    }

    /// Removes all, but keeps the room.
    #[inline]
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Takes away all behind the first `length` bytes.
    pub fn truncate(&mut self, length: usize) {
        // INVARIANT: No longer than before.
        self.length = self.length.min(length);
    }

    /// Returns the bytes that were written.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.room.get(..self.length).unwrap_or_default()
    }

    /// Appends bytes, which need not be UTF-8.
    ///
    /// # Errors
    ///
    /// [`fmt::Error`](core::fmt::Error) if there is no memory; nothing is appended then.
    #[inline]
    pub fn push_bytes(&mut self, bytes: &[u8]) -> Result {
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
    fn grow(&mut self, least: usize) -> Result {
        let size = least.max(self.room.len().saturating_mul(2)).max(FIRST_ROOM);
        self.room.resize(size, 0).map_err(|_| fmt::Error)
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> Result {
        self.push_bytes(text.as_bytes())
    }
}

impl LineOutput for Text {
    fn write_bytes(&mut self, bytes: &[u8]) -> Result {
        self.push_bytes(bytes)
    }

    #[inline]
    fn room(&mut self) -> core::result::Result<&mut [u8; ROOM], fmt::Error> {
        let end = self.length.saturating_add(ROOM);
        if end > self.room.len() {
            self.grow(end)?;
        }
        let rest = self.room.get_mut(self.length..);
        rest.and_then(|rest| rest.first_chunk_mut())
            .ok_or(fmt::Error)
    }

    #[inline]
    fn advance(&mut self, length: usize) {
        // INVARIANT: Not beyond the end.
        self.length = self.length.saturating_add(length).min(self.room.len());
    }
}
