// SPDX-License-Identifier: GPL-2.0

//! Budgets: what is written, and windows of one CPU and of several.

use std::cell::RefCell;

use proptest::prelude::*;

use super::cases;
use crate::engine::budget::{BudgetLimits, CpuWindow, Excess, Measured, RecordedParts, WINDOW_NS};
use crate::engine::parse::ParseError::{Invalid, Range};
use crate::engine::ring::{Ring, Slot, Storage, DROPS};
use crate::engine::slot::{SlotKind, SlotWords};
use crate::support::{call, task, FixedContext, Heap};

const SECOND: u64 = 1_000_000_000;
/// Maximum number of calls between two counts.
const ROOM: u64 = 256;
const SESSION: u64 = 7;

const fn limits(calls: u64, cpu: u64) -> BudgetLimits {
    BudgetLimits { calls, cpu }
}

#[test]
fn written() {
    let before = limits(5, 6);
    for (text, wanted) in [
        ("calls 7", Ok(limits(7, 6))),
        ("cpu 7\n", Ok(limits(5, 7))),
        ("calls 7 cpu 8", Ok(limits(7, 8))),
        ("cpu 8\ncalls 7\n", Ok(limits(7, 8))),
        (" \tcalls\n7 ", Ok(limits(7, 6))),
        ("calls 7 calls 8", Ok(limits(8, 6))),
        ("calls 0", Ok(limits(0, 6))),
        ("cpu 0 calls 18446744073709551615", Ok(limits(u64::MAX, 0))),
        ("0", Ok(limits(0, 0))),
        ("0\n", Ok(limits(0, 0))),
        ("\n", Ok(limits(0, 0))),
        (" ", Ok(limits(0, 0))),
        ("", Err((0, Invalid))),
        ("7", Err((0, Invalid))),
        ("00", Err((0, Invalid))),
        ("0 0", Err((2, Invalid))),
        ("0 calls 7", Err((2, Invalid))),
        ("calls", Err((0, Invalid))),
        ("calls 7 cpu", Err((8, Invalid))),
        ("calls 7 8", Err((8, Invalid))),
        ("calls -7", Err((6, Invalid))),
        ("calls 7%", Err((6, Invalid))),
        ("call 7", Err((0, Invalid))),
        ("calls=7", Err((0, Invalid))),
        ("CPU 7", Err((0, Invalid))),
        ("cpu 18446744073709551616", Err((4, Range))),
        ("calls 7\0", Err((7, Invalid))),
        ("\0", Err((0, Invalid))),
    ] {
        assert_eq!(before.edited(text.as_bytes()), wanted, "{text:?}");
    }
}

#[test]
fn exceeded() {
    let measured = Measured {
        calls: 1_000_000,
        cost_ps: 100_000,
    };
    assert_eq!(measured.percent(), 10);
    assert_eq!(limits(0, 0).exceeded(measured), None);
    assert_eq!(limits(1_000_000, 10).exceeded(measured), None);
    let more = Measured {
        calls: 1_000_001,
        ..measured
    };
    assert_eq!(
        limits(1_000_000, 0).exceeded(more),
        Some(Excess::Calls(1_000_000))
    );
    assert_eq!(limits(2_000_000, 10).exceeded(more), Some(Excess::Cpu(10)));
    // Nothing wraps.
    let most = Measured {
        calls: u64::MAX,
        cost_ps: u64::MAX,
    };
    assert_eq!(limits(0, 100).exceeded(most), Some(Excess::Cpu(100)));
    assert_eq!(limits(0, u64::MAX).exceeded(most), None);
}

#[test]
fn texts() {
    let measured = Measured {
        calls: 3_120_450,
        cost_ps: 109_500,
    };
    let text = |excess: Excess| {
        let mut text = String::new();
        excess.write(measured, &mut text).unwrap();
        text
    };
    assert_eq!(
        text(Excess::Calls(2_000_000)),
        "3120450 calls/s, 2000000 allowed"
    );
    assert_eq!(
        text(Excess::Cpu(20)),
        "3120450 calls/s, about 34 % of a CPU at 110 ns a call, 20 % allowed"
    );
}

/// More calls cost more, and so does a slower machine.
#[test]
fn costs() {
    let all = [false, true];
    for graph in all {
        let cost = |args, stack| RecordedParts { graph, args, stack }.cost_ps(10_000);
        assert!(cost(false, false) > 10_000);
        assert!(cost(true, false) > cost(false, false));
        assert!(cost(false, true) > cost(true, false));
        assert!(cost(true, true) > cost(false, true));
        assert_eq!(
            RecordedParts {
                graph,
                ..RecordedParts::default()
            }
            .cost_ps(0),
            0
        );
    }
    let graph = RecordedParts {
        graph: true,
        ..RecordedParts::default()
    };
    assert!(graph.cost_ps(10_000) > RecordedParts::default().cost_ps(10_000));
    assert!(graph.cost_ps(20_000) > graph.cost_ps(10_000));
    assert!(graph.cost_ps(u64::MAX) > 0);
}

