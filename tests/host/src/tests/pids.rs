// SPDX-License-Identifier: GPL-2.0

//! The set of process IDs, and the words that edit it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use proptest::prelude::*;

use super::{cases, rounds, some_under_miri};
use crate::engine::outsider::Outsider;
use crate::engine::pids::{is_beginning, PidError, PidSet, PidSetError, PID_LIMIT};
use crate::platform::{preempt, AllocError};

fn set(pids: impl IntoIterator<Item = u32>) -> PidSet {
    let words: Vec<_> = pids.into_iter().map(|pid| pid.to_string()).collect();
    let text = words.join("\n");
    let empty = PidSet::new().expect("memory");
    empty.edited(text.as_bytes(), false).expect("good words")
}

/// Returns the IDs as a reader of the file finds them.
fn pids(set: &PidSet) -> Vec<u32> {
    let mut next = 0;
    std::iter::from_fn(|| {
        let pid = set.next(next)?;
        next = pid + 1;
        Some(pid)
    })
    .collect()
}

fn edited(from: &PidSet, text: &str, replace: bool) -> Result<Vec<u32>, PidSetError> {
    from.edited(text.as_bytes(), replace).map(|set| pids(&set))
}

#[test]
fn editing() {
    let from = set([1, 5, 4_194_303]);
    for (text, added, replaced) in [
        ("", vec![1, 5, 4_194_303], vec![]),
        (" \n\t", vec![1, 5, 4_194_303], vec![]),
        ("7", vec![1, 5, 7, 4_194_303], vec![7]),
        ("7 0\n6\t\n", vec![0, 1, 5, 6, 7, 4_194_303], vec![0, 6, 7]),
        ("7\u{0}8", vec![1, 5, 7, 8, 4_194_303], vec![7, 8]),
        ("!5", vec![1, 4_194_303], vec![]),
        ("!5 !1 !0x3fffff", vec![], vec![]),
        ("!9", vec![1, 5, 4_194_303], vec![]),
        ("9 !9", vec![1, 5, 4_194_303], vec![]),
        ("!9 9", vec![1, 5, 9, 4_194_303], vec![9]),
        (
            "0x10 010 +3",
            vec![1, 3, 5, 8, 16, 4_194_303],
            vec![3, 8, 16],
        ),
        ("5 5 5", vec![1, 5, 4_194_303], vec![5]),
        ("65536", vec![1, 5, 65_536, 4_194_303], vec![65_536]),
    ] {
        assert_eq!(edited(&from, text, false), Ok(added), "{text:?} added");
        assert_eq!(
            edited(&from, text, true),
            Ok(replaced),
            "{text:?} replacing"
        );
    }
    assert_eq!(pids(&from), [1, 5, 4_194_303]);
}

#[test]
fn nonsense() {
    let from = set([1]);
    for (text, at, refusal) in [
        ("x", 0, PidError::NotANumber),
        ("5 x", 2, PidError::NotANumber),
        ("-1", 0, PidError::NotANumber),
        ("1,2", 0, PidError::NotANumber),
        ("1-2", 0, PidError::NotANumber),
        ("1.5", 0, PidError::NotANumber),
        ("5\n!!5", 2, PidError::NotANumber),
        ("!-5", 0, PidError::NotANumber),
        ("08", 0, PidError::NotANumber),
        ("0x", 0, PidError::NotANumber),
        ("no pid", 0, PidError::NotANumber),
        ("5 !", 2, PidError::Empty),
        ("! 5", 0, PidError::Empty),
        ("4194304", 0, PidError::TooLarge),
        ("!4194304", 0, PidError::TooLarge),
        // tracefs takes the low 32 bits.
        ("4294967297", 0, PidError::TooLarge),
        ("5 99999999999999999999", 2, PidError::TooLarge),
    ] {
        for replace in [false, true] {
            let failure = edited(&from, text, replace);
            assert_eq!(failure, Err(PidSetError::Word(at, refusal)), "{text:?}");
        }
        assert!(refusal
            .text()
            .starts_with(|first: char| first.is_ascii_uppercase()));
    }
}

#[test]
fn words_in_parts() {
    for word in [
        "", "!", "+", "!+", "0", "0x", "!0x", "1", "!12", "4194303", "0x3fffff", "+017",
    ] {
        assert!(is_beginning(word.as_bytes()), "{word:?}");
        for length in 0..word.len() {
            assert!(
                is_beginning(&word.as_bytes()[..length]),
                "{word:?} cut at {length}"
            );
        }
    }
    for word in [
        "x", "no", "-", "-1", "!!", "!-", "1,", "12x", "08", "4194304", "0xg", "++",
    ] {
        assert!(!is_beginning(word.as_bytes()), "{word:?}");
    }
    assert!(!is_beginning(&[b'9'; 1000]));
}

