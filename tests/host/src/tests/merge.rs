// SPDX-License-Identifier: GPL-2.0

use proptest::prelude::*;

use crate::engine::decode::Event;
use crate::engine::merge::{EventSource, Merge};

struct List(u32, std::vec::IntoIter<Event>);

impl EventSource for List {
    type Event = Event;

    fn cpu(&self) -> u32 {
        self.0
    }

    fn next(&mut self) -> Option<Event> {
        self.1.next()
    }
}

/// Merges lists of times; `ip` tells apart events of one time and CPU.
fn merged(lists: &[(u32, Vec<u64>)]) -> Vec<(u64, u32, u64)> {
    let mut merge = Merge::new();
    for (cpu, times) in lists {
        let events = times.iter().zip(0..).map(|(&time, ip)| Event {
            time,
            ip,
            ..Event::default()
        });
        let list = List(*cpu, events.collect::<Vec<_>>().into_iter());
        merge.add(list).expect("memory");
    }
    let next = || {
        let (source, event) = merge.next()?;
        Some((event.time, source.cpu(), event.ip))
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn nothing() {
    assert_eq!(merged(&[]), []);
    assert_eq!(merged(&[(0, vec![]), (1, vec![])]), []);
}

#[test]
fn equal_times() {
    let lists = [(2, vec![5]), (0, vec![5, 5]), (1, vec![4, 5])];
    let wanted = [(4, 1, 0), (5, 0, 0), (5, 0, 1), (5, 1, 1), (5, 2, 0)];
    assert_eq!(merged(&lists), wanted);
}

proptest! {
    #[test]
    fn sorted_and_nothing_lost(lists in prop::collection::vec(
        prop::collection::vec(prop_oneof![0..20u64, any::<u64>()], 0..20),
        0..9,
    )) {
        let lists: Vec<_> = (0..)
            .zip(lists)
            .map(|(cpu, mut times)| {
                times.sort();
                (cpu, times)
            })
            .collect();
        let mut wanted: Vec<_> = lists
            .iter()
            .flat_map(|(cpu, times)| times.iter().zip(0..).map(|(&time, ip)| (time, *cpu, ip)))
            .collect();
        wanted.sort();
        prop_assert_eq!(merged(&lists), wanted);
    }
}
