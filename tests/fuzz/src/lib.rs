// SPDX-License-Identifier: GPL-2.0

//! The pure parts of the module, fed with hostile input: one function for each target of the
//! fuzzer.

#![allow(dead_code)]

use rftrace_engine::engine;
use rust_ftrace_host::{raw_decoder, support};

mod chunks;
mod input;
mod kernels;
mod memory;
mod names;
mod parsers;
mod recordings;
mod settings;

pub use kernels::{kernels, types};
pub use memory::{memory, raw};
pub use names::names;
pub use parsers::{lists, patterns, pids, values, words};
pub use recordings::{exports, recordings};
pub use settings::{marks, pending, quantities, settings};