#[test]
fn edges() {
    let empty = PidSet::new().expect("memory");
    assert!(empty.is_empty() && empty.next(0).is_none());
    let edges = [0, 63, 64, 4_095, 4_096, 4_194_239, 4_194_240, PID_LIMIT - 1];
    let set = set(edges);
    assert_eq!(pids(&set), edges);
    assert_eq!(set.len(), edges.len());
    for pid in edges {
        assert!(set.contains(pid));
        let is_edge = |other| edges.contains(&other);
        assert!(
            pid == 0 || set.contains(pid - 1) == is_edge(pid - 1),
            "{pid}"
        );
        assert!(
            pid + 1 == PID_LIMIT || set.contains(pid + 1) == is_edge(pid + 1),
            "{pid}"
        );
    }
    assert_eq!(set.next(PID_LIMIT), None);
    assert_eq!(set.next(u32::MAX), None);
    // Three parts have been made.
    assert_eq!(set.bytes() - empty.bytes(), 3 * 512);
}

#[test]
fn all_there_are() {
    let first = if cfg!(miri) { PID_LIMIT - 1000 } else { 0 };
    let all = set(first..PID_LIMIT);
    assert_eq!(all.len(), (PID_LIMIT - first) as usize);
    assert_eq!(all.next(PID_LIMIT - 1), Some(PID_LIMIT - 1));
    let none = PidSet::new().expect("memory");
    none.assign(&all).expect("memory");
    assert!((first..PID_LIMIT).all(|pid| none.contains(pid)));
    none.assign(&PidSet::new().expect("memory"))
        .expect("memory");
    assert!(none.is_empty());
}

/// A reader in the middle of a change finds each ID as it was before or is after; and new ones come
/// before old ones go.
#[test]
fn looks_meanwhile() {
    let few = if cfg!(miri) { 20 } else { 200 };
    let before: BTreeSet<u32> = (0..few).step_by(3).chain([9_000, 70_000]).collect();
    let after: BTreeSet<u32> = (0..few).step_by(2).chain([9_001, 5_000]).collect();
    let shared = Rc::new(set(before.iter().copied()));
    let new = set(after.iter().copied());
    let wrong = Rc::new(RefCell::new(None));
    let looks = Rc::new(RefCell::new(0));
    let look = {
        let (shared, wrong, looks) = (shared.clone(), wrong.clone(), looks.clone());
        let (before, after) = (before.clone(), after.clone());
        move || {
            *looks.borrow_mut() += 1;
            let found = |pid: &u32| shared.contains(*pid);
            let both = before.intersection(&after).all(found);
            let neither = some_under_miri(0..10_000, 997)
                .any(|pid| !before.contains(&pid) && !after.contains(&pid) && found(&pid));
            let gone = before.difference(&after).any(|pid| !found(pid));
            let missing = after.difference(&before).any(|pid| !found(pid));
            if !both || neither || gone && missing {
                wrong
                    .borrow_mut()
                    .get_or_insert((both, neither, gone, missing));
            }
        }
    };
    preempt::with_handler(look, || shared.assign(&new).expect("memory"));
    assert_eq!(*wrong.borrow(), None);
    assert!(*looks.borrow() > 100);
    assert_eq!(pids(&shared), after.into_iter().collect::<Vec<_>>());
}

#[test]
fn children() {
    let set = set([5, 70_000]);
    for (parent, child) in [
        (5, 6),
        (6, 200_000),
        (7, 8),
        (70_000, PID_LIMIT - 1),
        (5, 5),
    ] {
        set.forked(parent, child).expect("memory");
    }
    assert_eq!(pids(&set), [5, 6, 70_000, 200_000, PID_LIMIT - 1]);
    for pid in [6, 7, 70_000, 1_000_000] {
        set.freed(pid);
    }
    assert_eq!(pids(&set), [5, 200_000, PID_LIMIT - 1]);
}

/// Tasks come and go at any moment of an edit: no such change is lost, or undone.
#[test]
fn forks_meanwhile() {
    for at in some_under_miri(0..40, 7) {
        let shared = Rc::new(set([1, 2, 3, 64, 5_000]));
        let base = shared.duplicate().expect("memory");
        let new = base.edited(b"!3 7 9000", false).expect("good words");
        let steps = Rc::new(RefCell::new(0));
        let meanwhile = {
            let (shared, steps) = (shared.clone(), steps.clone());
            move || {
                let step = steps.replace_with(|step| *step + 1);
                if step == at {
                    shared.forked(1, 65).expect("memory");
                    shared.forked(64, 20_000).expect("memory");
                    shared.freed(2);
                }
            }
        };
        preempt::with_handler(meanwhile, || shared.change(&base, &new).expect("memory"));
        if *steps.borrow() <= at {
            break;
        }
        assert_eq!(
            pids(&shared),
            [1, 7, 64, 65, 5_000, 9_000, 20_000],
            "at step {at}"
        );
    }
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn as_std_does(
        before in prop::collection::btree_set(0..20_000u32, 0..300),
        edits in prop::collection::vec((any::<bool>(), 0..20_000u32), 0..300),
        replace: bool,
    ) {
        let shared = set(before.iter().copied());
        let mut wanted = if replace { BTreeSet::new() } else { before };
        let mut text = String::new();
        for (remove, pid) in edits {
            if remove { wanted.remove(&pid); } else { wanted.insert(pid); }
            text += &format!("{}{pid} ", if remove { "!" } else { "" });
        }
        let new = shared.edited(text.as_bytes(), replace).expect("good words");
        prop_assert_eq!(pids(&new), wanted.iter().copied().collect::<Vec<_>>());
        shared.assign(&new).expect("memory");
        prop_assert_eq!(shared.len(), wanted.len());
        prop_assert_eq!(shared.is_empty(), wanted.is_empty());
        prop_assert!((0..20_000).all(|pid| shared.contains(pid) == wanted.contains(&pid)));
    }

    #[test]
    fn any_bytes(text: Vec<u8>, more in "[!0-9x \\n]{0,40}") {
        let set = set([3]);
        for text in [&text[..], more.as_bytes()] {
            let _ = set.edited(text, true);
            is_beginning(text);
        }
        prop_assert_eq!(pids(&set), [3]);
    }
}

