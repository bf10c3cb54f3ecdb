// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A buffer of text that grows.

use std::fmt;

use rftrace_engine::engine::line::{LineOutput, ROOM};

/// Bytes in the making, with room behind them.
///
/// # Invariants
///
/// `length` is at most the length of `room`.
#[derive(Debug, Default)]
pub struct TextBuffer {
    room: Vec<u8>,
    length: usize,
}

impl TextBuffer {
    /// Returns the bytes that were written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.room[..self.length]
    }

    /// Removes all bytes, but keeps the room.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    fn reserve(&mut self, more: usize) {
        let end = self.length + more;
        if end > self.room.len() {
            self.room.resize(end.max(2 * self.room.len()), 0);
        }
    }
}

impl fmt::Write for TextBuffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.write_bytes(text.as_bytes())
    }
}

impl LineOutput for TextBuffer {
    fn write_bytes(&mut self, bytes: &[u8]) -> fmt::Result {
        self.reserve(bytes.len());
        self.room[self.length..][..bytes.len()].copy_from_slice(bytes);
        // INVARIANT: There was room.
        self.length += bytes.len();
        Ok(())
    }

    fn room(&mut self) -> Result<&mut [u8; ROOM], fmt::Error> {
        self.reserve(ROOM);
        let room = self.room.get_mut(self.length..);
        room.and_then(|room| room.first_chunk_mut())
            .ok_or(fmt::Error)
    }

    fn advance(&mut self, length: usize) {
        // INVARIANT: Never past the room.
        self.length = (self.length + length).min(self.room.len());
    }
}
