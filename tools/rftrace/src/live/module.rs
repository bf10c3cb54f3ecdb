// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Loads the module.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::io::Errno;

use super::{lockdown, Error, MODULE};

/// Returns whether the module is loaded; `root` is `/`, but for tests.
pub(super) fn is_loaded(root: &Path) -> bool {
    root.join("sys/module").join(MODULE).exists()
}

/// Loads the file `path`, or without one the module that `modprobe` finds, and says so.
pub(super) fn load(
    path: Option<&Path>,
    say: &mut dyn FnMut(fmt::Arguments<'_>),
) -> Result<(), Error> {
    match path {
        Some(path) => {
            insmod(path)?;
            say(format_args!("loaded {}", path.display()));
        }
        None => {
            modprobe()?;
            say(format_args!("loaded the module {MODULE} (modprobe)"));
        }
    }
    Ok(())
}

fn insmod(path: &Path) -> Result<(), Error> {
    let file = File::open(path).map_err(|error| Error::Open(path.into(), error))?;
    match rustix::system::finit_module(file, c"", 0) {
        // Another process was faster.
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(refused(path, error)),
    }
}

/// Returns the error for a module that the kernel refuses; it may not let root load any, either.
fn refused(path: &Path, error: Errno) -> Error {
    match (error, lockdown(Path::new("/"))) {
        (Errno::PERM, Some(mode)) => Error::LockedDown(mode),
        (Errno::PERM, None) if !rustix::process::geteuid().is_root() => Error::NotRoot,
        _ => Error::Load(path.into(), error.into()),
    }
}

fn modprobe() -> Result<(), Error> {
    let result = Command::new("modprobe")
        .arg(MODULE)
        .stdin(Stdio::null())
        .output();
    let output = result.map_err(|error| {
        Error::NotInstalled(match error.kind() {
            ErrorKind::NotFound => "there is no modprobe".into(),
            _ => format!("modprobe: {error}"),
        })
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    match said.lines().rfind(|line| !line.trim().is_empty()) {
        Some(line) => Err(Error::NotInstalled(line.trim().into())),
        None => Err(Error::NotInstalled(format!("modprobe: {}", output.status))),
    }
}

/// Returns a likely reason why the kernel refuses a file as a module.
pub(super) fn reason(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::NOEXEC) => ", which is no module, or of another kernel",
        Some(Errno::NOKEY | Errno::KEYREJECTED) => ", as this kernel takes signed modules only",
        Some(Errno::PERM) => {
            ", as this kernel takes no more modules (sysctl kernel.modules_disabled)"
        }
        _ => "",
    }
}
