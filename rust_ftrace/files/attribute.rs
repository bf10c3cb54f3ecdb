// SPDX-License-Identifier: GPL-2.0

//! Attribute files: they show one text, if any, and take one value at a time.

use core::marker::PhantomData;

use kernel::prelude::*;
use kernel::sync::Arc;

use super::context::FileContext;
use crate::engine::parse::ParseError;
use crate::engine::text::Text;
use crate::sys::debugfs::{File, OpenMode, Records};

/// The behaviour of an attribute file.
pub(super) trait Attribute: Send + Sync + Unpin + 'static {
    /// Writes the text; an implementation without this shows none.
    fn show(_context: &FileContext, _text: &mut Text) -> Result {
        Ok(())
    }

    /// Takes the value that was written.
    fn store(_context: &FileContext, _value: &[u8]) -> Result {
        Err(EINVAL)
    }

    /// Takes a part of the text that was written, and returns the part's length.
    fn store_some(context: &FileContext, value: &[u8]) -> Result<usize> {
        Self::store(context, value)?;
        Ok(value.len())
    }
}

/// The file of an [`Attribute`].
pub(super) struct AttributeFile<T>(PhantomData<T>);

impl<T: Attribute> File for AttributeFile<T> {
    type Context = FileContext;
    type Records = Once<T>;

    fn open(_context: &Arc<FileContext>, _mode: OpenMode) -> Result<Self> {
        Ok(Self(PhantomData))
    }

    fn records(&self, context: &Arc<FileContext>) -> Once<T> {
        Once::new(context)
    }

    fn write_some(&self, context: &FileContext, data: &[u8]) -> Result<usize> {
        T::store_some(context, data)
    }
}

/// A text of one record.
pub(super) struct Once<T> {
    context: Arc<FileContext>,
    done: bool,
    _shows: PhantomData<T>,
}

impl<T> Once<T> {
    /// Makes a text that was not read yet.
    pub(super) fn new(context: &Arc<FileContext>) -> Self {
        Self {
            context: context.clone(),
            done: false,
            _shows: PhantomData,
        }
    }
}

impl<T: Attribute> Records for Once<T> {
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

/// The error of formatting into a [`Text`].
pub(super) fn no_memory(_: core::fmt::Error) -> Error {
    ENOMEM
}

impl From<ParseError> for Error {
    fn from(error: ParseError) -> Self {
        match error {
            ParseError::Invalid => EINVAL,
            ParseError::Range => ERANGE,
        }
    }
}
