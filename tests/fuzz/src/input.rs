// SPDX-License-Identifier: GPL-2.0

//! The fuzzer's bytes as numbers. A run ends where they end.

/// Bytes that were not used yet.
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        Some(u8::from_le_bytes(self.take()?))
    }

    pub(crate) fn half(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take()?))
    }

    pub(crate) fn word(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take()?))
    }

    /// Returns so many bytes, or as many as there are.
    pub(crate) fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (first, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        first
    }
}
