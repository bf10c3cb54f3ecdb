// SPDX-License-Identifier: GPL-2.0

//! Faults, the expected deviations: those that are known, and are to go. `OPERATION: WHAT`, one a
//! line, where `*` is any text.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// A deviation.
struct Entry {
    text: String,
    /// True if it was seen.
    seen: bool,
    /// True if something was done that it belongs to.
    done: bool,
}

/// The list of expected deviations.
pub struct Expected(Vec<Entry>);

impl Expected {
    /// Reads the list, if there is one.
    pub fn read(path: Option<&Path>) -> Result<Self> {
        let text = match path {
            Some(path) => fs::read_to_string(path).with_context(|| path.display().to_string())?,
            None => String::new(),
        };
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let entry = |line: &str| Entry {
            text: line.to_owned(),
            seen: false,
            done: false,
        };
        Ok(Self(lines.map(entry).collect()))
    }

    /// Notes that an operation was done.
    pub fn done(&mut self, operation: &str) {
        for entry in &mut self.0 {
            let (of, _) = entry.text.split_once(": ").unwrap_or((&entry.text, ""));
            entry.done |= matches(of, operation);
        }
    }

    /// Returns whether a deviation is in the list, and notes it.
    pub fn has(&mut self, operation: &str, what: &str) -> bool {
        let text = format!("{operation}: {what}");
        let mut found = false;
        for entry in &mut self.0 {
            let is_it = matches(&entry.text, &text);
            entry.seen |= is_it;
            found |= is_it;
        }
        found
    }

    /// Returns the deviations that were not seen though all was done that they belong to, if
    /// `is_all`, or else the one thing.
    pub fn gone(&self, is_all: bool) -> Vec<&str> {
        let unseen = self.0.iter().filter(|entry| entry.done && !entry.seen);
        let sure = unseen.filter(|entry| is_all || !entry.text.contains('*'));
        sure.map(|entry| entry.text.as_str()).collect()
    }
}

/// Returns whether `text` is like `pattern`.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(rest) = text.strip_prefix(before) else {
        return false;
    };
    let mut ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    ends.any(|at| matches(after, &rest[at..]))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_are_any_text() {
        assert!(matches("own * write a: b", "own x y write a: b"));
        assert!(matches("own*", "own"));
        assert!(!matches("own * write", "own write"));
        assert!(!matches("a*b", "abc"));
    }
}
