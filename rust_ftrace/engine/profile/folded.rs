// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Profile, the contexts as lines: `a;b;c 1234`, as flame graphs are made of.

use core::fmt::{Result as FmtResult, Write};

use super::context_counts::ContextSums;
use super::contexts::{step, Node, Step, FIRST, REST};
use crate::engine::context::Level;
use crate::engine::sort::sort_by_key;
use crate::engine::text::Text;
use crate::platform::{AllocError, Vec};

/// The number that a line has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The time that was not in calls within.
    Own,
    /// All of the time.
    Total,
    /// The number of calls.
    Calls,
}

/// Most nodes of a path: no shadow stack has room for so many calls.
const MOST_STEPS: usize = 128;

/// Nodes, and what was counted for them.
pub struct Tree {
    /// The key and counts of each node, by its index.
    nodes: Vec<(u64, ContextSums)>,
}

impl Tree {
    /// Makes a tree of the slots with these `keys`, with what was counted for the nodes; `sums` is
    /// asked for that by their index.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn new(
        keys: impl Iterator<Item = u64>,
        sums: impl Fn(usize) -> ContextSums,
    ) -> Result<Self, AllocError> {
        let mut nodes = Vec::new();
        for index in 0..FIRST {
            nodes.push((0, sums(index)))?;
        }
        for key in keys {
            let counted = match key {
                0 => ContextSums::default(),
                _ => sums(nodes.len()),
            };
            nodes.push((key, counted))?;
        }
        Ok(Self { nodes })
    }

    /// Makes a tree of nothing.
    pub const fn empty() -> Self {
        Self { nodes: Vec::new() }
    }

    /// The counts of a node.
    pub fn sums(&self, node: Node) -> ContextSums {
        self.nodes
            .get(node.index())
            .map_or(ContextSums::default(), |node| node.1)
    }

    /// The number that the line of a node has; times in ticks, of which own ones that are negative,
    /// as time went back or more was seen of a part than of the whole, are 0.
    pub fn value(&self, node: Node, measure: Measure) -> u64 {
        let sums = self.sums(node);
        match measure {
            Measure::Own if sums.own >> 63 != 0 => 0,
            Measure::Own => sums.own,
            Measure::Total => sums.total,
            Measure::Calls => sums.calls,
        }
    }

    /// The nodes whose lines have a number, those with the largest first.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn lines(&self, measure: Measure) -> Result<Vec<Node>, AllocError> {
        let mut lines = Vec::new();
        for index in 0..self.nodes.len() {
            let node = Node(index as u32);
            // Others below are roots.
            let has_path = index >= FIRST || node == REST;
            if has_path && self.value(node, measure) != 0 {
                lines.push(node)?;
            }
        }
        sort_by_key(&mut lines, |node| {
            (u64::MAX - self.value(*node, measure), node.0)
        });
        Ok(lines)
    }

    fn step(&self, node: Node) -> Option<(Step, Node)> {
        step(self.nodes.get(node.index())?.0)
    }

    /// Writes the path of a node; `function` writes the name of one.
    ///
    /// # Errors
    ///
    /// Those of writing.
    pub fn write_path(
        &self,
        node: Node,
        out: &mut Text,
        mut function: impl FnMut(&mut Text, usize) -> FmtResult,
    ) -> FmtResult {
        let mut steps = [Step::Other; MOST_STEPS];
        let mut count = 0;
        let mut above = node;
        while let Some((step, next)) = self.step(above) {
            let Some(place) = steps.get_mut(count) else {
                break;
            };
            *place = step;
            count += 1;
            above = next;
        }
        let mut separator = "";
        let mut part = |out: &mut Text, text: &str| {
            out.write_str(core::mem::replace(&mut separator, ";"))?;
            out.write_str(text)
        };
        let (level, began_before) = above.as_root().unwrap_or((Level::Task, false));
        match level {
            Level::Task => {}
            Level::Softirq => part(out, "[softirq]")?,
            Level::Hardirq => part(out, "[hardirq]")?,
            Level::Nmi => part(out, "[nmi]")?,
        }
        if above == REST {
            part(out, "[other]")?;
        }
        // The parts of a name follow each other below the root.
        let mut steps = steps.iter().take(count).rev().peekable();
        let mut is_name = false;
        while let Some(Step::Name(bytes)) = steps.peek() {
            if !core::mem::replace(&mut is_name, true) {
                part(out, "")?;
            }
            write_name(out, bytes)?;
            steps.next();
        }
        if began_before {
            part(out, "[before]")?;
        }
        for step in steps {
            match step {
                Step::Function(number) => {
                    part(out, "")?;
                    function(out, *number)?;
                }
                Step::Name(_) | Step::Other => part(out, "[other]")?,
            }
        }
        Ok(())
    }
}

/// Writes characters of a task's name. What lines have a meaning for is written as something else.
fn write_name(out: &mut Text, bytes: &[u8]) -> FmtResult {
    for byte in bytes.iter().take_while(|byte| **byte != 0) {
        out.write_char(match byte {
            b' ' => '_',
            b';' => ':',
            b'!'..=b'~' => char::from(*byte),
            _ => '?',
        })?;
    }
    Ok(())
}
