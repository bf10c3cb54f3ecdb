// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The running machine, on which the module is at work: its directory, and loading it.

use std::io;
use std::path::PathBuf;

mod child;
mod counting;
mod directory;
mod drain;
mod instance;
mod lockdown;
mod merged;
mod module;
mod mounts;
pub mod recorder;
mod session;
pub mod wake;

pub use child::{become_command, WaitingChild, WAIT_VERB};
pub use counting::{ContextsPlan, CountingPlan};
pub use directory::Directory;
pub use drain::{Bell, RawFile, Whole};
pub use instance::OwnInstance;
pub use lockdown::lockdown;
pub use merged::LiveEvents;
pub use mounts::{Mount, Mounts};
pub use recorder::RecorderThreads;
pub use session::{Session, TracePlan};

/// The name of the module in the kernel.
pub const MODULE: &str = "rust_ftrace";

/// A reason why nothing can be traced on this machine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel's debugfs is not mounted.
    #[error("debugfs is not mounted")]
    NoDebugfs,
    /// The kernel denies access to its debugfs, and loading a module that is not signed; its mode.
    #[error("the kernel is locked down ({0}), so debugfs cannot be used; Secure Boot may have switched it on")]
    LockedDown(String),
    /// The user is not root.
    #[error("only root can do that")]
    NotRoot,
    /// The module is not loaded.
    #[error("the module {MODULE} is not loaded")]
    NotLoaded,
    /// The module is loaded, but there is no such directory.
    #[error("the module {MODULE} is loaded, but there is no {path}", path = .0.display())]
    NoDirectory(PathBuf),
    /// The module was not found by its name; a reason.
    #[error("the module {MODULE} is not loaded, and cannot be loaded by its name: {0}")]
    NotInstalled(String),
    /// The file cannot be loaded as a module.
    #[error("cannot load {path}{reason}", path = .0.display(), reason = module::reason(.1))]
    Load(PathBuf, #[source] io::Error),
    /// The module does not take what was written to one of its files.
    #[error("{file} does not take {text}{said}", text = .text.trim_end())]
    Write {
        /// The name of the file.
        file: String,
        /// The text that was written.
        text: String,
        /// The words of `error_log`, behind a colon.
        said: String,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// A command cannot be run.
    #[error("cannot run {0}")]
    Run(String, #[source] io::Error),
    /// Nothing that the command was asked for can be traced.
    #[error("{0}")]
    Refused(String),
    /// The text of a file is not understood.
    #[error(transparent)]
    Counts(#[from] crate::profile::Error),
    /// A file cannot be opened.
    #[error("cannot open {path}", path = .0.display())]
    Open(PathBuf, #[source] io::Error),
}

impl Error {
    /// Returns a command that mends the fault, or tells more of it.
    pub fn next(&self) -> Option<String> {
        let next = match self {
            Self::NoDebugfs => "mount -t debugfs debugfs /sys/kernel/debug".into(),
            Self::LockedDown(_) => "mokutil --sb-state".into(),
            Self::NotRoot => as_root(std::env::args()),
            Self::NotLoaded => format!("insmod {MODULE}.ko"),
            Self::NotInstalled(_) => {
                format!("insmod {MODULE}.ko, or name that file: --module {MODULE}.ko")
            }
            Self::NoDirectory(_) | Self::Load(..) => "dmesg | tail".into(),
            Self::Open(..)
            | Self::Write { .. }
            | Self::Run(..)
            | Self::Refused(_)
            | Self::Counts(_) => return None,
        };
        Some(next)
    }
}

/// Returns this command, to be run as root.
fn as_root(words: impl Iterator<Item = String>) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,+@%".contains(letter);
    let quoted = |word: String| match !word.is_empty() && word.chars().all(is_plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    let words: Vec<String> = words.map(quoted).collect();
    format!("sudo {}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_typed_as_they_were_meant() {
        let words = ["rftrace", "exec", "echo", "it's", "*", "-n=1", ""];
        assert_eq!(
            as_root(words.iter().map(|word| word.to_string())),
            r"sudo rftrace exec echo 'it'\''s' '*' -n=1 ''"
        );
    }
}
