// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Profile, the contexts as lines: `a;b;c 1234`, as flame graphs are made of.

use core::fmt::{Result as FmtResult, Write};

use super::context_counts::ContextSums;
use super::contexts::{step, Node, Step, FIRST, REST};
use super::task_names::written;
use crate::engine::context::Level;
use crate::engine::sort::sort_by_key;
use crate::engine::text::Text;
use crate::engine::waiting::Waker;
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

/// The parts of what was counted for a node that have lines of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinePart {
    /// The node's calls; of a waker's node, the sleeps that it has ended.
    Calls,
    /// The time for which the task was asleep in them, and not in calls within, and what woke it
    /// is not known.
    Asleep,
    /// The time for which it could have run.
    Queued,
}

/// A line: a node's, or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoldedLine {
    /// The node whose path begins the line.
    pub node: Node,
    /// The part of its counts that the line ends with.
    pub part: LinePart,
}

/// Most nodes of a path: no shadow stack has room for so many calls.
const MOST_STEPS: usize = 128;

/// The waits in calls of a node, and not in those within, in ticks.
#[derive(Clone, Copy, Default)]
struct NodeWaits {
    /// The time for which tasks did not run.
    slept: u64,
    /// The part of it in run queues.
    queued: u64,
    /// That of it in sleeps whose waker is known.
    woken: u64,
    /// The node is that of a waker.
    is_waker: bool,
}

impl NodeWaits {
    const fn asleep(self) -> u64 {
        self.slept.saturating_sub(self.queued)
    }
}

/// Nodes, and what was counted for them.
pub struct Tree {
    /// The key and counts of each node, by its index.
    nodes: Vec<(u64, ContextSums)>,
    /// The waits in the calls of nodes; none if they were not counted.
    waits: Vec<NodeWaits>,
    /// The time for which tasks did not run is a part of the times of calls.
    sleep_counts: bool,
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
        Ok(Self {
            nodes,
            waits: Vec::new(),
            sleep_counts: true,
        })
    }

    /// Has lines for waits, too, if any were counted; `ticks` makes ticks of ns. Times of calls are
    /// with those of waits if `sleep_counts`.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn with_waits(
        mut self,
        sleep_counts: bool,
        ticks: impl Fn(u64) -> u64,
    ) -> Result<Self, AllocError> {
        self.sleep_counts = sleep_counts;
        if self.nodes.iter().all(|(_, sums)| sums.slept == 0) {
            return Ok(self);
        }
        let mut waits = Vec::new();
        waits.reserve(self.nodes.len())?;
        for (_, sums) in self.nodes.iter() {
            waits.push(NodeWaits {
                slept: sums.slept,
                queued: sums.queued,
                ..NodeWaits::default()
            })?;
        }
        let step = |node: usize| step(self.nodes.get(node)?.0);
        for (node, (_, sums)) in self.nodes.iter().enumerate() {
            match step(node) {
                Some((Step::Waker(_), _)) | None => {}
                Some((_, above)) => {
                    if let Some(above) = waits.get_mut(above.index()) {
                        above.slept = above.slept.saturating_sub(sums.slept);
                        above.queued = above.queued.saturating_sub(sums.queued);
                    }
                }
            }
        }
        for of in waits.iter_mut() {
            of.queued = ticks(of.queued).min(of.slept);
        }
        for node in 0..waits.len() {
            let Some((Step::Waker(_), above)) = step(node) else {
                continue;
            };
            let Some(of) = waits.get_mut(node) else {
                continue;
            };
            of.is_waker = true;
            let asleep = of.asleep();
            if let Some(above) = waits.get_mut(above.index()) {
                above.woken = above.woken.saturating_add(asleep);
            }
        }
        self.waits = waits;
        Ok(self)
    }

    /// Makes a tree of nothing.
    pub const fn empty() -> Self {
        Self {
            nodes: Vec::new(),
            waits: Vec::new(),
            sleep_counts: true,
        }
    }

    /// The counts of a node.
    pub fn sums(&self, node: Node) -> ContextSums {
        self.nodes
            .get(node.index())
            .map_or(ContextSums::default(), |node| node.1)
    }

    /// The number that a line has; times in ticks, of which own ones that are negative, as time
    /// went back or more was seen of a part than of the whole, are 0.
    pub fn value(&self, line: FoldedLine, measure: Measure) -> u64 {
        let sums = self.sums(line.node);
        let waits = self.waits.get(line.node.index()).copied();
        let waits = waits.unwrap_or_default();
        let NodeWaits { slept, queued, .. } = waits;
        if waits.is_waker {
            return match (line.part, measure) {
                (LinePart::Calls, Measure::Own) => waits.asleep(),
                _ => 0,
            };
        }
        match (line.part, measure) {
            (LinePart::Calls, Measure::Own) if sums.own >> 63 != 0 => 0,
            (LinePart::Calls, Measure::Own) if self.sleep_counts => sums.own.saturating_sub(slept),
            (LinePart::Calls, Measure::Own) => sums.own,
            (LinePart::Calls, Measure::Total) => sums.total,
            (LinePart::Calls, Measure::Calls) => sums.calls,
            // Sleeps of calls that are open have been told by their wakers.
            (LinePart::Asleep, Measure::Own) => waits.asleep().saturating_sub(waits.woken),
            (LinePart::Queued, Measure::Own) => queued,
            // They are in the total time, and no calls.
            (LinePart::Asleep | LinePart::Queued, _) => 0,
        }
    }

    /// The lines that have a number, those with the largest first.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn lines(&self, measure: Measure) -> Result<Vec<FoldedLine>, AllocError> {
        let mut lines = Vec::new();
        for index in 0..self.nodes.len() {
            let node = Node(index as u32);
            // Others below are roots.
            let has_path = index >= FIRST || node == REST;
            for part in [LinePart::Calls, LinePart::Asleep, LinePart::Queued] {
                let line = FoldedLine { node, part };
                if has_path && self.value(line, measure) != 0 {
                    lines.push(line)?;
                }
            }
        }
        sort_by_key(&mut lines, |line| {
            let value = self.value(*line, measure);
            (u64::MAX - value, line.node.0, line.part)
        });
        Ok(lines)
    }

    fn step(&self, node: Node) -> Option<(Step, Node)> {
        step(self.nodes.get(node.index())?.0)
    }

    /// Writes the path of a line; `function` writes the name of a function, and `waker` that of a
    /// waker.
    ///
    /// # Errors
    ///
    /// Those of writing.
    pub fn write_path(
        &self,
        line: FoldedLine,
        out: &mut Text,
        mut function: impl FnMut(&mut Text, usize) -> FmtResult,
        mut waker: impl FnMut(&mut Text, Waker) -> FmtResult,
    ) -> FmtResult {
        let mut steps = [Step::Other; MOST_STEPS];
        let mut count = 0;
        let mut above = line.node;
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
                Step::Waker(by) => {
                    part(out, "[asleep]")?;
                    part(out, "")?;
                    waker(out, *by)?;
                }
            }
        }
        match line.part {
            LinePart::Calls => Ok(()),
            LinePart::Asleep => part(out, "[asleep]"),
            LinePart::Queued => part(out, "[queued]"),
        }
    }
}

/// Writes characters of a task's name. What lines have a meaning for is written as something else.
fn write_name(out: &mut Text, bytes: &[u8]) -> FmtResult {
    for byte in bytes.iter().take_while(|byte| **byte != 0) {
        out.write_char(char::from(written(*byte)))?;
    }
    Ok(())
}