/// Returns the ID that is remembered, of some.
fn remembered(outsider: &Outsider) -> Vec<u32> {
    let ids = [0, 1, 5, PID_LIMIT - 1];
    ids.into_iter().filter(|id| outsider.is(*id)).collect()
}

#[test]
fn outsiders_are_remembered() {
    let outsider = Outsider::new();
    assert_eq!(remembered(&outsider), []);
    for pid in [0, 5, PID_LIMIT - 1, 5] {
        outsider.remember(pid, || true);
        assert_eq!(remembered(&outsider), [pid]);
    }
    outsider.forget_task(1);
    assert_eq!(remembered(&outsider), [5]);
    outsider.forget_task(5);
    assert_eq!(remembered(&outsider), []);
    outsider.remember(0, || true);
    outsider.forget();
    assert_eq!(remembered(&outsider), []);
    // A task that is not left out is not remembered, and takes the place of one that is.
    outsider.remember(1, || true);
    outsider.remember(5, || false);
    assert_eq!(remembered(&outsider), []);
}

/// While a task is looked up, its list is changed, or an interrupt looks up the same task.
#[test]
fn outsiders_are_asked_for_again_after_a_change() {
    let outsider = Outsider::new();
    outsider.remember(5, || {
        assert_eq!(remembered(&outsider), []);
        outsider.forget();
        true
    });
    assert_eq!(remembered(&outsider), []);
    outsider.remember(5, || {
        outsider.forget_task(1);
        true
    });
    assert_eq!(remembered(&outsider), [5]);
    outsider.remember(5, || {
        outsider.forget_task(5);
        true
    });
    assert_eq!(remembered(&outsider), []);
    for now in [true, false] {
        outsider.remember(5, || {
            outsider.forget();
            outsider.remember(5, || now);
            true
        });
        assert_eq!(remembered(&outsider).is_empty(), !now);
    }
}

#[test]
fn room_and_walks() {
    let from = set([0, 63, 64, 5000, PID_LIMIT - 1]);
    let other = PidSet::new().expect("memory");
    assert!(!other.has_room(5000));
    other.make_room_for(&from).expect("memory");
    assert!(other.has_room(5000) && other.has_room(0) && !other.has_room(100_000));
    assert!(other.is_empty());
    other.make_room(100_000).expect("memory");
    assert!(other.has_room(100_000));
    let mut walked = Vec::new();
    from.for_each(|pid| walked.push(pid));
    assert_eq!(walked, pids(&from));
    from.clear();
    assert!(from.is_empty() && from.has_room(5000));
}

#[test]
fn a_set_follows_what_is_said_of_an_id() {
    let pids = PidSet::new().expect("memory");
    // What is not to be in needs no room.
    assert_eq!(pids.follow(77, || false), Ok(false));
    assert_eq!(pids.follow(77, || true), Err(AllocError));
    pids.make_room_now(77).expect("memory");
    for wanted in [true, true, false, false, true] {
        assert_eq!(pids.follow(77, || wanted), Ok(wanted));
        assert_eq!(pids.contains(77), wanted);
    }
    // What is said changes in between: it is asked once more.
    let answers = RefCell::new(vec![false, false, false, true]);
    let said = || answers.borrow_mut().pop().expect("asked once too often");
    assert_eq!(pids.follow(5, said), Ok(false));
    assert!(!pids.contains(5) && answers.borrow().is_empty());
}

/// Several follow at once while what is said changes: in the end the set is as it said last.
#[test]
fn a_set_follows_in_many_threads() {
    use std::sync::atomic::{AtomicU32, Ordering};
    for round in 0..rounds(2000) as u32 {
        let pids = PidSet::new().expect("memory");
        pids.make_room(3).expect("memory");
        let said = AtomicU32::new(round);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    said.fetch_add(round % 3 + 1, Ordering::SeqCst);
                    let is_in = || said.load(Ordering::SeqCst) % 2 == 1;
                    pids.follow(3, is_in).expect("memory");
                });
            }
        });
        assert_eq!(pids.contains(3), said.into_inner() % 2 == 1);
    }
}
