// SPDX-License-Identifier: GPL-2.0

//! The profile's tables, and the lines made of them.

mod contexts;
mod frame;
mod histogram;
mod sleeps;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use proptest::collection::{hash_set, vec};
use proptest::prelude::*;

use super::render::Page;
use super::{cases, interrupted, points};
use crate::engine::line::ROOM;
use crate::engine::profile::histogram::{Chunk, Pool};
use crate::engine::profile::numbers::{numbered, FunctionNumbers};
use crate::engine::profile::table::ProfileTable;
use crate::engine::profile::task_names::WokenBy;
use crate::engine::profile::text::{
    write_bucket, write_histogram_header, write_row, write_statistics, write_summary, Summary,
    SUMMARY_HEADER, WAITS_HEADER,
};
use crate::engine::profile::totals::{epoch, longest, FunctionTotals};
use crate::engine::waiting::WakeContext;
use crate::platform::{memory, AllocError, Vec as EngineVec};

type CpuTable = ProfileTable<Rc<FunctionNumbers>, Rc<Chunk>>;

const TEXT: usize = 0xffff_ffff_8100_0000;

fn places(ips: impl IntoIterator<Item = usize>) -> Rc<FunctionNumbers> {
    let mut numbers = EngineVec::new();
    for ip in ips {
        numbers.push(ip).unwrap();
    }
    Rc::new(FunctionNumbers::new(numbers).unwrap())
}

/// Returns `pool`, grown to histograms for so many functions.
fn grown(pool: &Pool<Rc<Chunk>>, functions: usize) -> Pool<Rc<Chunk>> {
    let chunk = |limit| Ok::<_, AllocError>(Rc::new(Chunk::new(limit)?));
    pool.grown(functions, chunk).unwrap()
}

fn table(ips: impl IntoIterator<Item = usize>) -> CpuTable {
    let places = places(ips);
    let pool = grown(&Pool::new(), places.ips().len());
    ProfileTable::new(places, pool, 0).unwrap()
}

/// Counts the return of a call, as the hook does.
fn leave(table: &CpuTable, number: u64, time: u64, within: u64) {
    if let Some(record) = table.record(number) {
        if !record.is_usual(time) {
            record.note_longest(time);
        }
        record.add(time, within);
    }
}

/// Counts a call of `ip` that takes `time`.
fn call(table: &CpuTable, ip: usize, time: u64) {
    let first = table.enter(ip as u64);
    let known = first.or_else(|| table.enter_behind(ip as u64));
    leave(table, known.expect("a known function"), time, 0);
}

/// Returns the totals to be counted for calls that take `times`.
fn totals_of(times: &[u64]) -> FunctionTotals {
    FunctionTotals {
        hits: times.len() as u64,
        total: times.iter().fold(0, |sum, time| sum.wrapping_add(*time)),
        squares: (times.iter()).fold(0, |sum, time| {
            sum.wrapping_add(u128::from(*time) * u128::from(*time))
        }),
        longest: times
            .iter()
            .map(|time| longest(epoch(0), *time))
            .max()
            .unwrap_or(0),
        ..FunctionTotals::default()
    }
}

/// Functions that come and go get every number that is free, or was theirs, before there are new
/// ones.
#[test]
fn numbers_are_used_again() {
    let numbered = |old: &[usize], new: &[usize], back: &[(usize, usize)]| {
        let is_free = |number| number != 1;
        let ips = numbered(old, new.iter().copied(), back, is_free).unwrap();
        ips.to_vec()
    };
    assert_eq!(numbered(&[], &[7, 8], &[]), [7, 8]);
    // 1 is kept for a function that was called, 4 belongs to another one.
    let old = [5, 0, 0, 0, 6];
    assert_eq!(numbered(&old, &[7], &[]), [5, 0, 7, 0, 6]);
    assert_eq!(numbered(&old, &[7, 8, 9, 10], &[]), [5, 0, 7, 8, 6, 9, 10]);
    assert_eq!(numbered(&old, &[7, 8], &[(8, 1)]), [5, 8, 7, 0, 6]);
    assert_eq!(numbered(&old, &[7, 8], &[(8, 2)]), [5, 0, 8, 7, 6]);
    // No function loses its number.
    assert_eq!(numbered(&old, &[7], &[(7, 4)]), [5, 0, 0, 0, 6, 7]);
}

