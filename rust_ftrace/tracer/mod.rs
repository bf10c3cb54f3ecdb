// SPDX-License-Identifier: GPL-2.0

//! The tracers: what is hooked, and what is recorded.

pub(crate) mod beside;
pub(crate) mod budget;
pub(crate) mod clock;
pub(crate) mod commands;
pub(crate) mod cost;
pub(crate) mod function;
pub(crate) mod graph;
pub(crate) mod mark;
pub(crate) mod memory;
pub(crate) mod probes;
pub(crate) mod profile;
pub(crate) mod waker;

/// The tracers by their names in `current_tracer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tracer {
    /// Nothing is hooked.
    Nop,
    /// Entries of functions.
    Function,
    /// Entries of functions, shown as a tree of calls.
    CallTrace,
    /// Calls of functions: their entries and returns.
    FunctionGraph,
}

impl Tracer {
    /// All of them, in the order of `available_tracers`.
    pub(crate) const ALL: [Self; 4] = [
        Self::FunctionGraph,
        Self::CallTrace,
        Self::Function,
        Self::Nop,
    ];

    /// The name that people write.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Nop => "nop",
            Self::Function => "function",
            Self::CallTrace => "calltrace",
            Self::FunctionGraph => "function_graph",
        }
    }

    /// The tracer of that name.
    pub(crate) fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|tracer| tracer.name().as_bytes() == name)
    }
}
