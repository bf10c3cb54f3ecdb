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
use crate::engine::profile::contexts::Node;
use crate::engine::profile::folded::Measure;
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
    lines: Vec<Node>,
    measure: Measure,
    timeline: Timeline,
    next: usize,
}

impl FoldedLines {
    /// The number that the line of a node ends with.
    fn value(&self, node: Node) -> u64 {
        let value = self.contexts.tree.value(node, self.measure);
        match self.measure {
            Measure::Calls => value,
            Measure::Own | Measure::Total => self.timeline.duration(value).unwrap_or(value),
        }
    }

    fn write(&self, node: Node, text: &mut Text) -> Result {
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
            let path = contexts.tree.write_path(node, text, function);
            path.map_err(no_memory)
        };
        instance.machine().with_catalog(path)?;
        writeln!(text, " {}", self.value(node)).map_err(no_memory)
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
        self.contexts = instance.profiling().folded()?;
        self.lines = self.contexts.tree.lines(self.measure)?;
        self.timeline = instance.machine().timeline(ClockKind::Local);
        self.next = 0;
        Ok(())
    }

    fn next(&mut self, text: &mut Text) -> Result<bool> {
        let Some(node) = self.lines.get(self.next).copied() else {
            return Ok(false);
        };
        self.next = self.next.wrapping_add(1);
        // A part of a ns is no number.
        if self.value(node) != 0 {
            self.write(node, text)?;
        }
        Ok(true)
    }
}