proptest! {
    #![proptest_config(cases(200))]

    /// Every function has its number, and nothing else has one: in the kernel's text as anywhere
    /// near.
    #[test]
    fn functions_have_their_numbers(offsets in hash_set(0usize..4000, 0..1500), align in 0u32..5) {
        let ips: Vec<usize> = offsets.iter().map(|offset| TEXT + (offset << align)).collect();
        let places = places(ips.iter().copied());
        prop_assert_eq!(places.ips(), &ips[..]);
        for (number, ip) in ips.iter().enumerate() {
            prop_assert_eq!(places.find(*ip as u64), Some(number));
        }
        for other in (0..4000).filter(|offset| !offsets.contains(offset)) {
            prop_assert_eq!(places.find((TEXT + (other << align)) as u64), None);
        }
    }

    /// A function that has gone is not found, and the others have the numbers that they had.
    #[test]
    fn who_has_gone_is_not_found(gone in hash_set(0usize..300, 0..300)) {
        let ip = |number: usize| TEXT + number * 16;
        let places = places((0..300).map(|number| if gone.contains(&number) { 0 } else { ip(number) }));
        for number in 0..300 {
            let wanted = (!gone.contains(&number)).then_some(number);
            prop_assert_eq!(places.find(ip(number) as u64), wanted);
        }
    }

    /// Calls are counted.
    #[test]
    fn calls_are_counted(calls in vec((0usize..40, 0u64..1 << 62), 0..300)) {
        let table = table((0..40).map(|number| TEXT + number * 16));
        let mut wanted = HashMap::<_, Vec<u64>>::new();
        for (number, time) in calls {
            call(&table, TEXT + number * 16, time);
            wanted.entry(number).or_default().push(time);
        }
        for number in 0..40 {
            let times = wanted.get(&number).map_or(&[][..], |times| times);
            prop_assert_eq!(table.totals(number), totals_of(times));
        }
        prop_assert_eq!(table.totals(40), FunctionTotals::default());
    }

    /// Averages and variances agree with the formula of `function_stat_show()` with numbers that
    /// are large enough.
    #[test]
    fn averages_and_variances_are_right(times in vec(0u64..1 << 40, 1..60)) {
        let totals = totals_of(&times);
        let n = times.len() as u128;
        prop_assert_eq!(u128::from(totals.average()), u128::from(totals.time()) / n);
        let sum = u128::from(totals.time());
        let wanted = match n {
            1 => 0,
            _ => (n * totals.squares - sum * sum) / (n * (n - 1)),
        };
        // Truncated once more in between.
        let got = totals.variance();
        prop_assert!(got == wanted || got == wanted + 1, "{} is not {}", got, wanted);
    }

    /// No sums make it fail, not even those that no calls have.
    #[test]
    fn any_sums_have_a_variance(hits: u64, total: u64, uncounted: u64, squares: u128) {
        FunctionTotals { hits, total, uncounted, squares, ..Default::default() }.variance();
    }
}

/// An interrupt, and an NMI in it, call the same functions at any place of a call: all count.
#[test]
fn interrupts_lose_nothing() {
    let ips = || [TEXT, TEXT + 16];
    // The squares carry into the upper half, again and again.
    let times = [(1 << 62) - 1, 1 << 62, 1 << 40];
    let mut rounds = 0;
    let mut most = 0;
    'points: for first in points() {
        for second in points() {
            let table = Rc::new(table(ips()));
            let inner = table.clone();
            let all_came = Rc::new(RefCell::new(false));
            let nmi_came = all_came.clone();
            let interrupt = move |_| {
                let nmi_table = inner.clone();
                let nmi = move |_| call(&nmi_table, TEXT, times[1]);
                *nmi_came.borrow_mut() =
                    interrupted([second], nmi, || call(&inner, TEXT, times[2]));
            };
            let came = interrupted([first], interrupt, || {
                call(&table, TEXT, times[0]);
                call(&table, TEXT + 16, times[0]);
            });
            if !came {
                break 'points;
            }
            if !*all_came.borrow() {
                break;
            }
            rounds += 1;
            assert_eq!(table.totals(0), totals_of(&times), "{first} {second}");
            assert_eq!(table.totals(1), totals_of(&times[..1]));
            most = most.max(second);
        }
    }
    // There are some operations in each of two calls, and the interrupt has as many.
    assert!(cfg!(miri) || rounds > 300 && most > 10, "{rounds} {most}");
}

/// A call may return on another CPU.
#[test]
fn returns_count_where_they_are() {
    let (one, other) = (table([TEXT, TEXT + 16]), table([TEXT, TEXT + 16]));
    let known = one.enter(TEXT as u64).unwrap();
    leave(&other, known, 100, 10);
    assert_eq!((one.totals(0).hits, one.totals(0).total), (1, 0));
    let there = other.totals(0);
    assert_eq!((there.hits, there.total, there.own()), (0, 100, 90));
}

