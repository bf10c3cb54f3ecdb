// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Calls, put together from events: who called whom, for how long. docs/analysis.md tells how times are defined.
//!
//! An [`Assembler`] follows each task's open calls and tells a [`Visitor`] when one begins and ends. [`Tree`] has
//! the times by the whole way that led to a function, [`Groups`] those of a function, or whatever else calls are put
//! together by, with percentiles; [`Analysis`] is the visitor that fills both, in bounded memory.

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

pub use analysis::{Analysis, By, GroupName, Limits};
pub use assembler::{Assembler, Counts};
pub use groups::{Groups, Statistics};
pub use tree::{Label, Node, NodeId, Tree};

use crate::symbolizer::FunctionId;

/// A call that begins.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The CPU.
    pub cpu: u32,
    /// The task that calls.
    pub task: &'a Task,
    /// The function; `None` if it is not known, as the call began before events were recorded.
    pub function: Option<FunctionId>,
    /// In a task, or in an interrupt.
    pub level: Level,
    /// It interrupts what the task does: it is no child of that.
    pub is_interrupt: bool,
    /// It is in another recorded call of its task, or interrupts one.
    pub is_nested: bool,
}

/// Ways in which a call ends for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It has returned.
    Returned,
    /// It is still open where the events end.
    Open,
    /// Its return was not seen, and it is over all the same.
    Missed,
}

/// A call that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// When it began, in ns.
    pub begin: u64,
    /// Its duration, in ns; so far, if it is open; 0 if its return was missed.
    pub duration: u64,
    /// The part of that in which nothing that is recorded ran: neither calls nor interrupts. `None` if that is not
    /// known: events were lost meanwhile, or before.
    pub self_time: Option<u64>,
    /// The way it ended.
    pub end: End,
}

/// Is told of calls.
pub trait Visitor {
    /// Data that are kept for a call that is open.
    type Frame: Copy;

    /// A call begins, in one with this frame; in none if it is the outermost, or an interrupt.
    ///
    /// A call without a function, and one whose return is missed before it was told of, may never be left.
    fn enter(&mut self, call: &Call<'_>, around: Option<Self::Frame>) -> Self::Frame;

    /// The innermost open call of a task ends.
    fn leave(&mut self, frame: Self::Frame, call: &Finished);

    /// A function was entered, and nothing is said of its end; `caller` is what its return address is in.
    fn hit(&mut self, task: &Task, function: FunctionId, caller: Option<FunctionId>);
}
