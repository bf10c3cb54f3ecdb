// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The pure parts of rust_ftrace as a library for the host: the module's own files, with the memory
//! and atomics of the host.

pub mod engine;
pub mod platform;
