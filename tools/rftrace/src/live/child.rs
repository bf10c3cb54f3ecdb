// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A command that is traced: it waits, with its final process ID already, until tracing has begun.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rustix::process::{kill_process, waitpid, Pid, Signal, WaitOptions};

use crate::exit::Exit;

/// The hidden verb that makes a process of ours wait, and become the command then. Its name is near
/// no other, so that it is never offered for a mistyped one.
pub const WAIT_VERB: &str = "__wait-and-become";

/// A command that was started and does not run yet.
///
/// It is killed if it is never let run.
#[derive(Debug)]
pub struct WaitingChild {
    child: Option<Child>,
    pid: Pid,
}

impl WaitingChild {
    /// Starts `command`, up to the point where it would run.
    ///
    /// # Errors
    ///
    /// Errors of starting a process.
    pub fn new(command: &[OsString]) -> io::Result<Self> {
        let child = Command::new("/proc/self/exe")
            .arg(WAIT_VERB)
            .arg("--")
            .args(command)
            .spawn()?;
        let pid = Pid::from_child(&child);
        let waiting = Self {
            child: Some(child),
            pid,
        };
        match waitpid(Some(pid), WaitOptions::UNTRACED)? {
            Some((_, status)) if status.stopped() => Ok(waiting),
            _ => Err(io::Error::other("it ended before it began")),
        }
    }

    /// Returns the process ID of the command.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Lets the command run.
    ///
    /// # Errors
    ///
    /// Errors of `kill`.
    pub fn run(mut self) -> io::Result<Child> {
        kill_process(self.pid, Signal::CONT)?;
        self.child
            .take()
            .ok_or_else(|| io::Error::other("it runs already"))
    }
}

impl Drop for WaitingChild {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Whatever fails then, the process is gone already.
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}

/// Waits until the parent lets this process run, and becomes `command`. Returns the exit code if
/// that fails.
pub fn become_command(command: &[OsString]) -> Exit {
    let Some((program, arguments)) = command.split_first() else {
        return Exit::NOT_FOUND;
    };
    if let Err(error) = kill_process(rustix::process::getpid(), Signal::STOP) {
        eprintln!("rftrace: cannot wait: {error}");
        return Exit::NOT_EXECUTABLE;
    }
    let error = Command::new(program).args(arguments).exec();
    eprintln!("rftrace: cannot run {}: {error}", program.to_string_lossy());
    Exit::of_exec(&error)
}
