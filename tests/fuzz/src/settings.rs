// SPDX-License-Identifier: GPL-2.0

//! Targets for input of control files that do not hold lists of functions, and for values of
//! options.

use rftrace_cli::units::{Count, Error, Size, Time};

use crate::engine::budget::BudgetLimits;
use crate::engine::command::{Action, Command};
use crate::engine::decode::EventKind;
use crate::engine::filter::{words, Selector, SelectorError};
use crate::engine::marker::{text_at, write_marker, MAX_MARKER, TEXT_BYTES};
use crate::engine::nearest::Nearest;
use crate::engine::options::TraceOption;
use crate::engine::parse::{parse_any_base, parse_number, parse_word};
use crate::engine::pending::{waits_for, PendingWords};
use crate::engine::set_event::is_all_off;
use crate::engine::slot::SlotWords;
use crate::engine::text::Text;

/// Parses commands of `filter`, and words of `trace_options`, `budget` and `set_event`.
pub fn settings(text: &[u8]) {
    for (_, word) in words(text) {
        command(word);
        // A star alone, or nothing, of each of two parts; the second must be there.
        let all = [&b"!:"[..], b"!*:", b"!:*", b"!*:*"];
        assert_eq!(is_all_off(word), all.contains(&word));
    }
    let word = parse_word(text);
    let named = TraceOption::ALL.iter().find_map(|option| {
        let on = option.name().as_bytes();
        if word == on {
            return Some((*option, true));
        }
        (word == [b"no", on].concat()).then_some((*option, false))
    });
    assert_eq!(TraceOption::parse(word), named);
    limits(text);
}

fn command(word: &[u8]) {
    let mut parts = word.splitn(2, |byte| *byte == b':');
    let names = parts.next().unwrap_or_default();
    let rest = parts.next();
    let known = Action::ALL.into_iter().find_map(|action| {
        let after = rest?.strip_prefix(action.name().as_bytes())?;
        (after.is_empty() || after[0] == b':').then_some((action, after.get(1..)))
    });
    let parsed = Command::parse(word);
    let Some((action, count)) = known else {
        assert_eq!(parsed, None);
        return;
    };
    let plain = names.strip_prefix(b"!").unwrap_or(names);
    let remove = plain.len() < names.len();
    let number = count.map(parse_any_base);
    let expected = match number {
        Some(Err(_)) if !remove => Err(SelectorError::BadCount),
        _ if plain.is_empty() => Err(SelectorError::Empty),
        _ if !plain.iter().all(u8::is_ascii_graphic) => Err(SelectorError::BadCharacter),
        _ => Ok(Command {
            remove,
            names: plain,
            action,
            count: match number {
                _ if remove => None,
                Some(number) => number.ok(),
                // A dump is done once by default.
                None => [Action::Dump, Action::Cpudump]
                    .contains(&action)
                    .then_some(1),
            },
        }),
    };
    assert_eq!(parsed, Some(expected));
}

fn limits(text: &[u8]) {
    let before = BudgetLimits { calls: 7, cpu: 9 };
    let pairs: Vec<&[u8]> = words(text).map(|(_, word)| word).collect();
    let mut expected = Some(before);
    if pairs.is_empty() || pairs == [b"0"] {
        expected = Some(BudgetLimits::default());
    } else {
        for pair in pairs.chunks(2) {
            let number = pair.get(1).and_then(|number| parse_number(number).ok());
            expected = expected
                .zip(number)
                .and_then(|(limits, number)| match pair[0] {
                    b"calls" => Some(BudgetLimits {
                        calls: number,
                        ..limits
                    }),
                    b"cpu" => Some(BudgetLimits {
                        cpu: number,
                        ..limits
                    }),
                    _ => None,
                });
        }
    }
    if text.is_empty() || text.contains(&0) {
        expected = None;
    }
    let edited = before.edited(text);
    if let Err((at, _)) = edited {
        assert!(at <= text.len());
    }
    assert_eq!(edited.ok(), expected);
}

