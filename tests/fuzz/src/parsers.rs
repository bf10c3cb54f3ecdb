// SPDX-License-Identifier: GPL-2.0

//! Targets for input of control files that hold lists.

use std::collections::BTreeSet;

use crate::engine::clock::ClockKind;
use crate::engine::errno::ErrnoSet;
use crate::engine::filter::{is_space, words as split, Selector};
use crate::engine::function_set::FunctionSet;
use crate::engine::glob;
use crate::engine::parse::{parse_any_base, parse_bool, parse_number, parse_word, ParseError};
use crate::engine::pids::{is_beginning, PidSet, PidSetError, PID_LIMIT};

/// Parses words of `filter` and `notrace`, and checks their meanings.
pub fn words(text: &[u8]) {
    let mut end = 0;
    for (place, word) in split(text) {
        assert!(place >= end && !word.is_empty());
        assert_eq!(&text[place..place + word.len()], word);
        assert!(!word.iter().any(|&byte| is_space(byte)));
        assert!(text[end..place].iter().all(|&byte| is_space(byte)));
        end = place + word.len();
        let Ok(selector) = Selector::parse(word) else {
            continue;
        };
        assert!(!selector.names.is_empty());
        assert!(selector.module.is_none_or(|module| !module.name.is_empty()));
        // A name means itself, and the variants that compilers make of it.
        if selector.is_name() && selector.module.is_none() {
            assert!(selector.matches(selector.names, None));
            assert!(selector.matches(&[selector.names, b".isra.0"].concat(), Some(b"loop")));
            assert!(!selector.matches(&[selector.names, b".cold"].concat(), None));
        }
    }
    assert!(text[end..].iter().all(|&byte| is_space(byte)));
}

/// Functions that can be traced, in ascending order, and their modules.
const CATALOG: [(&[u8], Option<&[u8]>); 8] = [
    (b"vfs_read", None),
    (b"vfs_write", None),
    (b"vfs_read.isra.0", None),
    (b"a", None),
    (b"lo_open", Some(b"loop")),
    (b"lo_release.constprop.0", Some(b"loop")),
    (b"a", Some(b"a")),
    (b"nf_[]", Some(b"nf_tables")),
];

/// Edits a list: the result of the words is the same as with sets of the standard library.
pub fn lists(text: &[u8]) {
    let mut set = FunctionSet::new();
    let mut model = BTreeSet::new();
    for (_, word) in split(text) {
        let Ok(selector) = Selector::parse(word) else {
            continue;
        };
        let chosen: Vec<usize> = CATALOG
            .iter()
            .enumerate()
            .filter(|(_, (name, module))| selector.matches(name, *module))
            .map(|(index, _)| index * 16)
            .collect();
        let other = FunctionSet::from_sorted(chosen.iter().copied()).expect("memory");
        set = if selector.remove {
            chosen.iter().for_each(|ip| {
                model.remove(ip);
            });
            set.difference(&other)
        } else {
            model.extend(chosen);
            set.union(&other)
        }
        .expect("memory");
        assert!(set.as_slice().iter().eq(model.iter()));
    }
    let tail = 5 * 16..usize::MAX;
    let had = model.range(tail.clone()).next().is_some();
    assert_eq!(set.remove_range(&tail), had);
    assert!(set.as_slice().iter().eq(model.range(..tail.start)));
}

/// Matches patterns: the first line is one, the rest is matched, and the kernel's own matching
/// agrees.
pub fn patterns(text: &[u8]) {
    let (pattern, text) = match text.iter().position(|&byte| byte == b'\n') {
        Some(end) => (&text[..end], &text[end + 1..]),
        None => (text, &text[..0]),
    };
    // A NUL ends both in the kernel.
    if pattern.contains(&0) || text.contains(&0) {
        glob::matches(pattern, text);
        return;
    }
    let matched = glob::matches(pattern, text);
    assert_eq!(matched, glob_match(pattern, text));
    if !glob::is_pattern(pattern) {
        assert_eq!(matched, pattern == text);
    }
}

/// Matches as `glob_match()` of the kernel's lib/glob.c does, which it is word for word.
fn glob_match(pattern: &[u8], text: &[u8]) -> bool {
    let at = |bytes: &[u8], index: usize| bytes.get(index).copied().unwrap_or(0);
    let (mut pat, mut str) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    loop {
        let c = at(text, str);
        str += 1;
        let mut d = at(pattern, pat);
        pat += 1;
        let mut literal = false;
        let matched = match d {
            b'?' => {
                if c == 0 {
                    return false;
                }
                true
            }
            b'*' => {
                if at(pattern, pat) == 0 {
                    return true;
                }
                str -= 1;
                back = Some((pat, str));
                continue;
            }
            b'[' => {
                if c == 0 {
                    return false;
                }
                let inverted = at(pattern, pat) == b'!';
                let mut class = pat + usize::from(inverted);
                let mut a = at(pattern, class);
                class += 1;
                let mut found = false;
                loop {
                    if a == 0 {
                        literal = true;
                        break;
                    }
                    let mut b = a;
                    if at(pattern, class) == b'-' && at(pattern, class + 1) != b']' {
                        b = at(pattern, class + 1);
                        if b == 0 {
                            literal = true;
                            break;
                        }
                        class += 2;
                    }
                    found |= a <= c && c <= b;
                    a = at(pattern, class);
                    class += 1;
                    if a == b']' {
                        break;
                    }
                }
                if !literal {
                    pat = class;
                }
                found != inverted
            }
            b'\\' => {
                d = at(pattern, pat);
                pat += 1;
                literal = true;
                false
            }
            _ => {
                literal = true;
                false
            }
        };
        let matched = if literal {
            if c == d && d == 0 {
                return true;
            }
            c == d
        } else {
            matched
        };
        if !matched {
            // A NUL, or nowhere to go back to.
            match back {
                Some((to, from)) if c != 0 => {
                    pat = to;
                    str = from + 1;
                    back = Some((to, str));
                }
                _ => return false,
            }
        }
    }
}

