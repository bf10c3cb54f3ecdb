// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Calls, put together from events, with their callers and durations. docs/analysis.md defines the
//! times.
//!
//! An [`Assembler`] follows each task's open calls and tells a [`Visitor`] when one begins and
//! ends. [`Tree`] has the times by the whole path that led to a function, [`Groups`] those of a
//! function, or of another property that calls are grouped by, with percentiles; [`Analysis`] is
//! the visitor that fills both, in bounded memory.

mod analysis;
mod assembler;
mod groups;
mod losses;
#[cfg(test)]
pub(crate) mod properties;
mod tasks;
mod tree;

use rftrace_engine::engine::context::Level;
use rftrace_engine::engine::slot::Task;

pub use analysis::{Analysis, GroupBy, GroupName, MemoryLimits};
pub use assembler::{Assembler, CallCounts};
pub use groups::{Groups, Statistics};
pub use tree::{Label, NodeId, Tree, TreeNode};

use crate::symbolizer::FunctionId;

/// A call that begins.
#[derive(Clone, Copy, Debug)]
pub struct BegunCall<'a> {
    /// The CPU of the call.
    pub cpu: u32,
    /// The task that calls.
    pub task: &'a Task,
    /// The function; `None` if it is not known, as the call began before events were recorded.
    pub function: Option<FunctionId>,
    /// The level of execution: in a task, or in an interrupt.
    pub level: Level,
    /// True if it interrupts what the task does: it is no child of that.
    pub is_interrupt: bool,
    /// True if it is in another recorded call of its task, or interrupts one.
    pub is_nested: bool,
}

/// Ways in which a call ends for the assembler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// The call has returned.
    Returned,
    /// The call is still open where the events end.
    Open,
    /// The call's return was not seen, and it is over all the same.
    Missed,
}

/// A call that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Time at which it began, in ns.
    pub begin: u64,
    /// Duration of the call, in ns; so far, if it is open; 0 if its return was missed.
    pub duration: u64,
    /// The part of the duration in which nothing that is recorded ran: neither calls nor
    /// interrupts. `None` if that is not known: events were lost meanwhile, or before.
    pub self_time: Option<u64>,
    /// The way it ended.
    pub end: CallEnd,
}

/// Receives the calls.
pub trait Visitor {
    /// Data that are kept for a call that is open.
    type Frame: Copy;

    /// Handles the beginning of a call, in one with this frame; in none if it is the outermost, or
    /// an interrupt.
    ///
    /// A call without a function, and one whose return is missed before it was reported, may never
    /// be left.
    fn enter(&mut self, call: &BegunCall<'_>, around: Option<Self::Frame>) -> Self::Frame;

    /// Handles the end of the innermost open call of a task.
    fn leave(&mut self, frame: Self::Frame, call: &Finished);

    /// Handles the entry of a function whose end is not recorded; `caller` is the function that its
    /// return address is in.
    fn hit(&mut self, task: &Task, function: FunctionId, caller: Option<FunctionId>);
}
