// SPDX-License-Identifier: GPL-2.0

use proptest::prelude::*;

use super::cases;
use crate::engine::clock::{ClockKind, ClockSample, Conversion, Scale, TimeUnit};
use crate::engine::raw::TimeFormat;
use crate::engine::timeline::Timeline;

/// Cycles of `khz`, of which there were `before` at `ns`.
fn conversion(khz: u32, before: u64, ns: u64) -> Conversion {
    let scale = Scale::from_khz(khz).expect("a frequency");
    let sample = ClockSample {
        before,
        ns,
        after: before,
    };
    let (conversion, error) = Conversion::fit(scale, [sample].into_iter()).expect("a sample");
    assert_eq!(error, 0);
    conversion
}

#[test]
fn plain_times_are_the_stamps() {
    let ns = Timeline::Plain(TimeUnit::Nanoseconds);
    assert_eq!(ns.time(123_456), (123_456, TimeUnit::Nanoseconds));
    assert_eq!(ns.duration(77), Some(77));
    let counts = Timeline::Plain(TimeUnit::Counts);
    assert_eq!(counts.time(123_456), (123_456, TimeUnit::Counts));
    assert_eq!(counts.duration(77), None);
}

#[test]
fn cycles_become_times_or_stay() {
    let conversion = conversion(2_000_000, 1000, 1_000_000);
    let converted = Timeline::Converted(conversion);
    assert_eq!(converted.time(3000), (1_001_000, TimeUnit::Nanoseconds));
    assert_eq!(converted.duration(3000), Some(1500));
    let cycles = Timeline::Cycles(conversion);
    assert_eq!(cycles.time(3000), (3000, TimeUnit::Counts));
    assert_eq!(cycles.duration(3000), Some(1500));
}

#[test]
fn formats_for_other_programs() {
    let (mult, shift, offset) = (1, 0, 0);
    let plain = |clock, is_ns| TimeFormat {
        clock,
        is_ns,
        mult,
        shift,
        offset,
    };
    let format = Timeline::Plain(TimeUnit::Nanoseconds).format(ClockKind::Global);
    assert_eq!(format, plain(ClockKind::Global as u32, true));
    let format = Timeline::Plain(TimeUnit::Counts).format(ClockKind::Counter);
    assert_eq!(format, plain(ClockKind::Counter as u32, false));
    let conversion = conversion(2_000_000, 0, 5);
    let format = Timeline::Cycles(conversion).format(ClockKind::X86Tsc);
    assert_eq!(format, plain(ClockKind::X86Tsc as u32, false));
    let (mult, shift, offset) = conversion.parts();
    let format = Timeline::Converted(conversion).format(ClockKind::Local);
    let wanted = TimeFormat {
        mult,
        shift,
        offset,
        ..plain(ClockKind::Local as u32, true)
    };
    assert_eq!(format, wanted);
}

proptest! {
    #![proptest_config(cases(500))]

    /// A program that converts by the format gets the times that are shown.
    #[test]
    fn formats_give_the_times(
        khz in 1_000u32..6_000_000,
        at in 0u64..1 << 50,
        ns in 0u64..1 << 60,
        stamp in 0u64..1 << 52,
    ) {
        let timeline = Timeline::Converted(conversion(khz, at, ns));
        let format = timeline.format(ClockKind::Local);
        let product = u128::from(stamp) * u128::from(format.mult);
        let time = ((product >> format.shift) as u64).wrapping_add(format.offset);
        prop_assert_eq!(timeline.time(stamp), (time, TimeUnit::Nanoseconds));
    }
}
