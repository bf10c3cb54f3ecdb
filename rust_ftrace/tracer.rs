// SPDX-License-Identifier: GPL-2.0

//! The tracers: what is hooked, and what is recorded.

pub(crate) mod beside;
pub(crate) mod budget;
pub(crate) mod clock;
pub(crate) mod commands;
pub(crate) mod cost;
mod cpu_context;
pub(crate) mod function;
pub(crate) mod gate;
pub(crate) mod graph;
pub(crate) mod graph_hooks;
pub(crate) mod graph_settings;
pub(crate) mod mark;
pub(crate) mod memory;
pub(crate) mod outsiders;
pub(crate) mod own_call;
pub(crate) mod pids;
pub(crate) mod probes;
pub(crate) mod profile;
pub(crate) mod profile_hooks;
pub(crate) mod recorder;
mod recursion;
pub(crate) mod waker;
