// SPDX-License-Identifier: GPL-2.0

use std::cell::RefCell;
use std::rc::Rc;

use proptest::prelude::*;

use super::{cases, interrupted};
use crate::engine::clock::{never_back, ClockKind, ClockSample, Conversion, Scale, TimeUnit};
use crate::platform::Word;

fn scale(khz: u32) -> Scale {
    Scale::from_khz(khz).expect("a frequency")
}

/// Agrees with clocks_calc_mult_shift(&mult, &shift, khz, NSEC_PER_MSEC, 0), and 32 made 31.
#[test]
fn factors() {
    for (khz, mult, shift) in [
        (1, 4_096_000_000_u32, 12),
        (1_000, 4_194_304_000, 22),
        (999_999, 2_147_485_795, 31),
        (1_000_000, 2_147_483_648, 31),
        (1_193_182, 1_799_795_545, 31),
        (1_996_800, 1_075_462_564, 31),
        (2_000_000, 1_073_741_824, 31),
        (2_399_998, 894_785_599, 31),
        (2_500_000, 858_993_459, 31),
        (3_000_000, 715_827_882, 31),
        (u32::MAX, 500_000, 31),
    ] {
        let wanted = format!("Scale {{ mult: {mult}, shift: {shift} }}");
        assert_eq!(format!("{:?}", scale(khz)), wanted, "{khz} kHz");
    }
    assert_eq!(Scale::from_khz(0), None);
}

#[test]
fn nanoseconds() {
    assert_eq!(scale(1_000_000).to_ns(12_345), 12_345);
    assert_eq!(scale(2_000_000).to_ns(2_000_000_001), 1_000_000_000);
    assert_eq!(scale(1).to_ns(3), 3_000_000);
    // Modulo 2^64: no panic, and a difference stays right.
    assert_eq!(scale(1_000_000).to_ns(u64::MAX), u64::MAX);
    assert_eq!(scale(500_000).to_ns(u64::MAX), u64::MAX - 1);
}

fn sample(before: u64, ns: u64, after: u64) -> ClockSample {
    ClockSample { before, ns, after }
}

#[test]
fn closest_sample() {
    let samples = [
        sample(1_000, 77_000, 1_400),
        sample(2_000, 50_100, 2_200),
        sample(3_000, 99_000, 9_000),
    ];
    let (conversion, error) = Conversion::fit(scale(1_000_000), samples.into_iter()).expect("one");
    assert_eq!(conversion.to_ns(2_100), 50_100);
    assert_eq!(conversion.to_ns(2_000), 50_000);
    assert_eq!(error, 100);
    assert_eq!(Conversion::fit(scale(1), [].into_iter()), None);
}

#[test]
fn counters_that_wrap() {
    let samples = [sample(u64::MAX - 9, 5, 10)];
    let (conversion, error) = Conversion::fit(scale(1_000_000), samples.into_iter()).expect("one");
    assert_eq!((conversion.to_ns(0), error), (5, 10));
    // The other clock was started later than the counter.
    let samples = [sample(1_000_000, 3, 1_000_000)];
    let (conversion, error) = Conversion::fit(scale(1_000_000), samples.into_iter()).expect("one");
    assert_eq!((conversion.to_ns(1_000_007), error), (10, 0));
}

proptest! {
    /// Agrees with the same in floating point.
    #[test]
    fn right_rate(khz in 1..5_000_000u32, cycles in 0..1u64 << 45) {
        let exact = cycles as f64 * 1e6 / f64::from(khz);
        prop_assume!(exact < 1e18);
        let error = (scale(khz).to_ns(cycles) as f64 - exact).abs();
        prop_assert!(error <= 1.0 + exact * 3e-9, "{} ns of {}", error, exact);
    }

    #[test]
    fn never_panics(khz: u32, cycles: u64, before: u64, ns: u64, after: u64) {
        if let Some(scale) = Scale::from_khz(khz) {
            let fit = Conversion::fit(scale, [sample(before, ns, after)].into_iter());
            fit.expect("one").0.to_ns(cycles);
        }
    }
}

