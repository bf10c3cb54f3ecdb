// SPDX-License-Identifier: GPL-2.0

//! Targets for input of control files that name cgroups and instances.

use crate::engine::cgroups::{is_beginning, parse_words, CgroupError, CgroupName, CgroupWord};
use crate::engine::dump_on_oops::{write_named, DumpError, DumpMode, DumpWords};
use crate::engine::filter::words as split;
use crate::engine::parse::parse_word;
use crate::parsers::kstrtoul;

/// Parses words of `cgroup`, and a value of `dump_on_oops`.
pub fn names(text: &[u8]) {
    let mut places = split(text);
    for (place, parsed) in parse_words(text) {
        let (at, word) = places.next().expect("a word");
        assert_eq!(place, at);
        cgroup(word, parsed);
    }
    assert!(places.next().is_none());
    dump(text);
    let word = parse_word(text);
    let one = mode(word).ok_or(DumpError::NoMode(word));
    assert_eq!(DumpMode::parse(text), one);
}

fn cgroup(word: &[u8], parsed: Result<CgroupWord<'_>, CgroupError>) {
    let name = word.strip_prefix(b"!").unwrap_or(word);
    let remove = name.len() < word.len();
    let path = || {
        let slashes = name.iter().rev().take_while(|&&byte| byte == b'/');
        let end = name.len() - slashes.count();
        CgroupName::Path(&name[..end.max(1)])
    };
    let name_is = match name.first() {
        None => Err(CgroupError::Empty),
        Some(b'/') => Ok(path()),
        Some(_) => kstrtoul(name)
            .map(CgroupName::Id)
            .ok_or(CgroupError::NoName),
    };
    assert_eq!(parsed, name_is.map(|name| CgroupWord { remove, name }));
    // Input that comes in parts is refused as soon as nothing can be made of it, and not before.
    let is_good = |word: &[u8]| CgroupWord::parse(word).is_ok();
    let longer = |word: &[u8], more: &[u8]| is_good(&[word, more].concat());
    assert!(parsed.is_err() || (1..=word.len().min(24)).all(|end| is_beginning(&word[..end])));
    let may_be = is_good(word) || longer(word, b"0") || longer(word, b"/");
    assert_eq!(is_beginning(word), may_be);
}

fn mode(word: &[u8]) -> Option<DumpMode> {
    match std::str::from_utf8(word).ok()? {
        "0" => Some(DumpMode::Off),
        "1" => Some(DumpMode::All),
        "2" | "orig_cpu" => Some(DumpMode::Origin),
        _ => None,
    }
}

fn dump(text: &[u8]) {
    let value = parse_word(text);
    let mut parts: Vec<&[u8]> = value.split(|&byte| byte == b',').collect();
    let top = mode(parts[0]);
    if top.is_some() {
        parts.remove(0);
    }
    let top = top.unwrap_or_default();
    let wanted = match (value, value.ends_with(b",")) {
        (b"", _) => Err(DumpError::NoMode(value)),
        (_, true) => Err(DumpError::NoName(value)),
        _ => instances(value, &parts),
    };
    let words = DumpWords::parse(text);
    match (words, wanted) {
        (Ok(words), Ok(wanted)) => {
            assert_eq!(words.top, top);
            assert!(words.named().eq(wanted.iter().copied()));
            for (name, mode) in &wanted {
                assert_eq!(words.mode_of(name), *mode);
            }
            assert_eq!(words.mode_of(b""), DumpMode::Off);
            written(top, &wanted);
        }
        (words, wanted) => assert_eq!(words.err(), wanted.err()),
    }
}

/// Reads the parts that name instances; each is named once.
fn instances<'a>(
    value: &'a [u8],
    parts: &[&'a [u8]],
) -> Result<Vec<(&'a [u8], DumpMode)>, DumpError<'a>> {
    let mut named: Vec<(&[u8], DumpMode)> = Vec::new();
    for part in parts {
        let mut halves = part.splitn(2, |&byte| byte == b'=');
        let name = halves.next().unwrap_or_default();
        if name.is_empty() {
            return Err(DumpError::NoName(value));
        }
        let mode = match halves.next() {
            None => DumpMode::All,
            Some(b"2" | b"orig_cpu") => DumpMode::Origin,
            Some(_) => return Err(DumpError::NoMode(part)),
        };
        if named.iter().any(|(other, _)| *other == name) {
            return Err(DumpError::Twice(name));
        }
        named.push((name, mode));
    }
    Ok(named)
}

/// The text that shows a value is that value.
fn written(top: DumpMode, named: &[(&[u8], DumpMode)]) {
    let mut text = top.number().to_string();
    for (name, mode) in named {
        let Ok(name) = std::str::from_utf8(name) else {
            return;
        };
        write_named(&mut text, name, *mode).expect("room");
    }
    let again = DumpWords::parse(text.as_bytes()).expect("a value");
    assert_eq!(again.top, top);
    assert!(again.named().eq(named.iter().copied()));
}
