// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Flame graphs, by the library inferno.

use std::io::{self, Write};

use anyhow::{bail, Context, Result};
use inferno::flamegraph::{from_lines, Options};

use super::folded::lines;
use super::stacks::{caveats, Stacks, Weight};
use super::About;
use crate::units::{Count, Time};

/// Draws all stacks, as wide as their weights.
///
/// # Errors
///
/// If there are none, or the picture cannot be written.
pub fn write(
    mut out: impl Write,
    about: &About<'_>,
    stacks: &Stacks,
    weight: Weight,
) -> Result<()> {
    let lines = lines(about, stacks, weight);
    if lines.is_empty() {
        match (weight, stacks.counts().events) {
            (_, 0) => {
                bail!("there are no events: nothing was recorded, or nothing of it is selected")
            }
            (Weight::Time, _) => bail!("there are no times: try --by calls"),
            (Weight::Calls, _) => bail!("there are no calls"),
        }
    }
    let mut said = Vec::new();
    if !about.settings.command.is_empty() {
        said.push(about.settings.command.join(" "));
    }
    said.extend(caveats(about, stacks.counts()));
    draw(&mut out, &lines, weight, said)
}

/// Draws stacks with their weights, a line each, and says what there is to be said of them.
///
/// # Errors
///
/// If the picture cannot be written.
pub fn draw(
    mut out: impl Write,
    lines: &[String],
    weight: Weight,
    more: Vec<String>,
) -> Result<()> {
    let mut weights = lines
        .iter()
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    // inferno adds them up, too.
    let sum = weights.try_fold(0_u64, |sum, weight| sum.checked_add(weight));
    let sum = sum.context("it says of calls that together they took more than 584 years")?;
    let mut options = Options::default();
    options.name_type = "Function:".into();
    options.hash = true;
    let (title, unit, total) = match weight {
        Weight::Time => ("Time in kernel functions", "ns", Time(sum).to_string()),
        Weight::Calls => (
            "Calls of kernel functions",
            "calls",
            format!("{} calls", Count(sum)),
        ),
    };
    options.title = title.into();
    options.count_name = unit.into();
    let mut said = vec![total];
    said.extend(more);
    options.subtitle = Some(said.join("; "));
    let mut svg = Vec::new();
    from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)
        .map_err(io::Error::other)
        .context("cannot draw")?;
    out.write_all(&svg)?;
    Ok(out.flush()?)
}
