// SPDX-License-Identifier: GPL-2.0

//! Names of kernel addresses.
//!
//! C header: [`include/linux/kallsyms.h`](srctree/include/linux/kallsyms.h)

use kernel::bindings;
use kernel::prelude::*;

use crate::platform::Vec;

/// Longest text that `sprint_symbol` writes, as KSYM_SYMBOL_LEN bounds it.
const SYMBOL_TEXT: usize = 1024;

/// Room for the text of a symbol.
pub(crate) struct SymbolText(Vec<u8>);

impl SymbolText {
    /// Allocates the room.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is none.
    pub(crate) fn new() -> Result<Self> {
        let mut room = Vec::new();
        room.resize(SYMBOL_TEXT, 0)?;
        Ok(Self(room))
    }

    /// The name of the function at `address`, as `name` or `name [module]`; `0x` and hex digits if
    /// it has none.
    pub(crate) fn look_up(&mut self, address: u64) -> &[u8] {
        let buffer = self.0.as_mut_ptr().cast::<c_char>();
        // SAFETY: `buffer` has room for the longest symbol text.
        let length = unsafe { bindings::sprint_symbol_no_offset(buffer, address as c_ulong) };
        self.0.get(..length.max(0) as usize).unwrap_or_default()
    }

    /// The name with offset and size, as `name+0x12/0x34` or `name+0x12/0x34 [module]`.
    pub(crate) fn look_up_place(&mut self, address: u64) -> &[u8] {
        let buffer = self.0.as_mut_ptr().cast::<c_char>();
        // SAFETY: `buffer` has room for the longest symbol text.
        let length = unsafe { bindings::sprint_symbol(buffer, address as c_ulong) };
        self.0.get(..length.max(0) as usize).unwrap_or_default()
    }
}

const _: () = assert!(SYMBOL_TEXT >= bindings::KSYM_NAME_LEN as usize + 256);
