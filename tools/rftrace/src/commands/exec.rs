// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rftrace exec`: runs a program on the module's directory.

use std::convert::Infallible;

use anyhow::{bail, Result};

use crate::cli;
use crate::exit::{Exit, OrExit};
use crate::launch::{self, Error};

/// Becomes the program, or returns the reason why not.
pub(super) fn run(arguments: &cli::Exec) -> Result<Infallible> {
    // clap demands one.
    let [program, words @ ..] = &arguments.command[..] else {
        bail!("no program is named");
    };
    let directory = super::directory(&arguments.module).or_exit(Exit::COULD_NOT_RUN)?;
    launch::exec(&directory, program, words).map_err(|error| {
        let exit = match &error {
            Error::Exec(_, reason) => Exit::of_exec(reason),
            _ => Exit::COULD_NOT_RUN,
        };
        match Err::<Infallible, _>(error).or_exit(exit) {
            Ok(never) => match never {},
            Err(error) => error,
        }
    })
}
