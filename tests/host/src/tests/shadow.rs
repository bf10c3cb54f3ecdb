// SPDX-License-Identifier: GPL-2.0

use proptest::prelude::*;

use crate::engine::profile::contexts::CallContext;
use crate::engine::shadow::{flags_of, secret, switched, tag, Shadow, IN_IRQ, SHOWN, SKIP, WAIT};
use crate::engine::shared_frame::{self, Seat};
use crate::engine::waiting::{Wait, WakeContext, Waker};
use crate::platform::Word;

const BASE: u64 = 0xffff_8881_0000_1000;
const SESSION: u64 = 0xffff_8881_2345_6780;

fn words(values: &[u64]) -> Vec<Word> {
    values.iter().map(|value| Word::new(*value)).collect()
}

/// Returns the tag of word `index`.
fn mark_at(index: usize, secret: u64, flags: u64) -> u64 {
    tag(BASE + 8 * index as u64, secret, flags)
}

#[test]
fn nothing() {
    let shadow = Shadow::new(&[], BASE, secret(SESSION, 3));
    assert!(shadow.innermost().is_none());
    assert_eq!(shadow.frames().count(), 0);
}

#[test]
fn flags_are_those_of_the_mark() {
    let secret = secret(SESSION, 3);
    let words = words(&[mark_at(0, secret, SKIP), 5, 6]);
    let frame = Shadow::new(&words, BASE, secret)
        .innermost()
        .expect("a call");
    assert_eq!(frame.flags(), SKIP);
    frame.set(SHOWN);
    assert_eq!(frame.flags(), SKIP | SHOWN);
    assert_eq!((frame.word(1), frame.word(2), frame.word(9)), (5, 6, 0));
}

#[test]
fn marks_of_others_are_none() {
    let own = secret(SESSION, 3);
    for other in [
        secret(SESSION + 8, 3),
        secret(SESSION ^ (1 << 63), 3),
        secret(SESSION, 5),
    ] {
        assert_ne!(own, other);
        let words = words(&[mark_at(0, other, 0)]);
        assert!(Shadow::new(&words, BASE, own).innermost().is_none());
    }
    // Nor one that was copied to another place.
    let words = words(&[0, mark_at(0, own, 0)]);
    assert!(Shadow::new(&words, BASE, own).innermost().is_none());
}

#[test]
fn time_asleep() {
    let secret = secret(SESSION, 5);
    let words = words(&[mark_at(0, secret, 0), 0, 0, 0, 0]);
    let frame = Shadow::new(&words, BASE, secret)
        .innermost()
        .expect("a call");
    // A caller in the middle has not seen it stop.
    frame.wakes(1000);
    assert_eq!(frame.word(4), 0);
    frame.sleeps(1000);
    frame.wakes(1300);
    frame.sleeps(u64::MAX >> 1);
    frame.wakes((u64::MAX >> 1) + 7);
    frame.add_sleep(20);
    assert_eq!(frame.word(4), 327);
    frame.sleeps(5000);
    frame.sleeps(6000);
    frame.wakes(7000);
    assert_eq!(frame.word(4), 2327);
}

#[test]
fn the_innermost_call_of_both_tasks_learns_of_a_switch() {
    let secret = secret(SESSION, 5);
    let of_task = |flags| {
        let tag = |index| mark_at(index, secret, flags);
        words(&[tag(0), 0, 0, 0, 0, tag(5), 0, 0, 0, 0])
    };
    let (one, other) = (of_task(0), of_task(SHOWN));
    let shadow = |words| Shadow::new(words, BASE, secret);
    let slept = |words| {
        shadow(words)
            .frames()
            .map(|frame| frame.word(4))
            .collect::<Vec<_>>()
    };
    switched(shadow(&one), shadow(&[]), || Some(1000));
    switched(shadow(&other), shadow(&one), || Some(1007));
    assert_eq!(slept(&one), [0, 7]);
    assert!(switched(shadow(&one), shadow(&other), || None).is_none());
    switched(shadow(&[]), shadow(&other), || Some(1100));
    assert_eq!((slept(&one), slept(&other)), (vec![0, 7], vec![0, 93]));
    let nobody = || panic!("nobody wants the time");
    assert!(switched(shadow(&[]), shadow(&[]), nobody).is_none());
}

proptest! {
    /// Calls of any length are found among the words of others.
    #[test]
    fn exactly_the_calls_that_are_open(
        parts in prop::collection::vec((0..4usize, 0..8u64, any::<[u64; 4]>()), 0..12),
        session: u64,
    ) {
        let secret = secret(session, 3);
        let mut values = Vec::new();
        let mut tagged = Vec::new();
        for (others, flags, data) in parts {
            values.extend_from_slice(&data[..others]);
            tagged.push((values.len(), flags));
            values.extend([mark_at(values.len(), secret, flags), data[0], data[1]]);
        }
        // Words that are tags by chance are so few that none is met here.
        let words = words(&values);
        let shadow = Shadow::new(&words, BASE, secret);
        let found: Vec<_> = shadow.frames().map(|frame| (frame.word(1), frame.flags())).collect();
        let wanted: Vec<_> = (tagged.iter()).map(|&(at, flags)| (values[at + 1], flags)).collect();
        prop_assert_eq!(found, wanted.clone());
        let innermost = shadow.innermost().map(|frame| (frame.word(1), frame.flags()));
        prop_assert_eq!(innermost, wanted.last().copied());
    }

    #[test]
    fn marks_say_their_flags(address: u64, session: u64, flags in 0..8u64) {
        let address = address & !7;
        let secret = secret(session, 5);
        prop_assert_eq!(flags_of(tag(address, secret, flags), address, secret), Some(flags));
        prop_assert_eq!(flags_of(tag(address, secret, flags) ^ 8, address, secret), None);
    }
}

