// SPDX-License-Identifier: GPL-2.0 OR MIT

//! File systems that are mounted, as `/proc/self/mounts` lists them.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A file system that is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The path that it is mounted at.
    pub path: PathBuf,
    /// The type of the file system, such as `debugfs`.
    pub kind: String,
}

/// All mounts, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounts(Vec<Mount>);

impl Mounts {
    /// Reads the mounts that this process sees; `root` is `/`, but for tests.
    pub fn read(root: &Path) -> io::Result<Self> {
        Ok(Self::of_text(&std::fs::read(
            root.join("proc/self/mounts"),
        )?))
    }

    /// Parses the text: each line has the device, the place and the type, and more.
    fn of_text(text: &[u8]) -> Self {
        let mount = |line: &[u8]| {
            let mut words = line.split(|byte| *byte == b' ').skip(1);
            let (path, kind) = (words.next()?, words.next()?);
            Some(Mount {
                path: OsString::from_vec(unescape(path)).into(),
                kind: String::from_utf8_lossy(kind).into_owned(),
            })
        };
        Self(
            text.split(|byte| *byte == b'\n')
                .filter_map(mount)
                .collect(),
        )
    }

    /// Returns the place of the first mount of that type.
    pub fn first(&self, kind: &str) -> Option<&Path> {
        let mount = self.0.iter().find(|mount| mount.kind == kind)?;
        Some(&mount.path)
    }
}

/// Decodes a place, in which blanks, tabs, newlines and backslashes are written as `\` and three
/// octal digits.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..3).and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        rest = tail;
        match (first, digits) {
            (b'\\', Some(byte)) => {
                plain.push(byte);
                rest = &tail[3..];
            }
            _ => plain.push(*first),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_type_is_found() {
        let mounts = Mounts::of_text(
            b"none /a\\040b debugfs rw 0 0\nnone /c debugfs rw 0 0\ntracefs /t\\134\\9 tracefs x\n\nodd\n",
        );
        assert_eq!(mounts.first("debugfs"), Some(Path::new("/a b")));
        assert_eq!(mounts.first("tracefs"), Some(Path::new("/t\\\\9")));
        assert_eq!(mounts.first("proc"), None);
    }
}
