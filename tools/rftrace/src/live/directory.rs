// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The module's directory in debugfs.

use std::fmt;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{lockdown, module, Error, Mounts};

/// The name of the directory in debugfs.
const NAME: &str = "rftrace";

/// A file that proves that the directory can be used.
const PROOF: &str = "current_tracer";

/// The module's directory in debugfs: it exists, and its files can be opened.
#[derive(Clone, Debug)]
pub struct Directory {
    root: PathBuf,
}

impl Directory {
    /// Finds the directory of a module that is loaded.
    pub fn find() -> Result<Self, Error> {
        Self::find_in(Path::new("/"))
    }

    /// Finds the directory, and loads the module first where that is missing: the file `module`, or
    /// with `modprobe`. `say` is told what that does to the machine.
    pub fn open(
        module: Option<&Path>,
        say: &mut dyn FnMut(fmt::Arguments<'_>),
    ) -> Result<Self, Error> {
        match Self::find() {
            Err(Error::NotLoaded) => module::load(module, say)?,
            found => {
                if let (Ok(_), Some(path)) = (&found, module) {
                    say(format_args!(
                        "a module is loaded already: {} is not looked at",
                        path.display()
                    ));
                }
                return found;
            }
        }
        Self::find()
    }

    fn find_in(root: &Path) -> Result<Self, Error> {
        let mounts = root.join("proc/self/mounts");
        let mounts = Mounts::read(root).map_err(|error| Error::Open(mounts, error))?;
        let debugfs = mounts.first("debugfs").ok_or(Error::NoDebugfs)?;
        let debugfs = root.join(debugfs.strip_prefix("/").unwrap_or(debugfs));
        let directory = debugfs.join(NAME);
        let proof = directory.join(PROOF);
        let error = match File::open(&proof) {
            Ok(_) => return Ok(Self { root: directory }),
            Err(error) => error,
        };
        // A kernel that is locked down may have made no files, or refuse to open them.
        match (error.kind(), lockdown(root)) {
            (ErrorKind::NotFound | ErrorKind::PermissionDenied, Some(mode)) => {
                Err(Error::LockedDown(mode))
            }
            // Something else may be mounted over it.
            (ErrorKind::NotFound, None) if module::is_loaded(root) => {
                Err(Error::NoDirectory(directory))
            }
            (ErrorKind::NotFound, None) => Err(Error::NotLoaded),
            (ErrorKind::PermissionDenied, None) => Err(Error::NotRoot),
            _ => Err(Error::Open(proof, error)),
        }
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Returns the path of a file in the directory.
    pub fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    const MOUNTED: (&str, &str) = ("proc/self/mounts", "none /my/debug debugfs rw 0 0\n");
    const LOCKED: (&str, &str) = ("sys/kernel/security/lockdown", "none [integrity]\n");

    #[test]
    fn it_is_where_debugfs_is() {
        let root = machine(&[MOUNTED, ("my/debug/rftrace/current_tracer", "nop\n")]);
        let directory = Directory::find_in(root.path()).unwrap();
        assert_eq!(directory.path(), root.path().join("my/debug/rftrace"));
        assert_eq!(
            directory.file("filter"),
            root.path().join("my/debug/rftrace/filter")
        );
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = |files: &[(&str, &str)]| Directory::find_in(machine(files).path()).unwrap_err();
        assert!(matches!(error(&[]), Error::Open(..)));
        assert!(matches!(
            error(&[("proc/self/mounts", "none / tmpfs rw 0 0\n")]),
            Error::NoDebugfs
        ));
        assert!(matches!(error(&[MOUNTED]), Error::NotLoaded));
        assert!(matches!(
            error(&[MOUNTED, ("sys/module/rust_ftrace/version", "")]),
            Error::NoDirectory(_)
        ));
        assert!(
            matches!(error(&[MOUNTED, LOCKED]), Error::LockedDown(mode) if mode == "integrity")
        );
        // A file stands where the directory should be.
        assert!(matches!(
            error(&[MOUNTED, ("my/debug/rftrace", "")]),
            Error::Open(..)
        ));
    }
}
