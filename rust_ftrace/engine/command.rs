// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Commands, the words: users write them into `filter` to have something done when a function is
//! called.
//!
//! ```text
//! word   = ["!"] names ":" action [":" count]
//! names  = a function's name, or a pattern (see `glob`)
//! action = "traceon" | "traceoff" | "stacktrace" | "snapshot" | "dump" | "cpudump"
//! ```

use super::filter::{Selector, SelectorError};
use super::parse::parse_any_base;

/// The action of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Recording is switched on.
    Traceon,
    /// Recording is switched off.
    Traceoff,
    /// The stack is recorded.
    Stacktrace,
    /// A snapshot is taken.
    Snapshot,
    /// Recording is switched off, and the trace goes to the console.
    Dump,
    /// Recording is switched off, and the trace of this CPU goes to the console.
    Cpudump,
}

impl Action {
    /// All actions.
    pub const ALL: [Self; 6] = [
        Self::Traceon,
        Self::Traceoff,
        Self::Stacktrace,
        Self::Snapshot,
        Self::Dump,
        Self::Cpudump,
    ];

    /// Returns the word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Traceon => "traceon",
            Self::Traceoff => "traceoff",
            Self::Stacktrace => "stacktrace",
            Self::Snapshot => "snapshot",
            Self::Dump => "dump",
            Self::Cpudump => "cpudump",
        }
    }

    /// Returns the action of that name.
    fn from_name(name: &[u8]) -> Option<Self> {
        (Self::ALL.into_iter()).find(|action| action.name().as_bytes() == name)
    }

    /// Returns how often it is done if no count is given; `None` for always.
    const fn default_count(self) -> Option<u64> {
        match self {
            Self::Dump | Self::Cpudump => Some(1),
            _ => None,
        }
    }
}

/// A command, `names:action[:count]`: the action is to be done when these functions are called, or
/// no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command<'a> {
    /// The action is to be done no more; there is no count then.
    pub remove: bool,
    /// A name or a pattern.
    pub names: &'a [u8],
    /// The action.
    pub action: Action,
    /// Number of times that it is done; `None` for always.
    pub count: Option<u64>,
}

impl<'a> Command<'a> {
    /// Parses a word that is a command; `None` if it is none.
    pub fn parse(word: &'a [u8]) -> Option<Result<Self, SelectorError>> {
        let mut parts = word.splitn(3, |&byte| byte == b':');
        let (names, action) = (parts.next()?, Action::from_name(parts.next()?)?);
        let (remove, names) = match names.split_first() {
            Some((b'!', rest)) => (true, rest),
            _ => (false, names),
        };
        // A word that takes a command out may have the count that `filter` shows, as in tracefs.
        let count = match parts.next() {
            _ if remove => None,
            None => action.default_count(),
            Some(count) => match parse_any_base(count) {
                Ok(count) => Some(count),
                Err(_) => return Some(Err(SelectorError::BadCount)),
            },
        };
        if names.is_empty() {
            return Some(Err(SelectorError::Empty));
        }
        Some(match names.iter().all(u8::is_ascii_graphic) {
            false => Err(SelectorError::BadCharacter),
            true => Ok(Self {
                remove,
                names,
                action,
                count,
            }),
        })
    }

    /// Returns the selector of the functions that it is for.
    pub const fn selector(&self) -> Selector<'a> {
        Selector {
            remove: self.remove,
            names: self.names,
            module: None,
        }
    }
}
