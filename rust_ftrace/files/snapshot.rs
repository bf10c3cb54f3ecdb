// SPDX-License-Identifier: GPL-2.0

//! `snapshot`: what was recorded when it was taken, as text, and how one is taken.

use core::fmt::Write;

use kernel::prelude::*;
use kernel::sync::Arc;

use super::attribute::no_memory;
use super::context::FileContext;
use super::trace::TraceLines;
use crate::engine::parse::parse_number;
use crate::engine::text::Text;
use crate::instance::buffer_changes::BufferChanges;
use crate::instance::buffers::BufferKind;
use crate::sys::debugfs::{File, OpenMode, Records};

/// `snapshot`, of one CPU or all.
pub(super) struct SnapshotFile;

impl File for SnapshotFile {
    type Context = FileContext;
    type Records = SnapshotLines;

    fn open(context: &Arc<FileContext>, mode: OpenMode) -> Result<Self> {
        if mode.writable && mode.truncate {
            context.instance.recording().clear_snapshot(context.cpu);
        }
        Ok(Self)
    }

    fn records(&self, context: &Arc<FileContext>) -> SnapshotLines {
        SnapshotLines {
            context: context.clone(),
            lines: TraceLines::new(context.clone(), BufferKind::Snapshot),
            help: Help::NotDue,
        }
    }

    fn write(&self, context: &FileContext, data: &[u8]) -> Result {
        match (parse_number(data)?, context.cpu) {
            (0, Some(_)) => return Err(EINVAL),
            (0, None) => BufferChanges::of(&context.instance).free_snapshots(),
            (1, cpu) => BufferChanges::of(&context.instance).take_snapshot(cpu)?,
            (_, cpu) => context.instance.recording().clear_snapshot(cpu),
        }
        Ok(())
    }
}

/// The state of the help, which takes the place of an empty trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Help {
    NotDue,
    Due,
    Shown,
}

/// The lines of `snapshot`.
pub(super) struct SnapshotLines {
    context: Arc<FileContext>,
    lines: TraceLines,
    help: Help,
}

impl SnapshotLines {
    /// print_snapshot_help() of kernel/trace/trace_snapshot.c.
    fn write_help(&self, text: &mut Text) -> core::fmt::Result {
        let instance = &self.context.instance;
        writeln!(text, "# tracer: {}\n#", instance.tracer().name())?;
        let allocated = instance
            .recording()
            .with_buffers(|buffers| buffers.has_snapshot(None));
        let state = if allocated { "allocated" } else { "freed" };
        writeln!(text, "#\n# * Snapshot is {state} *\n#")?;
        text.write_str(match self.context.cpu {
            None => concat!(
                "# Snapshot commands:\n",
                "# echo 0 > snapshot : Clears and frees snapshot buffer\n",
                "# echo 1 > snapshot : Allocates snapshot buffer, if not already allocated.\n",
                "#                      Takes a snapshot of the main buffer.\n",
                "# echo 2 > snapshot : Clears snapshot buffer (but does not allocate or free)\n",
                "#                      (Doesn't have to be '2' works with any number that\n",
                "#                       is not a '0' or '1')\n",
            ),
            Some(_) => concat!(
                "# Snapshot commands:\n",
                "# echo 0 > snapshot : Invalid for per_cpu snapshot file.\n",
                "# echo 1 > snapshot : Allocates snapshot buffer, if not already allocated.\n",
                "#                      Takes a snapshot of the main buffer for this cpu.\n",
                "# echo 2 > snapshot : Clears this cpu's snapshot buffer (but does not allocate)\n",
                "#                      (Doesn't have to be '2' works with any number that\n",
                "#                       is not a '0' or '1')\n",
            ),
        })
    }
}

impl Records for SnapshotLines {
    fn rewind(&mut self) -> Result {
        let FileContext { instance, cpu, .. } = &*self.context;
        self.help = match instance
            .recording()
            .stats(*cpu, BufferKind::Snapshot)
            .present
        {
            0 => Help::Due,
            _ => Help::NotDue,
        };
        self.lines.rewind()
    }

    fn next(&mut self, text: &mut Text) -> Result<bool> {
        match self.help {
            Help::NotDue => self.lines.next(text),
            Help::Due => {
                self.help = Help::Shown;
                self.write_help(text).map_err(no_memory)?;
                Ok(true)
            }
            Help::Shown => Ok(false),
        }
    }
}
