// SPDX-License-Identifier: GPL-2.0

//! Wakers of tasks that sleep, against a model of their places.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::waiting::waker;
use crate::engine::waiting::{WakeContext, Waker};
use crate::engine::wakers::{Wakers, PLACES};

/// A step: a task falls asleep, is woken, or goes on.
#[derive(Clone, Debug)]
enum Step {
    Sleep(u32),
    Wake(u32, Waker),
    GoOn(u32),
}

/// Tasks of few places, so that some have the same.
fn pid() -> impl Strategy<Value = u32> {
    (1u32..4, 0u32..3).prop_map(|(place, round)| place + round * PLACES as u32)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        pid().prop_map(Step::Sleep),
        (pid(), waker()).prop_map(|(pid, waker)| Step::Wake(pid, waker)),
        pid().prop_map(Step::GoOn),
    ]
}

proptest! {
    /// A task that sleeps and has its place is told its last waker, once; one that another has
    /// driven out is counted.
    #[test]
    fn last_wakers(steps in vec(step(), 1..60)) {
        let wakers = Wakers::new().unwrap();
        // By the place: the task that sleeps there, and its last waker.
        let mut asleep: HashMap<usize, (u32, Waker)> = HashMap::new();
        // What was noted of tasks before it was known that they sleep.
        let mut before: HashMap<usize, (u32, Waker)> = HashMap::new();
        let mut lost = 0;
        for step in steps {
            match step {
                Step::Sleep(pid) => {
                    let place = Wakers::place(pid);
                    let noted = before.remove(&place).filter(|(of, _)| *of == pid);
                    let mut by = noted.map(|(_, waker)| waker).unwrap_or_default();
                    match asleep.get(&place) {
                        Some((other, _)) if *other != pid => lost += 1,
                        Some((_, waker)) => by = *waker,
                        None => {}
                    }
                    wakers.sleeps(pid);
                    asleep.insert(place, (pid, by));
                }
                Step::Wake(pid, waker) => {
                    let place = Wakers::place(pid);
                    match asleep.get_mut(&place) {
                        Some((of, by)) if *of == pid => *by = waker,
                        Some(_) => {}
                        None => {
                            before.insert(place, (pid, waker));
                        }
                    }
                    wakers.note(pid, waker);
                }
                Step::GoOn(pid) => {
                    let place = Wakers::place(pid);
                    let is_there = asleep.get(&place).is_some_and(|(of, _)| *of == pid);
                    let wanted = is_there.then(|| asleep.remove(&place).unwrap().1);
                    prop_assert_eq!(wakers.take(pid), wanted);
                }
            }
        }
        prop_assert_eq!(wakers.lost(), lost);
        wakers.clear();
        prop_assert_eq!(wakers.lost(), 0);
        prop_assert!((0..PLACES as u32 * 3).all(|pid| wakers.take(pid).is_none()));
    }
}

/// The idle task never sleeps.
#[test]
fn idle_tasks_have_no_place() {
    let wakers = Wakers::new().unwrap();
    wakers.sleeps(0);
    wakers.note(0, Waker::new(5, WakeContext::Task));
    assert_eq!(wakers.take(0), None);
}