/// Adds and removes words for modules that are not loaded; and finds names that may be meant by one
/// that does not exist.
pub fn pending(text: &[u8]) {
    let mut pending = PendingWords::new();
    let mut model: Vec<Vec<u8>> = Vec::new();
    for (_, word) in words(text) {
        let Ok(selector) = Selector::parse(word) else {
            continue;
        };
        match selector.remove {
            false => {
                pending = pending.with(word).expect("memory");
                model.retain(|other| other != word);
                model.insert(0, word.to_vec());
            }
            true => {
                let before = model.len();
                model.retain(|word| {
                    let old = Selector::parse(word).expect("it was one before");
                    let is_same = selector.names == b"*" || old.names == selector.names;
                    old.module != selector.module || !is_same
                });
                let new = pending.without(&selector).expect("memory");
                assert_eq!(new.is_some(), model.len() < before);
                pending = new.unwrap_or(pending);
            }
        }
        assert!(pending.iter().eq(model.iter().map(Vec::as_slice)));
        assert_eq!(pending.is_empty(), model.is_empty());
    }
    for word in &model {
        if let Ok(Selector {
            module: Some(module),
            ..
        }) = Selector::parse(word)
        {
            let is_plain = !module.name.iter().any(|byte| b"*?[\\".contains(byte));
            assert!(!is_plain || waits_for(word, module.name) != module.inverted);
        }
    }
    let names: Vec<&[u8]> = words(text).map(|(_, word)| word).take(8).collect();
    if let Some((wanted, names)) = names.split_first() {
        nearest(wanted, names);
    }
}

fn nearest(wanted: &[u8], names: &[&[u8]]) {
    let mut all = Nearest::to(wanted);
    for name in names {
        let mut one = Nearest::to(wanted);
        one.offer(name);
        let stem = name.split(|byte| *byte == b'.').next().unwrap_or_default();
        let limit = (wanted.len() / 3).min(3);
        if (1..=128).contains(&wanted.len()) && edits(wanted, stem) <= limit {
            assert!(one.names().eq([*name]));
        }
        all.offer(name);
    }
    let found: Vec<&[u8]> = all.names().collect();
    assert!(found.len() <= 3 && found.iter().all(|name| names.contains(name)));
    assert!((1..found.len()).all(|index| !found[..index].contains(&found[index])));
}

/// Returns the distance of optimal string alignment, by the whole table.
fn edits(one: &[u8], other: &[u8]) -> usize {
    let same = |row: usize, column: usize| one[row - 1].eq_ignore_ascii_case(&other[column - 1]);
    let mut table = vec![vec![0; other.len() + 1]; one.len() + 1];
    for row in 0..=one.len() {
        for column in 0..=other.len() {
            table[row][column] = if row == 0 || column == 0 {
                row + column
            } else {
                let changed = table[row - 1][column - 1] + usize::from(!same(row, column));
                let best = changed.min(1 + table[row - 1][column].min(table[row][column - 1]));
                let is_swap =
                    row > 1 && column > 1 && same(row, column - 1) && same(row - 1, column);
                match is_swap {
                    true => best.min(1 + table[row - 2][column - 2]),
                    false => best,
                }
            };
        }
    }
    table[one.len()][other.len()]
}

/// Puts marks into slots, as `trace_marker` and `trace_marker_raw` do, and shows them as lines.
pub fn marks(text: &[u8]) {
    let bytes = &text[..text.len().min(MAX_MARKER)];
    let slots: Vec<SlotWords> = bytes.chunks(TEXT_BYTES).map(SlotWords::text_slot).collect();
    assert!(text_at(&slots, slots.len(), bytes.len()).eq(bytes.iter().copied()));
    let line = |what| {
        let mut line = Text::new();
        write_marker(&mut line, what, bytes).expect("memory");
        line.as_bytes().to_vec()
    };
    let shown = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    assert_eq!(
        line(EventKind::Marker),
        shown.strip_suffix(b"\n").unwrap_or(shown)
    );
    let (id, data) = bytes.split_at(if bytes.len() < 4 { 0 } else { 4 });
    let data = if id.is_empty() { &[][..] } else { data };
    let number = id
        .iter()
        .rev()
        .fold(0, |number, byte| (number << 8) | u32::from(*byte));
    let mut raw = format!("# {number:x} buf:");
    let filled = data.len().div_ceil(4) * 4;
    for index in 0..filled {
        raw += &format!(" {:02x}", data.get(index).unwrap_or(&0));
    }
    assert_eq!(line(EventKind::RawMarker), raw.into_bytes());
}

