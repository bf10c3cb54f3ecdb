// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Report, the graph: paths that lead to a function and from it, merged.

use std::io::{self, Write};

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::calls::{Analysis, Label, NodeId, Tree};
use crate::symbolizer::{FunctionId, Symbolizer};
use crate::units::{Count, Time};

/// A place on a path.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PathStep {
    /// The function; `[unknown]` where calls began before they could be seen.
    pub function: String,
    /// Number of calls that have returned.
    pub calls: u64,
    /// Time of the calls; of callers, the time of the calls that they made.
    pub total_ns: u64,
    /// The part of that time in the function itself; 0 for callers.
    pub self_ns: u64,
    /// Number of calls that are not in that part, as nothing is known.
    pub self_unknown: u64,
    /// Number of calls that are still open at the end.
    pub open: u64,
    /// The next places on the path, most time first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<PathStep>,
}

/// A graph around a function.
#[derive(Clone, Debug, Serialize)]
pub struct GraphAround {
    /// All calls of the function.
    #[serde(flatten)]
    pub function: PathStep,
    /// The paths that lead to it.
    pub callers: Vec<PathStep>,
    /// The paths that lead from it.
    pub callees: Vec<PathStep>,
}

/// A place in the making.
#[derive(Default)]
struct Making {
    calls: u64,
    total: u64,
    self_time: u64,
    self_unknown: u64,
    open: u64,
    next: Vec<usize>,
    label: Option<Label>,
}

/// Paths in the making, merged by their beginnings: the first place is the one where all begin.
struct Ways {
    places: Vec<Making>,
    by_label: FxHashMap<(usize, Label), usize>,
}

impl Ways {
    fn new() -> Self {
        Self {
            places: vec![Making::default()],
            by_label: FxHashMap::default(),
        }
    }

    fn next(&mut self, place: usize, label: Label) -> usize {
        let new = self.places.len();
        let next = *self.by_label.entry((place, label)).or_insert(new);
        if next == new {
            self.places.push(Making {
                label: Some(label),
                ..Making::default()
            });
            self.places[place].next.push(new);
        }
        next
    }

    /// Returns the places behind one, to so many levels.
    fn finish(
        &self,
        place: usize,
        levels: usize,
        name: &impl Fn(Label) -> String,
    ) -> Vec<PathStep> {
        if levels == 0 {
            return Vec::new();
        }
        let next = self.places[place].next.iter();
        let mut next: Vec<PathStep> = next
            .map(|next| {
                let made = &self.places[*next];
                PathStep {
                    function: made.label.map_or_else(String::new, name),
                    calls: made.calls,
                    total_ns: made.total,
                    self_ns: made.self_time,
                    self_unknown: made.self_unknown,
                    open: made.open,
                    next: self.finish(*next, levels - 1, name),
                }
            })
            .collect();
        next.sort_by(|a, b| {
            let key = |place: &PathStep| std::cmp::Reverse((place.total_ns, place.calls));
            key(a)
                .cmp(&key(b))
                .then_with(|| a.function.cmp(&b.function))
        });
        next
    }
}

impl GraphAround {
    /// Returns the graph around functions, which have the same name, of so many levels each way;
    /// `None` if none was called.
    pub fn new(
        analysis: &Analysis,
        symbolizer: &Symbolizer,
        functions: &[FunctionId],
        levels: usize,
    ) -> Option<Self> {
        let tree = analysis.tree();
        let is_one =
            |label| matches!(label, Label::Function(function) if functions.contains(&function));
        let mut function = PathStep::default();
        let (mut up, mut down) = (Ways::new(), Ways::new());
        for id in tree.ids().filter(|id| is_one(tree.node(*id).label)) {
            let node = tree.node(id);
            if let Label::Function(id) = node.label {
                function.function = symbolizer.name(id).into();
            }
            // Time within another call of it is part of that call's time.
            let is_outermost = tree
                .way(id)
                .skip(1)
                .all(|above| !is_one(tree.node(above).label));
            let total = if is_outermost { node.total } else { 0 };
            function.calls += node.calls;
            function.total_ns = function.total_ns.saturating_add(total);
            function.self_ns = function.self_ns.saturating_add(node.self_time);
            function.self_unknown += node.self_unknown;
            function.open += node.open;
            let mut place = 0;
            for above in tree.way(id).skip(1) {
                place = up.next(place, tree.node(above).label);
                let made = &mut up.places[place];
                made.calls += node.calls;
                made.total = made.total.saturating_add(total);
                made.open += node.open;
            }
            if is_outermost {
                add_below(tree, id, &mut down);
            }
        }
        if function.calls + function.open == 0 {
            return None;
        }
        let name = |label| super::label_name(label, analysis, symbolizer);
        Some(Self {
            function,
            callers: up.finish(0, levels, &name),
            callees: down.finish(0, levels, &name),
        })
    }

    /// Prints the graph.
    ///
    /// # Errors
    ///
    /// Errors of writing.
    pub fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let function = &self.function;
        writeln!(
            out,
            "{:>9} {:>10} {:>10}  FUNCTION",
            "CALLS", "TOTAL", "SELF"
        )?;
        if !self.callers.is_empty() {
            writeln!(out, "{:32} called by:", "")?;
            write_places(&self.callers, "", false, out)?;
            writeln!(out, "{:32} function:", "")?;
        }
        write_place(function, "", true, out)?;
        write_places(&self.callees, "", true, out)
    }
}

/// Merges the nodes below a node into the paths from it.
fn add_below(tree: &Tree, top: NodeId, ways: &mut Ways) {
    let mut todo: Vec<(NodeId, usize)> = vec![(top, 0)];
    while let Some((id, place)) = todo.pop() {
        for child in tree.children(id) {
            let node = tree.node(child);
            let next = ways.next(place, node.label);
            let made = &mut ways.places[next];
            made.calls += node.calls;
            made.total = made.total.saturating_add(node.total);
            made.self_time = made.self_time.saturating_add(node.self_time);
            made.self_unknown += node.self_unknown;
            made.open += node.open;
            todo.push((child, next));
        }
    }
}

/// Prints places, and the places next to them, as a tree.
fn write_places(
    places: &[PathStep],
    indent: &str,
    has_self: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    for (number, place) in places.iter().enumerate() {
        let is_last = number + 1 == places.len();
        let (branch, below) = match is_last {
            true => ("`- ", "   "),
            false => ("|- ", "|  "),
        };
        write_place(place, &format!("{indent}{branch}"), has_self, out)?;
        write_places(&place.next, &format!("{indent}{below}"), has_self, out)?;
    }
    Ok(())
}

fn write_place(
    place: &PathStep,
    indent: &str,
    has_self: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let time = |ns, is_known: bool| match is_known {
        true => Time(ns).to_string(),
        false => "-".to_owned(),
    };
    let own = match has_self {
        true => time(place.self_ns, place.calls > place.self_unknown),
        false => String::new(),
    };
    write!(
        out,
        "{:>9} {:>10} {own:>10}  {indent}{}",
        Count(place.calls),
        time(place.total_ns, place.total_ns != 0),
        place.function
    )?;
    match place.open {
        0 => writeln!(out),
        open => writeln!(out, " ({open} still open)"),
    }
}
