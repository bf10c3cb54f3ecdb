// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rftrace graph`, by a recording: prints callers and callees that were recorded.

use std::io::Write;
use std::path::Path;

use anyhow::{bail, Result};
use rftrace_engine::engine::nearest::Nearest;

use super::recorded::OpenRecording;
use crate::calls::{Analysis, GroupBy, MemoryLimits};
use crate::cli::selection::SelectionArgs;
use crate::report::{GraphAround, Summary};
use crate::symbolizer::{FunctionId, Symbolizer};

/// Prints the callers and the callees of a function in the recording `file`. `-D` counts levels
/// from the function.
pub(super) fn run(
    function: &str,
    file: &Path,
    selection: &SelectionArgs,
    is_json: bool,
    out: &mut dyn Write,
) -> Result<()> {
    let recorded = OpenRecording::open(file)?;
    let analysis = Analysis::new(GroupBy::Function, false, MemoryLimits::default());
    let mut selection = selection.selection();
    let levels = selection.depth.take().map_or(usize::MAX, usize::from);
    recorded.analyse(selection, analysis, |analysis, counts, symbolizer| {
        let functions = functions(symbolizer, function);
        let Some(graph) = GraphAround::new(analysis, symbolizer, &functions, levels) else {
            return not_found(symbolizer, function, file);
        };
        if is_json {
            serde_json::to_writer(&mut *out, &graph)?;
            writeln!(out)?;
            return Ok(());
        }
        graph.write_text(out)?;
        let summary = Summary::new(analysis, counts, symbolizer).of_recording(&recorded.recording);
        Ok(summary.write_text(out)?)
    })
}

/// Returns the functions of a name, with its module or without.
fn functions(symbolizer: &Symbolizer, name: &str) -> Vec<FunctionId> {
    let all = (0..symbolizer.len() as u32).map(FunctionId);
    let is_it = |function: &FunctionId| {
        let full = symbolizer.name(*function);
        full == name || full.split_once(' ').is_some_and(|(short, _)| short == name)
    };
    all.filter(is_it).collect()
}

fn not_found(symbolizer: &Symbolizer, name: &str, file: &Path) -> Result<()> {
    let mut nearest = Nearest::to(name.as_bytes());
    for function in (0..symbolizer.len() as u32).map(FunctionId) {
        nearest.offer(symbolizer.name(function).as_bytes());
    }
    let names = nearest.names().map(String::from_utf8_lossy);
    let near = match names.collect::<Vec<_>>().join(", ") {
        names if names.is_empty() => String::new(),
        names => format!("; near it: {names}"),
    };
    bail!("no call of {name} is in {}{near}", file.display())
}
