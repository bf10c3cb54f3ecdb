// SPDX-License-Identifier: GPL-2.0

//! `pid` and `notrace_pid`: the tasks to trace, and those not to.

use core::fmt::Write;
use core::marker::PhantomData;

use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

use super::small::no_memory;
use super::words::Writing;
use super::Context;
use crate::engine::pid_set;
use crate::sys::debugfs::{File, OpenMode, Records};
use crate::sys::text::Text;
use crate::tracer::function::PidList;

/// Which list a file is of.
pub(super) trait Which: Send + Sync + 'static {
    const LIST: PidList;
}

/// `pid`.
pub(super) struct Traced;

impl Which for Traced {
    const LIST: PidList = PidList::Traced;
}

/// `notrace_pid`.
pub(super) struct NotTraced;

impl Which for NotTraced {
    const LIST: PidList = PidList::NotTraced;
}

/// The file of a list.
pub(super) struct PidFile<W> {
    writing: Pin<KBox<Mutex<Writing>>>,
    _which: PhantomData<W>,
}

impl<W: Which> File for PidFile<W> {
    type Context = Context;
    type Records = PidLines;

    fn open(_context: &Arc<Context>, mode: OpenMode) -> Result<Self> {
        Ok(Self {
            writing: KBox::pin_init(new_mutex!(Writing::new(mode)), GFP_KERNEL)?,
            _which: PhantomData,
        })
    }

    fn records(&self, context: &Arc<Context>) -> PidLines {
        PidLines {
            context: context.clone(),
            list: W::LIST,
            next: None,
        }
    }

    fn write(&self, context: &Context, data: &[u8]) -> Result {
        let edit = |text: &[u8], replace| context.instance.edit_pids(W::LIST, text, replace);
        self.writing.lock().write(data, pid_set::is_beginning, edit)
    }

    fn release(&self, context: &Context) {
        let edit = |text: &[u8], replace| context.instance.edit_pids(W::LIST, text, replace);
        self.writing.lock().finish(edit);
    }
}

/// A process ID a line.
pub(super) struct PidLines {
    context: Arc<Context>,
    list: PidList,
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
        let pid = self
            .context
            .instance
            .with_pids(self.list, |pids| pids.next(from));
        self.next = pid.and_then(|pid| pid.checked_add(1));
        match pid {
            Some(pid) => writeln!(text, "{pid}"),
            None if from == 0 && !self.context.instance.has_pids(self.list) => {
                text.write_str("no pid\n")
            }
            None => return Ok(false),
        }
        .map_err(no_memory)?;
        Ok(true)
    }
}
