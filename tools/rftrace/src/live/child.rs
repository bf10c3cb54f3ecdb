// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A command that is traced: it waits, as a process of its number already, until tracing has begun.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

use rustix::process::{kill_process, waitpid, Pid, Signal, WaitOptions};

/// The hidden verb that has a process of ours wait, and become the command then.
pub const WAIT_VERB: &str = "__exec";

/// Exit code where a command is not there, as env(1) has it.
pub const NOT_FOUND: u8 = 127;
/// Exit code where it cannot be run.
pub const NOT_RUN: u8 = 126;

/// A command that was started and does not run yet.
#[derive(Debug)]
pub struct Waiting {
    child: Child,
    pid: Pid,
}

impl Waiting {
    /// Starts `command`, up to where it would run.
    ///
    /// # Errors
    ///
    /// What starting a process gives.
    pub fn new(command: &[String]) -> io::Result<Self> {
        let child = Command::new("/proc/self/exe")
            .arg(WAIT_VERB)
            .arg("--")
            .args(command)
            .spawn()?;
        let pid = Pid::from_child(&child);
        let waiting = Self { child, pid };
        match waitpid(Some(pid), WaitOptions::UNTRACED)? {
            Some((_, status)) if status.stopped() => Ok(waiting),
            _ => Err(io::Error::other("it ended before it began")),
        }
    }

    /// Its process ID.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Lets it run.
    ///
    /// # Errors
    ///
    /// What `kill` gives.
    pub fn run(self) -> io::Result<Child> {
        kill_process(self.pid, Signal::CONT)?;
        Ok(self.child)
    }
}

/// Waits until whoever started us lets us run, and becomes `command`: the exit code if that cannot be.
pub fn become_command(command: &[String]) -> u8 {
    let Some((program, arguments)) = command.split_first() else {
        return NOT_FOUND;
    };
    if let Err(error) = kill_process(rustix::process::getpid(), Signal::STOP) {
        eprintln!("rftrace: cannot wait: {error}");
        return NOT_RUN;
    }
    let error = Command::new(program).args(arguments).exec();
    eprintln!("rftrace: cannot run {program}: {error}");
    match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_RUN,
    }
}

/// A command's exit code; 128 and the signal that ended it.
pub fn exit_code(status: ExitStatus) -> i32 {
    let signal = status.signal().map(|signal| 128 + signal);
    status.code().or(signal).unwrap_or(1)
}
