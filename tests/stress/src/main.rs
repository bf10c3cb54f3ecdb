// SPDX-License-Identifier: GPL-2.0

//! Does everything to rust_ftrace at once: `stress --seed 7 --seconds 60`, in a guest that may die
//! of it.
//!
//! Each kind of operation has tasks of its own, which know nothing of the others. The operations of
//! a task follow from the seed, the kind and the task's number alone, so that a run can be
//! repeated, and with fewer kinds. The order in which the tasks come to run cannot be repeated.

mod bpf;
mod command;
mod ends;
mod faults;
mod files;
mod gate;
mod input;
mod kinds;
mod machine;
mod memory;
mod others;
mod report;
mod run;
mod tasks;
mod world;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Does everything to rust_ftrace at once.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    role: Option<Role>,
    #[command(flatten)]
    run: run::Run,
}

/// Roles of processes that a run starts.
#[derive(Debug, Subcommand)]
enum Role {
    /// Does the operations of one task.
    #[command(hide = true)]
    Task(run::Task),
    /// Takes memory until there is none, or so many MiB, until its input ends.
    #[command(hide = true)]
    Eater { most: usize },
    /// Makes each system call on the module's files fail at each place, one after the other.
    Faults(faults::Faults),
    /// Lists the kinds of operations.
    Kinds,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    ends::heed_interrupts();
    match arguments.role {
        None => arguments.run.start(),
        Some(Role::Task(task)) => task.work(),
        Some(Role::Eater { most }) => memory::eat(most),
        Some(Role::Faults(faults)) => faults.run(),
        Some(Role::Kinds) => {
            kinds::ALL.iter().for_each(|kind| println!("{}", kind.name));
            Ok(())
        }
    }
}
