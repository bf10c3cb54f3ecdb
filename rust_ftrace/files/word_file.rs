// SPDX-License-Identifier: GPL-2.0

//! Files that take words: lists that `>` replaces and `>>` adds to.

use kernel::prelude::*;

use crate::engine::filter::is_space;
use crate::sys::debugfs::OpenMode;

/// Longest word that is put together from several writes, in bytes.
const MAX_WORD: usize = 1024;

/// The words of one writer so far.
pub(super) struct Writing {
    /// The first words replace the list: it was opened with O_TRUNC.
    replace: bool,
    /// Something was refused, so closing the file does not clear the list.
    refused: bool,
    /// A word whose end did not come yet.
    rest: KVVec<u8>,
}

impl Writing {
    /// Nothing yet.
    pub(super) fn new(mode: OpenMode) -> Self {
        Self {
            replace: mode.writable && mode.truncate,
            refused: false,
            rest: KVVec::new(),
        }
    }

    /// Takes what was written: calls `edit` with the words that have come to their end, and whether
    /// they replace the list. A word that has not, and that nothing can make good by what
    /// `is_beginning` says, is among them, for `edit` to refuse.
    ///
    /// # Errors
    ///
    /// - `EINVAL` for a word that is too long.
    /// - `ENOMEM` if there is no memory.
    /// - Those of `edit`.
    pub(super) fn write(
        &mut self,
        data: &[u8],
        is_beginning: impl FnOnce(&[u8]) -> bool,
        edit: impl FnOnce(&[u8], bool) -> Result,
    ) -> Result {
        let result = self.take(data, is_beginning, edit);
        if result.is_err() {
            self.refused = true;
            self.rest.clear();
        }
        result
    }

    fn take(
        &mut self,
        data: &[u8],
        is_beginning: impl FnOnce(&[u8]) -> bool,
        edit: impl FnOnce(&[u8], bool) -> Result,
    ) -> Result {
        let mut text = core::mem::replace(&mut self.rest, KVVec::new());
        text.extend_from_slice(data, GFP_KERNEL)?;
        // Words may be cut in two by writes; a word is taken when its end is there.
        let end = text
            .iter()
            .rposition(|&byte| is_space(byte))
            .map_or(0, |last| last + 1);
        let (mut whole, mut rest) = text.split_at_checked(end).unwrap_or_default();
        if rest.len() > MAX_WORD {
            return Err(EINVAL);
        }
        if !is_beginning(rest) {
            (whole, rest) = (&text, &[]);
        }
        let mut kept = KVVec::new();
        kept.extend_from_slice(rest, GFP_KERNEL)?;
        if !whole.is_empty() {
            edit(whole, self.replace)?;
            self.replace = false;
        }
        self.rest = kept;
        Ok(())
    }

    /// The file is closed: calls `edit` with the last word, or to clear the list.
    pub(super) fn finish(&mut self, edit: impl FnOnce(&[u8], bool) -> Result) {
        let rest = core::mem::replace(&mut self.rest, KVVec::new());
        if !rest.is_empty() || (self.replace && !self.refused) {
            // `close()` cannot report an error; the error log has it, if it was for a word.
            let _ = edit(&rest, self.replace);
        }
    }
}
