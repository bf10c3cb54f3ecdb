// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Cgroups, the words that users write:
//!
//! ```text
//! word = ["!"] cgroup
//! cgroup = its path, from the root of the unified hierarchy on, "/", as /proc/PID/cgroup has it
//!        | its ID, a number: the inode's in a mounted hierarchy
//! ```

use super::filter::words;
use super::parse::{parse_any_base, ParseError};

/// The way in which a cgroup is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupName<'a> {
    /// By its path, without a slash at its end, unless it is the root.
    Path(&'a [u8]),
    /// By its ID.
    Id(u64),
}

/// A word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CgroupWord<'a> {
    /// The cgroup is to be taken out.
    pub remove: bool,
    /// The cgroup.
    pub name: CgroupName<'a>,
}

/// The error of a word that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupError {
    /// The word is neither a path nor a number.
    NoName,
    /// The word is nothing but an exclamation mark.
    Empty,
}

impl CgroupError {
    /// Returns the error as a sentence for users.
    pub const fn text(self) -> &'static str {
        match self {
            Self::NoName => "Neither a path from '/' on nor the ID of a cgroup",
            Self::Empty => "Nothing to remove after '!'",
        }
    }
}

impl<'a> CgroupWord<'a> {
    /// Parses a word.
    ///
    /// # Errors
    ///
    /// [`CgroupError`] if it names no cgroup.
    pub fn parse(word: &'a [u8]) -> Result<Self, CgroupError> {
        let (remove, name) = match word.split_first() {
            Some((b'!', [])) => return Err(CgroupError::Empty),
            Some((b'!', name)) => (true, name),
            _ => (false, word),
        };
        let name = match name {
            [b'/', ..] => CgroupName::Path(without_slashes(name)),
            _ => match parse_any_base(name) {
                Ok(id) => CgroupName::Id(id),
                Err(ParseError::Invalid | ParseError::Range) => return Err(CgroupError::NoName),
            },
        };
        Ok(Self { remove, name })
    }
}

/// Parses the words in `text`, each with its place there.
pub fn parse_words(
    text: &[u8],
) -> impl Iterator<Item = (usize, Result<CgroupWord<'_>, CgroupError>)> {
    words(text).map(|(at, word)| (at, CgroupWord::parse(word)))
}

/// Returns whether `word` is valid, or becomes so with more bytes: for words that come in parts.
pub fn is_beginning(word: &[u8]) -> bool {
    let name = word.strip_prefix(b"!").unwrap_or(word);
    match name {
        [] | [b'/', ..] => true,
        b"+" | b"0x" | b"0X" | b"+0x" | b"+0X" => true,
        _ => CgroupWord::parse(word).is_ok(),
    }
}

/// Returns a path without the slashes at its end.
fn without_slashes(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&byte| byte != b'/');
    let length = end.map_or(1, |last| last + 1);
    path.get(..length).unwrap_or(path)
}
