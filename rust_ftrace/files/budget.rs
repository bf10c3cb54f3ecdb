// SPDX-License-Identifier: GPL-2.0

//! `budget`.

use core::fmt::Write;

use kernel::prelude::*;

use super::context::Context;
use super::small::{no_memory, Small};
use crate::sys::text::Text;

/// `budget`.
pub(super) struct Budget;

impl Small for Budget {
    fn show(context: &Context, text: &mut Text) -> Result {
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

    fn store(context: &Context, value: &[u8]) -> Result {
        context.instance.edit_budget(value)
    }
}
