// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Values, as users write them into files of one value: numbers, switches, words.
//!
//! A NUL ends what was written, as it does where the kernel takes a C string.

/// The error of text that is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// The text is no number, or one that means nothing here.
    Invalid,
    /// The number does not fit.
    Range,
}

/// Parses a decimal number as `kstrtoul(value, 10)` does: a plus sign or nothing, digits, at most
/// one new line.
///
/// # Errors
///
/// - [`ParseError::Range`] if the digits do not fit, whatever follows them.
/// - [`ParseError::Invalid`] if it is no number.
pub fn parse_number(value: &[u8]) -> Result<u64, ParseError> {
    let value = c_string(value);
    digits(value.strip_prefix(b"+").unwrap_or(value), 10)
}

/// Parses a number as `kstrtoul(value, 0)` does: as [`parse_number`], but `0x` begins a hexadecimal
/// and `0` an octal one.
///
/// # Errors
///
/// As for [`parse_number`].
pub fn parse_any_base(value: &[u8]) -> Result<u64, ParseError> {
    let value = c_string(value);
    let value = value.strip_prefix(b"+").unwrap_or(value);
    match value {
        [b'0', b'x' | b'X', rest @ ..] if rest.first().is_some_and(u8::is_ascii_hexdigit) => {
            digits(rest, 16)
        }
        [b'0', ..] => digits(value, 8),
        _ => digits(value, 10),
    }
}

/// Parses 0 or 1.
///
/// # Errors
///
/// As for [`parse_number`]; other numbers are [`ParseError::Invalid`].
pub fn parse_bool(value: &[u8]) -> Result<bool, ParseError> {
    match parse_number(value)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(ParseError::Invalid),
    }
}

/// A word without the white space around it.
pub fn parse_word(value: &[u8]) -> &[u8] {
    c_string(value).trim_ascii()
}

/// The bytes before the first NUL.
fn c_string(value: &[u8]) -> &[u8] {
    value.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// As `_kstrtoull()`: digits, at most one new line, nothing else.
fn digits(value: &[u8], radix: u32) -> Result<u64, ParseError> {
    let digit = |byte: u8| char::from(byte).to_digit(radix);
    let length = value
        .iter()
        .position(|&byte| digit(byte).is_none())
        .unwrap_or(value.len());
    let (number, rest) = value.split_at_checked(length).unwrap_or_default();
    if number.is_empty() {
        return Err(ParseError::Invalid);
    }
    let number = number.iter().try_fold(0u64, |number, &byte| {
        number
            .checked_mul(u64::from(radix))?
            .checked_add(u64::from(digit(byte)?))
    });
    match (number, rest) {
        (None, _) => Err(ParseError::Range),
        (Some(number), [] | [b'\n']) => Ok(number),
        (Some(_), _) => Err(ParseError::Invalid),
    }
}
