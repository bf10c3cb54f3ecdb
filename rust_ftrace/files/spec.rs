// SPDX-License-Identifier: GPL-2.0

//! Rows of the [table of files](super::table): their columns, and how they are written.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::context::FileContext;
use crate::sys::debugfs::{DirectoryId, FileTree};

/// Puts a file into a directory of a tree.
pub(super) type Make =
    fn(&mut FileTree<FileContext>, DirectoryId, &CStr, u16, Arc<FileContext>) -> Result;

/// A file of the directory.
pub(super) struct Spec {
    /// Its name; files below `options/` and `per_cpu/cpuN/` with that before it.
    pub(super) name: &'static str,
    /// tracefs's name for it, if another.
    pub(super) alias: Option<&'static str>,
    /// Permissions.
    pub(super) mode: u16,
    /// Its line in `README`.
    pub(super) help: &'static str,
    pub(super) make: Make,
}

pub(super) const READ: u16 = 0o400;
pub(super) const WRITE: u16 = 0o600;
pub(super) const WRITE_ONLY: u16 = 0o200;

/// Writes a row: the name and perhaps another, the mode, what handles the file, and the help line.
macro_rules! spec {
    ($name:literal, $mode:ident, $file:ty, $help:expr) => {
        spec!(@ $name, None, $mode, $file, $help)
    };
    ($name:literal = $alias:literal, $mode:ident, $file:ty, $help:expr) => {
        spec!(@ $name, Some($alias), $mode, $file, $help)
    };
    ($name:literal, $mode:ident, stream $stream:ty, $help:expr) => {
        Spec {
            name: $name,
            alias: None,
            mode: $mode,
            help: $help,
            make: FileTree::stream::<$stream>,
        }
    };
    ($name:literal, option $option:ident, $help:expr) => {
        spec!($name, WRITE, AttributeFile<OptionFile<{ TraceOption::$option as usize }>>, $help)
    };
    ($name:literal, format $record:ident, $help:expr) => {
        spec!($name, READ, AttributeFile<EventFormat<{ RecordType::$record as u16 }>>, $help)
    };
    ($name:literal, directory, $help:expr) => {
        Spec {
            name: $name,
            alias: None,
            mode: 0,
            help: $help,
            make: |_, _, _, _, _| Ok(()),
        }
    };
    (@ $name:literal, $alias:expr, $mode:ident, $file:ty, $help:expr) => {
        Spec {
            name: $name,
            alias: $alias,
            mode: $mode,
            help: $help,
            make: FileTree::file::<$file>,
        }
    };
}
pub(super) use spec;
