// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Names of the running kernel's functions, found fast: for a shell that completes them, and for
//! errors.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use rftrace_engine::engine::nearest::Nearest;

use crate::kernel::TRACING_DIRECTORIES;

/// Start of the symbols of bytes before functions; [`COLD`] ends those of parts that are elsewhere.
const PADDING: &str = "__pfx_";
const COLD: &str = ".cold";

/// Names of the running kernel's functions.
#[derive(Debug)]
pub struct FunctionNames {
    text: String,
    is_kallsyms: bool,
}

impl FunctionNames {
    /// Reads the functions that can be traced; where that list cannot be read, all that are in
    /// code. `root` is `/`, but for tests.
    pub fn read(root: &Path) -> io::Result<Self> {
        let lists = TRACING_DIRECTORIES
            .iter()
            .map(|directory| root.join(directory.trim_start_matches('/')));
        for list in lists {
            if let Ok(text) = std::fs::read_to_string(list.join("available_filter_functions")) {
                return Ok(Self {
                    text,
                    is_kallsyms: false,
                });
            }
        }
        Ok(Self {
            text: std::fs::read_to_string(root.join("proc/kallsyms"))?,
            is_kallsyms: true,
        })
    }

    /// Returns the names as they are listed: one that several functions have is there several
    /// times.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        // "NAME [MODULE]", and "ADDRESS TYPE NAME [MODULE]".
        let is_kallsyms = self.is_kallsyms;
        self.text.lines().filter_map(move |line| {
            let mut words = line.split_ascii_whitespace();
            let is_code = !is_kallsyms || matches!(words.nth(1), Some("t" | "T" | "w" | "W"));
            let is_begin = |name: &&str| !name.starts_with(PADDING) && !name.ends_with(COLD);
            words.next().filter(|_| is_code).filter(is_begin)
        })
    }

    /// Returns the names with this prefix, each once, in order.
    pub fn with_prefix(&self, prefix: &str) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .iter()
            .filter(|name| name.starts_with(prefix))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Returns names of the running kernel's functions that may have been meant by `name`; none if they
/// cannot be read.
pub fn nearest_functions(name: impl AsRef<OsStr>) -> Vec<String> {
    match FunctionNames::read(Path::new("/")) {
        Ok(names) => nearest(&name.as_ref().to_string_lossy(), names.iter()),
        Err(_) => Vec::new(),
    }
}

/// Returns those of `names` that may have been meant by `name`.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut nearest = Nearest::to(name.as_bytes());
    names.for_each(|name| nearest.offer(name.as_bytes()));
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    nearest.names().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_file(path: &str, text: &str) -> FunctionNames {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        FunctionNames::read(root.path()).unwrap()
    }

    #[test]
    fn those_of_the_list_are_found() {
        let list = "vfs_read\npath_mount\nmy_open [my]\npath_umount\npath_mount\n";
        let names = of_file("sys/kernel/tracing/available_filter_functions", list);
        assert_eq!(names.with_prefix("path_"), ["path_mount", "path_umount"]);
        assert_eq!(names.with_prefix("my_"), ["my_open"]);
        assert_eq!(nearest("path_muont", names.iter())[0], "path_mount");
    }

    #[test]
    fn all_code_will_do_where_there_is_no_list() {
        let text = "0 t path_mount.cold\n0 T __pfx_path_mount\n0 T path_mount\n0 D path_data\n0 t path_umount\t[my]\n0 A x\n\n";
        let names = of_file("proc/kallsyms", text);
        assert_eq!(names.with_prefix(""), ["path_mount", "path_umount"]);
    }
}
