// SPDX-License-Identifier: GPL-2.0

//! `function_profile_enabled` and `trace_stat/functionN`.

use core::fmt::Write;

use kernel::prelude::*;
use kernel::sync::Arc;

use super::attribute::{no_memory, Attribute};
use super::context::FileContext;
use crate::engine::clock::ClockKind;
use crate::engine::parse::parse_number;
use crate::engine::profile::{self, FunctionTotals};
use crate::engine::text::Text;
use crate::engine::timeline::Timeline;
use crate::instance::profile::ProfileRow;
use crate::sys::debugfs::{File, OpenMode, Records};

/// `function_profile_enabled`.
pub(super) struct ProfileEnabled;

impl Attribute for ProfileEnabled {
    fn show(context: &FileContext, text: &mut Text) -> Result {
        let on = context.instance.is_profiling();
        writeln!(text, "{}", u8::from(on)).map_err(no_memory)
    }

    fn store(context: &FileContext, value: &[u8]) -> Result {
        // As in tracefs, any number but 0 means on.
        context.instance.set_profiling(parse_number(value)? != 0)
    }
}

/// `trace_stat/functionN`.
pub(super) struct ProfileFile;

impl File for ProfileFile {
    type Context = FileContext;
    type Records = ProfileLines;

    fn open(_context: &Arc<FileContext>, _mode: OpenMode) -> Result<Self> {
        Ok(Self)
    }

    fn records(&self, context: &Arc<FileContext>) -> ProfileLines {
        ProfileLines {
            context: context.clone(),
            rows: KVVec::new(),
            timeline: context.instance.machine().timeline(ClockKind::Local),
            thresh: 0,
            next: None,
        }
    }
}

/// A function a line.
pub(super) struct ProfileLines {
    context: Arc<FileContext>,
    /// As it was when reading began.
    rows: KVVec<ProfileRow>,
    timeline: Timeline,
    /// Functions whose calls take less time than this on average are not shown, in ns.
    thresh: u64,
    /// `None`: the header.
    next: Option<usize>,
}

impl ProfileLines {
    fn to_ns(&self, ticks: u64) -> u64 {
        self.timeline.duration(ticks).unwrap_or(ticks)
    }

    fn is_shown(&self, totals: &FunctionTotals) -> bool {
        self.thresh == 0 || self.to_ns(totals.average()) >= self.thresh
    }

    fn write(&self, row: &ProfileRow, text: &mut Text) -> Result {
        let to_ns = |ticks| self.to_ns(ticks);
        let write = |name: Option<&[u8]>| {
            let result = match name {
                Some(name) => profile::write_row(text, name, &row.totals, to_ns),
                None => {
                    let mut name = Text::new();
                    profile::write_address(&mut name, row.ip).and_then(|()| {
                        profile::write_row(text, name.as_bytes(), &row.totals, to_ns)
                    })
                }
            };
            result.map_err(no_memory)
        };
        let instance = &self.context.instance;
        (instance.profiling()).with_name(instance.machine(), row, write)
    }
}

impl Records for ProfileLines {
    fn rewind(&mut self) -> Result {
        let instance = &self.context.instance;
        self.rows = instance.profiling().rows(self.context.cpu)?;
        self.timeline = instance.machine().timeline(ClockKind::Local);
        self.thresh = instance.thresh();
        self.next = None;
        Ok(())
    }

    fn next(&mut self, text: &mut Text) -> Result<bool> {
        let Some(next) = self.next else {
            self.next = Some(0);
            text.write_str(profile::HEADER).map_err(no_memory)?;
            return Ok(true);
        };
        let Some(row) = self.rows.get(next) else {
            return Ok(false);
        };
        if self.is_shown(&row.totals) {
            self.write(row, text)?;
        }
        self.next = Some(next.wrapping_add(1));
        Ok(true)
    }
}
