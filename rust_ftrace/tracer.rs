// SPDX-License-Identifier: GPL-2.0

//! The tracers: what is hooked, and what is recorded.

pub(crate) mod budget;
mod call_extras;
mod call_role;
pub(crate) mod cgroups;
mod cgroups_pointer;
pub(crate) mod clock;
pub(crate) mod commands;
pub(crate) mod cost;
mod cpu_context;
pub(crate) mod entry_extras;
mod errno;
pub(crate) mod flags;
pub(crate) mod function;
pub(crate) mod graph;
mod graph_frames;
pub(crate) mod graph_hooks;
pub(crate) mod graph_settings;
mod graph_switches;
pub(crate) mod hook_flags;
pub(crate) mod last_words;
pub(crate) mod marker;
pub(crate) mod outsiders;
pub(crate) mod own_call;
pub(crate) mod pids;
pub(crate) mod probes;
pub(crate) mod profile;
pub(crate) mod profile_hooks;
pub(crate) mod recorder;
mod recursion;
pub(crate) mod ring_memory;
mod seat;
pub(crate) mod shared;
pub(crate) mod waker;
