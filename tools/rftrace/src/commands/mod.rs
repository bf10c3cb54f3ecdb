// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The verbs: each asks the library, and prints what it says.

use std::io::Write;

use anyhow::Result;

use crate::cli::{Source, Verb};
use crate::kernel::{Error, Kernel};

mod doctor;
mod graph;
mod list;
mod why;

/// Does what is asked for, and prints to `out`.
pub fn run(verb: &Verb, out: &mut dyn Write) -> Result<()> {
    match verb {
        Verb::Doctor(doctor) => doctor::run(doctor, out),
        Verb::Why(why) => why::run(why, out),
        Verb::List(list) => list::run(list, out),
        Verb::Graph(graph) => graph::run(graph, out),
    }
}

/// The kernel that is asked about.
fn kernel(source: &Source) -> Result<Kernel, Error> {
    match &source.vmlinux {
        Some(path) => Kernel::of_file(path),
        None => Kernel::running(),
    }
}
