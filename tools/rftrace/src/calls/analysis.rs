// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Analysis: the visitor that counts calls.

use rftrace_engine::engine::slot::Task;
use rustc_hash::FxHashMap;

use super::tree::{Label, NodeId, Tree};
use super::{BegunCall, Finished, Groups, Visitor};
use crate::symbolizer::FunctionId;

/// A property that calls are grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupBy {
    /// The function.
    #[default]
    Function,
    /// The function and its caller.
    Caller,
    /// The name of the task.
    Comm,
}

/// The name of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupName {
    /// Calls of a function.
    Function(FunctionId),
    /// Calls of a function by this caller: a function, or one that is not known.
    Call(Label, FunctionId),
    /// Calls by tasks of a name, by its number.
    Comm(u32),
    /// Calls that there was no room for.
    Others,
}

/// Bounds of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Maximum number of nodes of the tree, about 130 bytes each.
    pub nodes: usize,
    /// Maximum number of groups, about 10 KB each.
    pub groups: usize,
    /// Maximum number of names of tasks.
    pub comms: usize,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self {
            nodes: 2 << 20,
            groups: 1 << 16,
            comms: 1 << 16,
        }
    }
}

/// A call that is open.
#[derive(Clone, Copy, Debug)]
pub struct AnalysisFrame {
    node: NodeId,
    group: u32,
    /// True if the call is in no other call of the group.
    is_outermost: bool,
}

/// The group of a node's calls.
#[derive(Clone, Copy, Debug)]
struct Grouped {
    group: u32,
    is_outermost: bool,
}

/// Counts calls, by the paths that led to them and in groups.
#[derive(Clone, Debug)]
pub struct Analysis {
    tree: Tree,
    groups: Groups<GroupName>,
    by: GroupBy,
    has_comms: bool,
    numbers: FxHashMap<GroupName, u32>,
    /// Groups of the calls of each node.
    grouped: Vec<Grouped>,
    comms: Vec<[u64; 2]>,
    comm_numbers: FxHashMap<[u64; 2], u32>,
    limits: MemoryLimits,
}

impl Analysis {
    /// Returns an analysis that groups calls by `by`. With `has_comms` the tree's first level is
    /// the names of tasks, else it is the outermost functions.
    pub fn new(by: GroupBy, has_comms: bool, limits: MemoryLimits) -> Self {
        let mut analysis = Self {
            tree: Tree::new(limits.nodes),
            groups: Groups::new(limits.groups, GroupName::Others),
            by,
            has_comms: has_comms || by == GroupBy::Comm,
            numbers: FxHashMap::default(),
            grouped: Vec::new(),
            comms: Vec::new(),
            comm_numbers: FxHashMap::default(),
            limits,
        };
        analysis.group_nodes();
        analysis
    }

    /// Returns the tree.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Returns the groups.
    pub fn groups(&self) -> &Groups<GroupName> {
        &self.groups
    }

    /// Returns the name of tasks that has this number.
    pub fn comm(&self, number: u32) -> String {
        let comm = self.comms.get(number as usize).copied();
        let task = Task {
            comm: comm.unwrap_or_default(),
            ..Task::default()
        };
        String::from_utf8_lossy(task.name(&mut [0; 16])).into_owned()
    }

    /// Returns the group of the call that is open for the longest time at the end, and its time so
    /// far, in ns.
    pub fn open_longest(&self) -> Option<(Label, u64)> {
        let longest = self.groups.iter().filter(|(_, group)| group.open != 0);
        let longest = longest.max_by_key(|(_, group)| group.open_longest);
        longest.map(|(name, group)| {
            let label = match *name {
                GroupName::Function(function) | GroupName::Call(_, function) => {
                    Label::Function(function)
                }
                GroupName::Comm(comm) => Label::Comm(comm),
                GroupName::Others => Label::Other,
            };
            (label, group.open_longest)
        })
    }

