// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The pure parts of rust_ftrace as a library for the host: the files that the module is built
//! from, on the host's memory and atomics.

pub mod engine;
pub mod platform;