#[test]
fn a_table_without_functions_knows_none() {
    for table in [
        table([]),
        // Nor does one without histograms.
        CpuTable::new(places([TEXT]), Pool::new(), 0).unwrap(),
    ] {
        assert_eq!(table.enter(TEXT as u64), None);
        assert_eq!(table.enter_behind(TEXT as u64), None);
        leave(&table, 0, 100, 0);
        assert!(table.totals(0).is_none());
    }
}

#[test]
fn want_of_memory_is_an_error() {
    let numbers = || {
        let mut numbers = EngineVec::new();
        numbers.push(TEXT).unwrap();
        numbers
    };
    let made = memory::with_allocations(0, || FunctionNumbers::new(EngineVec::new()).err());
    assert_eq!(made, Some(AllocError));
    let places = places([TEXT]);
    let pool = grown(&Pool::new(), 1);
    let made = memory::with_allocations(0, || CpuTable::new(places, pool, 0).err());
    assert_eq!(made, Some(AllocError));
    let pool = grown(&Pool::new(), 1);
    assert!(memory::with_allocations(0, || pool.duplicate().is_err()));
    let chunk = |limit| Ok::<_, AllocError>(Rc::new(Chunk::new(limit)?));
    assert!(memory::with_allocations(0, || pool
        .grown(40, chunk)
        .is_err()));
    assert!(FunctionNumbers::new(numbers()).is_ok());
}

#[test]
fn sums_are_added_up() {
    let (one, other) = (totals_of(&[1, 2]), totals_of(&[u64::MAX]));
    assert_eq!(one.plus(other), totals_of(&[1, 2, u64::MAX]));
}

/// A part that the options leave out is no part of the time that counts, nor of its squares.
#[test]
fn parts_do_not_count() {
    let table = table([TEXT]);
    let record = table.record(table.enter(TEXT as u64).unwrap()).unwrap();
    record.note_longest(100);
    record.add_part(100, 40, 30);
    let totals = table.totals(0);
    assert_eq!((totals.total, totals.own(), totals.time()), (100, 60, 70));
    assert_eq!((totals.squares, totals.max()), (70 * 70, 100));
    assert_eq!((totals.average(), totals.average_total()), (70, 100));
}

fn row(name: &str, totals: &FunctionTotals, to_ns: impl Fn(u64) -> u64) -> String {
    let mut page = Page(String::new(), [0; ROOM]);
    write_row(&mut page, name.as_bytes(), totals, to_ns).unwrap();
    page.0
}

/// Lines are as `function_stat_show()` prints them: `"  %-30.30s  %10lu"`, four blanks before each
/// duration, and these are `trace_print_graph_duration()`'s, 12 bytes wide.
#[test]
fn lines_are_as_those_of_ftrace() {
    let same = |ticks| ticks;
    let wanted = |name: &str, hits: u64, durations: [&str; 3]| {
        let durations = durations
            .map(|duration| format!("    {duration:<12}"))
            .concat();
        format!("  {name:<30.30}  {hits:>10}{durations}\n")
    };
    assert_eq!(
        row("schedule", &totals_of(&[1_000, 3_000]), same),
        wanted("schedule", 2, ["4.000 us ", "2.000 us ", "2.000 us "])
    );
    let long = "a_function_whose_name_is_too_long_for_it";
    assert_eq!(
        row(long, &totals_of(&[42]), same),
        wanted(long, 1, ["0.042 us ", "0.042 us ", "0.000 us "])
    );
    // Half of the ticks, and a quarter of their squares.
    assert_eq!(
        row(
            "x",
            &totals_of(&[2_000_000_000, 6_000_000_000]),
            |ticks| ticks / 2
        ),
        wanted("x", 2, ["4000000 us ", "2000000 us ", "2000000000000 us "])
    );
}

/// Squares that are too large for 64 bits are converted all the same.
#[test]
fn large_squares_are_converted() {
    let text = row("slow", &totals_of(&[0, 20_000_000_000]), |ticks| ticks / 2);
    // 10 s are 1e7 us, and half the square of that.
    let variance: f64 = text.split_whitespace().nth(6).unwrap().parse().unwrap();
    assert!((variance / 5e13 - 1.).abs() < 1e-6, "{text}");
}

