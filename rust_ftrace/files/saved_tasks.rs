// SPDX-License-Identifier: GPL-2.0

//! `saved_cmdlines` and `saved_tgids`: names and thread groups of the pids in `trace_pipe_raw`.

use core::fmt::Write;

use kernel::prelude::*;

use super::attribute::{no_memory, Attribute};
use super::context::FileContext;
use crate::engine::parse::parse_number;
use crate::engine::slot::Task;
use crate::engine::text::Text;

/// Calls `user` with the tasks of all instances: a pid may come more than once.
fn for_each_task(context: &FileContext, mut user: impl FnMut(&Task) -> Result) -> Result {
    context.try_for_each(|instance| instance.recording().for_each_task(&mut user))
}

/// `saved_cmdlines`.
pub(super) struct SavedCmdlines;

impl Attribute for SavedCmdlines {
    fn show(context: &FileContext, text: &mut Text) -> Result {
        for_each_task(context, |task| {
            if task.pid() == 0 {
                return Ok(());
            }
            write!(text, "{} ", task.pid()).map_err(no_memory)?;
            text.push_bytes(task.name(&mut [0; 16]))
                .map_err(no_memory)?;
            text.push_bytes(b"\n").map_err(no_memory)
        })
    }
}

/// `saved_tgids`.
pub(super) struct SavedTgids;

impl Attribute for SavedTgids {
    fn show(context: &FileContext, text: &mut Text) -> Result {
        for_each_task(context, |task| match task.pid() {
            0 => Ok(()),
            pid => writeln!(text, "{pid} {}", task.tgid()).map_err(no_memory),
        })
    }
}

/// The most names that `saved_cmdlines` can be told to keep in tracefs: PID_MAX_DEFAULT of
/// include/linux/threads.h.
const MAX_CMDLINES: u64 = 0x8000;

/// `saved_cmdlines_size`: how many are kept is not limited.
pub(super) struct SavedCmdlinesSize;

impl Attribute for SavedCmdlinesSize {
    fn show(_context: &FileContext, text: &mut Text) -> Result {
        writeln!(text, "{MAX_CMDLINES}").map_err(no_memory)
    }

    fn store(_context: &FileContext, value: &[u8]) -> Result {
        match parse_number(value)? {
            1..=MAX_CMDLINES => Ok(()),
            _ => Err(EINVAL),
        }
    }
}
