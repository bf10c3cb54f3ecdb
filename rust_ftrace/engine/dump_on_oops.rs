// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `dump_on_oops`, the words: which traces go to the console when the machine dies, as the kernel's
//! `ftrace_dump_on_oops` has it (Documentation/admin-guide/sysctl/kernel.rst).
//!
//! ```text
//! value = mode | [mode ","] named ("," named)*
//! named = instance ["=" origin]
//! mode  = "0" | "1" | origin
//! origin = "2" | "orig_cpu"
//! ```

use core::fmt;

use super::parse::parse_word;

/// The CPUs whose events are shown when the machine dies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DumpMode {
    /// None.
    #[default]
    Off,
    /// All of them.
    All,
    /// The one that the machine died on.
    Origin,
}

impl DumpMode {
    /// Returns the mode that a word means, if it is one.
    fn from_word(word: &[u8]) -> Option<Self> {
        match word {
            b"0" => Some(Self::Off),
            b"1" => Some(Self::All),
            b"2" | b"orig_cpu" => Some(Self::Origin),
            _ => None,
        }
    }

    /// Parses the mode of one instance.
    ///
    /// # Errors
    ///
    /// [`DumpError`] with the word that is none.
    pub fn parse(value: &[u8]) -> Result<Self, DumpError<'_>> {
        let word = parse_word(value);
        Self::from_word(word).ok_or(DumpError::NoMode(word))
    }

    /// Returns the mode's number.
    pub const fn number(self) -> u8 {
        match self {
            Self::Off => 0,
            Self::All => 1,
            Self::Origin => 2,
        }
    }
}

/// The part of a value that means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpError<'a> {
    /// It should be a mode.
    NoMode(&'a [u8]),
    /// It should be the name of an instance, and is empty.
    NoName(&'a [u8]),
    /// It names an instance that was named before.
    Twice(&'a [u8]),
}

impl<'a> DumpError<'a> {
    /// Returns the words for it, and the part of the value.
    pub const fn explain(self) -> (&'static str, &'a [u8]) {
        match self {
            Self::NoMode(word) => ("Neither 0, 1, 2 nor orig_cpu", word),
            Self::NoName(value) => ("No name between commas", value),
            Self::Twice(word) => ("Instance named twice", word),
        }
    }
}

/// A value of the top directory's file: its own mode, and the instances that are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpWords<'a> {
    /// The mode of the top instance.
    pub top: DumpMode,
    named: &'a [u8],
}

impl<'a> DumpWords<'a> {
    /// Parses a value.
    ///
    /// # Errors
    ///
    /// [`DumpError`] of the first part that means nothing.
    pub fn parse(value: &'a [u8]) -> Result<Self, DumpError<'a>> {
        let value = parse_word(value);
        let first = value.split(|&byte| byte == b',').next().unwrap_or_default();
        let words = match DumpMode::from_word(first) {
            Some(top) => Self {
                top,
                // What follows the first comma.
                named: value.get(first.len() + 1..).unwrap_or_default(),
            },
            None => Self {
                top: DumpMode::Off,
                named: value,
            },
        };
        if value.is_empty() {
            return Err(DumpError::NoMode(value));
        }
        if value.ends_with(b",") {
            return Err(DumpError::NoName(value));
        }
        for (index, word) in words.words().enumerate() {
            let (name, mode) = split(word);
            if name.is_empty() {
                return Err(DumpError::NoName(value));
            }
            if mode.is_some_and(|mode| DumpMode::from_word(mode) != Some(DumpMode::Origin)) {
                return Err(DumpError::NoMode(word));
            }
            if words.words().take(index).any(|word| split(word).0 == name) {
                return Err(DumpError::Twice(name));
            }
        }
        Ok(words)
    }

    fn words(self) -> impl Iterator<Item = &'a [u8]> {
        let words = self.named.split(|&byte| byte == b',');
        words.filter(move |_| !self.named.is_empty())
    }

    /// Returns the instances that are named, each with its mode.
    pub fn named(self) -> impl Iterator<Item = (&'a [u8], DumpMode)> {
        self.words().map(|word| match split(word) {
            (name, None) => (name, DumpMode::All),
            (name, Some(_)) => (name, DumpMode::Origin),
        })
    }

    /// Returns the mode of the instance `name`.
    pub fn mode_of(self, name: &[u8]) -> DumpMode {
        let mut named = self.named();
        let found = named.find(|named| named.0 == name);
        found.map_or(DumpMode::Off, |found| found.1)
    }
}

/// Splits a word at the first equals sign.
fn split(word: &[u8]) -> (&[u8], Option<&[u8]>) {
    match word.iter().position(|&byte| byte == b'=') {
        Some(at) => (
            word.get(..at).unwrap_or_default(),
            Some(word.get(at + 1..).unwrap_or_default()),
        ),
        None => (word, None),
    }
}

/// Writes the part of a value that names an instance; nothing if it is not to be shown.
///
/// # Errors
///
/// [`fmt::Error`] of `out`.
pub fn write_named(out: &mut dyn fmt::Write, name: &str, mode: DumpMode) -> fmt::Result {
    match mode {
        DumpMode::Off => Ok(()),
        DumpMode::All => write!(out, ",{name}"),
        DumpMode::Origin => write!(out, ",{name}={}", mode.number()),
    }
}
