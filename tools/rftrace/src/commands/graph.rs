// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rftrace graph`: prints callers and callees of a function.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{bail, Result};
use serde::Serialize;

use super::graph_recording;
use crate::cli;
use crate::functions::KernelFunctions;
use crate::reach::{EntryKind, Reach};
use crate::selection;
use crate::static_graph::{tree, Below, Direction, TreeStep};

/// Number of levels of callers that are followed by default.
const UP: usize = 1;
const DOWN: usize = 2;

/// Number of functions with calls through pointers that are named; the others are only counted.
const NAMED: usize = 8;

/// Prints the callers and the callees of a function: by a recording, or by the kernel's text.
pub(super) fn run(arguments: &cli::GraphArgs, out: &mut dyn Write) -> Result<()> {
    if arguments.is_static {
        return run_static(arguments, out);
    }
    graph_recording::run(
        &arguments.function,
        &arguments.file,
        &arguments.selection,
        arguments.json,
        out,
    )
}

/// Prints trees of the possible callers and callees of a function.
fn run_static(arguments: &cli::GraphArgs, out: &mut dyn Write) -> Result<()> {
    let depth = arguments.selection.depth.map(usize::from);
    let functions = KernelFunctions::new(super::kernel(&arguments.source)?)?;
    let symbols = &functions.kernel.symbols;
    let roots = selection::functions(symbols, &arguments.function);
    if roots.is_empty() {
        let nearest = selection::nearest(symbols, &arguments.function);
        let near = match nearest.is_empty() {
            true => String::new(),
            false => format!("; near it: {}", nearest.join(", ")),
        };
        bail!("this kernel has no function {}{near}", arguments.function);
    }
    let directions = [
        (Direction::Callers, depth.unwrap_or(UP)),
        (Direction::Callees, depth.unwrap_or(DOWN)),
    ];
    for root in roots {
        if !arguments.json {
            writeln!(
                out,
                "# By the kernel's text: {} ({root:#x})",
                symbols.name(root)
            )?;
        }
        for (direction, depth) in directions {
            let steps = tree(&functions, root, direction, depth);
            match arguments.json {
                true => write_json(&functions, direction, &steps, out)?,
                false => write_text(&functions, direction, &steps, out)?,
            }
        }
    }
    Ok(())
}

/// A line of JSON.
#[derive(Serialize)]
struct GraphJson<'a> {
    direction: &'a str,
    depth: usize,
    function: &'a str,
    address: u64,
    sites: usize,
    indirect: usize,
    by_pointer: Option<bool>,
    traceable: bool,
    below: &'a str,
}

fn write_json(
    functions: &KernelFunctions,
    direction: Direction,
    steps: &[TreeStep],
    out: &mut dyn Write,
) -> Result<()> {
    for step in steps {
        let line = GraphJson {
            direction: match direction {
                Direction::Callers => "callers",
                Direction::Callees => "callees",
            },
            depth: step.depth,
            function: &functions.kernel.symbols.name(step.function),
            address: step.function,
            sites: step.sites,
            indirect: step.indirect,
            by_pointer: by_pointer(functions, step.function),
            traceable: functions.traceable.contains(&step.function),
            below: match step.below {
                Below::All => "all",
                Below::Above => "above",
                Below::Deeper => "deeper",
            },
        };
        writeln!(out, "{}", serde_json::to_string(&line)?)?;
    }
    Ok(())
}

fn write_text(
    functions: &KernelFunctions,
    direction: Direction,
    steps: &[TreeStep],
    out: &mut dyn Write,
) -> Result<()> {
    let title = match direction {
        Direction::Callers => "CALLERS",
        Direction::Callees => "CALLEES",
    };
    writeln!(
        out,
        "\n=============== {title} ===============\n# PLACES  FUNCTION"
    )?;
    // True for each function above the one that is printed below which nothing more comes.
    let mut ended: Vec<bool> = Vec::new();
    for step in steps {
        ended.truncate(step.depth);
        let lines: String = ended
            .iter()
            .skip(1)
            .map(|ended| if *ended { "   " } else { " | " })
            .collect();
        let branch = if step.depth == 0 { "" } else { " +-" };
        let sites = match step.sites {
            0 => String::new(),
            sites => sites.to_string(),
        };
        let name = functions.kernel.symbols.name(step.function);
        let notes = notes(functions, direction, step);
        writeln!(out, "{sites:>8} : {lines}{branch}{name}{notes}")?;
        ended.push(step.is_last);
    }
    match direction {
        Direction::Callers => Ok(()),
        Direction::Callees => write_indirect(functions, steps, out),
    }
}

/// Returns remarks on a function behind its name.
fn notes(functions: &KernelFunctions, direction: Direction, step: &TreeStep) -> String {
    let mut notes = Vec::new();
    match direction {
        Direction::Callers => {
            if by_pointer(functions, step.function) == Some(true) {
                notes.push("by pointers, too".into());
            }
            match functions.reachable.reach(step.function) {
                Some(Reach::AtBoot) => notes.push("at boot only".into()),
                Some(Reach::Never) => notes.push("nothing can enter it".into()),
                Some(Reach::Always) | None => {}
            }
        }
        Direction::Callees if step.indirect > 0 => {
            notes.push(format!("{} through pointers", step.indirect));
        }
        Direction::Callees => {}
    }
    let notes = match notes.is_empty() {
        true => String::new(),
        false => format!("  [{}]", notes.join(", ")),
    };
    let below = match step.below {
        Below::All => "",
        Below::Above => "  ... above",
        Below::Deeper => "  ...",
    };
    format!("{notes}{below}")
}

/// Returns whether pointers may lead to the function; `None` where the kernel does not mark where
/// they may lead.
fn by_pointer(functions: &KernelFunctions, function: u64) -> Option<bool> {
    let entry = functions.reachable.entry(function)?;
    functions
        .reachable
        .is_certain()
        .then_some(entry == EntryKind::Open)
}

/// Names the functions whose calls could not be followed.
fn write_indirect(
    functions: &KernelFunctions,
    steps: &[TreeStep],
    out: &mut dyn Write,
) -> Result<()> {
    let indirect: BTreeMap<u64, usize> = steps
        .iter()
        .filter(|step| step.indirect > 0)
        .map(|step| (step.function, step.indirect))
        .collect();
    if indirect.is_empty() {
        return Ok(());
    }
    let mut most: Vec<(u64, usize)> = indirect.into_iter().collect();
    most.sort_by_key(|(function, sites)| (usize::MAX - sites, *function));
    let all: usize = most.iter().map(|(_, sites)| sites).sum();
    let named: Vec<String> = most
        .iter()
        .take(NAMED)
        .map(|(function, sites)| format!("{} {sites}", functions.kernel.symbols.name(*function)))
        .collect();
    let others = match most.len().saturating_sub(NAMED) {
        0 => String::new(),
        others => format!(" and {others} others"),
    };
    writeln!(
        out,
        "\n# Not followed: {all} calls through pointers, in {}{others}",
        named.join(", ")
    )?;
    Ok(())
}
