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

    /// Takes what was written, without white space around it.
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
        T::store(context, data.trim_ascii())
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

/// Parses a number, decimal or with a prefix as C knows them.
pub(super) fn parse_number<T: kernel::str::parse_int::ParseInt>(value: &[u8]) -> Result<T> {
    T::from_str(kernel::str::BStr::from_bytes(value))
}

/// Parses 0 or 1.
pub(super) fn parse_bool(value: &[u8]) -> Result<bool> {
    match parse_number::<u64>(value)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(EINVAL),
    }
}
