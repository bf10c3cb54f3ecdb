// SPDX-License-Identifier: GPL-2.0

//! Functions that are shared, against a model on maps.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::cases;
use crate::engine::function_set::FunctionSet;
use crate::engine::plan::{Calls, FrameKind, ProfiledCalls, Roles};
use crate::engine::shared_frame::{Seat, ROOM, SEATS};
use crate::engine::sharing::{Part, ShareError, Shares, Subscriber, Watch};
use crate::platform::memory;

/// The functions of an instance, by their watches, and what it wants of them.
#[derive(Clone, Debug)]
struct Wants {
    /// Function by function: not, plain, root, skipped, plain.
    calls: Option<Vec<u8>>,
    frames: usize,
    takes_sleep: bool,
    /// As for `calls`.
    counted: Option<Vec<u8>>,
    without_calls: bool,
    without_sleep: bool,
    contexts: bool,
    waits: bool,
    own_start: bool,
}

const FUNCTIONS: usize = 6;

const FRAMES: [FrameKind; 5] = [
    FrameKind::Plain,
    FrameKind::Tagged,
    FrameKind::Long,
    FrameKind::Waits,
    FrameKind::Errno,
];

fn ip(function: usize) -> usize {
    0x1000 + function * 0x10
}

fn set(is_in: impl Fn(usize) -> bool) -> FunctionSet {
    let ips = (0..FUNCTIONS).filter(|it| is_in(*it)).map(ip);
    FunctionSet::from_sorted(ips).expect("memory")
}

fn wants() -> impl Strategy<Value = Wants> {
    let calls = prop::option::weighted(0.7, prop::collection::vec(0..5u8, FUNCTIONS));
    let counted = prop::option::weighted(
        0.4,
        prop_oneof![
            prop::collection::vec(0..2u8, FUNCTIONS),
            prop::collection::vec(0..5u8, FUNCTIONS),
        ],
    );
    let flags = (
        prop_oneof![12 => 0..3usize, 1 => 3..5usize],
        prop::bool::weighted(0.2),
        any::<[bool; 3]>(),
        [prop::bool::weighted(0.2), prop::bool::weighted(0.1)],
    );
    (calls, counted, flags).prop_map(
        |(calls, counted, (frames, sleep, without, [own_start, waits]))| Wants {
            calls,
            frames,
            takes_sleep: (sleep && frames == 2) || frames == 3,
            counted,
            without_calls: without[0],
            without_sleep: without[1],
            contexts: without[2],
            waits,
            own_start,
        },
    )
}

fn roles(of: &[u8]) -> Roles {
    let roots = set(|it| of[it] == 2);
    Roles {
        plain: set(|it| matches!(of[it], 1 | 4)),
        is_rooted: !roots.is_empty(),
        roots,
        skip: set(|it| of[it] == 3),
    }
}

struct Parts {
    calls: Option<Calls>,
    counted: Option<ProfiledCalls>,
}

impl Wants {
    fn parts(&self) -> Parts {
        let calls = self.calls.as_ref().map(|calls| Calls {
            frames: FRAMES[self.frames],
            roles: roles(calls),
            takes_sleep: self.takes_sleep,
        });
        let counted = self.counted.as_ref().map(|counted| ProfiledCalls {
            roles: roles(counted),
            without_calls: self.without_calls,
            without_sleep: self.without_sleep,
            contexts: self.contexts,
            waits: self.waits,
        });
        Parts { calls, counted }
    }

    /// Returns the watch of a function and the number of words, of tracer and profile.
    fn model(&self, function: usize) -> [Option<(Watch, usize)>; 2] {
        let own = usize::from(self.own_start);
        let context = usize::from(self.contexts);
        let traced = self.calls.as_ref().and_then(|calls| {
            let plain = if self.frames == 0 {
                Watch::Plain
            } else {
                Watch::Tagged
            };
            let watch = [
                None,
                Some(plain),
                Some(Watch::Root),
                Some(Watch::Skip),
                Some(plain),
            ];
            watch[usize::from(calls[function])]
        });
        let counted = self
            .counted
            .as_ref()
            .filter(|counted| counted[function] != 0);
        let is_marked = |counted: &Vec<u8>| counted.iter().any(|it| matches!(it, 2 | 3));
        let is_nested = self.without_calls
            || self.without_sleep
            || self.waits
            || self.own_start
            || counted.is_some_and(is_marked);
        let words = match FRAMES[self.frames] {
            // No other has room beside it.
            FrameKind::Waits | FrameKind::Errno => ROOM + 1,
            _ => 1 + own + usize::from(self.takes_sleep),
        };
        [
            traced.map(|watch| (watch, words)),
            counted.map(|counted| {
                let nested = match counted[function] {
                    2 | 3 => Watch::NestedRole,
                    _ => Watch::Nested,
                };
                match is_nested {
                    // Likewise.
                    true if self.waits => (nested, ROOM + 1),
                    true => {
                        let words = 1 + own + usize::from(self.without_sleep) + context;
                        (nested, words)
                    }
                    false => (Watch::Counted, 1 + context),
                }
            }),
        ]
    }
}

