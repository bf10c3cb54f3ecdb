// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The engine: the pure parts, which record events and make text of them.
//!
//! Nothing here knows the kernel. These files are compiled into the module and, as the library
//! `tools/engine`, for the host, where its tests, its fuzzer and the command share them. The
//! differences are in `crate::platform`: [`Word`], a 64-bit memory word with the few atomic
//! operations that the ring needs, two fences, and a vector whose growth can fail.
//!
//! Events go this way: [`ring`] -> [`reader`] or [`consumer`] -> [`merge`] -> [`replay`] ->
//! [`render`], and [`graph`] for calls. [`trace_reader`] and [`lines`] put that together.
//!
//! [`Word`]: crate::platform::Word

pub mod account;
pub mod btf;
pub mod budget;
pub mod call_sites;
pub mod catalog;
pub mod cgroups;
pub mod clock;
pub mod command;
pub mod command_list;
pub mod consumer;
pub mod context;
pub mod decode;
pub mod dump_on_oops;
pub mod duration;
pub mod errno;
pub mod errno_chain;
pub mod event_format;
pub mod extras;
pub mod fgraph;
pub mod filter;
mod frames;
pub mod function_set;
pub mod glob;
pub mod graph;
pub mod graph_header;
pub mod header;
pub mod kernel_page;
pub mod line;
pub mod lines;
pub mod lists;
pub mod marker;
pub mod merge;
pub mod module_cache;
pub mod name_cache;
pub mod nearest;
pub mod options;
pub mod outsider;
pub mod parse;
pub mod pending;
pub mod pids;
pub mod plan;
pub mod profile;
pub mod raw;
pub mod reader;
pub mod render;
pub mod replay;
pub mod ring;
pub mod set_event;
pub mod settings;
pub mod shadow;
pub mod shared_frame;
pub mod sharing;
pub mod slot;
pub mod sort;
pub mod text;
pub mod timeline;
pub mod trace_reader;
pub mod waiting;
pub mod wakers;
