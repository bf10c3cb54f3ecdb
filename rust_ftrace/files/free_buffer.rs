// SPDX-License-Identifier: GPL-2.0

//! The file `free_buffer`: it takes anything, and acts when it is open no more.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::attribute::Once;
use super::context::FileContext;
use super::no_events::Nothing;
use crate::instance::free_buffer::Holder;
use crate::sys::debugfs::{File, OpenMode};

/// `free_buffer`.
pub(super) struct FreeBuffer {
    // Dropped when the file is closed.
    _holder: Holder,
}

impl File for FreeBuffer {
    type Context = FileContext;
    type Records = Once<Nothing>;

    fn open(context: &Arc<FileContext>, _mode: OpenMode) -> Result<Self> {
        Ok(Self {
            _holder: Holder::new(&context.instance)?,
        })
    }

    fn records(&self, context: &Arc<FileContext>) -> Self::Records {
        Once::new(context)
    }

    fn write(&self, _context: &FileContext, _data: &[u8]) -> Result {
        Ok(())
    }
}
