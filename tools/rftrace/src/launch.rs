// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Runs a program that knows tracefs on the module's directory.
//!
//! In a mount namespace of its own our directory lies over `/sys/kernel/tracing` and
//! `/sys/kernel/debug/tracing`. The rest of the machine keeps the kernel's own tracer, and nothing
//! is left behind.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sched::CloneFlags;
use rustix::mount::{MountFlags, MountPropagationFlags};

use crate::live::{self, Directory, Mounts};

/// The directory at which tracefs is mounted.
const TRACEFS: &str = "/sys/kernel/tracing";

/// Variable with the path of tracefs; perf looks there first.
const VARIABLE: &str = "TRACEFS_PATH";

/// A reason why a program does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no mount namespace for it.
    #[error("cannot make a mount namespace")]
    Namespace(#[source] io::Error),
    /// The caller may not have a mount namespace.
    #[error("cannot make a mount namespace")]
    NotAllowed(#[source] live::Error),
    /// Mounts are not listed.
    #[error("cannot read /proc/self/mounts")]
    Mounts(#[source] io::Error),
    /// There is no tracefs to lie over.
    #[error("cannot mount a tracefs on {TRACEFS}")]
    Tracefs(#[source] io::Error),
    /// Our directory cannot be mounted there.
    #[error("cannot put {ours} over {there}", ours = .0.display(), there = .1.display())]
    Cover(PathBuf, PathBuf, #[source] io::Error),
    /// The program cannot be executed.
    #[error("cannot run {program}", program = .0.display())]
    Exec(PathBuf, #[source] io::Error),
}

/// Replaces this process by a program that runs on `directory`.
pub fn exec(
    directory: &Directory,
    program: &OsStr,
    arguments: &[OsString],
) -> Result<Infallible, Error> {
    enter_namespace().map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => Error::NotAllowed(live::Error::NotRoot),
        _ => Error::Namespace(error),
    })?;
    let ours = directory.path();
    cover(ours, Path::new(TRACEFS))?;
    // debugfs mounts one of its own there on first access.
    let below = ours.with_file_name("tracing");
    if below.join(".").read_dir().is_ok() {
        cover(ours, &below)?;
    }
    let error = Command::new(program)
        .args(arguments)
        .env(VARIABLE, ours)
        .exec();
    Err(Error::Exec(program.into(), error))
}

/// Enters a mount namespace of its own: no later mount is seen outside.
fn enter_namespace() -> io::Result<()> {
    nix::sched::unshare(CloneFlags::CLONE_NEWNS)?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    Ok(rustix::mount::mount_change("/", private)?)
}

/// Mounts our directory over a tracefs.
fn cover(ours: &Path, there: &Path) -> Result<(), Error> {
    // Programs look for tracefs in /proc/mounts, and would mount one over ours.
    let mounts = Mounts::read(Path::new("/")).map_err(Error::Mounts)?;
    if mounts.first("tracefs").is_none() {
        rustix::mount::mount("tracefs", TRACEFS, "tracefs", MountFlags::empty(), None)
            .map_err(|error| Error::Tracefs(error.into()))?;
    }
    rustix::mount::mount_bind(ours, there)
        .map_err(|error| Error::Cover(ours.into(), there.into(), error.into()))
}
