// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Wildcards, as the kernel's `glob_match()` (lib/glob.c) understands them: `*`, `?`, `[a-z]`,
//! `[!a-z]`, and `\` before a character that stands for itself.

/// Returns whether `pattern` has a wildcard.
pub fn is_pattern(pattern: &[u8]) -> bool {
    pattern.iter().any(|byte| b"*?[\\".contains(byte))
}

/// Returns whether all of `text` matches `pattern`.
///
/// The time that it takes is at worst proportional to the product of the lengths.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // The place to go on from if the rest behind the last `*` does not match here: one byte
    // further.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        let matched = match (pattern.split_first(), text.split_first()) {
            (Some((b'*', rest)), _) => {
                pattern = rest;
                retry = Some((rest, text));
                continue;
            }
            (None, None) => return true,
            // As in lib/glob.c, where the backslash escapes the NUL.
            (Some((b'\\', [])), None) => return true,
            // A `*` that takes more of the text leaves less of it, so nothing else can match.
            (Some(_), None) => return false,
            (None, Some(_)) => None,
            (Some((b'?', rest)), Some(_)) => Some(rest),
            (Some((b'[', rest)), Some((&byte, _))) => match class(rest, byte) {
                Some((true, rest)) => Some(rest),
                Some((false, _)) => None,
                // It is no class, but a bracket like any other character.
                None => (byte == b'[').then_some(rest),
            },
            (Some((b'\\', rest)), Some((&byte, _))) => rest.strip_prefix(&[byte]),
            (Some((&literal, rest)), Some((&byte, _))) => (literal == byte).then_some(rest),
        };
        (pattern, text) = match (matched, text.split_first()) {
            (Some(rest), Some((_, text))) => (rest, text),
            _ => match retry {
                Some((rest, from)) if !from.is_empty() => {
                    let from = from.get(1..).unwrap_or_default();
                    retry = Some((rest, from));
                    (rest, from)
                }
                _ => return false,
            },
        };
    }
}

/// Parses the class that `pattern` begins with, after its `[`. Returns whether `byte` is in it, and
/// the pattern behind its `]`; `None` if it has no end.
fn class(pattern: &[u8], byte: u8) -> Option<(bool, &[u8])> {
    let (inverted, mut rest) = match pattern.split_first() {
        Some((b'!', rest)) => (true, rest),
        _ => (false, pattern),
    };
    let mut inside = false;
    let mut first = true;
    loop {
        let (&low, after) = rest.split_first()?;
        // A `]` in the first place stands for itself.
        if low == b']' && !first {
            return Some((inside != inverted, after));
        }
        first = false;
        let high;
        (high, rest) = match after {
            [b'-', high, after @ ..] if *high != b']' => (*high, after),
            _ => (low, after),
        };
        inside |= (low..=high).contains(&byte);
    }
}
