// SPDX-License-Identifier: GPL-2.0

//! `cgroup`: the cgroups whose tasks are traced.

use core::fmt::Write;

use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

use super::attribute::no_memory;
use super::context::FileContext;
use super::word_file::Writing;
use crate::engine::cgroups::is_beginning;
use crate::engine::text::Text;
use crate::instance::cgroups::CgroupList;
use crate::sys::debugfs::{File, OpenMode, Records};

/// `cgroup`.
pub(super) struct CgroupFile(Pin<KBox<Mutex<Writing>>>);

impl File for CgroupFile {
    type Context = FileContext;
    type Records = CgroupLines;

    fn open(_context: &Arc<FileContext>, mode: OpenMode) -> Result<Self> {
        let writing = KBox::pin_init(new_mutex!(Writing::new(mode)), GFP_KERNEL)?;
        Ok(Self(writing))
    }

    fn records(&self, context: &Arc<FileContext>) -> CgroupLines {
        CgroupLines {
            context: context.clone(),
            next: 0,
        }
    }

    fn write(&self, context: &FileContext, data: &[u8]) -> Result {
        let edit = |text: &[u8], replace| CgroupList::of(&context.instance).edit(text, replace);
        self.0.lock().write(data, is_beginning, edit)
    }

    fn release(&self, context: &FileContext) {
        let finish = |text: &[u8], replace| CgroupList::of(&context.instance).edit(text, replace);
        self.0.lock().finish(finish);
    }
}

/// A cgroup a line.
pub(super) struct CgroupLines {
    context: Arc<FileContext>,
    next: usize,
}

impl Records for CgroupLines {
    fn rewind(&mut self) -> Result {
        self.next = 0;
        Ok(())
    }

    fn next(&mut self, text: &mut Text) -> Result<bool> {
        let index = self.next;
        self.next = index.saturating_add(1);
        let line = CgroupList::of(&self.context.instance).with(index, |named| {
            text.push_bytes(named.path())?;
            match named.is_removed() {
                true => text.write_str(" (removed)\n"),
                false => text.write_str("\n"),
            }
        });
        match line {
            Some(written) => written.map_err(no_memory)?,
            None if index == 0 => text.write_str("no cgroup\n").map_err(no_memory)?,
            None => return Ok(false),
        }
        Ok(true)
    }
}
