// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Times by the whole path that led to a function: a calling-context tree.

use rustc_hash::FxHashMap;

use super::{CallEnd, Finished};
use crate::symbolizer::FunctionId;

/// A node by its place in its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u32);

impl NodeId {
    /// The root, which the outermost calls are below.
    pub const ROOT: Self = Self(0);
    /// The node of all calls that there was no room for.
    pub const OTHER: Self = Self(1);
    /// No node.
    const NONE: Self = Self(u32::MAX);

    /// Returns the place of the node.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    fn some(self) -> Option<Self> {
        (self != Self::NONE).then_some(self)
    }
}

/// The meaning of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Label {
    /// The root.
    Root,
    /// Tasks of a name, by its number.
    Comm(u32),
    /// Calls of a function.
    Function(FunctionId),
    /// Calls whose entries were not seen, one or more in each other.
    Unknown,
    /// Calls that there was no room for.
    Other,
}

impl Label {
    /// Returns a number that no other label has. There are fewer functions and names than addresses
    /// in 2 GiB of text.
    fn code(self) -> u32 {
        match self {
            Self::Function(function) => function.0 << 1,
            Self::Comm(comm) => (comm << 3) | 1,
            Self::Root => 3,
            Self::Unknown => 5,
            Self::Other => 7,
        }
    }
}

/// Number of children of a node that are cached in it.
const AT_HAND: usize = 4;

/// All calls that came by one path.
///
/// Calls are counted all over the tree, so all fields that each call needs are in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct TreeNode {
    /// The function of the calls, or another meaning of the node.
    pub label: Label,
    /// Children that were asked for last, with the codes of their labels.
    at_hand: [(u32, NodeId); AT_HAND],
    /// Calls that have returned, or entries of functions if these are all that is known.
    pub calls: u64,
    /// Time of the calls, in ns.
    pub total: u64,
    /// The part of that time that neither recorded calls nor interrupts had, of those calls of
    /// which it is known.
    pub self_time: u64,
    /// Calls whose own time is not known.
    pub self_unknown: u64,
    /// Calls that are still open at the end.
    pub open: u64,
    /// Time of the open calls so far, in ns.
    pub open_total: u64,
    /// Own time of the open calls so far, in ns, of those of which it is known.
    pub open_self: u64,
    /// Calls whose return was missed.
    pub missed: u64,
    /// The node that called them; the root's is the root.
    pub parent: NodeId,
    first_child: NodeId,
    last_child: NodeId,
    next_sibling: NodeId,
    /// True if the function is on the path only here: its time is in no other node of the same
    /// function on the path.
    pub is_outermost: bool,
}

impl TreeNode {
    fn new(label: Label, parent: NodeId) -> Self {
        Self {
            label,
            parent,
            is_outermost: true,
            calls: 0,
            total: 0,
            self_time: 0,
            self_unknown: 0,
            open: 0,
            open_total: 0,
            open_self: 0,
            missed: 0,
            first_child: NodeId::NONE,
            last_child: NodeId::NONE,
            next_sibling: NodeId::NONE,
            at_hand: [(0, NodeId::NONE); AT_HAND],
        }
    }
}

/// A calling-context tree with a limited number of nodes.
#[derive(Clone, Debug)]
pub struct Tree {
    nodes: Vec<TreeNode>,
    children: FxHashMap<(NodeId, u32), NodeId>,
    limit: usize,
}

impl Tree {
    /// Returns a tree of `limit` nodes at most.
    pub fn new(limit: usize) -> Self {
        let mut tree = Self {
            nodes: vec![TreeNode::new(Label::Root, NodeId::ROOT)],
            children: FxHashMap::default(),
            limit: limit.clamp(2, NodeId::NONE.index()),
        };
        tree.append(NodeId::ROOT, Label::Other);
        tree
    }

    /// Returns the child of a node that has this label. If there is no room for a new one, it is
    /// [`NodeId::OTHER`].
    #[inline]
    pub fn child(&mut self, parent: NodeId, label: Label) -> NodeId {
        let code = label.code();
        let at_hand = &self.nodes[parent.index()].at_hand;
        let found = at_hand
            .iter()
            .find(|(other, child)| *other == code && *child != NodeId::NONE);
        match found {
            Some((_, child)) => *child,
            None => self.look_up(parent, label),
        }
    }

    #[inline(never)]
    fn look_up(&mut self, parent: NodeId, label: Label) -> NodeId {
        let node = match self.children.get(&(parent, label.code())) {
            Some(child) => *child,
            // Calls that are not known are one, however many they are; and of others nothing is
            // known.
            None if label == Label::Unknown && self.label(parent) == Label::Unknown => parent,
            None if parent == NodeId::OTHER || self.nodes.len() >= self.limit => NodeId::OTHER,
            None => self.append(parent, label),
        };
        if self.label(node) == label {
            let at_hand = &mut self.nodes[parent.index()].at_hand;
            at_hand.copy_within(..AT_HAND - 1, 1);
            at_hand[0] = (label.code(), node);
        }
        node
    }

    fn append(&mut self, parent: NodeId, label: Label) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        let mut node = TreeNode::new(label, parent);
        node.is_outermost = self.way(parent).all(|above| self.label(above) != label);
        self.nodes.push(node);
        self.children.insert((parent, label.code()), id);
        let above = &mut self.nodes[parent.index()];
        let before = std::mem::replace(&mut above.last_child, id);
        match before.some() {
            Some(before) => self.nodes[before.index()].next_sibling = id,
            None => above.first_child = id,
        }
        id
    }

    fn label(&self, id: NodeId) -> Label {
        self.nodes[id.index()].label
    }

    /// Returns a node.
    pub fn node(&self, id: NodeId) -> &TreeNode {
        &self.nodes[id.index()]
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether the tree has nothing but the root and the node of others.
    pub fn is_empty(&self) -> bool {
        self.nodes.len() <= 2
    }

    /// Returns the node at a place.
    pub fn id(&self, index: usize) -> Option<NodeId> {
        (index < self.nodes.len()).then_some(NodeId(index as u32))
    }

    /// Returns all nodes, parents before their children.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// Returns the children of a node, in the order in which they came.
    pub fn children(&self, id: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let first = self.node(id).first_child.some();
        std::iter::successors(first, |child| self.node(*child).next_sibling.some())
    }

    /// Returns a node and those above it, without the root.
    pub fn way(&self, id: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let above = |id: &NodeId| Some(self.node(*id).parent);
        std::iter::successors(Some(id), above).take_while(|id| *id != NodeId::ROOT)
    }

    /// Adds a call of a node that has ended.
    #[inline]
    pub fn add(&mut self, id: NodeId, call: &Finished) {
        let node = &mut self.nodes[id.index()];
        match call.end {
            CallEnd::Returned => {
                node.calls += 1;
                // Times of a recording that is spoilt may be anything.
                node.total = node.total.saturating_add(call.duration);
                match call.self_time {
                    Some(own) => node.self_time = node.self_time.saturating_add(own),
                    None => node.self_unknown += 1,
                }
            }
            CallEnd::Open => {
                node.open += 1;
                node.open_total = node.open_total.saturating_add(call.duration);
                let own = call.self_time.unwrap_or(0);
                node.open_self = node.open_self.saturating_add(own);
            }
            CallEnd::Missed => node.missed += 1,
        }
    }

    /// Counts the entry of a function.
    pub fn hit(&mut self, id: NodeId) {
        self.nodes[id.index()].calls += 1;
    }
}