const _: () = assert!(SKIP | IN_IRQ | SHOWN == 7);

#[test]
fn shared_calls_are_known_by_their_seats() {
    const MACHINE: u64 = 0x1234_5678_9abc_def0;
    let own = secret(SESSION, 5);
    let of_machine = secret(MACHINE, shared_frame::WORDS);
    let (one, other) = (1, 6);
    let marks = shared_frame::marks(9)
        | shared_frame::mark(one, IN_IRQ, 0)
        | shared_frame::mark(other, 0, 2);
    let words = words(&[
        mark_at(0, own, SKIP),
        1,
        2,
        3,
        0,
        mark_at(5, of_machine, 0),
        marks,
        70,
        71,
        72,
        73,
        74,
    ]);
    let seat = |number, own_start, since| Seat {
        number,
        own_start,
        sleeps: true,
        since,
    };
    let shadow = |seat: Option<Seat>| {
        let alone = Shadow::new(&words, BASE, own);
        seat.map_or(alone, |seat| alone.seated(seat, of_machine))
    };
    let innermost = |seat| shadow(seat).innermost().expect("a call");
    // Without a seat, or one that came later, the shared call is none.
    for seat in [None, Some(seat(2, false, 0)), Some(seat(one, false, 10))] {
        assert_eq!(innermost(seat).index(), 0);
        assert_eq!(shadow(seat).frames().count(), 1);
    }
    let frame = innermost(Some(seat(one, false, 9)));
    assert_eq!(
        (frame.index(), frame.flags(), frame.call()),
        (5, IN_IRQ, None)
    );
    assert_eq!((frame.start(), frame.info()), (70, 71));
    frame.set(SHOWN);
    assert_eq!(frame.flags(), IN_IRQ | SHOWN);
    let second = innermost(Some(seat(other, true, 4)));
    assert_eq!((second.flags(), second.start(), second.info()), (0, 74, 73));
    frame.add_sleep(5);
    frame.add_within(10);
    assert_eq!((frame.word(3), frame.word(4)), (81, 77));
    frame.sleeps(100);
    frame.wakes(130);
    assert_eq!(frame.word(4), 107);
    assert_eq!(frame.context(), CallContext(73));
    // The call around it is the user's alone.
    let frames: Vec<_> = shadow(Some(seat(one, false, 9))).frames().collect();
    assert_eq!(frames.len(), 2);
    assert_eq!(
        (frames[0].start(), frames[0].info(), frames[0].call()),
        (1, 2, Some(3))
    );
}

/// A task that goes on says what it has waited for, once, in its innermost call; one that did not
/// stop while it was watched says nothing.
#[test]
fn waits() {
    let secret = secret(SESSION, 6);
    let words = words(&[
        mark_at(0, secret, 0),
        1,
        2,
        3,
        0,
        0,
        mark_at(6, secret, 0),
        1,
        2,
        3,
        0,
        0,
    ]);
    let shadow = || Shadow::new(&words, BASE, secret).with_waits_at(Some(WAIT));
    let none = || Shadow::new(&[], BASE, secret);
    let waker = Waker::new(77, WakeContext::Task);
    // The task has been in queues for so many ns in its life.
    let life = (1 << 50) - 100;
    let stop = |now, life| {
        let switched = switched(shadow(), none(), || Some(now)).expect("a call");
        assert!(switched.gone_on.is_none());
        assert_eq!(switched.now, now);
        switched.stopped.expect("it was awake").begin_wait(life);
    };
    let go_on = |now, life, waker| {
        let switched = switched(none(), shadow(), || Some(now)).expect("a call");
        assert!(switched.stopped.is_none());
        switched.gone_on.expect("it stopped").end_wait(life, waker);
    };
    let has_not_stopped = |now| {
        let switched = switched(none(), shadow(), || Some(now)).expect("a call");
        assert!(switched.gone_on.is_none());
    };
    has_not_stopped(900);
    stop(1000, life);
    go_on(1500, life + 300, waker);
    has_not_stopped(1600);
    let values: Vec<u64> = words.iter().map(Word::load_relaxed).collect();
    assert_eq!(values[10..], [500, Wait::new(300, waker).0]);
    assert_eq!(values[4..6], [0, 0]);
    // A later one adds to it.
    stop(2000, life + 310);
    go_on(2100, life + 350, Waker::default());
    let frame = shadow().innermost().expect("a call");
    assert_eq!(frame.word(4), 600);
    let both = Wait(frame.word(5));
    assert_eq!((both.queued(), both.waker().pid()), (340, 77));
    // The call around it has its waits, too, when it returns.
    let outer = shadow().frames().next().expect("a call");
    outer.add_sleep(frame.word(4));
    outer.add_wait(both);
    assert_eq!((outer.word(4), Wait(outer.word(5))), (600, both));
    // What has no word for waits is not written: there is something else.
    let shorter = Shadow::new(&words, BASE, secret);
    let stopped = switched(shorter, none(), || Some(3000)).and_then(|both| both.stopped);
    stopped.expect("a call").begin_wait(0);
    let gone_on = switched(none(), shorter, || Some(3100)).and_then(|both| both.gone_on);
    gone_on.expect("a call").end_wait(400, waker);
    shorter.innermost().expect("a call").add_wait(both);
    assert_eq!((frame.word(4), Wait(frame.word(5))), (700, both));
}
