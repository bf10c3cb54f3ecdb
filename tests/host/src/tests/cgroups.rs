// SPDX-License-Identifier: GPL-2.0

//! Tests of the words that name cgroups.

use crate::engine::cgroups::{is_beginning, parse_words, CgroupError, CgroupName, CgroupWord};

fn word(remove: bool, name: CgroupName<'_>) -> Result<CgroupWord<'_>, CgroupError> {
    Ok(CgroupWord { remove, name })
}

#[test]
fn words_name_cgroups() {
    let path = |path: &'static str| CgroupName::Path(path.as_bytes());
    for (text, wanted) in [
        ("/", word(false, path("/"))),
        ("///", word(false, path("/"))),
        ("/a", word(false, path("/a"))),
        ("/a/b.slice//", word(false, path("/a/b.slice"))),
        ("!/a/", word(true, path("/a"))),
        ("1", word(false, CgroupName::Id(1))),
        ("!0x10", word(true, CgroupName::Id(16))),
        (
            "18446744073709551615",
            word(false, CgroupName::Id(u64::MAX)),
        ),
        ("18446744073709551616", Err(CgroupError::NoName)),
        ("a/b", Err(CgroupError::NoName)),
        ("../a", Err(CgroupError::NoName)),
        ("-1", Err(CgroupError::NoName)),
        ("1x", Err(CgroupError::NoName)),
        ("!", Err(CgroupError::Empty)),
        ("!!/a", Err(CgroupError::NoName)),
    ] {
        assert_eq!(CgroupWord::parse(text.as_bytes()), wanted, "{text}");
    }
    assert_ne!(CgroupError::NoName.text(), CgroupError::Empty.text());
}

#[test]
fn words_stand_between_blanks() {
    let words: Vec<_> = parse_words(b" /a\t!7\nx ").collect();
    let wanted = vec![
        (1, word(false, CgroupName::Path(b"/a"))),
        (4, word(true, CgroupName::Id(7))),
        (7, Err(CgroupError::NoName)),
    ];
    assert_eq!(words, wanted);
}

#[test]
fn a_word_that_can_go_on_is_waited_for() {
    for text in ["", "!", "/", "!/a", "12", "!12", "0x", "0x1", "+", "!+0X"] {
        assert!(is_beginning(text.as_bytes()), "{text}");
    }
    for text in ["a", "!a", "1x", "-", "!!", "!!1"] {
        assert!(!is_beginning(text.as_bytes()), "{text}");
    }
}
