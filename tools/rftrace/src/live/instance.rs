// SPDX-License-Identifier: GPL-2.0 OR MIT

//! An instance that belongs to this process, and whose tracing ends with it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::{Directory, Error};

/// Name of our instances, before the number of the process.
const PREFIX: &str = "rftrace.";

/// An instance that this process made.
///
/// While it exists a file is held whose last close, however the process ends, makes the module
/// disarm all of the instance's functions and free its buffers (`free_buffer`, with
/// `options/disable_on_free`). An empty instance that is left over then is removed by the next one
/// that is made.
#[derive(Debug)]
pub struct OwnInstance {
    path: PathBuf,
    hold: Option<File>,
    written: Vec<(String, String)>,
}

impl OwnInstance {
    /// Makes an instance, and removes those of processes that are gone.
    ///
    /// # Errors
    ///
    /// [`Error::Write`] if it cannot be made.
    pub fn new(directory: &Directory) -> Result<Self, Error> {
        let instances = directory.file("instances");
        sweep(&instances);
        let path = instances.join(format!("{PREFIX}{}", std::process::id()));
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| Error::Open(path, error)
        };
        fs::create_dir(&path).map_err(failed(&path))?;
        let mut instance = Self {
            path,
            hold: None,
            written: Vec::new(),
        };
        instance.write("options/disable_on_free", "1")?;
        let hold = instance.file("free_buffer");
        let opened = OpenOptions::new().write(true).open(&hold);
        instance.hold = Some(opened.map_err(failed(&hold))?);
        Ok(instance)
    }

    /// Returns the path of a file in the instance.
    pub fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// Returns whether a file exists.
    pub fn has(&self, name: &str) -> bool {
        self.file(name).exists()
    }

    /// Writes to a file, in one piece; replaces what was there.
    ///
    /// # Errors
    ///
    /// [`Error::Write`] with what the module says of it.
    pub fn write(&mut self, name: &str, text: &str) -> Result<(), Error> {
        self.put(name, text, OpenOptions::new().write(true).truncate(true))
    }

    /// Appends to a file.
    ///
    /// # Errors
    ///
    /// [`Error::Write`] with what the module says of it.
    pub fn append(&mut self, name: &str, text: &str) -> Result<(), Error> {
        self.put(name, text, OpenOptions::new().append(true))
    }

    fn put(&mut self, name: &str, text: &str, options: &OpenOptions) -> Result<(), Error> {
        let result = options
            .open(self.file(name))
            .and_then(|mut file| file.write_all(text.as_bytes()));
        match result {
            Ok(()) => {
                self.written.push((name.to_owned(), text.to_owned()));
                Ok(())
            }
            Err(source) => Err(Error::Write {
                file: name.to_owned(),
                text: text.to_owned(),
                said: self.said(name).unwrap_or_default(),
                source,
            }),
        }
    }

    /// Returns the last words of `error_log` on a file.
    fn said(&self, name: &str) -> Option<String> {
        let log = self.read("error_log").ok()?;
        let key = format!("{name}: error: ");
        let found = log.lines().rev().find_map(|line| line.split_once(&key));
        Some(format!(": {}", found?.1))
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`Error::Open`] if it cannot be read.
    pub fn read(&self, name: &str) -> Result<String, Error> {
        let path = self.file(name);
        fs::read_to_string(&path).map_err(|error| Error::Open(path, error))
    }

    /// Returns the number behind `key: ` in a file of such lines.
    pub fn number(&self, name: &str, key: &str) -> Option<u64> {
        let text = self.read(name).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        let number = line.strip_prefix(": ")?;
        let end = number.find(|digit: char| !digit.is_ascii_digit());
        number[..end.unwrap_or(number.len())].parse().ok()
    }

    /// Returns the files that were written, each with what was written to it, in that order.
    pub fn written(&self) -> &[(String, String)] {
        &self.written
    }

    /// Returns the CPUs that the instance has buffers of.
    ///
    /// # Errors
    ///
    /// [`Error::Open`] if they cannot be listed.
    pub fn cpus(&self) -> Result<Vec<u32>, Error> {
        let path = self.file("per_cpu");
        let listed =
            fs::read_dir(&path).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
        let entries = listed.map_err(|error| Error::Open(path, error))?;
        let number = |entry: &fs::DirEntry| {
            entry
                .file_name()
                .to_str()?
                .strip_prefix("cpu")?
                .parse()
                .ok()
        };
        let mut cpus: Vec<u32> = entries.iter().filter_map(number).collect();
        cpus.sort_unstable();
        Ok(cpus)
    }
}

impl Drop for OwnInstance {
    fn drop(&mut self) {
        self.hold = None;
        // An open file keeps the instance; the next one that is made removes it.
        let _ = fs::remove_dir(&self.path);
    }
}

/// Removes instances of processes that are gone.
fn sweep(instances: &Path) {
    let entries = fs::read_dir(instances).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let Some(pid) = pid.and_then(|pid| pid.parse::<u32>().ok()) else {
            continue;
        };
        let is_alive = Path::new("/proc").join(pid.to_string()).exists();
        if !is_alive || pid == std::process::id() {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Returns whether an error says that there is nothing to be read now.
pub(super) fn is_empty(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
