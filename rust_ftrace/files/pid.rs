// SPDX-License-Identifier: GPL-2.0

//! `pid`: the tasks to trace.

use core::fmt::Write;

use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

use super::small::no_memory;
use super::words::Writing;
use super::Context;
use crate::engine::pid_set;
use crate::sys::debugfs::{File, OpenMode, Records};
use crate::sys::text::Text;

/// `pid`.
pub(super) struct PidFile {
    writing: Pin<KBox<Mutex<Writing>>>,
}

impl File for PidFile {
    type Context = Context;
    type Records = PidLines;

    fn open(_context: &Arc<Context>, mode: OpenMode) -> Result<Self> {
        Ok(Self {
            writing: KBox::pin_init(new_mutex!(Writing::new(mode)), GFP_KERNEL)?,
        })
    }

    fn records(&self, context: &Arc<Context>) -> PidLines {
        PidLines {
            context: context.clone(),
            next: None,
        }
    }

    fn write(&self, context: &Context, data: &[u8]) -> Result {
        let edit = |text: &[u8], replace| context.instance.edit_pids(text, replace);
        self.writing.lock().write(data, pid_set::is_beginning, edit)
    }

    fn release(&self, context: &Context) {
        let edit = |text: &[u8], replace| context.instance.edit_pids(text, replace);
        self.writing.lock().finish(edit);
    }
}

/// A process ID a line.
pub(super) struct PidLines {
    context: Arc<Context>,
    /// Where to look for the next; `None` when all were shown.
    next: Option<u32>,
}

impl Records for PidLines {
    fn rewind(&mut self) -> Result {
        self.next = Some(0);
        Ok(())
    }

    fn next(&mut self, text: &mut Text) -> Result<bool> {
        let Some(from) = self.next else {
            return Ok(false);
        };
        let pid = self.context.instance.with_pids(|pids| pids.next(from));
        self.next = pid.and_then(|pid| pid.checked_add(1));
        match pid {
            Some(pid) => writeln!(text, "{pid}"),
            None if from == 0 => text.write_str("no pid\n"),
            None => return Ok(false),
        }
        .map_err(no_memory)?;
        Ok(true)
    }
}
