// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Profile: the calls that the module has counted in the kernel, as its files tell of them.
//!
//! [`CountedFunction`] is a line of `trace_stat/function`, [`Uncounted`] has of `status` the calls
//! that are missing in it, and [`histograms`] takes `trace_stat/function_latency` apart.

mod latency;
mod table;
mod uncounted;

pub use latency::histograms;
pub use table::{parse, CountedFunction, CountedWaits};
pub use uncounted::Uncounted;

/// A reason why the text of a file is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The lines have no such column.
    #[error("trace_stat/function has no column {0}")]
    NoColumn(&'static str),
    /// A line is no function with its counts.
    #[error("trace_stat/function: not a line of it: {0}")]
    Line(String),
}
