// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Profile, the counts of contexts: those of a CPU, and the sums as they are read.

use core::ops::Deref;

use super::contexts::{CallContext, Contexts, Node};
use super::frame::Times;
use crate::platform::{local_add_behind, AllocError, Vec, Word};

/// The counts of a CPU for a node, written by that CPU only.
#[repr(C, align(32))]
struct NodeCounts {
    /// Calls that were entered, the time of those that have returned, and the part of it that was
    /// not in calls within them.
    sums: [Word; 3],
}

impl NodeCounts {
    #[inline(always)]
    fn count_call(&self) {
        self.sums[0].local_increment();
    }
}

/// The counts of a CPU, by the node.
pub struct CpuContexts<T> {
    tree: T,
    counts: Vec<NodeCounts>,
}

impl<T: Deref<Target = Contexts>> CpuContexts<T> {
    /// Makes counts for all nodes of `tree`.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn new(tree: T) -> Result<Self, AllocError> {
        let mut counts = Vec::new();
        counts.reserve(tree.nodes())?;
        for _ in 0..tree.nodes() {
            counts.push(NodeCounts {
                sums: [0; 3].map(Word::new),
            })?;
        }
        Ok(Self { tree, counts })
    }

    /// The tree.
    #[inline(always)]
    pub fn tree(&self) -> &Contexts {
        &self.tree
    }

    /// Counts a call of the function with this number from `context`, if its node is in one of the
    /// first slots that it can be in, and returns its context.
    ///
    /// To be called on the CPU, with preemption off.
    #[inline(always)]
    pub fn enter_near(&self, context: CallContext, number: u64) -> Option<CallContext> {
        let node = self.tree.find_near(context, number)?;
        self.counts.get(node.index())?.count_call();
        Some(context.called(node))
    }

    /// Counts a call of the function with this number below the node `above`, in `interrupts`, and
    /// returns its context. To be called as [`Self::enter_near`].
    pub fn enter(&self, above: Node, number: u64, interrupts: u32) -> CallContext {
        let node = self.tree.enter(above, number);
        if let Some(counts) = self.counts.get(node.index()) {
            counts.count_call();
        }
        CallContext::new(node, interrupts, node == above)
    }

    /// Returns the counts for the return of a call with this context.
    #[inline(always)]
    pub fn of(&self, context: CallContext) -> Option<Returning<'_>> {
        let counts = self.counts.get(context.node().index())?;
        Some(Returning { counts, context })
    }

    /// The counts of a node, inexact while counting goes on.
    pub fn sums(&self, node: usize) -> ContextSums {
        self.counts
            .get(node)
            .map_or(ContextSums::default(), |counts| {
                let [calls, total, own] = counts.sums.each_ref().map(Word::load_relaxed);
                ContextSums {
                    calls,
                    total,
                    own,
                    ..ContextSums::default()
                }
            })
    }

    /// Bytes of memory, without those of the tree.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.counts)
    }
}

/// The counts for the return of a call.
#[derive(Clone, Copy)]
pub struct Returning<'a> {
    counts: &'a NodeCounts,
    context: CallContext,
}

impl Returning<'_> {
    /// Adds the times of a call. To be called on the CPU, with preemption off; the call may have
    /// been entered on another one.
    #[inline(always)]
    pub fn add(&self, times: Times) {
        // What is within another call of the node is in that one's time.
        let total = if self.context.is_nested() {
            0
        } else {
            times.time
        };
        // Time may go back between CPUs: then this takes some away again.
        let own = times.time.wrapping_sub(times.within);
        local_add_behind(&self.counts.sums, total, own);
    }
}

/// The counts of a node, as they are read; times in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextSums {
    /// Calls that were entered.
    pub calls: u64,
    /// Time of those that have returned.
    pub total: u64,
    /// The part of it that was not in calls within them.
    pub own: u64,
    /// The time for which the task did not run, if that was counted.
    pub slept: u64,
    /// The part of it in run queues, in ns.
    pub queued: u64,
}

impl ContextSums {
    /// Adds the counts of `other`.
    pub fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls.wrapping_add(other.calls),
            total: self.total.wrapping_add(other.total),
            own: self.own.wrapping_add(other.own),
            slept: self.slept.wrapping_add(other.slept),
            queued: self.queued.wrapping_add(other.queued),
        }
    }

    /// Takes away the counts of `other`, which were read before.
    pub fn since(self, other: Self) -> Self {
        Self {
            calls: self.calls.wrapping_sub(other.calls),
            total: self.total.wrapping_sub(other.total),
            own: self.own.wrapping_sub(other.own),
            slept: self.slept.wrapping_sub(other.slept),
            queued: self.queued.wrapping_sub(other.queued),
        }
    }
}
