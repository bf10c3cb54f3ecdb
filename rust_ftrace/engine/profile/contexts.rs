// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Profile, the contexts: a tree of the ways in which functions come to be called.
//!
//! A *node* is a function, or part of a task's name, below another one; a call belongs to the node
//! of its function below that of the call around it. Below it is a node for each [`Waker`] by which
//! the task went on when it slept there, if that is counted. The nodes are the slots of a table,
//! which all CPUs share, so that a task may go to another CPU in the middle of a call. A slot's
//! word is its *key*, 0 as long as it is free:
//!
//! | bits  | what                                                                       |
//! |-------|----------------------------------------------------------------------------|
//! | 0-39  | the number of the function, five characters of a name, the first low, or   |
//! |       | the waker                                                                  |
//! | 40-60 | the number of the node above it, which is not 0                            |
//! | 61-62 | the kind: 0 a function, 1 part of a name, 2 what found no room, 3 a waker  |
//!
//! The key of a root is of kind 3, without a node above.
//!
//! The number of a node is that of its slot. Those below [`FIRST`] are taken for roots, and for
//! none. A slot that was taken stays so as long as the table. So it is taken by one exchange, in
//! any context, and a search that ends at a free one has seen all.
//!
//! When so many slots are taken as may be, what is new is in a node `[other]` below the last one
//! that was there, and all that it calls, too.
//!
//! An open call has a word that says where it is in the tree, its [`CallContext`]:
//!
//! | bits  | what                                                                    |
//! |-------|-------------------------------------------------------------------------|
//! | 0-31  | the interrupts that it was called in, as the preempt count has them     |
//! | 32    | it is within another call of the same node                              |
//! | 40-62 | the key of what it calls, without the function                          |

use super::clean_tasks::CleanTasks;
use crate::engine::context::Level;
use crate::engine::waiting::Waker;
use crate::platform::{AllocError, Vec, Word};

/// The number of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node(pub u32);

/// The number of the first node that is no root.
pub const FIRST: usize = 16;

/// The node of what found no room below any other.
pub const REST: Node = Node(1);

/// The node under which there is none.
const NOWHERE: Node = Node(2);

/// The root of the first level.
const ROOTS: u32 = 3;

/// Most slots of a table.
const MOST_SLOTS: usize = 1 << 20;

/// Most contexts of a table.
pub const MOST_CONTEXTS: usize = MOST_SLOTS / 4 * 3;

/// Most slots that are looked at for a node. (where three of four are taken it is nine on average)
const PROBES: usize = 64;
/// The number of those that are looked at on the usual way.
const NEAR: usize = 4;

/// 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

const PARENT_SHIFT: u32 = 40;
const ITEM: u64 = (1 << PARENT_SHIFT) - 1;
const PARENT: u64 = (1 << 21) - 1;
const KIND_SHIFT: u32 = 61;
const FUNCTION: u64 = 0;
const NAME: u64 = 1 << KIND_SHIFT;
const OTHER: u64 = 2 << KIND_SHIFT;
const WAKER: u64 = 3 << KIND_SHIFT;
/// The key of a root.
const ROOT: u64 = WAKER;
const KIND: u64 = 3 << KIND_SHIFT;

/// Flag of a context: the call is within another call of the same node.
const NESTED: u64 = 1 << 32;

/// Bits of a part of a name.
const PART_BITS: u32 = 40;

/// The context of an open call: its place in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallContext(pub u64);

impl CallContext {
    /// A context below which no function is found.
    pub const NOWHERE: Self = Self::new(NOWHERE, 0, false);

    /// The root of calls of tasks.
    pub const TASKS: Self = Self::new(Node::root(Level::Task, false), 0, false);

    /// Makes the context of a call of `node`, in these `interrupts`.
    pub const fn new(node: Node, interrupts: u32, is_nested: bool) -> Self {
        let nested = if is_nested { NESTED } else { 0 };
        Self(node.parent_bits() | nested | interrupts as u64)
    }

    /// The node.
    #[inline(always)]
    pub const fn node(self) -> Node {
        Node(((self.0 >> PARENT_SHIFT) & PARENT) as u32)
    }

    /// The interrupts that it was called in.
    #[inline(always)]
    pub const fn interrupts(self) -> u32 {
        self.0 as u32
    }

    /// Returns whether it is within another call of the same node.
    #[inline(always)]
    pub const fn is_nested(self) -> bool {
        self.0 & NESTED != 0
    }

