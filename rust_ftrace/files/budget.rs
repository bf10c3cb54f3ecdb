// SPDX-License-Identifier: GPL-2.0

//! The file `budget`.

use core::fmt::Write;

use kernel::prelude::*;

use super::attribute::{no_memory, Attribute};
use super::context::FileContext;
use crate::engine::text::Text;

/// `budget`.
pub(super) struct BudgetFile;

impl Attribute for BudgetFile {
    fn show(context: &FileContext, text: &mut Text) -> Result {
        let (limits, measured) = context.instance.recording().budget();
        let mut write = || {
            writeln!(text, "calls {}", limits.calls)?;
            writeln!(text, "cpu {}", limits.cpu)?;
            text.write_str("# ")?;
            match measured {
                Some(measured) => measured.write(text)?,
                None => text.write_str("nothing was measured yet")?,
            }
            text.write_str("\n")
        };
        write().map_err(no_memory)
    }

    fn store(context: &FileContext, value: &[u8]) -> Result {
        context.instance.edit_budget(value)
    }
}