#[test]
fn agreement() {
    let fit = |khz, ns| {
        let samples = [sample(1_000_000, ns, 1_000_000)];
        Conversion::fit(scale(khz), samples.into_iter())
            .expect("one")
            .0
    };
    let first = fit(1_000_000, 5_000);
    assert!(first.agrees_with(&first, 7_000_000, 0));
    // Later or earlier, to within the tolerance.
    for (ns, difference) in [(5_030, 30), (4_970, 30)] {
        let other = fit(1_000_000, ns);
        assert!(first.agrees_with(&other, 7_000_000, difference));
        assert!(!first.agrees_with(&other, 7_000_000, difference - 1));
    }
    // A counter of another rate does not stay near, though it may be now.
    let other = fit(1_000_001, 5_000);
    assert!(!first.agrees_with(&other, 1_000_000, 100));
}

#[test]
fn names() {
    let mut line = String::new();
    ClockKind::Counter.write_choice(&mut line).expect("memory");
    let wanted = "local global [counter] uptime perf mono mono_raw boot tai x86-tsc\n";
    assert_eq!(line, wanted);
    for kind in ClockKind::ALL {
        assert_eq!(ClockKind::from_name(kind.name().as_bytes()), Some(kind));
        assert_eq!(ClockKind::ALL.get(kind as usize), Some(&kind));
        let counts = matches!(kind.name(), "counter" | "uptime" | "x86-tsc");
        assert_eq!(kind.unit() == TimeUnit::Counts, counts);
    }
    for name in ["", "Local", "local ", "[local]", "mono_", "x86_tsc"] {
        assert_eq!(ClockKind::from_name(name.as_bytes()), None, "{name:?}");
    }
}

#[test]
fn clocks_that_go_back() {
    let last = Word::new(0);
    let stamps = [5, 7, 6, 0, 7, 8].map(|now| never_back(&last, now));
    assert_eq!(stamps, [5, 7, 7, 7, 7, 8]);
}

/// Two interrupts at any two points of one stamp: none is below the stamp of the one before it, in
/// the order in which they end, which is that of the ring.
#[test]
fn interrupted_stamps() {
    let mut cases = 0;
    for first in 0..20 {
        for second in first..20 {
            let last = Rc::new(Word::new(0));
            let stamps = Rc::new(RefCell::new(Vec::new()));
            let stamp = {
                let (last, stamps) = (last.clone(), stamps.clone());
                move |now| {
                    let stamp = never_back(&last, now);
                    stamps.borrow_mut().push(stamp);
                }
            };
            let inner = stamp.clone();
            // The clock was read before the interrupts, or goes back after them.
            let both = interrupted(
                [first, second],
                move |which| inner(20 + which as u64),
                || stamp(10),
            );
            stamp(3);
            let stamps = stamps.borrow();
            assert!(stamps.is_sorted(), "{stamps:?} at {first} and {second}");
            assert!(!both || stamps.last() == Some(&21));
            cases += usize::from(both);
        }
    }
    // At each of the two loads and exchanges, at least.
    assert!(cases >= 3);
}

proptest! {
    #![proptest_config(cases(256))]

    /// So many cycles are no longer than the time, and one more is no shorter.
    #[test]
    fn cycles_of_a_time(khz in 1_u32..10_000_000, ns in 0_u64..1 << 58) {
        let conversion = Conversion::fit(scale(khz), [sample(7, 9, 7)].into_iter()).expect("one").0;
        let cycles = conversion.to_cycles(ns);
        prop_assert!(conversion.duration(cycles) <= ns);
        prop_assert!(conversion.duration(cycles + 1) >= ns);
        let (mult, shift, offset) = conversion.parts();
        let time = (u128::from(cycles) * u128::from(mult)) >> shift;
        prop_assert_eq!(conversion.to_ns(cycles), (time as u64).wrapping_add(offset));
    }
}