/// Parses a number as `kstrtoul(text, 0)` does, by the standard library's reading of its digits;
/// returns `None` if it does not fit, or is none.
pub(crate) fn kstrtoul(text: &[u8]) -> Option<u64> {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    let text = std::str::from_utf8(text).ok()?;
    let text = text.strip_prefix('+').unwrap_or(text);
    let text = text.strip_suffix('\n').unwrap_or(text);
    let lower = text.to_ascii_lowercase();
    let (digits, base) = match lower.strip_prefix('0') {
        Some(octal) => match octal.strip_prefix('x') {
            Some(digits) if !digits.is_empty() => (digits, 16),
            _ => (lower.as_str(), 8),
        },
        None => (lower.as_str(), 10),
    };
    match digits.starts_with(['+', '-']) {
        true => None,
        false => u64::from_str_radix(digits, base).ok(),
    }
}

/// Edits the list of pids: the first line replaces, each other one is added.
pub fn pids(text: &[u8]) {
    let set = PidSet::new().expect("memory");
    let mut model = BTreeSet::new();
    for (index, line) in text.split(|&byte| byte == b'\n').take(4).enumerate() {
        let before = model.clone();
        if index == 0 {
            model.clear();
        }
        let mut wrong = None;
        for (place, word) in split(line) {
            let number = word.strip_prefix(b"!").unwrap_or(word);
            let pid = kstrtoul(number).filter(|&pid| pid < u64::from(PID_LIMIT));
            match pid {
                Some(pid) if number.len() < word.len() => {
                    model.remove(&(pid as u32));
                }
                Some(pid) => {
                    model.insert(pid as u32);
                }
                None => {
                    wrong = Some(place);
                    break;
                }
            }
            // Input that comes in parts is not refused before its end.
            assert!(word.len() > 24 || (1..word.len()).all(|end| is_beginning(&word[..end])));
        }
        match (set.edited(line, index == 0), wrong) {
            (Ok(new), None) => set.assign(&new).expect("memory"),
            (Err(PidSetError::Word(place, _)), Some(wrong)) => {
                assert_eq!(place, wrong);
                model = before;
            }
            (result, wrong) => panic!("{:?}, but {wrong:?} is wrong", result.err()),
        }
        assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()));
        let mut from = Some(0);
        let found = std::iter::from_fn(|| {
            let pid = set.next(from?)?;
            from = pid.checked_add(1);
            Some(pid)
        });
        assert!(found.take(model.len() + 1).eq(model.iter().copied()));
        assert!(model.iter().all(|&pid| set.contains(pid)));
    }
}

/// Parses input of files of one value.
pub fn values(text: &[u8]) {
    let number = parse_number(text);
    let written = text.split(|&byte| byte == 0).next().unwrap_or_default();
    let digits = written.strip_prefix(b"+").unwrap_or(written);
    let digits = digits.strip_suffix(b"\n").unwrap_or(digits);
    // The standard library reads signs in another way.
    let parsed = std::str::from_utf8(digits)
        .ok()
        .filter(|digits| !digits.starts_with('+'))
        .and_then(|digits| digits.parse::<u64>().ok());
    assert_eq!(number.ok(), parsed);
    let is_long = digits.len() >= 20 && digits.iter().all(u8::is_ascii_digit);
    assert!(!is_long || parsed.is_some() || number == Err(ParseError::Range));
    assert_eq!(
        parse_bool(text).ok(),
        parsed.filter(|&n| n < 2).map(|n| n == 1)
    );

    assert_eq!(parse_any_base(text).ok(), kstrtoul(text));

    match ErrnoSet::parse(text) {
        Ok(set) if !set.all && !set.is_empty() => {
            let names: Vec<&str> = set.names().collect();
            assert_eq!(ErrnoSet::parse(names.join(",").as_bytes()), Ok(set));
        }
        Ok(_) => {}
        Err(at) => assert!(at <= text.len()),
    }

    let word = parse_word(text);
    let clock = ClockKind::from_name(word);
    assert!(clock.is_none_or(|clock| clock.name().as_bytes() == word));
    assert!(written.windows(word.len().max(1)).any(|part| part == word) || word.is_empty());
    assert_eq!(word, word.trim_ascii());
}
