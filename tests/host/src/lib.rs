// SPDX-License-Identifier: GPL-2.0

//! The pure parts of the module (`rust_ftrace/engine`), compiled for the host: the same files, with
//! a `shim` of the host's own.

// (what nobody uses is for the module to say)
#![allow(dead_code)]

#[path = "../../../rust_ftrace/engine/mod.rs"]
mod engine;
#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod raw_decoder;
pub(crate) mod shim;
#[cfg(test)]
mod support;
#[cfg(all(test, not(loom)))]
mod tests;
