// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Sizes, times and counts, as people write and read them.
//!
//! Text that is printed can be typed. The letters k, M, G and T of a size stand for powers of 1024,
//! as in perf and trace-cmd, those of a count for powers of 1000. A time without a unit is refused:
//! tools differ in which one they mean.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Maximum number of digits behind a point that are used.
const MAX_DIGITS: usize = 9;

/// A unit.
struct Unit {
    /// Names that it may be typed with, in any case; the first one is printed.
    names: &'static [&'static str],
    /// Size of the unit, in the smallest one.
    factor: u64,
}

/// A kind of quantity: its units, the smallest (of factor 1) first.
struct QuantityKind {
    units: &'static [Unit],
    /// Number of digits behind the point, but for the smallest unit.
    digits: u32,
    /// True if a number alone is one of the smallest unit.
    is_plain: bool,
    /// The forms that may be typed.
    forms: &'static str,
}

/// Returns units that are powers of `base`.
const fn powers(base: u64, names: [&'static [&'static str]; 5]) -> [Unit; 5] {
    let [one, kilo, mega, giga, tera] = names;
    [
        unit(one, 1),
        unit(kilo, base),
        unit(mega, base.pow(2)),
        unit(giga, base.pow(3)),
        unit(tera, base.pow(4)),
    ]
}

const fn unit(names: &'static [&'static str], factor: u64) -> Unit {
    Unit { names, factor }
}

const SIZES: QuantityKind = QuantityKind {
    units: &powers(
        1024,
        [
            &["B"],
            &["kB", "k", "KiB"],
            &["MB", "M", "MiB"],
            &["GB", "G", "GiB"],
            &["TB", "T", "TiB"],
        ],
    ),
    digits: 1,
    is_plain: true,
    forms: "4096, 512k, 64M or 1.5G (bytes, or powers of 1024)",
};

const TIMES: QuantityKind = QuantityKind {
    units: &[
        unit(&["ns"], 1),
        unit(&["us", "µs"], 1_000),
        unit(&["ms"], 1_000_000),
        unit(&["s", "sec"], 1_000_000_000),
        unit(&["min", "m"], 60_000_000_000),
        unit(&["h"], 3_600_000_000_000),
    ],
    digits: 3,
    is_plain: false,
    forms: "100ns, 250us, 10ms, 1.5s, 2m or 1h",
};

const COUNTS: QuantityKind = QuantityKind {
    units: &powers(1000, [&[""], &["k"], &["M"], &["G"], &["T"]]),
    digits: 1,
    is_plain: true,
    forms: "500, 20k, 2M or 1.5G (powers of 1000)",
};

impl Unit {
    /// Returns the name that is printed.
    fn name(&self) -> &'static str {
        self.names.first().copied().unwrap_or_default()
    }
}

