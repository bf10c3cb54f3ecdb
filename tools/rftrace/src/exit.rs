// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Exit codes of the command, and the report of an error.
//!
//! 0: success. 1: an error, or a check that found something. 2: wrong use, which clap reports. 125:
//! a program was not run, 126: it cannot be executed, 127: it was not found, as in env(1). Verbs
//! that run a program end as it does; with 128 and the signal's number if a signal ended it.

use std::io::{self, ErrorKind, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use crate::live;

/// A code that the command ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit(u8);

impl Exit {
    /// All is well.
    pub const SUCCESS: Self = Self(0);
    /// An error, or a check that found something.
    pub const FAILURE: Self = Self(1);
    /// Wrong use.
    pub const USAGE: Self = Self(2);
    /// The program was not run.
    pub const COULD_NOT_RUN: Self = Self(125);
    /// The program cannot be executed.
    pub const NOT_EXECUTABLE: Self = Self(126);
    /// There is no such program.
    pub const NOT_FOUND: Self = Self(127);

    /// Returns the code of a program that ended with `status`.
    pub fn of_program(status: ExitStatus) -> Self {
        let signal = status.signal().map(|signal| 128 + signal);
        let code = status.code().or(signal);
        let code = code.and_then(|code| u8::try_from(code).ok());
        code.map_or(Self::FAILURE, Self)
    }

    /// Returns the code of a program that could not be executed because of `error`.
    pub fn of_exec(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound => Self::NOT_FOUND,
            _ => Self::NOT_EXECUTABLE,
        }
    }

    /// Returns the code as a number.
    pub fn code(self) -> u8 {
        self.0
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}

/// An error with a code of its own.
#[derive(Debug, thiserror::Error)]
#[error("{error:#}")]
struct Coded {
    exit: Exit,
    error: anyhow::Error,
}

/// Gives errors an exit code other than 1.
pub trait OrExit<T> {
    /// Makes an error of this result end the command with `exit`.
    fn or_exit(self, exit: Exit) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> OrExit<T> for Result<T, E> {
    fn or_exit(self, exit: Exit) -> anyhow::Result<T> {
        self.map_err(|error| {
            let error = error.into();
            Coded { exit, error }.into()
        })
    }
}

/// Prints the error, and what to type next, and returns the code to end with.
pub fn report(error: &anyhow::Error, to: &mut dyn Write) -> Exit {
    if let Some(Coded { exit, error }) = error.downcast_ref() {
        let inner = report(error, to);
        // With no reader left, a broken pipe is no error.
        return if inner == Exit::SUCCESS { inner } else { *exit };
    }
    // `rftrace list | head` has all that it wants.
    if is_broken_pipe(error) {
        return Exit::SUCCESS;
    }
    if let Some(wrong_use) = error.downcast_ref::<clap::Error>() {
        let _ = write!(to, "{}", wrong_use.render());
        return Exit::USAGE;
    }
    // Where nothing can be written, the code still tells of the failure.
    let _ = writeln!(to, "rftrace: {error:#}");
    let live = error.chain().find_map(|error| error.downcast_ref());
    if let Some(next) = live.and_then(live::Error::next) {
        let _ = writeln!(to, "rftrace: try: {next}");
    }
    Exit::FAILURE
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use anyhow::{anyhow, Context};

    use super::*;

    fn reported(error: anyhow::Error) -> (Exit, String) {
        let mut said = Vec::new();
        let exit = report(&error, &mut said);
        (exit, String::from_utf8(said).unwrap())
    }

    #[test]
    fn errors_are_said_with_their_reasons() {
        let error = Err::<(), _>(anyhow!("no room")).context("cannot write x");
        assert_eq!(
            reported(error.unwrap_err()),
            (Exit::FAILURE, "rftrace: cannot write x: no room\n".into())
        );
    }

    #[test]
    fn an_error_may_have_a_code_and_something_to_type() {
        let error = Err::<(), _>(live::Error::NotLoaded);
        let error = error.or_exit(Exit::COULD_NOT_RUN).unwrap_err();
        let said =
            "rftrace: the module rust_ftrace is not loaded\nrftrace: try: insmod rust_ftrace.ko\n";
        assert_eq!(reported(error), (Exit::COULD_NOT_RUN, said.into()));
    }

    #[test]
    fn a_reader_that_has_gone_is_no_error() {
        let gone = || io::Error::from(ErrorKind::BrokenPipe);
        assert_eq!(reported(gone().into()), (Exit::SUCCESS, "".into()));
        let coded = Err::<(), _>(gone()).or_exit(Exit::COULD_NOT_RUN);
        assert_eq!(reported(coded.unwrap_err()).0, Exit::SUCCESS);
    }

    #[test]
    fn wrong_use_that_a_verb_finds_is_wrong_use() {
        let error = clap::Command::new("x").error(clap::error::ErrorKind::ArgumentConflict, "both");
        let (exit, said) = reported(error.into());
        assert_eq!(exit, Exit::USAGE);
        assert!(said.starts_with("error: both"), "{said}");
    }

    #[test]
    fn programs_end_with_their_code_or_their_signal() {
        for (status, code) in [
            (0, 0),
            (1 << 8, 1),
            (77 << 8, 77),
            (9, 137),
            (15 | 0x80, 143),
        ] {
            assert_eq!(Exit::of_program(ExitStatus::from_raw(status)).code(), code);
        }
        assert_eq!(Exit::of_exec(&ErrorKind::NotFound.into()).code(), 127);
        assert_eq!(
            Exit::of_exec(&ErrorKind::PermissionDenied.into()).code(),
            126
        );
    }
}
