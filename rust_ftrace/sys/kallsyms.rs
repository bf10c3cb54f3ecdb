// SPDX-License-Identifier: GPL-2.0

//! The kernel's own list of its symbols, as `/proc/kallsyms` shows it.

use kernel::prelude::*;

use super::private::{read_lines, KernelFile};

/// Calls `user` with address, name and module of every symbol in a text section, in another thread:
/// it must not need a lock that the caller holds.
///
/// Addresses are 0 if no task may see them (`kernel.kptr_restrict` is 2).
///
/// # Errors
///
/// Those of [`read_lines`].
pub(crate) fn for_each_function(
    mut user: impl FnMut(usize, &[u8], Option<&[u8]>) + Send,
) -> Result {
    read_lines(KernelFile::Kallsyms, |line| {
        // `ffffffff81000000 t name`, or with a tab and `[module]` behind.
        let mut words = line.split(|&byte| byte == b' ' || byte == b'\t');
        let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next())
        else {
            return Err(EINVAL);
        };
        // `__pfx_` is the padding before a function.
        if !matches!(kind, b"t" | b"T" | b"w" | b"W") || name.starts_with(b"__pfx_") {
            return Ok(());
        }
        let module = words
            .next()
            .and_then(|word| word.strip_prefix(b"["))
            .and_then(|word| word.strip_suffix(b"]"));
        let address = core::str::from_utf8(address).map_err(|_| EINVAL)?;
        let address = usize::from_str_radix(address, 16).map_err(|_| EINVAL)?;
        user(address, name, module);
        Ok(())
    })
}
