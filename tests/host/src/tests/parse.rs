// SPDX-License-Identifier: GPL-2.0

use proptest::prelude::*;

use crate::engine::parse::{parse_any_base, parse_bool, parse_number, parse_word, ParseError};

const INVALID: Result<u64, ParseError> = Err(ParseError::Invalid);
const RANGE: Result<u64, ParseError> = Err(ParseError::Range);

/// Agrees with kstrtoul() with base 10, and with base 0.
#[test]
fn numbers() {
    for (text, decimal, any) in [
        ("0", Ok(0), Ok(0)),
        ("7\n", Ok(7), Ok(7)),
        ("+7", Ok(7), Ok(7)),
        ("10", Ok(10), Ok(10)),
        ("010", Ok(10), Ok(8)),
        ("08", Ok(8), INVALID),
        ("0x1F", INVALID, Ok(31)),
        ("+0X1f\n", INVALID, Ok(31)),
        ("0x", INVALID, INVALID),
        ("0xg", INVALID, INVALID),
        ("0x0x1", INVALID, INVALID),
        ("1\0 nonsense", Ok(1), Ok(1)),
        ("1\n\0", Ok(1), Ok(1)),
        ("18446744073709551615", Ok(u64::MAX), Ok(u64::MAX)),
        ("0xffffffffffffffff", INVALID, Ok(u64::MAX)),
        ("18446744073709551616", RANGE, RANGE),
        ("0x10000000000000000", INVALID, RANGE),
        ("02000000000000000000000", RANGE, RANGE),
        ("99999999999999999999x", RANGE, RANGE),
        ("", INVALID, INVALID),
        ("\n", INVALID, INVALID),
        ("+", INVALID, INVALID),
        ("++1", INVALID, INVALID),
        ("+-1", INVALID, INVALID),
        ("-1", INVALID, INVALID),
        ("-0", INVALID, INVALID),
        (" 1", INVALID, INVALID),
        ("1 ", INVALID, INVALID),
        ("1\n\n", INVALID, INVALID),
        ("1x", INVALID, INVALID),
        ("x1", INVALID, INVALID),
        ("1.0", INVALID, INVALID),
        ("\u{663}", INVALID, INVALID),
    ] {
        assert_eq!(parse_number(text.as_bytes()), decimal, "{text:?}");
        assert_eq!(parse_any_base(text.as_bytes()), any, "{text:?} in any base");
    }
}

#[test]
fn switches() {
    for (text, wanted) in [
        ("0", Ok(false)),
        ("1\n", Ok(true)),
        ("01", Ok(true)),
        ("2", Err(ParseError::Invalid)),
        ("", Err(ParseError::Invalid)),
        ("y", Err(ParseError::Invalid)),
        ("18446744073709551616", Err(ParseError::Range)),
    ] {
        assert_eq!(parse_bool(text.as_bytes()), wanted, "{text:?}");
    }
}

#[test]
fn trimmed_words() {
    for (text, wanted) in [
        ("local\n", "local"),
        (" \tlocal ", "local"),
        ("a b\n", "a b"),
        ("local\0x", "local"),
        ("\0local", ""),
        (" ", ""),
        ("", ""),
    ] {
        assert_eq!(parse_word(text.as_bytes()), wanted.as_bytes(), "{text:?}");
    }
}

proptest! {
    #[test]
    fn as_std_does(number: u64, plus: bool, line: bool) {
        let sign = if plus { "+" } else { "" };
        let end = if line { "\n" } else { "" };
        for text in [format!("{sign}{number}{end}"), format!("{sign}0x{number:x}{end}"),
            format!("{sign}0{number:o}{end}")] {
            prop_assert_eq!(parse_any_base(text.as_bytes()), Ok(number));
        }
        let text = format!("{sign}{number}{end}");
        prop_assert_eq!(parse_number(text.as_bytes()), Ok(number));
    }

    #[test]
    fn any_bytes(text: Vec<u8>) {
        if let Ok(number) = parse_number(&text) {
            let digits: String = text.iter().map(|&byte| char::from(byte))
                .take_while(|&byte| byte != '\n' && byte != '\0').collect();
            prop_assert_eq!(digits.parse(), Ok(number));
        }
        let _ = (parse_any_base(&text), parse_bool(&text), parse_word(&text));
    }
}