    /// Returns the context of a call of `node` from here, which [`Contexts::find_near`] found.
    #[inline(always)]
    pub const fn called(self, node: Node) -> Self {
        Self(node.parent_bits() | self.0 as u32 as u64)
    }

    #[inline(always)]
    const fn key(self, number: u64) -> u64 {
        (self.0 & !ITEM) | number
    }
}

impl Node {
    /// The root of calls in a `level`; of those that open calls may be around that were not seen,
    /// as they `began_before`.
    pub const fn root(level: Level, began_before: bool) -> Self {
        let number = ((level as u32) << 1) | began_before as u32;
        Self(ROOTS.wrapping_add(number))
    }

    /// The level and whether callers began before, if it is a root.
    pub const fn as_root(self) -> Option<(Level, bool)> {
        let number = self.0.wrapping_sub(ROOTS);
        let level = match number / 2 {
            0 => Level::Task,
            1 => Level::Softirq,
            2 => Level::Hardirq,
            3 => Level::Nmi,
            _ => return None,
        };
        Some((level, number % 2 != 0))
    }

    /// The index of what is counted for it.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The bits of the key of a node below it.
    #[inline(always)]
    const fn parent_bits(self) -> u64 {
        (self.0 as u64) << PARENT_SHIFT
    }

    const fn of_slot(slot: usize) -> Self {
        Self(slot as u32)
    }
}

/// The part of a path that a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The function with this number.
    Function(usize),
    /// Characters of a task's name.
    Name([u8; 5]),
    /// All that found no room.
    Other,
    /// A waker of tasks that slept there.
    Waker(Waker),
}

/// Returns the part of a path that a slot with this key is, and the node above; `None` if it is
/// free, or a root's.
pub const fn step(key: u64) -> Option<(Step, Node)> {
    let step = match key & KIND {
        _ if key == 0 || key == ROOT => return None,
        FUNCTION => Step::Function((key & ITEM) as usize),
        NAME => {
            let [a, b, c, d, e, ..] = (key & ITEM).to_le_bytes();
            Step::Name([a, b, c, d, e])
        }
        OTHER => Step::Other,
        _ => Step::Waker(Waker::of_word(key)),
    };
    Some((step, Node(((key >> PARENT_SHIFT) & PARENT) as u32)))
}

/// The tree.
///
/// # Invariants
///
/// - `slots` has a power of two, which `shift` follows from, and `PROBES` more. The first of them
///   are the roots'.
/// - Between the slot that a key hashes to and the one it is in, none is free.
pub struct Contexts {
    slots: Vec<Word>,
    shift: u32,
    /// The number of nodes of functions and names that there may be.
    limit: usize,
    /// The number of those that there are, or are about to be.
    used: Word,
    /// The number of nodes `[other]`.
    others: Word,
    /// Tasks whose calls have no callers that were not seen.
    pub clean: CleanTasks,
}

impl Contexts {
    /// Makes a tree of at most `limit` contexts, which is no more than [`MOST_CONTEXTS`].
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn new(limit: usize) -> Result<Self, AllocError> {
        let limit = limit.min(MOST_CONTEXTS);
        let size = limit.div_ceil(3).saturating_mul(4).max(FIRST);
        let size = size.next_power_of_two();
        let mut slots = Vec::new();
        let all = size.saturating_add(PROBES);
        slots.reserve(all)?;
        for slot in 0..all {
            let key = if slot < FIRST { ROOT } else { 0 };
            slots.push(Word::new(key))?;
        }
        // INVARIANT: All but those of roots are free.
        Ok(Self {
            slots,
            shift: u64::BITS.saturating_sub(size.trailing_zeros()),
            limit,
            used: Word::new(0),
            others: Word::new(0),
            clean: CleanTasks::new()?,
        })
    }

    #[inline(always)]
    fn start(&self, key: u64) -> usize {
        let start = key.wrapping_mul(SPREAD).wrapping_shr(self.shift) as usize;
        // No change: there are no more. So it is known that a little can be added.
        start & (MOST_SLOTS - 1)
    }

    /// The node of the function with this number, called from `context`, if it is in one of the
    /// first slots that it can be in.
    #[inline(always)]
    pub fn find_near(&self, context: CallContext, number: u64) -> Option<Node> {
        let key = context.key(number);
        let start = self.start(key);
        let near = self.slots.get(start..start.wrapping_add(NEAR))?;
        let near = near.first_chunk::<NEAR>()?;
        let step = if near[0].load_relaxed() == key {
            0
        } else if near[1].load_relaxed() == key {
            1
        } else if near[2].load_relaxed() == key {
            2
        } else if near[3].load_relaxed() == key {
            3
        } else {
            return None;
        };
        Some(Node::of_slot(start.wrapping_add(step)))
    }

