// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The program `rftrace`: reads the command line, and reports errors.

use std::process::ExitCode;

use rftrace_cli::cli::{complete, Cli};
use rftrace_cli::{commands, exit};

fn main() -> ExitCode {
    complete::answer();
    let cli = Cli::read();
    let result = commands::run(&cli);
    let exit = result.unwrap_or_else(|error| exit::report(&error, &mut std::io::stderr()));
    exit.into()
}
