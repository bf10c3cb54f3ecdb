// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Property tests: compares the selection of made-up machines' events with what the machines did.

use proptest::prelude::*;
use rftrace_engine::engine::decode::EventKind;

use super::*;
use crate::calls::properties::{config, machine, steps, symbolizer};
use crate::sample::machine::{ip, MachineStep, SampleMachine, TrueCall};

/// One end of a call: its time, function and depth, and the duration if it has ended.
type CallEdge = (u64, u64, u8, Option<u64>);

/// Returns names of some functions.
fn names() -> impl Strategy<Value = Vec<String>> {
    prop_oneof![
        2 => Just(Vec::new()),
        1 => prop::collection::vec((0..6_u8).prop_map(|number| format!("f{number}")), 1..4),
        1 => Just(vec!["f[0-2]".to_owned()]),
    ]
}

fn selections() -> impl Strategy<Value = Selection> {
    let pids = prop_oneof![
        2 => Just(Vec::new()),
        1 => prop::collection::vec(100..104, 1..3),
    ];
    let depth = prop::option::weighted(0.3, 1..4_u16);
    let threshold = prop::option::weighted(0.3, 0..2000_u64);
    (names(), names(), names(), pids, depth, threshold).prop_map(
        |(roots, functions, not_functions, pids, depth, threshold)| Selection {
            roots: Globs::new(roots),
            functions: Globs::new(functions),
            not_functions: Globs::new(not_functions),
            pids,
            depth,
            threshold,
        },
    )
}

/// Returns whether a call is shown; `around` are the shown calls around it, innermost last.
fn is_shown(
    machine: &SampleMachine,
    selection: &Selection,
    call: &TrueCall,
    around: usize,
) -> bool {
    let name = |call: &TrueCall| {
        let number = (0..6).find(|number| ip(*number) == call.ip);
        format!("f{}", number.unwrap())
    };
    let above = |call: &TrueCall| call.around.map(|around| machine.calls[around].clone());
    let mut way = std::iter::successors(Some(call.clone()), above);
    let is_in_root =
        selection.roots.is_empty() || way.any(|call| selection.roots.matches(&name(&call)));
    let name = name(call);
    let duration = call.end.unwrap_or(machine.last) - call.begin;
    let pids = &selection.pids;
    is_in_root
        && (selection.functions.is_empty() || selection.functions.matches(&name))
        && !selection.not_functions.matches(&name)
        && selection.threshold.is_none_or(|least| duration >= least)
        && selection
            .depth
            .is_none_or(|most| around < usize::from(most))
        && (pids.is_empty() || pids.contains(&call.task.pid()) || pids.contains(&call.task.tgid()))
}

fn expected(machine: &SampleMachine, selection: &Selection) -> Vec<CallEdge> {
    // By call: whether it is shown, and the number of shown calls around it.
    let mut shown: Vec<(bool, usize)> = Vec::new();
    let mut ends = Vec::new();
    for call in &machine.calls {
        let around = call.around.map_or(0, |around| {
            let (is_shown, depth) = shown[around];
            depth + usize::from(is_shown)
        });
        let is_shown = is_shown(machine, selection, call, around);
        shown.push((is_shown, around));
        if is_shown {
            ends.push((call.begin, call.ip, around as u8, None));
            ends.extend(
                call.end
                    .map(|end| (end, call.ip, around as u8, call.duration())),
            );
        }
    }
    ends.sort_unstable();
    ends
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_is_selected_is_what_was_asked_for(
        cpus in 1..4_u8, mut steps in steps(false), selection in selections(),
    ) {
        // Where an entry is not recorded yet, the depth of an interrupt cannot be known.
        for (step, _) in &mut steps {
            if let MachineStep::InterruptedEntry { cpu, function } = *step {
                *step = MachineStep::Begin { cpu, function };
            }
        }
        let machine = machine(cpus, 0, &steps);
        let long = LongCalls::find(&mut machine.events().unwrap(), selection.threshold.unwrap_or(0));
        let mut events =
            Selected::new(machine.events().unwrap(), selection.clone(), long.unwrap(), symbolizer());
        let mut told: Vec<CallEdge> = Vec::new();
        let mut last = 0;
        while let Some(Item { event, .. }) = events.next().unwrap() {
            prop_assert!(event.time >= last);
            last = event.time;
            let end = (event.time, event.ip, event.depth, Some(event.duration));
            match event.what {
                EventKind::Entry => told.push((event.time, event.ip, event.depth, None)),
                EventKind::Return => told.push(end),
                EventKind::Call => {
                    told.push((event.time, event.ip, event.depth, None));
                    told.push((event.time + event.duration, event.ip, event.depth, Some(event.duration)));
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }
        told.sort_unstable();
        prop_assert_eq!(told, expected(&machine, &selection));
    }

    /// Calls whose entries were not seen are taken for what their returns tell.
    #[test]
    fn returns_alone_pass_no_filter_that_they_should_not(
        cpus in 1..4_u8, hidden in 0..60_usize, steps in steps(false), selection in selections(),
    ) {
        let machine = machine(cpus, hidden, &steps);
        let long = LongCalls::find(&mut machine.events().unwrap(), selection.threshold.unwrap_or(0));
        let mut events =
            Selected::new(machine.events().unwrap(), selection.clone(), long.unwrap(), symbolizer());
        while let Some(Item { event, .. }) = events.next().unwrap() {
            let number = (0..6).find(|number| ip(*number) == event.ip);
            let name = format!("f{}", number.unwrap());
            prop_assert!(selection.functions.is_empty() || selection.functions.matches(&name));
            prop_assert!(!selection.not_functions.matches(&name));
            prop_assert!(selection.depth.is_none_or(|most| u16::from(event.depth) < most));
            let least = selection.threshold.unwrap_or(0);
            prop_assert!(event.what == EventKind::Entry || event.duration >= least);
        }
    }

    /// Events that are left out pass their losses on to others.
    #[test]
    fn losses_are_passed_on(cpus in 1..4_u8, steps in steps(true), selection in selections()) {
        let machine = machine(cpus, 0, &steps);
        let selected = |selection| {
            let long = LongCalls::find(&mut machine.events().unwrap(), 0).unwrap();
            Selected::new(machine.events().unwrap(), selection, long, symbolizer())
        };
        let mut all = selected(Selection::default());
        let mut lost = 0;
        while let Some(item) = all.next().unwrap() {
            lost += item.event.lost;
        }
        prop_assert_eq!(lost, machine.lost);
        let mut some = selected(Selection { threshold: None, ..selection });
        let mut told = 0;
        while let Some(item) = some.next().unwrap() {
            told += item.event.lost;
            // It is reported, since a time that the events cannot be older than.
            prop_assert!(item.event.lost == 0 || some.lost_since().is_some_and(|since| since <= item.event.time));
        }
        prop_assert!(told <= lost);
        let kept: u64 = some.lost.values().sum();
        prop_assert_eq!(told + kept, lost);
    }
}
