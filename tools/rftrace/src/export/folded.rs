// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Folded stacks, a line each: `task;outermost;...;innermost WEIGHT`, as flame-graph programs read
//! them.

use std::io::Write;

use anyhow::Result;

use super::stacks::{caveats, name, Stacks, Weight};
use super::About;

/// Writes a line for each stack that has any weight, and one of weight 0 for each thing that is
/// missing, so that it is seen.
///
/// # Errors
///
/// If they cannot be written.
pub fn write(
    mut out: impl Write,
    about: &About<'_>,
    stacks: &Stacks,
    weight: Weight,
) -> Result<()> {
    for line in lines(about, stacks, weight) {
        writeln!(out, "{line}")?;
    }
    for said in caveats(about, stacks.counts()) {
        writeln!(out, "[{said}] 0")?;
    }
    Ok(out.flush()?)
}

/// Returns the lines of all stacks that have any weight.
pub(super) fn lines(about: &About<'_>, stacks: &Stacks, weight: Weight) -> Vec<String> {
    let symbolizer = about.symbolizer.borrow();
    let mut lines = Vec::new();
    // The visitor returns no error.
    let _ = stacks.visit(|top, way, calls, time| {
        let weight = match weight {
            Weight::Time => time,
            Weight::Calls => calls,
        };
        if weight == 0 {
            return Ok::<_, std::convert::Infallible>(());
        }
        let mut line = top.map(|top| frame(&top.name())).unwrap_or_default();
        for label in way {
            if !line.is_empty() {
                line.push(';');
            }
            line.push_str(&frame(name(label, &symbolizer)));
        }
        line.push_str(&format!(" {weight}"));
        lines.push(line);
        Ok(())
    });
    lines
}

/// Returns a name without the characters that have a meaning in a line.
fn frame(name: &str) -> String {
    name.replace(';', ":")
        .replace(|letter: char| letter.is_control(), "?")
}
