// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Static call trees: the possible callers and callees of a function, by the kernel's text.

use std::collections::{HashMap, HashSet};

use crate::functions::KernelFunctions;
use crate::kernel::KernelSymbols;

/// Functions that compilers make every other one call, so that calls of them say nothing.
const PLUMBING: [&str; 3] = ["__fentry__", "__stack_chk_fail", "__sanitizer_cov_"];

/// A direction through the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From a function to those that call it.
    Callers,
    /// From a function to those that it calls.
    Callees,
}

/// The part of a tree below a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below {
    /// All that is there, or nothing at all.
    All,
    /// Nothing: it has been shown further up.
    Above,
    /// Nothing: it would be deeper than what was asked for.
    Deeper,
}

/// A function in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeStep {
    /// Address of the function.
    pub function: u64,
    /// Number of calls between it and the root.
    pub depth: usize,
    /// Number of instructions by which it enters the function above it or is entered from there; 0
    /// for the root.
    pub sites: usize,
    /// Number of its calls and jumps through pointers.
    pub indirect: usize,
    /// True for the last one below the function above it.
    pub is_last: bool,
    /// The part of the tree below it.
    pub below: Below,
}

/// Returns whether trees leave out the function.
pub(crate) fn is_plumbing(symbols: &KernelSymbols, function: u64) -> bool {
    let name = symbols.name(function);
    PLUMBING.iter().any(|plumbing| name.starts_with(plumbing))
}

/// Returns the tree of functions that `root` leads to, down to `depth` calls, each function before
/// those below it.
pub fn tree(
    functions: &KernelFunctions,
    root: u64,
    direction: Direction,
    depth: usize,
) -> Vec<TreeStep> {
    let mut steps: Vec<TreeStep> = Vec::new();
    let mut shown = HashSet::new();
    let mut left = vec![TreeStep {
        function: root,
        depth: 0,
        sites: 0,
        indirect: indirect(functions, root),
        is_last: true,
        below: Below::All,
    }];
    while let Some(mut step) = left.pop() {
        let next = neighbours(functions, step.function, direction);
        if !next.is_empty() {
            step.below = match step.depth == depth {
                _ if shown.contains(&step.function) => Below::Above,
                true => Below::Deeper,
                false => Below::All,
            };
        }
        if step.below == Below::All {
            shown.insert(step.function);
            // The last one goes in first, as the first one is to come out first.
            for (number, (function, sites)) in next.into_iter().rev().enumerate() {
                left.push(TreeStep {
                    function,
                    depth: step.depth + 1,
                    sites,
                    indirect: indirect(functions, function),
                    is_last: number == 0,
                    below: Below::All,
                });
            }
        }
        steps.push(step);
    }
    steps
}

fn indirect(functions: &KernelFunctions, function: u64) -> usize {
    let node = functions.graph.node(function);
    node.map_or(0, |node| node.indirect)
}

/// Returns functions next to the one at `function`, in the order of the instructions, each with the
/// number of instructions.
fn neighbours(
    functions: &KernelFunctions,
    function: u64,
    direction: Direction,
) -> Vec<(u64, usize)> {
    let graph = &functions.graph;
    let Some(node) = graph.node(function) else {
        return Vec::new();
    };
    // Each with its first instruction.
    let mut found: Vec<(u64, u64, usize)> = Vec::new();
    match direction {
        Direction::Callers => {
            let mut callers: HashMap<u64, (u64, usize)> = HashMap::new();
            for site in &node.callers {
                let (first, sites) = callers.entry(site.function).or_insert((site.ip, 0));
                (*first, *sites) = (site.ip.min(*first), *sites + 1);
            }
            let caller = |(function, (first, sites))| (first, function, sites);
            found.extend(callers.into_iter().map(caller));
        }
        Direction::Callees => {
            for callee in &node.callees {
                let sites = graph.node(*callee).map_or(&[][..], |node| &node.callers);
                let ips = || sites.iter().filter(|site| site.function == function);
                let first = ips().map(|site| site.ip).min().unwrap_or_default();
                found.push((first, *callee, ips().count()));
            }
        }
    }
    found.retain(|(_, other, _)| !is_plumbing(&functions.kernel.symbols, *other));
    found.sort_unstable();
    found
        .into_iter()
        .map(|(_, function, sites)| (function, sites))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::synthetic::{functions, SyntheticCode, SyntheticFunction};
    use SyntheticCode::{Call, Jump, Pointer};

    /// Returns the tree as text: a function with its sites, deeper ones further in.
    fn text(direction: Direction, depth: usize) -> Vec<String> {
        let functions = functions(&[
            SyntheticFunction::open("outer", &[Call("middle"), Call("leaf")]),
            SyntheticFunction::sealed(
                "middle",
                &[
                    Call("leaf"),
                    Call("__fentry__"),
                    Pointer,
                    Call("leaf"),
                    Jump("tail"),
                ],
            ),
            SyntheticFunction::sealed("leaf", &[]),
            SyntheticFunction::sealed("tail", &[Call("leaf"), Call("middle")]),
            SyntheticFunction::open("__fentry__", &[]),
        ]);
        let name = match direction {
            Direction::Callers => "leaf",
            Direction::Callees => "outer",
        };
        let root = functions.kernel.symbols.place(name).unwrap();
        let line = |step: &TreeStep| {
            let below = match step.below {
                Below::All => "",
                Below::Above => " above",
                Below::Deeper => " deeper",
            };
            let last = if step.is_last { "'" } else { "" };
            format!(
                "{}{} {} {}{below}{last}",
                " ".repeat(step.depth),
                functions.kernel.symbols.name(step.function),
                step.sites,
                step.indirect
            )
        };
        tree(&functions, root, direction, depth)
            .iter()
            .map(line)
            .collect()
    }

    #[test]
    fn callees_come_in_their_order_and_once() {
        let all = [
            "outer 0 0'",
            " middle 1 1",
            "  leaf 2 0",
            "  tail 1 0'",
            "   leaf 1 0",
            "   middle 1 1 above'",
            " leaf 1 0'",
        ];
        assert_eq!(text(Direction::Callees, 9), all);
        let shallow = ["outer 0 0'", " middle 1 1 deeper", " leaf 1 0'"];
        assert_eq!(text(Direction::Callees, 1), shallow);
        assert_eq!(text(Direction::Callees, 0), ["outer 0 0 deeper'"]);
    }

    #[test]
    fn callers_lead_up() {
        let two = [
            "leaf 0 0'",
            " outer 1 0",
            " middle 2 1",
            "  outer 1 0",
            "  tail 1 0 deeper'",
            " tail 1 0'",
            "  middle 1 1 above'",
        ];
        assert_eq!(text(Direction::Callers, 2), two);
    }
}
