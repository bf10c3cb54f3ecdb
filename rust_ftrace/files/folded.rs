// SPDX-License-Identifier: GPL-2.0

//! `trace_stat/function_folded`.

use core::fmt::Write;

use kernel::prelude::*;
use kernel::sync::Arc;

use super::attribute::no_memory;
use super::context::FileContext;
use crate::engine::catalog::Catalog;
use crate::engine::clock::ClockKind;
use crate::engine::options::TraceOption;
use crate::engine::profile::folded::{FoldedLine, Measure};
use crate::engine::profile::text::write_address;
use crate::engine::text::Text;
use crate::engine::timeline::Timeline;
use crate::instance::profile::contexts::FoldedContexts;
use crate::platform::Vec;
use crate::sys::debugfs::{File, OpenMode, Records};

/// `trace_stat/function_folded`.
pub(super) struct FoldedFile;

impl File for FoldedFile {
    type Context = FileContext;
    type Records = FoldedLines;

    fn open(_context: &Arc<FileContext>, _mode: OpenMode) -> Result<Self> {
        Ok(Self)
    }

    fn records(&self, context: &Arc<FileContext>) -> FoldedLines {
        FoldedLines {
            context: context.clone(),
            contexts: FoldedContexts::new(),
            lines: Vec::new(),
            measure: Measure::Own,
            timeline: context.instance.machine().timeline(ClockKind::Local),
            next: 0,
        }
    }
}

/// A context a line.
pub(super) struct FoldedLines {
    context: Arc<FileContext>,
    /// As they were when reading began.
    contexts: FoldedContexts,
    /// Those with a line, in their order.
    lines: Vec<FoldedLine>,
    measure: Measure,
    timeline: Timeline,
    next: usize,
}

impl FoldedLines {
    /// The number that a line ends with.
    fn value(&self, line: FoldedLine) -> u64 {
        let value = self.contexts.tree.value(line, self.measure);
        match self.measure {
            Measure::Calls => value,
            Measure::Own | Measure::Total => self.timeline.duration(value).unwrap_or(value),
        }
    }

    fn write(&self, line: FoldedLine, text: &mut Text) -> Result {
        let instance = &self.context.instance;
        let contexts = &self.contexts;
        let path = |catalog: &Catalog| {
            let function = |text: &mut Text, number| {
                let name = |name: Option<&[u8]>| match name {
                    Some(name) => text.push_bytes(name),
                    None => write_address(text, contexts.ip(number)),
                };
                (instance.profiling()).with_name_in(catalog, contexts, number, name)
            };
            let waker = |text: &mut Text, waker| {
                text.push_bytes(instance.profiling().woken_by(waker).written(&mut [0; 16]))
            };
            let path = contexts.tree.write_path(line, text, function, waker);
            path.map_err(no_memory)
        };
        instance.machine().with_catalog(path)?;
        writeln!(text, " {}", self.value(line)).map_err(no_memory)
    }
}

impl Records for FoldedLines {
    fn rewind(&mut self) -> Result {
        let instance = &self.context.instance;
        let options = instance.options();
        self.measure = if options.has(TraceOption::FoldedCalls) {
            Measure::Calls
        } else if options.has(TraceOption::FoldedTotal) {
            Measure::Total
        } else {
            Measure::Own
        };
        // The memory is given back before more is asked for.
        (self.contexts, self.lines) = (FoldedContexts::new(), Vec::new());
        let sleep_counts = options.has(TraceOption::SleepTime);
        let profiling = instance.profiling();
        self.contexts = profiling.folded(instance.machine(), sleep_counts)?;
        self.lines = self.contexts.tree.lines(self.measure)?;
        self.timeline = instance.machine().timeline(ClockKind::Local);
        self.next = 0;
        Ok(())
    }

    fn next(&mut self, text: &mut Text) -> Result<bool> {
        let Some(line) = self.lines.get(self.next).copied() else {
            return Ok(false);
        };
        self.next = self.next.wrapping_add(1);
        // A part of a ns is no number.
        if self.value(line) != 0 {
            self.write(line, text)?;
        }
        Ok(true)
    }
}