/// The first count begins a window, whatever came before it; a window that is not over tells
/// nothing.
#[test]
fn a_window() {
    let window = CpuWindow::new();
    let start = 5 * SECOND;
    assert!(!window.count(SESSION, 1 << 40, ROOM, start));
    assert_eq!(window.rate(SESSION, start), 0);
    assert!(!window.count(SESSION, 200, ROOM, start + WINDOW_NS / 2));
    assert!(!window.count(SESSION, 200, ROOM, start + WINDOW_NS - 1));
    assert_eq!(window.rate(SESSION, start + WINDOW_NS - 1), 0);
    assert!(window.count(SESSION, 200, ROOM, start + WINDOW_NS));
    assert_eq!(window.rate(SESSION, start + WINDOW_NS), 6000);
    // As long as the next may still be on its way.
    assert_eq!(window.rate(SESSION, start + WINDOW_NS + 1_000_000), 6000);
    // And then no more than can be.
    assert_eq!(window.rate(SESSION, start + WINDOW_NS + SECOND), ROOM);
    assert_eq!(
        window.rate(SESSION, start + WINDOW_NS + 2 * SECOND),
        ROOM / 2
    );
    // Another CPU's clock may be behind.
    assert_eq!(window.rate(SESSION, start), 6000);
    // Of another session nothing is known, and nothing is left of this one in it.
    assert_eq!(window.rate(SESSION + 1, start + WINDOW_NS), 0);
    assert!(!window.count(SESSION + 1, 200, ROOM, start + 2 * WINDOW_NS));
    assert!(window.count(SESSION + 1, 100, ROOM, start + 3 * WINDOW_NS));
    assert_eq!(window.rate(SESSION + 1, start + 3 * WINDOW_NS), 1000);
}

/// An interrupt counts with a later clock, before the code that it interrupts does.
#[test]
fn a_clock_that_is_behind() {
    let window = CpuWindow::new();
    window.count(SESSION, 0, ROOM, SECOND);
    assert!(window.count(SESSION, 10, ROOM, 2 * SECOND));
    assert!(!window.count(SESSION, 10, ROOM, 2 * SECOND - 1));
    assert!(window.count(SESSION, 10, ROOM, 2 * SECOND + WINDOW_NS));
    assert_eq!(window.rate(SESSION, 2 * SECOND + WINDOW_NS), 200);
}

/// Simulates calls of one CPU at even rates for a while each, in sub-buffers as full as they can
/// be: `ended` gets the result of each window, and the number of calls in it.
fn simulate(phases: &[(u64, u64)], mut ended: impl FnMut(u64, u64, u64)) {
    let window = CpuWindow::new();
    let (mut now, mut calls) = (SECOND, 0);
    let (mut began, mut at_begin) = (now, 0);
    window.count(SESSION, 0, ROOM, now);
    for &(gap, count) in phases {
        for _ in 0..count {
            now += gap;
            calls += 1;
            if calls % ROOM == 0 && window.count(SESSION, ROOM, ROOM, now) {
                ended(window.rate(SESSION, now), calls - at_begin, now - began);
                (began, at_begin) = (now, calls);
            }
        }
    }
}

/// Memory that keeps what it was told, with the number of entries at the time.
struct Told {
    heap: Heap,
    hits: RefCell<Vec<(u64, u64)>>,
}

// SAFETY: As the heap does.
unsafe impl Storage for Told {
    fn slots(&self) -> &[Slot] {
        self.heap.slots()
    }

    fn counted(&self, hits: u64, room: u64) {
        self.hits.borrow_mut().push((hits, room));
    }
}

/// Writes `entries` entries, and a mark before each tenth; returns what the ring was told, and
/// when, in entries.
fn told(entries: u64, discard: bool) -> Vec<(u64, u64, u64)> {
    const SLOTS: usize = 64;
    let told = Told {
        heap: Heap::zeroed(4 * SLOTS),
        hits: RefCell::new(Vec::new()),
    };
    let ring = Ring::new(told, SLOTS).expect("a good geometry");
    ring.set_discard(discard);
    let mut seen = Vec::new();
    for entry in 0..entries {
        let (call, context) = call(entry, false);
        let who = FixedContext {
            context,
            task: task(1, 1, "one"),
            clock: || entry,
        };
        if entry % 10 == 0 {
            // SAFETY: This thread alone writes, and nothing interrupts it.
            let _ = unsafe {
                ring.write_marker(
                    SlotKind::Marker,
                    call.ip,
                    &[SlotWords::text_slot(b"x")],
                    1,
                    who,
                )
            };
        }
        // SAFETY: As above.
        let _ = unsafe { ring.write(call, who) };
        let new = ring.storage().hits.borrow_mut().split_off(0);
        seen.extend(new.into_iter().map(|(hits, room)| (entry + 1, hits, room)));
    }
    seen
}

