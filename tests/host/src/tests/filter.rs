// SPDX-License-Identifier: GPL-2.0

use proptest::prelude::*;

use crate::engine::filter::{words, ModuleSelector, Selector, SelectorError};

/// A word: whether it removes; its names; and the module: whether it is inverted, and its name.
type Parsed<'a> = (bool, &'a str, Option<(bool, &'a str)>);

fn parsed(word: &str) -> Result<Parsed<'_>, SelectorError> {
    let text = |bytes| std::str::from_utf8(bytes).expect("ASCII");
    Selector::parse(word.as_bytes()).map(|selector| {
        let module = selector.module;
        let module = module.map(|ModuleSelector { inverted, name }| (inverted, text(name)));
        (selector.remove, text(selector.names), module)
    })
}

#[test]
fn parsing() {
    for (word, wanted) in [
        ("vfs_read", Ok((false, "vfs_read", None))),
        ("vfs_*", Ok((false, "vfs_*", None))),
        ("!vfs_read", Ok((true, "vfs_read", None))),
        ("!!x", Ok((true, "!x", None))),
        ("*:mod:ext4", Ok((false, "*", Some((false, "ext4"))))),
        (":mod:ext4", Ok((false, "*", Some((false, "ext4"))))),
        ("!:mod:ext4", Ok((true, "*", Some((false, "ext4"))))),
        ("x:mod:!ext4", Ok((false, "x", Some((true, "ext4"))))),
        ("!x:mod:!y*", Ok((true, "x", Some((true, "y*"))))),
        ("", Err(SelectorError::Empty)),
        ("!", Err(SelectorError::Empty)),
        (":mod:", Err(SelectorError::NoModule)),
        ("x:mod:!", Err(SelectorError::NoModule)),
        ("x:", Err(SelectorError::UnknownCommand)),
        ("x:mod", Err(SelectorError::UnknownCommand)),
        ("x:traceoff", Err(SelectorError::UnknownCommand)),
        ("x:traceoff:mod:y", Err(SelectorError::UnknownCommand)),
        ("a\u{7f}", Err(SelectorError::BadCharacter)),
        ("a b", Err(SelectorError::BadCharacter)),
        ("\u{e4}", Err(SelectorError::BadCharacter)),
    ] {
        assert_eq!(parsed(word), wanted, "{word:?}");
    }
}

#[test]
fn refusals_are_sentences() {
    for refusal in [
        SelectorError::Empty,
        SelectorError::BadCharacter,
        SelectorError::UnknownCommand,
        SelectorError::NoModule,
        SelectorError::NoSuchFunction,
        SelectorError::NotTraceable,
    ] {
        assert!(refusal
            .text()
            .starts_with(|first: char| first.is_ascii_uppercase()));
        assert!(!refusal.text().ends_with(['.', '\n']));
    }
}

#[test]
fn matching() {
    let kernel = None;
    let ext4 = Some(&b"ext4"[..]);
    for (word, name, module, wanted) in [
        ("vfs_read", "vfs_read", kernel, true),
        ("vfs_read", "vfs_read", ext4, true),
        ("vfs_read", "vfs_readv", kernel, false),
        ("vfs_read", "xvfs_read", kernel, false),
        ("vfs_read", "vfs_rea", kernel, false),
        // Variants that compilers make of it.
        ("name", "name.constprop.0", kernel, true),
        ("name", "name.isra.0", kernel, true),
        ("name", "name.isra.0.constprop.1", kernel, true),
        ("name", "name.part.3", kernel, true),
        ("name", "name.llvm.1234567890", kernel, true),
        ("name", "name.cold", kernel, false),
        ("name", "name.constprop.0.cold", kernel, false),
        ("name", "namex", kernel, false),
        ("name", "namex.isra.0", kernel, false),
        ("name.isra.0", "name.isra.0", kernel, true),
        ("name.isra.0", "name", kernel, false),
        ("name.cold", "name.cold", kernel, true),
        // A pattern means what it says.
        ("nam*", "name.cold", kernel, true),
        ("nam?", "name.isra.0", kernel, false),
        // Modules.
        ("x:mod:ext4", "x", ext4, true),
        ("x:mod:ext4", "y", ext4, false),
        ("x:mod:ext4", "x", Some(b"ext2"), false),
        ("x:mod:ext4", "x", kernel, false),
        ("x:mod:ext?", "x", ext4, true),
        (":mod:ext4", "anything", ext4, true),
        (":mod:!ext4", "x", ext4, false),
        (":mod:!ext4", "x", Some(b"ext2"), true),
        (":mod:!ext4", "x", kernel, true),
        // A word that removes is matched alike.
        ("!vfs_*", "vfs_read", kernel, true),
    ] {
        let selector = Selector::parse(word.as_bytes()).expect("a good word");
        let found = selector.matches(name.as_bytes(), module);
        assert_eq!(found, wanted, "{word} on {name} of {module:?}");
    }
}

#[test]
fn names_and_patterns() {
    for (word, wanted) in [
        ("x", true),
        ("!x:mod:y*", true),
        ("x*", false),
        (":mod:y", false),
    ] {
        let selector = Selector::parse(word.as_bytes()).expect("a good word");
        assert_eq!(selector.is_name(), wanted, "{word}");
    }
}

#[test]
fn places_of_words() {
    let found: Vec<_> = words(b" \tone\ntwo\0 three").collect();
    assert_eq!(found, [(2, &b"one"[..]), (6, b"two"), (11, b"three")]);
    assert_eq!(words(b"").count(), 0);
    assert_eq!(words(b" \n").count(), 0);
    assert_eq!(words(b"x").collect::<Vec<_>>(), [(0, &b"x"[..])]);
}

proptest! {
    #[test]
    fn words_are_where_they_say(text in "[a-c \n]{0,30}") {
        let found: Vec<_> = words(text.as_bytes()).collect();
        let wanted: Vec<_> = text.split_ascii_whitespace().map(str::as_bytes).collect();
        prop_assert_eq!(found.iter().map(|&(_, word)| word).collect::<Vec<_>>(), wanted);
        for (place, word) in found {
            prop_assert_eq!(&text.as_bytes()[place..place + word.len()], word);
        }
    }

    #[test]
    fn any_bytes(word: Vec<u8>, name: Vec<u8>) {
        if let Ok(selector) = Selector::parse(&word) {
            selector.matches(&name, Some(&name));
        }
    }
}
