// SPDX-License-Identifier: GPL-2.0

use proptest::prelude::*;

use super::cases;
use crate::engine::glob::{is_pattern, matches};

/// Agrees with lib/glob.c and its test, lib/tests/glob_kunit.c.
#[test]
fn table() {
    for (pattern, text, wanted) in [
        ("a", "a", true),
        ("a", "b", false),
        ("a", "aa", false),
        ("a", "", false),
        ("", "", true),
        ("", "a", false),
        ("[a]", "a", true),
        ("[a]", "b", false),
        ("[!a]", "a", false),
        ("[!a]", "b", true),
        ("[ab]", "a", true),
        ("[ab]", "b", true),
        ("[ab]", "c", false),
        ("[!ab]", "c", true),
        ("[a-c]", "b", true),
        ("[a-c]", "d", false),
        ("[c-a]", "b", false),
        // Not corner cases: a class is never empty.
        ("[a-c", "[a-c", true),
        ("[]a]", "]", true),
        ("[]a]", "a", true),
        ("[]a]", "b", false),
        ("[!]a]", "b", true),
        ("[!]a]", "]", false),
        ("[]-a]", "^", true),
        ("[]-a]", "b", false),
        ("[]", "[]", true),
        ("[!]", "[!]", true),
        ("[", "[", true),
        ("a[b", "a[b", true),
        ("[a-", "[a-", true),
        ("[a-]", "-", true),
        ("[a-]", "a", true),
        ("[a-]", "b", false),
        ("[^a]", "^", true),
        ("[^a]", "b", false),
        ("[\\]", "\\", true),
        ("[a", "a", false),
        ("[a]", "", false),
        ("?", "a", true),
        ("?", "", false),
        ("?", "aa", false),
        ("*", "", true),
        ("*", "abc", true),
        ("**", "abc", true),
        ("*a", "ba", true),
        ("*a", "ab", false),
        ("a*", "ab", true),
        ("*bc", "abcbc", true),
        ("*bc*bc", "abcbc", true),
        ("*ac*", "abacadaeafag", true),
        ("*ac*ae*ag*", "abacadaeafag", true),
        ("*a*b*[bc]*[ef]*g*", "abacadaeafag", true),
        ("*a*b*[ef]*[cd]*g*", "abacadaeafag", false),
        ("*abcd*", "abcabcabcabcdefg", true),
        ("*ab*cd*", "abcabcabcabcdefg", true),
        ("*abcd*abcdef*", "abcabcdabcdeabcdefg", true),
        ("*abcd*", "abcabcabcabcefg", false),
        ("*ab*cd*", "abcabcabcabcefg", false),
        ("\\*", "*", true),
        ("\\*", "a", false),
        ("\\a", "a", true),
        ("\\\\", "\\", true),
        // The end of the text is what it escapes.
        ("a\\", "a", true),
        ("a\\", "a\\", false),
        ("\\[a]", "[a]", true),
        ("vfs_*", "vfs_read", true),
        ("vfs_*", "do_vfs_ioctl", false),
        ("*_lock[!_]*", "mutex_lock_nested", false),
    ] {
        let found = matches(pattern.as_bytes(), text.as_bytes());
        assert_eq!(found, wanted, "{pattern:?} on {text:?}");
    }
}

#[test]
fn patterns() {
    for (word, wanted) in [
        ("vfs_read", false),
        ("vfs*", true),
        ("vfs?read", true),
        ("vfs[r", true),
        ("vfs\\", true),
        ("vfs]", false),
        ("", false),
    ] {
        assert_eq!(is_pattern(word.as_bytes()), wanted, "{word:?}");
    }
}

/// A pattern of many stars has an end, which would not come if each `*` tried all that is left.
#[test]
fn many_stars() {
    let long = if cfg!(miri) { 200 } else { 4000 };
    let text = vec![b'a'; long];
    let mut pattern = b"*a".repeat(40);
    assert!(matches(&pattern, &text));
    pattern.extend(b"*b");
    assert!(!matches(&pattern, &text));
    let pattern = [b"*", &text[..long / 2], b"b"].concat();
    assert!(!matches(&pattern, &text));
}

/// First and last byte of each span.
type Spans = Vec<(u8, u8)>;

/// Returns a class's spans and the rest behind it, if it has an end.
fn class(pattern: &[u8]) -> Option<(Spans, &[u8])> {
    let mut spans = Vec::new();
    let mut at = 0;
    loop {
        let low = *pattern.get(at)?;
        if low == b']' && at > 0 {
            return Some((spans, &pattern[at + 1..]));
        }
        at += 1;
        let mut high = low;
        if pattern.get(at) == Some(&b'-') && pattern.get(at + 1) != Some(&b']') {
            high = *pattern.get(at + 1)?;
            at += 2;
        }
        spans.push((low, high));
    }
}

/// Returns whether a pattern matches, without regard to time.
fn reference(pattern: &[u8], text: &[u8]) -> bool {
    let after_one = |matched, rest| match text {
        [_, text @ ..] => matched && reference(rest, text),
        [] => false,
    };
    let is = |byte| text.first() == Some(&byte);
    match pattern {
        [] | [b'\\'] => text.is_empty(),
        [b'*', rest @ ..] => (0..=text.len()).any(|taken| reference(rest, &text[taken..])),
        [b'?', rest @ ..] => after_one(true, rest),
        [b'\\', byte, rest @ ..] => after_one(is(*byte), rest),
        [b'[', rest @ ..] => {
            let inverted = rest.first() == Some(&b'!');
            match (class(&rest[usize::from(inverted)..]), text.first()) {
                (_, None) => false,
                (None, _) => after_one(is(b'['), rest),
                (Some((spans, rest)), Some(byte)) => {
                    let inside = spans.iter().any(|(low, high)| low <= byte && byte <= high);
                    after_one(inside != inverted, rest)
                }
            }
        }
        [byte, rest @ ..] => after_one(is(*byte), rest),
    }
}

proptest! {
    #![proptest_config(cases(20_000))]

    #[test]
    fn agrees_with_reference(
        pattern in prop::collection::vec(prop::sample::select(&b"*?[]!-\\abc"[..]), 0..9),
        text in prop::collection::vec(prop::sample::select(&b"abc]-[\\"[..]), 0..7),
    ) {
        prop_assert_eq!(matches(&pattern, &text), reference(&pattern, &text));
    }
}
