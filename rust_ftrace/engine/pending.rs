// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Words of a list for functions of modules that are not loaded (`name:mod:module`), kept until
//! they are.

use super::filter::Selector;
use crate::platform::{AllocError, Vec};

/// The words, the newest first.
pub struct PendingWords {
    /// The words, with a new line behind each.
    text: Vec<u8>,
}

impl PendingWords {
    /// No words.
    pub const fn new() -> Self {
        Self { text: Vec::new() }
    }

    /// Returns whether there are no words.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The words, with a new line behind each.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Iterates over the words.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.text
            .split(|&byte| byte == b'\n')
            .filter(|word| !word.is_empty())
    }

    fn push(&mut self, word: &[u8]) -> Result<(), AllocError> {
        for byte in word.iter().chain(b"\n") {
            self.text.push(*byte)?;
        }
        Ok(())
    }

    /// Returns the words for which `keeps` is true.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn filtered(&self, keeps: impl Fn(&[u8]) -> bool) -> Result<Self, AllocError> {
        let mut new = Self::new();
        for word in self.iter().filter(|word| keeps(word)) {
            new.push(word)?;
        }
        Ok(new)
    }

    /// Returns these words and `word`, once.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn with(&self, word: &[u8]) -> Result<Self, AllocError> {
        let mut new = Self::new();
        new.push(word)?;
        for other in self.iter().filter(|other| *other != word) {
            new.push(other)?;
        }
        Ok(new)
    }

    /// Returns these words without those that `selector` takes out: of the same module, and of the
    /// same names, or of all if its names are `*`. `None` if there are none to take out.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn without(&self, selector: &Selector<'_>) -> Result<Option<Self>, AllocError> {
        let is_meant = |word: &[u8]| {
            Selector::parse(word).is_ok_and(|old| {
                old.module == selector.module
                    && (selector.names == b"*" || old.names == selector.names)
            })
        };
        match self.iter().any(is_meant) {
            true => self.filtered(|word| !is_meant(word)).map(Some),
            false => Ok(None),
        }
    }
}

/// Returns whether `word` waits for `module`.
pub fn waits_for(word: &[u8], module: &[u8]) -> bool {
    Selector::parse(word).is_ok_and(|selector| selector.is_of_module(module))
}