/// The ring tells of entries at each sub-buffer, of none twice, and not of marks.
#[test]
fn told_of_entries() {
    let seen = told(5000, false);
    assert!(seen.len() > 5000 / 64);
    let mut before = 0;
    for (now, hits, room) in seen {
        assert!(hits <= now && hits + 2 >= now, "{hits} of {now}");
        assert!(hits - before <= room);
        before = hits;
    }
    assert!(before + 64 > 5000);
}

/// The ring tells of entries that are dropped, too.
#[test]
fn told_of_drops() {
    let seen = told(5000, true);
    let mut before = 0;
    for (now, hits, room) in seen {
        assert!(hits <= now && hits + 2 >= now, "{hits} of {now}");
        assert!(hits - before <= room && room >= DROPS);
        before = hits;
    }
    assert!(before + DROPS > 5000);
}

proptest! {
    #![proptest_config(cases(200))]

    /// A text that is understood means the same when it is read back.
    #[test]
    fn read_back(calls: u64, cpu: u64, before in (any::<u64>(), any::<u64>())) {
        let wanted = limits(calls, cpu);
        let text = format!("calls {calls}\ncpu {cpu}\n");
        let edited = limits(before.0, before.1).edited(text.as_bytes());
        prop_assert_eq!(edited, Ok(wanted));
    }

    /// No text makes it panic, and a refusal names a byte that exists.
    #[test]
    fn anything(text in prop::collection::vec(
        prop::sample::select(&b"calspu 0123456789\n\0%-"[..]), 0..40)) {
        if let Err((at, _)) = limits(1, 2).edited(&text) {
            prop_assert!(at < text.len().max(1));
        }
    }

    /// At the end of a window the rate is exact, and no window is shorter than it is to be.
    #[test]
    fn exact(phases in prop::collection::vec((1_000u64..1_000_000, 1u64..20_000), 1..6)) {
        let mut bad = None;
        simulate(&phases, |rate, calls, elapsed| {
            let exact = u128::from(calls) * u128::from(SECOND) / u128::from(elapsed);
            if u128::from(rate) != exact || elapsed < WINDOW_NS {
                bad = Some((rate, calls, elapsed));
            }
        });
        prop_assert_eq!(bad, None);
    }

    /// Twice the limit is found within two windows and the time of a sub-buffer, however quiet it
    /// was before, and half of it is not, with a burst of a few milliseconds at ten times that.
    #[test]
    fn runaways(
        limit in 50_000u64..if cfg!(miri) { 100_000 } else { 5_000_000 },
        quiet in 1_000_000u64..50_000_000,
        calls in 1u64..300,
    ) {
        let allowed = limits(limit, 0);
        let over = |rate| allowed.exceeded(Measured { calls: rate, cost_ps: 0 }).is_some();
        let fast = SECOND / (2 * limit);
        let mut found = None;
        let mut so_far = 0;
        simulate(&[(quiet, calls), (fast, limit)], |rate, _, elapsed| {
            so_far += elapsed;
            if over(rate) {
                found.get_or_insert(so_far);
            }
        });
        let latest = quiet * calls + 2 * (WINDOW_NS + 2 * ROOM * fast) + quiet * ROOM;
        prop_assert!(found.is_some_and(|at| at <= latest), "{:?}, not {}", found, latest);
        let (slow, burst) = (2 * SECOND / limit, SECOND / (10 * limit));
        let few_ms = 4_000_000 / burst;
        let mut any = false;
        simulate(&[(slow, limit / 4), (burst, few_ms), (slow, limit / 4)], |rate, _, _| any |= over(rate));
        prop_assert!(!any);
    }

    /// The sum over CPUs, at a moment at which each has counted last within a sub-buffer's time, is
    /// the sum of their rates.
    #[test]
    fn several(gaps in prop::collection::vec(500u64..100_000, 1..16)) {
        let windows: Vec<_> = gaps.iter().map(|_| CpuWindow::new()).collect();
        let end = 4 * SECOND;
        let mut exact = 0.0;
        for (window, gap) in windows.iter().zip(&gaps) {
            let step = ROOM * gap;
            let mut now = SECOND;
            window.count(SESSION, 0, ROOM, now);
            while now + step <= end {
                now += step;
                window.count(SESSION, ROOM, ROOM, now);
            }
            exact += SECOND as f64 / *gap as f64;
        }
        let sum: u64 = windows.iter().map(|window| window.rate(SESSION, end)).sum();
        let sum = sum as f64;
        prop_assert!((sum - exact).abs() <= exact * 0.001 + gaps.len() as f64, "{} {}", sum, exact);
        // Once all are quiet, so is the sum.
        let later: u64 = windows.iter().map(|window| window.rate(SESSION, end + 1000 * SECOND)).sum();
        prop_assert!(later <= gaps.len() as u64);
    }
}
