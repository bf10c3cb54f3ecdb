// SPDX-License-Identifier: GPL-2.0

//! The files in debugfs; the [table](table::TABLE) says which directory has which.

mod attribute;
mod budget;
mod call_sites;
mod cgroups;
mod context;
mod control;
mod cpumask;
mod directory;
mod drain;
mod dump;
mod dump_on_oops;
mod dying;
mod event_pids;
mod events;
mod folded;
mod free_buffer;
mod graph;
mod lines;
mod lists;
mod marker;
mod no_events;
mod options;
mod pids;
mod pipe;
mod profile;
mod raw;
mod readme;
mod saved_tasks;
mod sizes;
mod snapshot;
mod spec;
mod status;
mod table;
mod trace;
mod trace_pipe_raw;
mod word_file;

pub(crate) use self::directory::InstanceDirectory;
pub(crate) use self::dying::dump as dump_dying;