/// A reason why a text is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is no such quantity; the forms that it may have.
    #[error("write it as {0}")]
    Form(&'static str),
    /// The quantity has no unit; the forms that it may have.
    #[error("the unit is missing: write it as {0}")]
    NoUnit(&'static str),
    /// The quantity is too large for 64 bits.
    #[error("that is too much")]
    TooMuch,
}

impl QuantityKind {
    /// Parses the quantity that `text` names, in the smallest unit, rounded.
    fn parse(&self, text: &str) -> Result<u64, Error> {
        let text = text.trim();
        let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
        let end = text.find(|letter| !is_number(letter));
        let (number, name) = text.split_at(end.unwrap_or(text.len()));
        let (whole, fraction) = match number.split_once('.') {
            None => (number, ""),
            Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
            Some(_) => return Err(Error::Form(self.forms)),
        };
        if whole.is_empty() || fraction.contains('.') {
            return Err(Error::Form(self.forms));
        }
        let unit = self.unit(number, name.trim_start())?;
        let whole: u64 = whole.parse().map_err(|_| Error::TooMuch)?;
        let fraction = &fraction[..fraction.len().min(MAX_DIGITS)];
        let parts: u128 = fraction.parse().unwrap_or(0);
        let scale = 10_u128.pow(fraction.len() as u32);
        let factor = u128::from(unit.factor);
        let value = u128::from(whole) * factor + (parts * factor + scale / 2) / scale;
        u64::try_from(value).map_err(|_| Error::TooMuch)
    }

    /// Returns the unit of that name; without a name that of a `number` alone.
    fn unit(&self, number: &str, name: &str) -> Result<&'static Unit, Error> {
        let form = Error::Form(self.forms);
        if !name.is_empty() {
            let is_named = |unit: &&Unit| {
                unit.names
                    .iter()
                    .any(|known| known.eq_ignore_ascii_case(name))
            };
            return self.units.iter().find(is_named).ok_or(form);
        }
        let is_nothing = number.chars().all(|letter| letter == '0' || letter == '.');
        match self.is_plain {
            // There are no parts of a byte.
            true if number.contains('.') => Err(form),
            // Zero is the same in every unit.
            false if !is_nothing => Err(Error::NoUnit(self.forms)),
            _ => Ok(&self.units[0]),
        }
    }

    /// Returns the quantity as text, in the smallest unit in which that is short.
    fn print(&self, value: u64) -> String {
        let mut places = self.units.iter().zip(self.units[1..].iter());
        let is_short = |(unit, next): &(&Unit, &Unit)| {
            let (rounded, scale) = self.rounded(value, unit);
            rounded * u128::from(unit.factor) < u128::from(next.factor) * scale
        };
        let unit = match places.find(is_short) {
            Some((unit, _)) => unit,
            None => &self.units[self.units.len() - 1],
        };
        let (rounded, scale) = self.rounded(value, unit);
        let number = match scale {
            1 => rounded.to_string(),
            _ => {
                let digits = self.digits as usize;
                format!("{}.{:0digits$}", rounded / scale, rounded % scale)
            }
        };
        format!("{number} {}", unit.name()).trim_end().into()
    }

    /// Returns `value` in parts of a unit that are printed, and the number of these in the unit.
    fn rounded(&self, value: u64, unit: &Unit) -> (u128, u128) {
        let factor = u128::from(unit.factor);
        let scale = match unit.factor {
            1 => 1,
            _ => 10_u128.pow(self.digits),
        };
        ((u128::from(value) * scale + factor / 2) / factor, scale)
    }
}

/// A size, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

/// A time, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub u64);

/// A count, or a number per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(pub u64);

impl Time {
    /// Returns the time as the standard library has it.
    pub fn duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl FromStr for Size {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        SIZES.parse(text).map(Self)
    }
}

impl FromStr for Time {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        TIMES.parse(text).map(Self)
    }
}

impl FromStr for Count {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        COUNTS
            .parse(text.strip_suffix("/s").unwrap_or(text))
            .map(Self)
    }
}

