// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Completion: answers for a shell, where clap does not know any.
//!
//! The shell asks the command itself: with the variable [`VARIABLE`] in its environment that prints
//! the possible words.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use clap_complete::CompleteEnv;

use crate::function_names::FunctionNames;

/// Variable that makes the command answer a shell: the shell's name, such as `bash`.
pub const VARIABLE: &str = "RFTRACE_COMPLETE";

/// Answers a shell, and ends, if a shell asks.
pub fn answer() {
    CompleteEnv::with_factory(super::command)
        .var(VARIABLE)
        .complete();
}

/// Offers functions of the running kernel. An empty word gets none: there are too many.
pub(super) fn functions() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let (Some(typed), Ok(names)) = (typed.to_str(), FunctionNames::read(Path::new("/"))) else {
            return Vec::new();
        };
        if typed.is_empty() {
            return Vec::new();
        }
        let names = names.with_prefix(typed);
        names.into_iter().map(CompletionCandidate::new).collect()
    })
}

/// Offers programs for the first word of a command, and files for the others.
pub(super) fn command_line() -> ArgValueCompleter {
    ArgValueCompleter::new(CommandLine)
}

struct CommandLine;

impl ValueCompleter for CommandLine {
    fn complete(&self, typed: &OsStr) -> Vec<CompletionCandidate> {
        PathCompleter::any().complete(typed)
    }

    fn complete_at(&self, word: usize, typed: &OsStr) -> Vec<CompletionCandidate> {
        if word > 0 || typed.is_empty() || typed.to_string_lossy().contains('/') {
            return self.complete(typed);
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let names = programs(&path, &typed.to_string_lossy());
        names.into_iter().map(CompletionCandidate::new).collect()
    }
}

/// Returns programs in the folders of `path` with this prefix.
fn programs(path: &OsStr, prefix: &str) -> BTreeSet<OsString> {
    let folders = std::env::split_paths(path);
    let entries = folders.filter_map(|folder| folder.read_dir().ok());
    let is_meant = |entry: &std::fs::DirEntry| {
        let is_executable = || {
            let metadata = std::fs::metadata(entry.path()).ok()?;
            Some(metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
        };
        entry.file_name().to_string_lossy().starts_with(prefix) && is_executable() == Some(true)
    };
    let entries = entries.flat_map(|entries| entries.filter_map(Result::ok));
    entries
        .filter(is_meant)
        .map(|entry| entry.file_name())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_offered_but_no_other_files() {
        let folder = tempfile::tempdir().unwrap();
        for (name, mode) in [("trace-cmd", 0o755), ("trace-text", 0o644), ("perf", 0o755)] {
            let path = folder.path().join(name);
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        }
        std::fs::create_dir(folder.path().join("trace-folder")).unwrap();
        let path = std::env::join_paths([Path::new("/no/such"), folder.path()]).unwrap();
        let found = programs(&path, "trace");
        assert_eq!(Vec::from_iter(found), ["trace-cmd"]);
    }
}
