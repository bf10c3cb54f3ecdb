// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Words that name functions, which users write into `filter` and `notrace`.
//!
//! ```text
//! word   = ["!"] names [":mod:" ["!"] module]
//! names  = a function's name, or a pattern (see `glob`); empty with ":mod:" for all
//! module = a module's name, or a pattern
//! ```
//!
//! In `filter` there are also words for actions; see [`command`](super::command).
//!
//! A name without wildcards also means the variants that compilers make of the function, such as
//! `name.constprop.0` and `name.isra.0`; not `name.cold`, which is never entered by a call.

use super::glob;

/// The functions that a word means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selector<'a> {
    /// Functions are taken out of the set instead of put in.
    pub remove: bool,
    /// A name or a pattern.
    pub names: &'a [u8],
    /// Only functions of modules that match are meant.
    pub module: Option<ModuleSelector<'a>>,
}

/// The part after `:mod:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleSelector<'a> {
    /// The modules that do not match are meant.
    pub inverted: bool,
    /// A name or a pattern.
    pub name: &'a [u8],
}

/// A reason for which a word is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectorError {
    /// The word is nothing but an exclamation mark.
    Empty,
    /// No function's name has such a character.
    BadCharacter,
    /// The word behind the colon is no command that the list knows.
    UnknownCommand,
    /// The word behind `:stacktrace:` and the like is no number.
    BadCount,
    /// There is no module behind `:mod:`.
    NoModule,
    /// No function has such a name.
    NoSuchFunction,
    /// The kernel has the name, but nothing there can be traced: it is inlined, or notrace.
    NotTraceable,
}

impl SelectorError {
    /// Returns a sentence for the user.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Empty => "Nothing to remove after '!'",
            Self::BadCharacter => "Not a function name or pattern",
            Self::UnknownCommand => {
                "Unknown command after ':'; ':mod:' is known, and in filter ':traceon', ':traceoff', \
                 ':stacktrace', ':snapshot', ':dump', ':cpudump'"
            }
            Self::BadCount => "Not a count after the command",
            Self::NoModule => "No module after ':mod:'",
            Self::NoSuchFunction => "No traceable function matches",
            Self::NotTraceable => "The symbol exists but cannot be traced (inlined or notrace)",
        }
    }
}

/// Splits a text into words and their places in bytes.
pub fn words(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut rest = text;
    core::iter::from_fn(move || {
        let start = rest.iter().position(|byte| !is_space(*byte))?;
        let word = rest.get(start..)?;
        let length = word
            .iter()
            .position(|byte| is_space(*byte))
            .unwrap_or(word.len());
        let (word, after) = word.split_at(length);
        rest = after;
        Some((text.len() - after.len() - length, word))
    })
}

/// Returns whether words end at this byte; a NUL ends them too, as in tracefs.
pub const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | 0)
}

impl<'a> Selector<'a> {
    /// Parses one word.
    pub fn parse(word: &'a [u8]) -> Result<Self, SelectorError> {
        let (remove, word) = match word.split_first() {
            Some((b'!', rest)) => (true, rest),
            _ => (false, word),
        };
        if word.iter().any(|byte| !byte.is_ascii_graphic()) {
            return Err(SelectorError::BadCharacter);
        }
        let Some(colon) = word.iter().position(|&byte| byte == b':') else {
            return match word {
                [] => Err(SelectorError::Empty),
                names => Ok(Self {
                    remove,
                    names,
                    module: None,
                }),
            };
        };
        let (names, command) = word.split_at(colon);
        let name = command
            .strip_prefix(b":mod:")
            .ok_or(SelectorError::UnknownCommand)?;
        let (inverted, name) = match name.split_first() {
            Some((b'!', rest)) => (true, rest),
            _ => (false, name),
        };
        if name.is_empty() {
            return Err(SelectorError::NoModule);
        }
        let names = if names.is_empty() { b"*" } else { names };
        let module = Some(ModuleSelector { inverted, name });
        Ok(Self {
            remove,
            names,
            module,
        })
    }

    /// Returns whether the word is one name, not a pattern.
    pub fn is_name(&self) -> bool {
        !glob::is_pattern(self.names)
    }

    /// Returns whether a function of this name, in this module or (`None`) in the kernel itself, is
    /// meant.
    pub fn matches(&self, name: &[u8], module: Option<&[u8]>) -> bool {
        self.matches_module(module) && self.matches_name(name)
    }

    /// Returns whether it means functions of `module`, by naming it.
    pub fn is_of_module(&self, module: &[u8]) -> bool {
        (self.module).is_some_and(|wanted| !wanted.inverted && glob::matches(wanted.name, module))
    }

    /// Returns whether it means functions of modules that it names.
    pub fn names_modules(&self) -> bool {
        self.module.is_some_and(|wanted| !wanted.inverted)
    }

    /// Returns whether functions of this module, or (`None`) of the kernel itself, can be meant.
    pub fn matches_module(&self, module: Option<&[u8]>) -> bool {
        match (self.module, module) {
            (None, _) => true,
            (Some(wanted), Some(module)) => glob::matches(wanted.name, module) != wanted.inverted,
            (Some(wanted), None) => wanted.inverted,
        }
    }

    fn matches_name(&self, name: &[u8]) -> bool {
        if !self.is_name() {
            return glob::matches(self.names, name);
        }
        match name.strip_prefix(self.names) {
            Some([]) => true,
            Some(suffix) => is_variant(suffix),
            None => false,
        }
    }
}

/// Returns whether a name's rest is one that compilers append to the name of a function.
fn is_variant(suffix: &[u8]) -> bool {
    suffix.first() == Some(&b'.')
        && suffix
            .split(|&byte| byte == b'.')
            .all(|part| part != b"cold")
}
