// SPDX-License-Identifier: GPL-2.0

//! Files that show one text, and take one value at a time.

use core::marker::PhantomData;

use kernel::prelude::*;
use kernel::sync::Arc;

use super::Context;
use crate::sys::debugfs::{File, OpenMode, Records};
use crate::sys::text::Text;

/// What such a file shows and takes.
pub(super) trait Small: Send + Sync + Unpin + 'static {
    /// Writes the text.
    fn show(context: &Context, text: &mut Text) -> Result;

    /// Takes what was written.
    fn store(_context: &Context, _value: &[u8]) -> Result {
        Err(EINVAL)
    }
}

/// The file of a [`Small`].
pub(super) struct SmallFile<T>(PhantomData<T>);

impl<T: Small> File for SmallFile<T> {
    type Context = Context;
    type Records = Once<T>;

    fn open(_context: &Arc<Context>, _mode: OpenMode) -> Result<Self> {
        Ok(Self(PhantomData))
    }

    fn records(&self, context: &Arc<Context>) -> Once<T> {
        Once {
            context: context.clone(),
            done: false,
            _shows: PhantomData,
        }
    }

    fn write(&self, context: &Context, data: &[u8]) -> Result {
        T::store(context, data)
    }
}

/// A text of one record.
pub(super) struct Once<T> {
    context: Arc<Context>,
    done: bool,
    _shows: PhantomData<T>,
}

impl<T: Small> Records for Once<T> {
    fn rewind(&mut self) -> Result {
        self.done = false;
        Ok(())
    }

    fn next(&mut self, text: &mut Text) -> Result<bool> {
        if core::mem::replace(&mut self.done, true) {
            return Ok(false);
        }
        T::show(&self.context, text)?;
        Ok(true)
    }
}

/// What formatting into a [`Text`] can fail with.
pub(super) fn no_memory(_: core::fmt::Error) -> Error {
    ENOMEM
}

/// Parses a decimal number as `kstrtoul()` does: a sign or nothing, digits, at most one new line.
///
/// # Errors
///
/// - `EINVAL` if it is none.
/// - `ERANGE` if it does not fit.
pub(super) fn parse_number(value: &[u8]) -> Result<u64> {
    let value = value.split(|&byte| byte == 0).next().unwrap_or_default();
    let value = value.strip_suffix(b"\n").unwrap_or(value);
    let digits = value.strip_prefix(b"+").unwrap_or(value);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(EINVAL);
    }
    digits
        .iter()
        .try_fold(0u64, |number, digit| {
            number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        })
        .ok_or(ERANGE)
}

/// Parses 0 or 1.
pub(super) fn parse_bool(value: &[u8]) -> Result<bool> {
    match parse_number(value)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(EINVAL),
    }
}

/// A word without the white space, or the end of a C string, around it.
pub(super) fn parse_word(value: &[u8]) -> &[u8] {
    let value = value.split(|&byte| byte == 0).next().unwrap_or_default();
    value.trim_ascii()
}
