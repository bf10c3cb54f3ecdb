// SPDX-License-Identifier: GPL-2.0

//! Sleeps in calls that are counted: names of wakers, times, and the longest of a function.

use std::sync::Arc;
use std::thread;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::engine::profile::sleeps::{Sleep, Sleeps};
use crate::engine::profile::task_names::{TaskNames, WokenBy, MOST_NAMES};
use crate::engine::profile::totals::{epoch, longest, FunctionTotals};
use crate::engine::profile::waits::FunctionWaits;
use crate::engine::waiting::{WakeContext, Waker};
use crate::engine::wakers::PLACES;
use crate::platform::memory;
use crate::tests::{cases, interrupted};

fn words(name: &str) -> [u64; 2] {
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    let half = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    [half(0), half(8)]
}

fn written(by: WokenBy) -> String {
    String::from_utf8(by.written(&mut [0; 16]).to_vec()).unwrap()
}

fn name_of(names: &TaskNames, number: u32) -> String {
    written(names.woken_by(Waker::new(number, WakeContext::Task)))
}

proptest! {
    #![proptest_config(cases(200))]

    /// Names have numbers that stay, each its own, whatever comes in between.
    #[test]
    fn names_have_numbers(
        all in vec("[a-c]{1,15}", 1..30),
        inner in "[a-c]{1,15}",
        point in 0u32..8,
    ) {
        let names = Arc::new(TaskNames::new().unwrap());
        let numbers: Vec<u32> = all.iter().map(|name| names.number(words(name)).unwrap()).collect();
        let (interrupt, same) = (names.clone(), inner.clone());
        let last = "z".to_owned() + &inner[1..];
        // An interrupt wants the name that is being put in, or one with the same beginning.
        interrupted(
            [point],
            move |_| {
                interrupt.number(words(&("z".to_owned() + &same[1..]))).unwrap();
                interrupt.number(words("zaaaaaaabbb")).unwrap();
            },
            || {
                names.number(words(&last)).unwrap();
                names.number(words("zaaaaaaa")).unwrap();
            },
        );
        for name in [last.as_str(), "zaaaaaaa"] {
            let number = names.number(words(name)).unwrap();
            prop_assert_eq!(name_of(&names, number), name);
        }
        for (name, number) in all.iter().zip(numbers) {
            prop_assert_eq!(names.number(words(name)), Some(number));
            prop_assert_eq!(name_of(&names, number), name.as_str());
        }
    }

    /// The waker of the longest sleep is told, of all CPUs and since the last clear.
    #[test]
    fn longest_sleeps(
        sleeps in vec((0u64..1000, 0u64..100, 0u32..5, 0u64..3, 0..2usize), 1..30),
        clears in 0u64..3,
    ) {
        let cpus = [0, 1].map(|_| FunctionWaits::new(1).unwrap());
        let mut sleeps = sleeps;
        sleeps.sort_by_key(|(.., clears, _)| *clears);
        let mut wanted: Option<(u64, u32)> = None;
        let (mut slept_sum, mut queued_sum) = (0, 0);
        for (slept, queued, by, after, cpu) in sleeps {
            let waker = Waker::new(by, WakeContext::Task);
            cpus[cpu].add(0, slept, queued, longest(epoch(after), slept), waker);
            slept_sum += slept;
            queued_sum += queued;
            if by != 0 && wanted.is_none_or(|(most, _)| most < longest(epoch(after), slept)) {
                wanted = Some((longest(epoch(after), slept), by));
            }
        }
        let all = cpus.each_ref().map(|cpu| cpu.with(FunctionTotals::default(), 0));
        let all = all[0].plus(all[1]);
        prop_assert_eq!((all.slept, all.queued), (slept_sum, queued_sum));
        let now = all.since(FunctionTotals::default(), clears);
        let wanted = wanted.filter(|(most, _)| *most >= epoch(clears));
        // Of two that are as long either is.
        prop_assert_eq!(now.longest_sleep, wanted.map_or(0, |(most, _)| most));
        prop_assert_eq!(now.waker.is_known(), wanted.is_some());
    }
}