// Padded as the format says: columns are made of them.
impl fmt::Display for Size {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.pad(&SIZES.print(self.0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.pad(&TIMES.print(self.0))
    }
}

impl fmt::Display for Count {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.pad(&COUNTS.print(self.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_typed() {
        let size = |text: &str| text.parse::<Size>().map(|size| size.0);
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("512k"), Ok(512 << 10));
        assert_eq!(size(" 64 MiB "), Ok(64 << 20));
        assert_eq!(size("1.5G"), Ok(3 << 29));
        // 716.8, rounded.
        assert_eq!(size("0.7k"), Ok(717));
        let time = |text: &str| text.parse::<Time>().map(|time| time.0);
        assert_eq!(time("100ns"), Ok(100));
        assert_eq!(time("250us"), Ok(250_000));
        assert_eq!(time("250µs"), Ok(250_000));
        assert_eq!(time("1.5s"), Ok(1_500_000_000));
        assert_eq!(time("2m"), Ok(120_000_000_000));
        assert_eq!(time("0"), Ok(0));
        let count = |text: &str| text.parse::<Count>().map(|count| count.0);
        assert_eq!(count("2M"), Ok(2_000_000));
        assert_eq!(count("2.5k/s"), Ok(2_500));
        assert_eq!(count("17"), Ok(17));
    }

    #[test]
    fn what_is_nothing_is_refused() {
        for text in [
            "", "k", "1.", ".5k", "1.5", "1.2.3k", "-1", "1x", "1 k k", "0x10", "1e3", "½k",
        ] {
            assert_eq!(
                text.parse::<Size>(),
                Err(Error::Form(SIZES.forms)),
                "{text}"
            );
        }
        for text in ["10", "1.5", "0.1"] {
            assert_eq!(
                text.parse::<Time>(),
                Err(Error::NoUnit(TIMES.forms)),
                "{text}"
            );
        }
        assert_eq!("99999999T".parse::<Size>(), Err(Error::TooMuch));
        assert_eq!("18446744073709551616".parse::<Count>(), Err(Error::TooMuch));
    }

    #[test]
    fn what_is_printed() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.000 us"),
            (1_234_000, "1.234 ms"),
            (999_999_499, "999.999 ms"),
            (999_999_500, "1.000 s"),
            (59_999_000_000, "59.999 s"),
            (90_000_000_000, "1.500 min"),
            (9_000_000_000_000, "2.500 h"),
        ] {
            assert_eq!(Time(ns).to_string(), text);
        }
        assert_eq!(Size(1023).to_string(), "1023 B");
        assert_eq!(Size((1 << 20) - 1).to_string(), "1.0 MB");
        assert_eq!(Size(12_897_484).to_string(), "12.3 MB");
        assert_eq!(Count(1_200_000).to_string(), "1.2 M");
        assert_eq!(Count(999).to_string(), "999");
        assert_eq!(format!("[{:>9}]", Count(u64::MAX)), "[18446744.1 T]");
        assert_eq!(
            format!("[{:>9}][{:<6}]", Time(5_000), Size(7)),
            "[ 5.000 us][7 B   ]"
        );
    }

    /// Returns values of every magnitude.
    fn values() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0..64_u32).prop_map(|(value, shift)| value >> shift)
    }

    /// Checks that a text that is printed can be typed, and is off by no more than half of the last
    /// digit.
    fn check<T: FromStr<Err = Error> + fmt::Display>(
        kind: &QuantityKind,
        value: u64,
        new: impl Fn(u64) -> T,
        get: impl Fn(T) -> u64,
    ) -> Result<(), TestCaseError> {
        let text = new(value).to_string();
        let typed = match text.parse() {
            Ok(typed) => get(typed),
            // Rounded up beyond the last one.
            Err(Error::TooMuch) => u64::MAX,
            Err(error) => return Err(TestCaseError::fail(format!("{text}: {error}"))),
        };
        let name = text.split(' ').nth(1).unwrap_or_default();
        let unit = kind.units.iter().find(|unit| unit.name() == name);
        let last = match unit {
            Some(unit) if unit.factor > 1 => unit.factor / 10_u64.pow(kind.digits),
            _ => 0,
        };
        prop_assert!(
            typed.abs_diff(value) <= last / 2 + 1,
            "{value}: {text}: {typed}"
        );
        if typed != u64::MAX {
            prop_assert_eq!(new(typed).to_string(), text);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn what_is_printed_can_be_typed(value in values()) {
            check(&SIZES, value, Size, |size| size.0)?;
            check(&TIMES, value, Time, |time| time.0)?;
            check(&COUNTS, value, Count, |count| count.0)?;
        }

        #[test]
        fn nothing_that_is_typed_panics(text in "[0-9.kKMGTBnus /½]{0,24}|.*") {
            let _ = (text.parse::<Size>(), text.parse::<Time>(), text.parse::<Count>());
        }
    }
}