    /// The node of the function with this number below `above`. If there is no room for it, the
    /// node `[other]` instead. To be called in any context.
    pub fn enter(&self, above: Node, number: u64) -> Node {
        if self.is_other(above) {
            return above;
        }
        let key = FUNCTION | above.parent_bits() | (number & ITEM);
        let node = self.take(key, &self.used, self.limit);
        node.unwrap_or_else(|| self.other(above))
    }

    /// The node of tasks with a `name` below `root`: all before the first zero. To be called in any
    /// context.
    pub fn named(&self, root: Node, name: [u64; 2]) -> Node {
        let mut rest = u128::from(name[0]) | (u128::from(name[1]) << 64);
        let mut node = root;
        loop {
            let part = rest as u64 & ITEM;
            let key = NAME | node.parent_bits() | part;
            let Some(next) = self.take(key, &self.used, self.limit) else {
                return self.other(node);
            };
            node = next;
            rest >>= PART_BITS;
            // A name ends with its first zero, whatever is behind that.
            if rest == 0 || part.to_le_bytes().iter().take(5).any(|byte| *byte == 0) {
                return node;
            }
        }
    }

    /// The node of what woke tasks that slept in calls of the node `above`; `None` if there is no
    /// room for it. To be called in any context.
    pub fn woken(&self, above: Node, waker: Waker) -> Option<Node> {
        let key = WAKER | above.parent_bits() | u64::from(waker.0);
        self.take(key, &self.used, self.limit)
    }

    /// The node of what found no room below `above`.
    #[cold]
    fn other(&self, above: Node) -> Node {
        let key = OTHER | above.parent_bits();
        let limit = self.slots.len() / 8;
        self.take(key, &self.others, limit).unwrap_or(REST)
    }

    /// Returns whether the calls of a node are those that found no room.
    pub fn is_other(&self, node: Node) -> bool {
        let key = self.slots.get(node.index());
        node == REST || key.is_some_and(|key| key.load_relaxed() & KIND == OTHER)
    }

    /// The node with this key, which takes a slot if it has none, and the `limit` of those that are
    /// `used` allows it.
    fn take(&self, key: u64, used: &Word, limit: usize) -> Option<Node> {
        let start = self.start(key);
        for slot in start..start.wrapping_add(PROBES) {
            let word = self.slots.get(slot)?;
            let mut found = word.load_relaxed();
            if found == 0 {
                if !reserve(used, limit) {
                    // An interrupt, or another CPU, may have taken the last for the same.
                    let is_same = word.load_relaxed() == key;
                    return is_same.then_some(Node::of_slot(slot));
                }
                // INVARIANT: All slots before this one were taken, and stay so.
                if word.exchange(0, key) {
                    return Some(Node::of_slot(slot));
                }
                // One was faster, perhaps with the same.
                release(used);
                found = word.load_relaxed();
            }
            if found == key {
                return Some(Node::of_slot(slot));
            }
        }
        None
    }

    /// The keys of the nodes from [`FIRST`] on, in order.
    pub fn keys(&self) -> impl Iterator<Item = u64> + '_ {
        self.slots.iter().skip(FIRST).map(Word::load_relaxed)
    }

    /// The nodes of what found no room.
    pub fn others(&self) -> impl Iterator<Item = Node> + '_ {
        let slots = self.slots.iter().enumerate();
        let others = slots.filter(|(_, key)| key.load_relaxed() & KIND == OTHER);
        let others = others.map(|(slot, _)| Node::of_slot(slot));
        core::iter::once(REST).chain(others)
    }

    /// The number of nodes, those that are about to be included.
    pub fn used(&self) -> usize {
        self.used.load_relaxed() as usize
    }

    /// The number of contexts that there may be.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// The number of nodes, of all kinds and with the roots, that anything can be counted for.
    pub fn nodes(&self) -> usize {
        self.slots.len()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.slots).saturating_add(self.clean.bytes())
    }
}

/// Adds one, unless that would be more than `limit`.
fn reserve(used: &Word, limit: usize) -> bool {
    loop {
        let before = used.load_relaxed();
        if before >= limit as u64 {
            return false;
        }
        if used.exchange(before, before.wrapping_add(1)) {
            return true;
        }
    }
}

/// Takes one back.
fn release(used: &Word) {
    loop {
        let before = used.load_relaxed();
        if used.exchange(before, before.wrapping_sub(1)) {
            return;
        }
    }
}
