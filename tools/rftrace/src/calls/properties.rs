// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Property tests: compares the analysis of made-up machines' records with what the machines did.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use proptest::prelude::*;

use super::*;
use crate::kernel::KernelSymbols;
use crate::sample::machine::{ip, symbols, MachineStep, SampleMachine, TrueCall};
use crate::stream::Events;
use crate::symbolizer::Symbolizer;

/// Returns a configuration of many machines, and no files of those that failed: a failure is fixed,
/// or made a test of its own.
pub(crate) fn config() -> ProptestConfig {
    ProptestConfig {
        cases: ProptestConfig::default().cases.max(1500),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Returns steps, with more calls than returns so that they nest, and losses if asked for.
pub(crate) fn steps(has_losses: bool) -> impl Strategy<Value = Vec<(MachineStep, u16)>> {
    let step = (any::<u8>(), 0..3_u8, any::<u8>()).prop_map(move |(kind, cpu, argument)| {
        let function = argument;
        match kind % 32 {
            0..11 => MachineStep::Begin { cpu, function },
            11..23 => MachineStep::End { cpu },
            23..25 => MachineStep::Interrupt {
                cpu,
                function,
                is_hard: argument >= 128,
            },
            25 => MachineStep::InterruptedEntry { cpu, function },
            26..29 => MachineStep::Run {
                cpu,
                task: argument,
            },
            29 if has_losses => MachineStep::Lose {
                cpu,
                events: argument,
            },
            29 => MachineStep::End { cpu },
            _ => MachineStep::Cut {
                cpu,
                is_within: argument >= 128,
            },
        }
    });
    prop::collection::vec((step, 0..200_u16), 0..150)
}

/// Returns a machine that did the steps, and recorded all but the first ones.
pub(crate) fn machine(cpus: u8, hidden: usize, steps: &[(MachineStep, u16)]) -> SampleMachine {
    let mut machine = SampleMachine::new(cpus, false);
    for (number, (step, after)) in steps.iter().enumerate() {
        if number == hidden {
            machine.start();
        }
        machine.step(*step, *after);
    }
    machine.tell_losses();
    machine
}

pub(crate) fn symbolizer() -> Rc<RefCell<Symbolizer>> {
    let symbols = KernelSymbols::of_text(&symbols()).unwrap();
    Rc::new(RefCell::new(Symbolizer::new(symbols)))
}

/// A call as a visitor sees it.
#[derive(Clone, Debug, PartialEq)]
struct VisitedCall {
    function: Option<FunctionId>,
    /// The functions around, innermost first; one unknown stands for several.
    around: Vec<Option<FunctionId>>,
    finished: Option<Finished>,
}

/// A visitor that remembers all calls.
#[derive(Default)]
struct Witness(Vec<VisitedCall>);

impl Visitor for Witness {
    type Frame = usize;

    fn enter(&mut self, call: &BegunCall<'_>, around: Option<usize>) -> usize {
        let mut way = Vec::new();
        if let Some(around) = around {
            way.push(self.0[around].function);
            way.extend(self.0[around].around.iter().copied());
        }
        self.0.push(VisitedCall {
            function: call.function,
            around: way,
            finished: None,
        });
        self.0.len() - 1
    }

    fn leave(&mut self, frame: usize, call: &Finished) {
        assert_eq!(self.0[frame].finished.replace(*call), None);
    }

    fn hit(&mut self, _: &Task, _: FunctionId, _: Option<FunctionId>) {
        panic!("no function was recorded");
    }
}

fn assemble<V: Visitor>(
    machine: &SampleMachine,
    visitor: V,
    symbolizer: &Rc<RefCell<Symbolizer>>,
) -> (V, CallCounts) {
    let mut events = machine.events().unwrap();
    let mut assembler = Assembler::new(visitor, symbolizer.clone());
    assembler.run(&mut events, |_| {}).unwrap();
    assembler.finish()
}

/// Returns whether a call is an interrupt, as far as can be known: where nothing is known around,
/// that it is in one is enough.
fn is_root(machine: &SampleMachine, call: &TrueCall) -> bool {
    let around = |call: &TrueCall| call.around.map(|around| machine.calls[around].clone());
    let mut all = std::iter::successors(around(call), around);
    let known = all.find(|call| call.entry_is_recorded);
    call.level > known.map_or(0, |known| known.level)
}

/// Returns the functions around a call, as far as they can be known.
fn true_way(
    machine: &SampleMachine,
    call: &TrueCall,
    symbolizer: &RefCell<Symbolizer>,
) -> Vec<Option<FunctionId>> {
    let mut way = Vec::new();
    let mut inner = call;
    while let Some(around) = inner.around {
        let is_told = std::ptr::eq(inner, call) || inner.entry_is_recorded;
        if is_told && is_root(machine, inner) {
            break;
        }
        inner = &machine.calls[around];
        let is_known = inner.entry_is_recorded;
        way.push(is_known.then(|| symbolizer.borrow_mut().function(inner.ip)));
    }
    way
}

/// Returns the calls that have returned, by their begin.
fn by_begin(told: &[VisitedCall]) -> BTreeMap<u64, &VisitedCall> {
    let with_end =
        |end: CallEnd| move |told: &&VisitedCall| told.finished.is_some_and(|call| call.end == end);
    let returned = told.iter().filter(with_end(CallEnd::Returned));
    returned
        .map(|told| (told.finished.unwrap().begin, told))
        .collect()
}

/// Returns whether a call was open while events were lost: from after one event to before another.
fn is_across_loss(machine: &SampleMachine, call: &TrueCall) -> bool {
    let end = call.end.unwrap_or(u64::MAX);
    let mut losses = machine.losses.iter();
    losses.any(|(from, until)| *from < end && call.begin < *until)
}

proptest! {
    #![proptest_config(config())]

    /// Durations are right whatever is lost, and so are the calls' own times if they are reported
    /// at all.
    #[test]
    fn returned_calls_are_told_once_and_right(
        cpus in 1..4_u8, hidden in 0..20_usize, steps in steps(true),
    ) {
        let machine = machine(cpus, hidden, &steps);
        let symbolizer = symbolizer();
        let (witness, counts) = assemble(&machine, Witness::default(), &symbolizer);
        prop_assert_eq!(counts.lost, machine.lost);
        let told = by_begin(&witness.0);
        let expected = machine.calls.iter().filter(|call| call.end_is_recorded);
        let mut unknown = 0;
        let mut number = 0;
        for call in expected {
            number += 1;
            let Some(told) = told.get(&call.begin) else {
                return Err(TestCaseError::fail(format!("not told of {call:?}")));
            };
            let finished = told.finished.unwrap();
            prop_assert_eq!(told.function, Some(symbolizer.borrow_mut().function(call.ip)));
            prop_assert_eq!(Some(finished.duration), call.duration());
            let is_known = call.entry_is_recorded && !is_across_loss(&machine, call);
            prop_assert_eq!(
                finished.self_time, is_known.then_some(call.self_time), "{:?} {:?}", call, machine.losses
            );
            unknown += u64::from(!is_known);
        }
        prop_assert_eq!((counts.returned, counts.self_unknown), (number, unknown));
        prop_assert_eq!(told.len() as u64, number);
    }

    /// Callers, and the calls that are open, are right where nothing is lost.
    #[test]
    fn ways_are_right(cpus in 1..4_u8, hidden in 0..20_usize, steps in steps(false)) {
        let machine = machine(cpus, hidden, &steps);
        let symbolizer = symbolizer();
        let (witness, counts) = assemble(&machine, Witness::default(), &symbolizer);
        let told = by_begin(&witness.0);
        for call in machine.calls.iter().filter(|call| call.end_is_recorded) {
            let told = told[&call.begin];
            prop_assert_eq!(&told.around, &true_way(&machine, call, &symbolizer), "{:?}", call);
        }
        let mut open: Vec<_> = machine.calls.iter().filter(|call| call.end.is_none() && call.entry_is_recorded)
            .map(|call| (call.begin, machine.last - call.begin, Some(call.self_time))).collect();
        let with_end = |end: CallEnd| move |told: &VisitedCall| told.finished.filter(|call| call.end == end);
        let mut told: Vec<_> = witness.0.iter().filter_map(with_end(CallEnd::Open))
            .map(|call| (call.begin, call.duration, call.self_time)).collect();
        open.sort_unstable();
        told.sort_unstable();
        prop_assert_eq!(counts.open, open.len() as u64);
        prop_assert_eq!(told, open);
        prop_assert_eq!(counts.missed, 0);
    }

    /// The tree, and statistics by function and by caller, are right.
    #[test]
    fn counts_are_right(cpus in 1..4_u8, steps in steps(false)) {
        let machine = machine(cpus, 0, &steps);
        let symbolizer = symbolizer();
        let limits = MemoryLimits::default();
        let by_function = Analysis::new(GroupBy::Function, true, limits);
        let (by_function, _) = assemble(&machine, by_function, &symbolizer);
        let by_caller = Analysis::new(GroupBy::Caller, false, limits);
        let (by_caller, _) = assemble(&machine, by_caller, &symbolizer);
        let mut ways: BTreeMap<Vec<Label>, [u64; 3]> = BTreeMap::new();
        let mut functions: BTreeMap<FunctionId, (Vec<u64>, u64, u64)> = BTreeMap::new();
        let mut callers: BTreeMap<(Label, FunctionId), (u64, u64)> = BTreeMap::new();
        for call in machine.calls.iter().filter(|call| call.end.is_some()) {
            let way = true_way(&machine, call, &symbolizer);
            let function = symbolizer.borrow_mut().function(call.ip);
            let duration = call.duration().unwrap();
            let label = |function: &Option<FunctionId>| Label::Function(function.unwrap());
            let mut labels: Vec<Label> = way.iter().map(label).collect();
            let caller = labels.first().copied().unwrap_or(Label::Root);
            labels.insert(0, Label::Function(function));
            let counted = ways.entry(labels.clone()).or_default();
            *counted = [counted[0] + 1, counted[1] + duration, counted[2] + call.self_time];
            let of_function = functions.entry(function).or_default();
            of_function.0.push(duration);
            if !way.contains(&Some(function)) {
                of_function.1 += duration;
            }
            of_function.2 += call.self_time;
            let of_caller = callers.entry((caller, function)).or_default();
            of_caller.0 += 1;
            let again = labels.windows(2).skip(1).any(|pair| pair == &labels[..2]);
            if !again {
                of_caller.1 += duration;
            }
        }
        let tree = by_function.tree();
        let mut told: BTreeMap<Vec<Label>, [u64; 3]> = BTreeMap::new();
        for id in tree.ids() {
            let node = tree.node(id);
            prop_assert_eq!(node.self_unknown + node.missed, 0);
            if node.calls == 0 {
                continue;
            }
            let mut way: Vec<_> = tree.way(id).map(|id| tree.node(id).label).collect();
            prop_assert!(matches!(way.pop(), Some(Label::Comm(_))));
            let counted = told.entry(way).or_default();
            *counted = [counted[0] + node.calls, counted[1] + node.total, counted[2] + node.self_time];
        }
        prop_assert_eq!(told, ways);
        for (name, statistics) in by_function.groups().iter().filter(|(_, group)| group.calls != 0) {
            let GroupName::Function(function) = name else {
                return Err(TestCaseError::fail(format!("{name:?}")));
            };
            let Some((mut durations, total, self_time)) = functions.remove(function) else {
                return Err(TestCaseError::fail(format!("{function:?} was not called")));
            };
            durations.sort_unstable();
            prop_assert_eq!(statistics.calls, durations.len() as u64);
            prop_assert_eq!((statistics.total, statistics.self_time), (total, self_time));
            prop_assert_eq!(Some(&statistics.min), durations.first());
            prop_assert_eq!(Some(&statistics.max), durations.last());
            prop_assert_eq!(statistics.mean(), durations.iter().sum::<u64>() / statistics.calls);
            for part in [0.0, 0.5, 0.9, 0.99, 1.0] {
                let rank = (part * durations.len() as f64).ceil().max(1.0) as usize;
                let (exact, [told]) = (durations[rank - 1], statistics.quantiles([part]));
                prop_assert!(told.abs_diff(exact) <= exact / 100 + 1, "{} {} {}", part, told, exact);
            }
        }
        prop_assert!(functions.is_empty(), "{:?}", functions);
        let of_group = |(name, statistics): &(GroupName, Statistics)| match name {
            GroupName::Call(caller, function) if statistics.calls != 0 =>
                Some(((*caller, *function), (statistics.calls, statistics.total))),
            _ => None,
        };
        prop_assert_eq!(by_caller.groups().iter().filter_map(of_group).collect::<BTreeMap<_, _>>(), callers);
    }

    /// With hardly any room, no entry of a function is lost, and calls are counted once.
    #[test]
    fn room_ends_gracefully(steps in steps(true)) {
        let machine = machine(2, 0, &steps);
        let symbolizer = symbolizer();
        let limits = MemoryLimits { nodes: 5, groups: 3, comms: 1 };
        for by in [GroupBy::Function, GroupBy::Caller, GroupBy::Comm] {
            let analysis = Analysis::new(by, true, limits);
            let (analysis, counts) = assemble(&machine, analysis, &symbolizer);
            let of_groups: u64 = analysis.groups().iter().map(|(_, group)| group.calls).sum();
            prop_assert_eq!(of_groups, counts.returned);
            let tree = analysis.tree();
            prop_assert!(tree.len() <= 5);
            let of_tree: u64 = tree.ids().map(|id| tree.node(id).calls).sum();
            prop_assert_eq!(of_tree, counts.returned);
        }
    }
}

#[test]
fn calls_deeper_than_events_say_are_told_with_their_times() {
    use crate::sample::{task, CpuSample, Edge, SampleMemory};
    use crate::stream::{CpuEvents, MergedEvents};
    let mut sample = CpuSample::new(0);
    let edge = |time, depth: u32| Edge {
        time,
        task: task(7, 7, "deep"),
        ip: ip((depth % 5) as u8),
        depth,
        ..Edge::default()
    };
    for depth in 0..300 {
        sample.entry(edge(1000 + u64::from(depth), depth), depth.into());
    }
    for depth in (0..300).rev() {
        let time = 3000 - u64::from(depth);
        sample.end(
            edge(time, depth),
            depth.into(),
            time - 1000 - u64::from(depth),
        );
    }
    let events = CpuEvents::new(0, SampleMemory::of(sample.finish().0));
    let mut assembler = Assembler::new(Witness::default(), symbolizer());
    let mut events = MergedEvents::new([events]).unwrap();
    assembler.run(&mut events, |_| {}).unwrap();
    let (witness, counts) = assembler.finish();
    assert_eq!(
        (counts.returned, counts.self_unknown, counts.missed),
        (300, 0, 0)
    );
    for (depth, told) in witness.0.iter().enumerate() {
        let finished = told.finished.unwrap();
        assert_eq!(finished.begin, 1000 + depth as u64);
        assert_eq!(finished.duration, 2000 - 2 * depth as u64);
        assert_eq!(told.around.len(), depth);
        let own = if depth == 299 { 2000 - 2 * 299 } else { 2 };
        assert_eq!(finished.self_time, Some(own));
    }
}

#[test]
fn functions_are_hits_by_callers() {
    use crate::sample::{task, CpuSample, Edge, SampleMemory};
    use crate::stream::{CpuEvents, MergedEvents};
    let mut sample = CpuSample::new(0);
    for (time, function, caller) in [(10, 1, 0), (20, 1, 0), (30, 1, 2), (40, 2, 2)] {
        sample.function(Edge {
            time,
            task: task(7, 7, "hit"),
            ip: ip(function),
            parent_ip: ip(caller) + 9,
            ..Edge::default()
        });
    }
    let events = CpuEvents::new(0, SampleMemory::of(sample.finish().0));
    let symbolizer = symbolizer();
    let analysis = Analysis::new(GroupBy::Caller, false, MemoryLimits::default());
    let mut assembler = Assembler::new(analysis, symbolizer.clone());
    let mut events = MergedEvents::new([events]).unwrap();
    events.for_each(|seen| assembler.add(&seen)).unwrap();
    let (analysis, counts) = assembler.finish();
    assert_eq!((counts.events, counts.returned), (4, 0));
    let function = |number| symbolizer.borrow_mut().function(ip(number));
    let expected = [(0, 1, 2), (2, 1, 1), (2, 2, 1)].map(|(caller, callee, calls)| {
        let caller = Label::Function(function(caller));
        (GroupName::Call(caller, function(callee)), calls)
    });
    let groups = analysis.groups().iter();
    let told: Vec<_> = groups.map(|(name, group)| (*name, group.calls)).collect();
    assert_eq!(told, expected);
}
