// SPDX-License-Identifier: GPL-2.0

//! Tests of the words of `dump_on_oops`.

use crate::engine::dump_on_oops::{write_named, DumpError, DumpMode, DumpWords};

fn named(value: &str) -> (DumpMode, Vec<(String, DumpMode)>) {
    let words = DumpWords::parse(value.as_bytes()).unwrap();
    let named = words.named().map(|(name, mode)| {
        assert_eq!(words.mode_of(name), mode);
        (String::from_utf8(name.to_vec()).unwrap(), mode)
    });
    (words.top, named.collect())
}

fn all(name: &str) -> (String, DumpMode) {
    (name.into(), DumpMode::All)
}

fn origin(name: &str) -> (String, DumpMode) {
    (name.into(), DumpMode::Origin)
}

#[test]
fn words_are_those_of_the_kernel() {
    for (value, wanted) in [
        ("0", (DumpMode::Off, vec![])),
        ("1\n", (DumpMode::All, vec![])),
        ("2\n", (DumpMode::Origin, vec![])),
        (" orig_cpu \n", (DumpMode::Origin, vec![])),
        // The examples of Documentation/admin-guide/sysctl/kernel.rst.
        ("foo,bar\n", (DumpMode::Off, vec![all("foo"), all("bar")])),
        (
            "1,foo,bar=2",
            (DumpMode::All, vec![all("foo"), origin("bar")]),
        ),
        ("foo=orig_cpu", (DumpMode::Off, vec![origin("foo")])),
        // Only the first word can be the top one's mode.
        (
            "2,1,2=2,0",
            (DumpMode::Origin, vec![all("1"), origin("2"), all("0")]),
        ),
        ("orig_cpu,a", (DumpMode::Origin, vec![all("a")])),
        ("10", (DumpMode::Off, vec![all("10")])),
    ] {
        assert_eq!(named(value), wanted, "{value}");
    }
    let words = DumpWords::parse(b"1,foo").unwrap();
    assert_eq!(words.mode_of(b"fo"), DumpMode::Off);
}

#[test]
fn words_without_a_meaning_are_refused() {
    for (value, wanted) in [
        ("", DumpError::NoMode(b"")),
        (" \n", DumpError::NoMode(b"")),
        (",", DumpError::NoName(b",")),
        ("1,", DumpError::NoName(b"1,")),
        ("1,,a", DumpError::NoName(b"1,,a")),
        (",a", DumpError::NoName(b",a")),
        ("=2", DumpError::NoName(b"=2")),
        ("a=", DumpError::NoMode(b"a=")),
        ("a=1", DumpError::NoMode(b"a=1")),
        ("a=0", DumpError::NoMode(b"a=0")),
        ("a=2=2", DumpError::NoMode(b"a=2=2")),
        ("a,b,a=2", DumpError::Twice(b"a")),
    ] {
        assert_eq!(DumpWords::parse(value.as_bytes()), Err(wanted), "{value}");
        assert!(!wanted.explain().0.is_empty());
    }
}

#[test]
fn an_instance_has_a_mode_alone() {
    for mode in [DumpMode::Off, DumpMode::All, DumpMode::Origin] {
        assert_eq!(DumpMode::parse(&[b'0' + mode.number(), b'\n']), Ok(mode));
    }
    assert_eq!(DumpMode::parse(b"orig_cpu"), Ok(DumpMode::Origin));
    for value in ["", "3", "01", "1,a", "a", "-1", "orig"] {
        let refused = DumpMode::parse(value.as_bytes());
        assert_eq!(refused, Err(DumpError::NoMode(value.as_bytes())));
    }
}

#[test]
fn what_is_written_is_read_back() {
    let mut text = String::from("2");
    write_named(&mut text, "a", DumpMode::All).unwrap();
    write_named(&mut text, "b", DumpMode::Off).unwrap();
    write_named(&mut text, "c", DumpMode::Origin).unwrap();
    assert_eq!(text, "2,a,c=2");
    let wanted = (DumpMode::Origin, vec![all("a"), origin("c")]);
    assert_eq!(named(&text), wanted);
}
