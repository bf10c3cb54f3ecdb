// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A cache of what was read of modules, by their names. Few modules are asked for at a time, so it
//! is a list.

use crate::platform::{AllocError, Vec};

/// The data read of a module.
struct Read<T> {
    module: Vec<u8>,
    /// `None` if there is nothing.
    value: Option<T>,
    bytes: usize,
}

/// The data read of modules, that which was kept longest first.
///
/// # Invariants
///
/// - No module is there twice.
/// - The values take at most `most` bytes, or all but one of them take none.
pub struct ModuleCache<T> {
    kept: Vec<Read<T>>,
    most: usize,
}

impl<T: Clone> ModuleCache<T> {
    /// An empty cache for at most so many bytes of values, or a single greater one.
    pub const fn new(most: usize) -> Self {
        Self {
            kept: Vec::new(),
            most,
        }
    }

    /// Returns what was read of `module`; `Some(None)` if it has nothing, `None` if that is not
    /// known.
    pub fn find(&self, module: &[u8]) -> Option<Option<T>> {
        let mut kept = self.kept.iter();
        let found = kept.find(|read| *read.module == *module)?;
        Some(found.value.clone())
    }

    /// Keeps what was read of `module`, and its size; gives up what was kept longest, as far as
    /// there is too much.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory; what was kept stays.
    pub fn keep(
        &mut self,
        module: &[u8],
        value: Option<T>,
        bytes: usize,
    ) -> Result<(), AllocError> {
        let mut name = Vec::new();
        name.extend_from_slice(module)?;
        self.kept.push(Read {
            module: name,
            value,
            bytes,
        })?;
        // INVARIANT: What is too much is taken off from the first on, but for the last; and of
        // this name only the last stays.
        self.retain_but_last(|read| *read.module != *module);
        let mut excess = self.bytes().saturating_sub(self.most);
        self.retain_but_last(|read| {
            let goes = excess != 0 && read.bytes != 0;
            excess = excess.saturating_sub(if goes { read.bytes } else { 0 });
            !goes
        });
        Ok(())
    }

    fn retain_but_last(&mut self, mut stays: impl FnMut(&Read<T>) -> bool) {
        let mut left = self.kept.len();
        self.kept.retain(|read| {
            left -= 1;
            left == 0 || stays(read)
        });
    }

    /// Forgets `module`.
    pub fn forget(&mut self, module: &[u8]) {
        self.kept.retain(|read| *read.module != *module);
    }

    /// Returns the number of modules of which there is something.
    pub fn count(&self) -> usize {
        self.kept.iter().filter(|read| read.value.is_some()).count()
    }

    /// Returns the bytes that the values take.
    pub fn bytes(&self) -> usize {
        self.kept.iter().map(|read| read.bytes).sum()
    }
}
