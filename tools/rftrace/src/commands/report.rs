// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rftrace report`: prints tables of a recording's functions.

use std::io::Write;

use anyhow::Result;

use super::recorded::OpenRecording;
use crate::calls::{Analysis, MemoryLimits};
use crate::cli::report::{Report, Sort};
use crate::report::{Rows, Summary};

/// Prints a table of the functions of a recording.
pub(super) fn run(arguments: &Report, out: &mut dyn Write) -> Result<()> {
    if matches!(arguments.table.sort, Some(Sort::Asleep | Sort::Queued)) {
        let text = "-s asleep and -s queued are for rftrace profile --wait";
        return Err(super::wrong_use(text));
    }
    let recorded = OpenRecording::open(&arguments.file)?;
    let analysis = Analysis::new(arguments.table.by.into(), false, MemoryLimits::default());
    let selection = arguments.selection.selection();
    recorded.analyse(selection, analysis, |analysis, counts, symbolizer| {
        let rows = Rows::new(analysis, symbolizer, &arguments.table);
        let summary = Summary::new(analysis, counts, symbolizer).of_recording(&recorded.recording);
        Ok(summary.write_with(&rows, arguments.json, out)?)
    })
}