/// Lines of all CPUs have their columns, whatever is in them.
#[test]
fn summaries_have_their_columns() {
    let line = |name: &str, summary: &Summary| {
        let mut page = Page(String::new(), [0; ROOM]);
        write_summary(&mut page, name.as_bytes(), summary).unwrap();
        page.0
    };
    let mut summary = Summary {
        calls: 12,
        total: 1_234_567,
        own: 999,
        average: 102_880,
        percentiles: Some([1000, 20_001, 300_000]),
        max: 1_000_000_000,
        waits: None,
    };
    let text = line("vfs_read", &summary);
    let wanted = "  vfs_read                       |         12      1234.567         0.999     102.880       \
                  1.000      20.001     300.000 1000000.000\n";
    assert_eq!(text, wanted);
    for header in SUMMARY_HEADER.lines() {
        assert_eq!(header.len() + 1, wanted.len());
    }
    summary.percentiles = None;
    let text = line(&"x".repeat(300), &summary);
    let words: Vec<_> = text.split_whitespace().collect();
    assert_eq!(words[0].len(), 300);
    assert_eq!(
        words[1..],
        [
            "|",
            "12",
            "1234.567",
            "0.999",
            "102.880",
            "-",
            "-",
            "-",
            "1000000.000"
        ]
    );
    let text = line("vfs_read", &summary);
    assert_eq!(text.len(), wanted.len());
    // With waits there are three more.
    let mut name = [0; 16];
    name[..4].copy_from_slice(b"a b;");
    summary.waits = Some(([7_000_001, 20], WokenBy::Task(name)));
    let text = line("vfs_read", &summary);
    assert!(
        text.ends_with("1000000.000      7000.001         0.020  a_b:\n"),
        "{text}"
    );
    let behind = |line: &str, from: usize| line[from..].to_owned();
    let from = text.len() - "a_b:\n".len();
    let headers = WAITS_HEADER.lines().map(|line| behind(line, from));
    assert_eq!(headers.collect::<Vec<_>>(), ["Woken by", "--------"]);
    // Times that are wider than their columns, as those of calls that sleep for minutes.
    let (seconds, minutes) = (50_000_000_000, 100_000_000_000_000);
    summary.total = minutes;
    summary.percentiles = Some([seconds; 3]);
    summary.max = seconds;
    summary.waits = Some(([minutes; 2], WokenBy::Context(WakeContext::Softirq)));
    let text = line("vfs_read", &summary);
    let words: Vec<_> = text.split_whitespace().skip(2).collect();
    let (seconds, minutes) = ("50000000.000", "100000000000.000");
    let rest = [
        seconds,
        seconds,
        seconds,
        seconds,
        minutes,
        minutes,
        "[softirq]",
    ];
    assert_eq!(words[..4], ["12", minutes, "0.999", "102.880"]);
    assert_eq!(words[4..], rest);
    // However long the name is, nothing behind it is cut off.
    for length in 1..300 {
        let text = line(&"x".repeat(length), &summary);
        assert_eq!(text.split_whitespace().count(), 13, "{text}");
    }
}

/// Histograms have the columns of `perf ftrace latency`.
#[test]
fn histograms_have_the_columns_of_perf() {
    let mut page = Page(String::new(), [0; ROOM]);
    write_histogram_header(&mut page, b"vfs_read").unwrap();
    let same = |ticks| ticks;
    // 1,024 to 1,151; 1 << 20 to (1 << 20) + (1 << 17) - 1; all values above.
    for (bucket, count) in [(64, 3), (144, 1), (495, 0)] {
        write_bucket(&mut page, bucket, count, 4, same).unwrap();
    }
    let summary = Summary {
        calls: 4,
        total: 1_051_721,
        average: 262_930,
        percentiles: Some([1151, 1_179_647, 1_179_647]),
        max: 1_048_600,
        own: 0,
        waits: None,
    };
    write_statistics(&mut page, &summary, 1024).unwrap();
    let bar = |count: usize| format!("{:<46}", "#".repeat(count));
    let wanted = [
        "# function: vfs_read".into(),
        format!("#       DURATION         |      COUNT | {:<46} |", "GRAPH"),
        format!("     1.024 -    1.152 us |          3 | {} |", bar(34)),
        format!("     1.048 -    1.179 ms |          1 | {} |", bar(11)),
        format!(
            "  17293822569.102 - 18446744073.709 s  |          0 | {} |",
            bar(0)
        ),
        String::new(),
        "# statistics  (in usec)".into(),
        "  total time:             1051.721".into(),
        "    avg time:              262.930".into(),
        "    max time:             1048.600".into(),
        "    min time:                1.024".into(),
        "    p50 time:                1.151".into(),
        "    p90 time:             1179.647".into(),
        "    p99 time:             1179.647".into(),
        "  call count:                    4".into(),
        String::new(),
    ];
    assert_eq!(page.0, wanted.map(|line| line + "\n").concat());
}