/// Threads that put in the same names agree on their numbers.
#[test]
fn threads_agree() {
    let names = Arc::new(TaskNames::new().unwrap());
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let names = names.clone();
            thread::spawn(move || -> Vec<u32> {
                let all = (0..500).map(|number| format!("task-{number}"));
                all.map(|name| names.number(words(&name)).unwrap())
                    .collect()
            })
        })
        .collect();
    let numbers: Vec<_> = threads.into_iter().map(|one| one.join().unwrap()).collect();
    assert!(numbers.iter().all(|all| *all == numbers[0]));
    assert_eq!(name_of(&names, numbers[0][77]), "task-77");
}

/// Names end at their first 0, and characters that would part words are written otherwise.
#[test]
fn names_are_written() {
    let names = TaskNames::new().unwrap();
    let said = |name: [u64; 2]| name_of(&names, names.number(name).unwrap());
    assert_eq!(said(words("a b;c\u{7}d")), "a_b:c?d");
    assert_eq!(
        said([words("ab")[0] | (0x63 << 56), words("xyz")[1] | 7]),
        "ab"
    );
    assert_eq!(said(words("fifteen letters")), "fifteen_letters");
    assert_eq!(said([0, 0]), "?");
    assert_eq!(said([u64::MAX; 2]), "?".repeat(15));
    assert_eq!(written(names.woken_by(Waker::default())), "-");
    assert_eq!(
        written(names.woken_by(Waker::new(5000, WakeContext::Task))),
        "-"
    );
    for (context, wanted) in [
        (WakeContext::Softirq, "[softirq]"),
        (WakeContext::Hardirq, "[hardirq]"),
        (WakeContext::Nmi, "[nmi]"),
    ] {
        assert_eq!(written(names.woken_by(Waker::new(0, context))), wanted);
    }
}

/// Names that find no room have no number, and sleeps that they end are counted.
#[test]
fn names_may_be_too_many() {
    let tried = MOST_NAMES + MOST_NAMES / if cfg!(miri) { 4 } else { 1 };
    let names = TaskNames::new().unwrap();
    let has_room = |n: &usize| names.number(words(&format!("n{n}"))).is_some();
    let count = (0..tried).filter(has_room).count();
    assert!(
        count > MOST_NAMES / 4 * 3 && count <= MOST_NAMES && count < tried,
        "{count}"
    );
    let sleeps = Sleeps::new().unwrap();
    for n in 0..tried {
        sleeps.begin(7, 0, 0);
        sleeps.note(7, WakeContext::Task, || words(&format!("n{n}")));
        sleeps.end(7, 1, 0).unwrap();
    }
    assert_eq!(sleeps.lost(), (tried - count) as u64);
}

/// A sleep has its time, the part of it in queues, and its waker.
#[test]
fn sleeps_have_times() {
    let sleeps = Sleeps::new().unwrap();
    let (pid, other) = (5, 5 + PLACES as u32);
    sleeps.begin(pid, 1000, 70);
    sleeps.note(pid, WakeContext::Task, || words("one"));
    sleeps.note(pid, WakeContext::Hardirq, || panic!("no task has woken it"));
    sleeps.note(pid, WakeContext::Task, || words("a waker"));
    let Some(Sleep {
        slept,
        queued,
        waker,
    }) = sleeps.end(pid, 1500, 90)
    else {
        panic!("it slept");
    };
    assert_eq!((slept, queued), (500, 20));
    assert_eq!(written(sleeps.woken_by(waker)), "a_waker");
    assert_eq!(sleeps.end(pid, 1600, 90), None);
    // Of two with the same place the last is known.
    sleeps.begin(pid, 2000, 0);
    sleeps.begin(other, 2100, 0);
    assert_eq!(sleeps.end(pid, 2200, 0), None);
    assert_eq!(sleeps.lost(), 1);
    let sleep = sleeps.end(other, 2200, 0).unwrap();
    assert_eq!((sleep.slept, sleep.waker.is_known()), (100, false));
    // From a clear on nothing is known to sleep.
    sleeps.begin(pid, 3000, 0);
    sleeps.clear();
    assert_eq!((sleeps.end(pid, 3100, 0), sleeps.lost()), (None, 0));
    assert!(sleeps.bytes() > PLACES * 24);
    memory::with_allocations(0, || assert!(FunctionWaits::new(3).is_err()));
}
