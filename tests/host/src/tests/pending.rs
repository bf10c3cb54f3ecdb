// SPDX-License-Identifier: GPL-2.0

//! Words that wait for modules.

use crate::engine::filter::Selector;
use crate::engine::pending::{waits_for, PendingWords};

fn with_all(words: &[&str]) -> PendingWords {
    words.iter().fold(PendingWords::new(), |pending, word| {
        pending.with(word.as_bytes()).expect("memory")
    })
}

fn text(pending: &PendingWords) -> String {
    String::from_utf8_lossy(pending.text()).into_owned()
}

#[test]
fn the_newest_comes_first_and_each_once() {
    let pending = with_all(&["f:mod:a", "*:mod:b", "f:mod:a", ":mod:c"]);
    assert_eq!(text(&pending), ":mod:c\nf:mod:a\n*:mod:b\n");
    assert_eq!(pending.iter().count(), 3);
    assert!(!pending.is_empty());
    assert!(PendingWords::new().is_empty());
}

#[test]
fn what_is_taken_out() {
    let pending = with_all(&["f:mod:a", "g*:mod:a", "f:mod:b", ":mod:b"]);
    for (word, wanted) in [
        ("!f:mod:a", Some(":mod:b\nf:mod:b\ng*:mod:a\n")),
        ("!*:mod:a", Some(":mod:b\nf:mod:b\n")),
        ("!:mod:b", Some("g*:mod:a\nf:mod:a\n")),
        ("!g*:mod:a", Some(":mod:b\nf:mod:b\nf:mod:a\n")),
        ("!g:mod:a", None),
        ("!f:mod:c", None),
        ("!f:mod:!a", None),
    ] {
        let selector = Selector::parse(word.as_bytes()).expect("a good word");
        let left = pending.without(&selector).expect("memory");
        assert_eq!(left.as_ref().map(text).as_deref(), wanted, "{word}");
    }
}

#[test]
fn modules() {
    for (word, module, wanted) in [
        ("f:mod:ext4", "ext4", true),
        ("f:mod:ext4", "ext", false),
        (":mod:ext*", "ext4", true),
        ("f:mod:!ext4", "ext4", false),
        // No word waits for all modules but one.
        ("f:mod:!ext4", "xfs", false),
        ("f", "ext4", false),
    ] {
        assert_eq!(
            waits_for(word.as_bytes(), module.as_bytes()),
            wanted,
            "{word} {module}"
        );
    }
}
