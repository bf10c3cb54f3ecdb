// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rftrace flamegraph`: draws a recording as a flame graph.

use std::io::BufWriter;

use anyhow::Result;

use super::export::{weight, ExportSource};
use super::recorded::say_end;
use crate::cli::exporting::FlameGraph;
use crate::export::flamegraph;
use crate::export::output::OutputFile;
use crate::export::stacks::Tops;

/// Draws the time of a recording.
pub(super) fn run(arguments: &FlameGraph) -> Result<()> {
    let source = ExportSource::open(&arguments.file)?;
    let output = OutputFile::new(&arguments.output, &arguments.file)?;
    let about = source.about();
    output.fill(|output| {
        let stacks = source.stacks(&arguments.selection, Tops::Comms)?;
        let out = BufWriter::new(output.file());
        flamegraph::write(out, &about, &stacks, weight(arguments.by))
    })?;
    say_end(source.recording(), &arguments.file);
    Ok(())
}
