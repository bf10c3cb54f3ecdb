// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A file that gets its name when it is whole, and not before.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use tempfile::{Builder, NamedTempFile};

/// A file in the making.
#[derive(Debug)]
pub struct OutputFile {
    file: NamedTempFile,
    path: PathBuf,
}

impl OutputFile {
    /// Begins the file that will be at `path`, which is made of `input`.
    ///
    /// # Errors
    ///
    /// If they are the same file, or it cannot be made there.
    pub fn new(path: &Path, input: &Path) -> Result<Self> {
        // The target of a link is replaced, not the link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if let Ok(there) = fs::metadata(&path) {
            let kind = there.file_type();
            if kind.is_dir() {
                bail!("{} is a folder: name a file in it", path.display());
            }
            if kind.is_fifo() || kind.is_socket() || kind.is_char_device() || kind.is_block_device()
            {
                bail!("{} is no file that could be replaced", path.display());
            }
            let is_input =
                |input: fs::Metadata| (input.dev(), input.ino()) == (there.dev(), there.ino());
            if fs::metadata(input).is_ok_and(is_input) {
                bail!(
                    "{} is the recording itself: name another file",
                    path.display()
                );
            }
        }
        let name = path.file_name();
        let name = name.with_context(|| format!("{} names no file", path.display()))?;
        let mut prefix = std::ffi::OsString::from(".");
        prefix.push(name);
        let made = Builder::new()
            .prefix(&prefix)
            .suffix(".part")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder(&path));
        let file = made.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { file, path })
    }

    /// Returns the file.
    pub fn file(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// Returns the folder that the file will be in.
    pub fn folder(&self) -> &Path {
        folder(&self.path)
    }

    /// Writes the file by `write`, and gives it its name. If that fails, nothing is left of it.
    ///
    /// # Errors
    ///
    /// Errors of `write`, and of renaming.
    pub fn fill<T>(mut self, write: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let path = self.path.clone();
        let failed = || format!("cannot write {}", path.display());
        let result = write(&mut self).map_err(|error| match error.is::<io::Error>() {
            true => error.context(failed()),
            false => error,
        })?;
        let persisted = self.file.persist(&self.path);
        persisted
            .map_err(|error| error.error)
            .with_context(failed)?;
        Ok(result)
    }
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let name =
            |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_there_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let output = OutputFile::new(&path, Path::new("/nowhere")).unwrap();
        let filled = output.fill(|output| {
            output.file().write_all(b"half")?;
            assert!(!path.exists());
            Ok(output.file().write_all(b", whole")?)
        });
        filled.unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"half, whole");
        assert_eq!(names(folder.path()), ["x"]);
    }

    #[test]
    fn nothing_is_left_of_what_failed_and_what_was_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, "old").unwrap();
        let output = OutputFile::new(&path, Path::new("/nowhere")).unwrap();
        let filled: Result<()> = output.fill(|output| {
            output.file().write_all(b"half")?;
            Err(io::Error::other("no space"))?
        });
        let error = format!("{:#}", filled.unwrap_err());
        assert!(
            error.starts_with("cannot write ") && error.ends_with("x: no space"),
            "{error}"
        );
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["x"]);
    }

    #[test]
    fn what_must_not_be_replaced_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in");
        fs::write(&path, "recording").unwrap();
        std::os::unix::fs::symlink("in", folder.path().join("link")).unwrap();
        let refused = |out: &Path| format!("{:#}", OutputFile::new(out, &path).unwrap_err());
        assert!(refused(&path).contains("is the recording itself"));
        assert!(refused(&folder.path().join("link")).contains("is the recording itself"));
        assert!(refused(folder.path()).contains("is a folder"));
        assert!(refused(Path::new("/dev/null")).contains("no file that could be replaced"));
        assert!(refused(&folder.path().join("no/x")).contains("cannot write "));
        assert_eq!(names(folder.path()), ["in", "link"]);
    }
}
