// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Profile: the number of calls of each function and the time they took, counted by each CPU in a
//! table of its own. Every count is one instruction without a lock, which interrupts and NMIs come
//! before or after.
//!
//! - [`numbers`]: functions have numbers, which they keep as long as anything is counted for them,
//!   also while their module is not there; the same for all CPUs.
//! - [`table`]: a CPU's counts, a cache line for each function.
//! - [`histogram`]: how long calls took, in buckets, for the functions that were called.
//! - [`frame`]: what is kept of a call that is open, on the task's shadow stack.
//! - [`contexts`]: a tree of the ways in which functions come to be called, the same for all CPUs;
//!   [`context_counts`]: what a CPU counts for its nodes; [`clean_tasks`] and [`extents`]: by which
//!   calls are known whose callers were not seen; [`folded`]: the lines.
//! - [`waits`]: for how long tasks did not run; [`sleeps`]: which sleep, and what wakes them;
//!   [`task_names`]: by what names.
//! - [`totals`]: the counts as they are read, added up, and less those before a clear.
//! - [`text`]: lines of the files.

pub mod clean_tasks;
pub mod context_counts;
pub mod contexts;
pub mod extents;
pub mod folded;
pub mod frame;
pub mod histogram;
pub mod numbers;
pub mod sleeps;
pub mod table;
pub mod task_names;
pub mod text;
pub mod totals;
pub mod waits;