/// Parses values of the command's options: sizes, times, counts.
pub fn quantities(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let sizes = [
        "B", "kB", "k", "KiB", "MB", "M", "MiB", "GB", "G", "GiB", "TB", "T", "TiB",
    ];
    let size = text.parse::<Size>();
    assert_eq!(said(&size.as_ref().map(|size| size.0)), {
        let power = |unit: usize| 1024_u128.pow(unit.div_ceil(3) as u32);
        quantity(text, &sizes, power, Some(1))
    });
    let times = ["ns", "us", "µs", "ms", "s", "sec", "min", "m", "h"];
    let factors = [
        1,
        1_000,
        1_000,
        1_000_000,
        1_000_000_000,
        1_000_000_000,
        60_000_000_000,
    ];
    let time = text.parse::<Time>();
    assert_eq!(said(&time.as_ref().map(|time| time.0)), {
        let factor = |unit: usize| match unit {
            8 => 3_600_000_000_000,
            unit => factors[unit.min(6)],
        };
        quantity(text, &times, factor, None)
    });
    let count = text.parse::<Count>();
    let counted = text.trim();
    assert_eq!(said(&count.as_ref().map(|count| count.0)), {
        let counted = counted.strip_suffix("/s").unwrap_or(counted);
        quantity(
            counted,
            &["k", "M", "G", "T"],
            |unit| 1000_u128.pow(unit as u32 + 1),
            Some(1),
        )
    });
    // Text that is printed means the same, and can be typed.
    if let (Ok(size), Ok(time), Ok(count)) = (size.or(Err(())), time.or(Err(())), count.or(Err(())))
    {
        for value in [size.0, time.0, count.0] {
            let printed = [
                Size(value).to_string(),
                Time(value).to_string(),
                Count(value).to_string(),
            ];
            let again = [
                printed[0].parse::<Size>().map(|size| size.to_string()),
                printed[1].parse::<Time>().map(|time| time.to_string()),
                printed[2].parse::<Count>().map(|count| count.to_string()),
            ];
            for (printed, again) in printed.into_iter().zip(again) {
                assert!(again == Ok(printed) || again == Err(Error::TooMuch));
            }
        }
    }
}

/// Returns a number, or that it is too large (`Some(None)`), or that it is none.
fn said(parsed: &Result<u64, &Error>) -> Option<Option<u64>> {
    match parsed {
        Ok(number) => Some(Some(*number)),
        Err(Error::TooMuch) => Some(None),
        Err(_) => None,
    }
}

/// Reads a quantity digit by digit.
fn quantity(
    text: &str,
    units: &[&str],
    factor: impl Fn(usize) -> u128,
    plain: Option<u128>,
) -> Option<Option<u64>> {
    let text = text.trim();
    let number: String = text
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == '.')
        .collect();
    let name = text[number.len()..].trim_start();
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let is_zero = number.bytes().all(|byte| byte == b'0' || byte == b'.');
    let found = units
        .iter()
        .position(|unit| unit.eq_ignore_ascii_case(name));
    let factor = match (name, plain, found) {
        ("", Some(one), _) if !number.contains('.') => one,
        ("", None, _) if is_zero => 1,
        ("", ..) | (_, _, None) => return None,
        (_, _, Some(unit)) => factor(unit),
    };
    let Ok(whole) = whole.parse::<u64>() else {
        return Some(None);
    };
    let (mut parts, mut scale) = (0_u128, 1);
    for digit in fraction.bytes().take(9) {
        parts = parts * 10 + u128::from(digit - b'0');
        scale *= 10;
    }
    let value = u128::from(whole) * factor + (2 * parts * factor + scale) / (2 * scale);
    Some(u64::try_from(value).ok())
}
