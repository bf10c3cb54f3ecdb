// SPDX-License-Identifier: GPL-2.0

//! `free_buffer`: takes anything, and has its effect when nobody has it open any more.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::attribute::Once;
use super::context::FileContext;
use super::no_events::Nothing;
use crate::instance::free_buffer::Holder;
use crate::sys::debugfs::{File, OpenMode};

/// `free_buffer`.
pub(super) struct FreeBuffer {
    // (goes when the file is closed, by whomever)
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