    fn comm_label(&mut self, comm: [u64; 2]) -> Label {
        if let Some(number) = self.comm_numbers.get(&comm) {
            return Label::Comm(*number);
        }
        if self.comms.len() >= self.limits.comms {
            return Label::Other;
        }
        let number = self.comms.len() as u32;
        self.comms.push(comm);
        self.comm_numbers.insert(comm, number);
        Label::Comm(number)
    }

    /// Returns the node of outermost calls of a task.
    #[inline]
    fn top(&mut self, task: &Task) -> NodeId {
        match self.has_comms {
            false => NodeId::ROOT,
            true => {
                let label = self.comm_label(task.comm);
                self.tree.child(NodeId::ROOT, label)
            }
        }
    }

    #[inline]
    fn frame(&mut self, above: NodeId, label: Label) -> AnalysisFrame {
        let node = self.tree.child(above, label);
        if node.index() >= self.grouped.len() {
            self.group_nodes();
        }
        let Grouped {
            group,
            is_outermost,
        } = self.grouped[node.index()];
        AnalysisFrame {
            node,
            group,
            is_outermost,
        }
    }

    /// Assigns groups to nodes that are new.
    #[cold]
    fn group_nodes(&mut self) {
        while let Some(node) = self.tree.id(self.grouped.len()) {
            let name = self.group_name(node);
            let mut above = self.tree.way(node).skip(1);
            let is_outermost = above.all(|above| self.group_name(above) != name);
            let group = match self.numbers.get(&name) {
                Some(group) => *group,
                None if name == GroupName::Others => Groups::<GroupName>::OTHERS,
                None => self.groups.append(name),
            };
            self.numbers.insert(name, group);
            self.grouped.push(Grouped {
                group,
                is_outermost,
            });
        }
    }

    /// Returns the name of the group that a node's calls are in.
    fn group_name(&self, node: NodeId) -> GroupName {
        let Label::Function(function) = self.tree.node(node).label else {
            return GroupName::Others;
        };
        match self.by {
            GroupBy::Function => GroupName::Function(function),
            GroupBy::Caller => {
                let caller = self.tree.node(self.tree.node(node).parent).label;
                GroupName::Call(caller, function)
            }
            GroupBy::Comm => {
                let top = self.tree.way(node).last();
                match top.map(|top| self.tree.node(top).label) {
                    Some(Label::Comm(comm)) => GroupName::Comm(comm),
                    _ => GroupName::Others,
                }
            }
        }
    }

    /// Returns the group of a call of a function for which the tree has no room.
    #[cold]
    fn group_without_node(&mut self, name: GroupName) -> u32 {
        match self.numbers.get(&name) {
            Some(group) => *group,
            None => {
                let group = self.groups.append(name);
                // Names that have no group need not be remembered.
                if group != Groups::<GroupName>::OTHERS {
                    self.numbers.insert(name, group);
                }
                group
            }
        }
    }
}

impl Visitor for Analysis {
    type Frame = AnalysisFrame;

    #[inline(always)]
    fn enter(&mut self, call: &BegunCall<'_>, around: Option<AnalysisFrame>) -> AnalysisFrame {
        let label = call.function.map_or(Label::Unknown, Label::Function);
        let above = match around {
            Some(around) => around.node,
            None => self.top(call.task),
        };
        let mut frame = self.frame(above, label);
        if frame.node == NodeId::OTHER {
            if let (GroupBy::Function, Some(function)) = (self.by, call.function) {
                frame.group = self.group_without_node(GroupName::Function(function));
            }
        }
        if self.by == GroupBy::Comm {
            frame.is_outermost = !call.is_nested;
        }
        frame
    }

    #[inline]
    fn leave(&mut self, frame: AnalysisFrame, call: &Finished) {
        self.tree.add(frame.node, call);
        self.groups.of(frame.group).add(call, frame.is_outermost);
    }

    fn hit(&mut self, task: &Task, function: FunctionId, caller: Option<FunctionId>) {
        let mut above = self.top(task);
        if let Some(caller) = caller {
            above = self.frame(above, Label::Function(caller)).node;
        }
        let frame = self.frame(above, Label::Function(function));
        self.tree.hit(frame.node);
        self.groups.of(frame.group).hit();
    }
}
