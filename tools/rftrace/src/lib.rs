// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The command `rftrace`: traces kernel functions with the module rust_ftrace, and tells what was
//! seen.
//!
//! [`kernel`] is the kernel that is examined: its symbols and its text, of the running machine or
//! of a file. [`live`] is the machine that this runs on, with the module's directory and the
//! module. [`call_graph`] has the callers of each function by that text, and [`why`] draws the
//! conclusions for one function.

pub mod advice;
pub mod boot;
pub mod call_graph;
pub mod calls;
pub mod cli;
pub mod closure;
pub mod commands;
pub mod doctor;
pub mod exit;
pub mod export;
pub mod filtered;
pub mod function_names;
pub mod functions;
pub mod inlined;
pub mod kernel;
pub mod launch;
pub mod live;
pub mod profile;
pub mod reach;
pub mod recording;
pub mod report;
#[cfg(any(test, feature = "samples"))]
pub mod sample;
pub mod selection;
pub mod static_graph;
pub mod stream;
pub mod symbolizer;
pub mod terminal;
pub mod text;
pub mod units;
pub mod why;
