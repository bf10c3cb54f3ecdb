// SPDX-License-Identifier: GPL-2.0

//! The pure parts: what is recorded, how, and what is made of it.
//!
//! Nothing here knows the kernel. The same files are compiled into the module and into a host crate
//! (`tests/host`), where they are tested. What differs comes from `crate::shim`: [`Word`], a 64-bit
//! memory word with the few atomic operations that the ring needs, two fences, and a vector whose
//! growth can fail.
//!
//! The way of the data: [`ring`] -> [`reader`] or [`consumer`] -> [`merge`] -> [`replay`] -> [`render`],
//! and [`graph`] for calls.
//!
//! [`Word`]: crate::shim::Word

pub(crate) mod account;
pub(crate) mod beside;
pub(crate) mod btf;
pub(crate) mod call_sites;
pub(crate) mod clock;
pub(crate) mod command;
pub(crate) mod consumer;
pub(crate) mod context;
pub(crate) mod decode;
pub(crate) mod duration;
pub(crate) mod event_format;
pub(crate) mod fgraph;
pub(crate) mod filter;
mod frames;
pub(crate) mod function_set;
pub(crate) mod glob;
pub(crate) mod graph;
pub(crate) mod graph_header;
pub(crate) mod kernel_page;
pub(crate) mod line;
pub(crate) mod mark;
pub(crate) mod merge;
pub(crate) mod names;
pub(crate) mod nearest;
pub(crate) mod options;
pub(crate) mod parse;
pub(crate) mod pending;
pub(crate) mod pid_set;
pub(crate) mod profile;
pub(crate) mod raw;
pub(crate) mod reader;
pub(crate) mod render;
pub(crate) mod render_beside;
pub(crate) mod replay;
pub(crate) mod ring;
pub(crate) mod set_event;
pub(crate) mod shadow;
pub(crate) mod slot;
pub(crate) mod sort;
pub(crate) mod style;
