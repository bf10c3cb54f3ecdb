// SPDX-License-Identifier: GPL-2.0

//! The files in debugfs: what is in a directory says the [table](table::TABLE).

mod budget;
mod context;
mod control;
mod cpumask;
mod directory;
mod drain;
mod dump;
mod event_pids;
mod events;
mod free_buffer;
mod graph;
mod lines;
mod lists;
mod marker;
mod no_events;
mod options;
mod pid;
mod pipe;
mod profile;
mod raw;
mod readme;
mod sites;
mod sizes;
mod small;
mod snapshot;
mod spec;
mod status;
mod table;
mod tasks;
mod trace;
mod trace_pipe_raw;
mod words;

pub(crate) use self::directory::InstanceDirectory;
