// SPDX-License-Identifier: GPL-2.0

//! `pid` and `notrace_pid`: the tasks to trace, and those not to.

use core::fmt::Write;
use core::marker::PhantomData;

use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

use super::attribute::no_memory;
use super::context::FileContext;
use super::word_file::Writing;
use crate::engine::pids;
use crate::engine::text::Text;
use crate::instance::pids::TaskLists;
use crate::sys::debugfs::{File, OpenMode, Records};
use crate::tracer::outsiders::PidList;

/// A list of process IDs that a file shows and takes.
pub(super) trait Pids: Send + Sync + Unpin + 'static {
    /// Edits the list by what was written; with `replace` the old list goes.
    fn edit(context: &FileContext, text: &[u8], replace: bool) -> Result;

    /// The least ID in the list that is not below `from`.
    fn next(context: &FileContext, from: u32) -> Option<u32>;

    /// The line of a list that says nothing, if it is shown as one.
    fn none(_context: &FileContext) -> Option<&'static str> {
        None
    }
}

/// A list of tasks that tracing looks at.
pub(super) trait TaskListFile: Send + Sync + Unpin + 'static {
    const LIST: PidList;
}

impl<W: TaskListFile> Pids for W {
    fn edit(context: &FileContext, text: &[u8], replace: bool) -> Result {
        TaskLists::of(&context.instance).edit(W::LIST, text, replace)
    }

    fn next(context: &FileContext, from: u32) -> Option<u32> {
        TaskLists::of(&context.instance).with(W::LIST, |pids| pids.next(from))
    }

    fn none(context: &FileContext) -> Option<&'static str> {
        (!TaskLists::of(&context.instance).is_in_force(W::LIST)).then_some("no pid\n")
    }
}

/// `pid`.
pub(super) struct Traced;

impl TaskListFile for Traced {
    const LIST: PidList = PidList::Traced;
}

/// `notrace_pid`.
pub(super) struct NotTraced;

impl TaskListFile for NotTraced {
    const LIST: PidList = PidList::NotTraced;
}

/// The file of a list.
pub(super) struct PidFile<P> {
    writing: Pin<KBox<Mutex<Writing>>>,
    _list: PhantomData<P>,
}

impl<P: Pids> File for PidFile<P> {
    type Context = FileContext;
    type Records = PidLines<P>;

    fn open(_context: &Arc<FileContext>, mode: OpenMode) -> Result<Self> {
        Ok(Self {
            writing: KBox::pin_init(new_mutex!(Writing::new(mode)), GFP_KERNEL)?,
            _list: PhantomData,
        })
    }

    fn records(&self, context: &Arc<FileContext>) -> PidLines<P> {
        PidLines {
            context: context.clone(),
            next: None,
            _list: PhantomData,
        }
    }

    fn write(&self, context: &FileContext, data: &[u8]) -> Result {
        let edit = |text: &[u8], replace| P::edit(context, text, replace);
        self.writing.lock().write(data, pids::is_beginning, edit)
    }

    fn release(&self, context: &FileContext) {
        let finish = |text: &[u8], replace| P::edit(context, text, replace);
        self.writing.lock().finish(finish);
    }
}

/// A process ID a line.
pub(super) struct PidLines<P> {
    context: Arc<FileContext>,
    /// The pid to look for the next from; `None` when all were shown.
    next: Option<u32>,
    _list: PhantomData<P>,
}

impl<P: Pids> Records for PidLines<P> {
    fn rewind(&mut self) -> Result {
        self.next = Some(0);
        Ok(())
    }

    fn next(&mut self, text: &mut Text) -> Result<bool> {
        let Some(from) = self.next else {
            return Ok(false);
        };
        let pid = P::next(&self.context, from);
        self.next = pid.and_then(|pid| pid.checked_add(1));
        match pid {
            Some(pid) => writeln!(text, "{pid}"),
            None => match P::none(&self.context).filter(|_| from == 0) {
                Some(line) => text.write_str(line),
                None => return Ok(false),
            },
        }
        .map_err(no_memory)?;
        Ok(true)
    }
}