fn subscribers<'a>(wants: &[Wants], parts: &'a [Parts]) -> Vec<Subscriber<'a>> {
    let of = |(wants, parts): (&Wants, &'a Parts)| {
        let tracer = parts
            .calls
            .as_ref()
            .map(|calls| Subscriber::tracer(calls, wants.own_start));
        let profile =
            (parts.counted.as_ref()).map(|counted| Subscriber::profile(counted, wants.own_start));
        [tracer, profile].map(|part| part.unwrap_or(Subscriber::none()))
    };
    wants.iter().zip(parts).flat_map(of).collect()
}

proptest! {
    #![proptest_config(cases(if cfg!(miri) { 8 } else { 2000 }))]

    #[test]
    fn each_function_is_hooked_once(all in prop::collection::vec(wants(), 0..6)) {
        let parts: Vec<Parts> = all.iter().map(Wants::parts).collect();
        let subscribers = subscribers(&all, &parts);
        // By function: the numbers of parts that watch it, how, and their words.
        let model: Vec<Vec<(usize, Watch, usize)>> = (0..FUNCTIONS)
            .map(|function| {
                let watches = all.iter().flat_map(|wants| wants.model(function)).enumerate();
                watches.filter_map(|(number, it)| it.map(|(watch, words)| (number, watch, words))).collect()
            })
            .collect();
        let has_room = |watches: &Vec<(usize, Watch, usize)>| {
            watches.len() < 2 || watches.len() <= SEATS && watches.iter().map(|it| it.2).sum::<usize>() <= ROOM
        };
        let shares = match Shares::of(&subscribers) {
            Ok(shares) => shares,
            Err(ShareError::NoRoom(at)) => {
                let first = model.iter().position(|watches| !has_room(watches));
                prop_assert_eq!(Some(at), first.map(ip));
                return Ok(());
            }
            Err(error) => panic!("{error:?}"),
        };
        prop_assert!(model.iter().all(has_room));
        let mut found: Vec<Vec<(usize, Watch)>> = vec![Vec::new(); FUNCTIONS];
        let function_of = |ip: &usize| (ip - 0x1000) / 0x10;
        for (number, sets) in shares.alone.iter().enumerate() {
            for (place, set) in sets.iter().enumerate() {
                for function in set.as_slice().iter().map(function_of) {
                    // The sets of one part keep their places.
                    let wants = &all[number / 2];
                    let watch = wants.model(function)[number % 2].expect("wanted").0;
                    let role = [&wants.calls, &wants.counted][number % 2].as_ref().expect("wanted")[function];
                    let wanted = match role { 2 => 1, 3 => 2, _ => 0 };
                    prop_assert_eq!(place, wanted);
                    prop_assert!(found[function].is_empty());
                    found[function].push((number, watch));
                }
            }
        }
        // Seats, of which some are taken by calls that are open.
        let now = vec![None; subscribers.len()];
        let sharing: BTreeSet<usize> = shares.groups.iter().flat_map(|group| group.watchers().collect::<Vec<_>>()).collect();
        let seats = match shares.seats(&now, |_| panic!("none is in use")) {
            Ok(seats) => seats,
            Err(error) => {
                prop_assert_eq!(error, ShareError::NoSeat);
                prop_assert!(sharing.len() > SEATS);
                return Ok(());
            }
        };
        let given: BTreeSet<usize> = seats.iter().flatten().copied().collect();
        prop_assert_eq!(given.len(), sharing.len());
        for (number, seat) in seats.iter().enumerate() {
            prop_assert_eq!(seat.is_some(), sharing.contains(&number));
        }
        // They are kept.
        let again = shares.seats(&seats, |_| false).expect("seats");
        prop_assert_eq!(&again[..], &seats[..]);
        let mut roles = BTreeMap::new();
        for group in shares.groups.iter() {
            let parts = group.parts(&seats).expect("seats");
            prop_assert!(roles.insert(parts.0, ()).is_none(), "two groups are alike");
            for function in group.functions.as_slice().iter().map(function_of) {
                prop_assert!(found[function].is_empty());
                let mut used = BTreeSet::new();
                for &(number, watch, words) in &model[function] {
                    let part = parts.of(seats[number].expect("a seat"));
                    prop_assert_eq!(part.watch(), watch);
                    let role = all[number / 2].counted.as_ref().map(|counted| counted[function]);
                    let own_start = match watch {
                        Watch::NestedRole => role == Some(2),
                        _ => all[number / 2].own_start,
                    };
                    prop_assert_eq!(part.own_start(), own_start);
                    if watch == Watch::NestedRole {
                        prop_assert_eq!(part.is_root(), role == Some(2));
                    } else {
                        // What else its seat says of it.
                        let known = subscribers[number].attributes();
                        prop_assert_eq!(part.sleeps(), known.sleeps());
                        prop_assert_eq!(part.has_context(), known.has_context());
                        let is_profile = number % 2 == 1;
                        let last = usize::from(is_profile && part.has_context());
                        prop_assert_eq!(part.before_context() + last, words);
                    }
                    for word in part.place()..part.place() + words {
                        prop_assert!(word < ROOM && used.insert(word), "words overlap");
                    }
                    found[function].push((number, watch));
                }
                let (profiles, tracers) = parts.split();
                for seat in 0..SEATS {
                    let part = parts.of(seat);
                    let is_profile = matches!(part.watch(), Watch::Counted | Watch::Nested | Watch::NestedRole);
                    prop_assert_eq!(profiles.of(seat), if is_profile { part } else { Part(0) });
                    prop_assert_eq!(tracers.of(seat), if is_profile { Part(0) } else { part });
                }
                let watched = (0..SEATS).filter(|seat| parts.of(*seat).watch() != Watch::Not).count();
                prop_assert_eq!(watched, model[function].len());
            }
        }
        for (found, model) in found.iter().zip(&model) {
            let model: Vec<_> = model.iter().map(|it| (it.0, it.1)).collect();
            prop_assert_eq!(found, &model);
        }
    }

    #[test]
    fn memory_runs_out_anywhere(all in prop::collection::vec(wants(), 0..4)) {
        let parts: Vec<Parts> = all.iter().map(Wants::parts).collect();
        let subscribers = subscribers(&all, &parts);
        let now = vec![None; subscribers.len()];
        for left in 0.. {
            let done = memory::with_allocations(left, || {
                Shares::of(&subscribers)?.seats(&now, |_| false).map(drop)
            });
            if done != Err(ShareError::OutOfMemory) {
                break;
            }
            prop_assert!(left < 1000);
        }
    }
}

#[test]
fn seats_that_are_held() {
    let calls = |plain| Calls {
        frames: FrameKind::Plain,
        roles: Roles {
            plain,
            ..Roles::none()
        },
        takes_sleep: false,
    };
    let all: Vec<Calls> = (0..9)
        .map(|it| calls(set(|function| function == it / 2)))
        .collect();
    let parts: Vec<_> = all
        .iter()
        .map(|calls| Subscriber::tracer(calls, false))
        .collect();
    let shares = Shares::of(&parts).expect("room");
    // Eight of them share, the last one does not.
    let seats = shares.seats(&[None; 9], |_| false).expect("seats");
    assert_eq!(seats.iter().flatten().count(), 8);
    assert_eq!(seats[8], None);
    // Its seat is still known by open calls: there is none for another.
    let mut now = [None; 9];
    now[8] = Some(3);
    assert_eq!(
        shares.seats(&now, |seat| seat == 3).map(drop),
        Err(ShareError::NoSeat)
    );
    assert!(shares.seats(&now, |_| false).is_ok());
    assert_eq!(Seat::of(0), None);
    assert_eq!(Part(0).watch(), Watch::Not);
}
