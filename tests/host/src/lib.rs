// SPDX-License-Identifier: GPL-2.0

//! Tests and models of the pure parts of the module, which are the library `rftrace-engine` here.

// Unused code is reported by the build of the module.
#![allow(dead_code)]

#[cfg(test)]
use rftrace_engine::{engine, platform};

#[cfg(all(test, loom))]
mod models;
#[cfg(not(loom))]
pub mod raw_decoder;
pub mod support;
#[cfg(all(test, not(loom)))]
mod tests;
