// SPDX-License-Identifier: GPL-2.0

//! The pure parts of the module, fed with hostile input: one function for each target of the fuzzer.

#![allow(dead_code)]

#[path = "../../../rust_ftrace/engine/mod.rs"]
mod engine;
#[path = "../../host/src/shim.rs"]
pub(crate) mod shim;

mod parsers;

pub use parsers::{lists, patterns, values, words};
