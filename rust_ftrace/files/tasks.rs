// SPDX-License-Identifier: GPL-2.0

//! `saved_cmdlines` and `saved_tgids`: who the pids in `trace_pipe_raw` are.

use core::fmt::Write;

use kernel::prelude::*;

use super::small::{no_memory, Small};
use super::Context;
use crate::engine::slot::Task;
use crate::sys::text::Text;

/// Calls `user` with the tasks of all instances: a pid may come more than once.
fn for_each_task(context: &Context, mut user: impl FnMut(&Task) -> Result) -> Result {
    context.try_for_each(|instance| instance.for_each_task(&mut user))
}

/// `saved_cmdlines`.
pub(super) struct SavedCmdlines;

impl Small for SavedCmdlines {
    fn show(context: &Context, text: &mut Text) -> Result {
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

impl Small for SavedTgids {
    fn show(context: &Context, text: &mut Text) -> Result {
        for_each_task(context, |task| match task.pid() {
            0 => Ok(()),
            pid => writeln!(text, "{pid} {}", task.tgid()).map_err(no_memory),
        })
    }
}

/// `printk_formats`: there are none.
pub(super) struct PrintkFormats;

impl Small for PrintkFormats {
    fn show(_context: &Context, _text: &mut Text) -> Result {
        Ok(())
    }
}
