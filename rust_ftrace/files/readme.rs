// SPDX-License-Identifier: GPL-2.0

//! The file that says what the others are.

use core::fmt::Write;
use core::marker::PhantomData;

use kernel::prelude::*;

use super::attribute::{no_memory, Attribute};
use super::context::FileContext;
use super::spec::Spec;
use crate::engine::text::Text;

/// The table of files.
pub(super) trait FileTable: Send + Sync + Unpin + 'static {
    /// Its rows.
    fn rows() -> &'static [Spec];
}

/// `README`, of the files in a table.
pub(super) struct Readme<T>(PhantomData<T>);

impl<T: FileTable> Attribute for Readme<T> {
    fn show(_context: &FileContext, text: &mut Text) -> Result {
        text.write_str(concat!(
            "rust_ftrace: traces kernel functions.\n\n",
            "  # echo path_mount > filter     trace a function\n",
            "  # cat trace                    see who called it\n",
            "  # echo > filter                stop\n\n",
            "Files:\n",
        ))
        .map_err(no_memory)?;
        for spec in T::rows() {
            let alias = spec.alias.map_or("", |_| ", ");
            write!(
                text,
                "  {}{alias}{}\n\t\t{}\n",
                spec.name,
                spec.alias.unwrap_or(""),
                spec.help
            )
            .map_err(no_memory)?;
        }
        Ok(())
    }
}
