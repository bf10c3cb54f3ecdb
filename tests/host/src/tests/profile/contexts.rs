// SPDX-License-Identifier: GPL-2.0

//! The profile's contexts: the tree against a model of it, with interrupts and CPUs that insert at
//! the same time, and the lines.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::engine::context::Level;
use crate::engine::profile::clean_tasks::CleanTasks;
use crate::engine::profile::context_counts::{ContextSums, CpuContexts};
use crate::engine::profile::contexts::{step, CallContext, Contexts, Node, Step, FIRST, REST};
use crate::engine::profile::extents::{extent_of, Extents};
use crate::engine::profile::folded::{Measure, Tree};
use crate::engine::profile::frame::Times;
use crate::engine::profile::waits::Waits;
use crate::engine::text::Text;
use crate::engine::waiting::{WakeContext, Waker};
use crate::platform::memory;
use crate::tests::{cases, interrupted, points};

const ROOT: Node = Node::root(Level::Task, false);

/// Returns one of the counts.
type Value = fn(&ContextSums) -> u64;

/// The calls of two CPUs, as the hooks count them.
struct Machine {
    tree: Rc<Contexts>,
    cpus: [CpuContexts<Rc<Contexts>>; 2],
    /// The counts by the path, in which there are only functions.
    model: RefCell<BTreeMap<Vec<u64>, ContextSums>>,
}

/// A call: its function, the CPUs of its entry and return, its own time, and what it calls.
#[derive(Clone, Debug)]
struct Call {
    number: u64,
    cpus: [usize; 2],
    own: u64,
    within: Vec<Call>,
}

fn calls() -> impl Strategy<Value = Call> {
    let one = (0u64..5, [0..2usize, 0..2], 0u64..1000);
    let leaf = one.clone().prop_map(|(number, cpus, own)| Call {
        number,
        cpus,
        own,
        within: Vec::new(),
    });
    leaf.prop_recursive(8, 80, 4, move |inner| {
        (one.clone(), vec(inner, 0..4)).prop_map(|((number, cpus, own), within)| Call {
            number,
            cpus,
            own,
            within,
        })
    })
}

impl Machine {
    fn new(limit: usize) -> Self {
        let tree = Rc::new(Contexts::new(limit).unwrap());
        let cpu = || CpuContexts::new(tree.clone()).unwrap();
        Self {
            cpus: [cpu(), cpu()],
            tree,
            model: RefCell::default(),
        }
    }

    fn enter(&self, cpu: usize, around: CallContext, number: u64) -> CallContext {
        let contexts = &self.cpus[cpu];
        let first = contexts.enter_near(around, number);
        first.unwrap_or_else(|| contexts.enter(around.node(), number, around.interrupts()))
    }

    /// Makes a call below others. Returns its time.
    fn call(&self, call: &Call, around: CallContext, path: &mut Vec<u64>) -> u64 {
        path.push(call.number);
        let context = self.enter(call.cpus[0], around, call.number);
        let mut within = 0;
        for inner in &call.within {
            within += self.call(inner, context, path);
        }
        let time = call.own + within;
        let returning = self.cpus[call.cpus[1]].of(context).unwrap();
        returning.add(Times { time, within });
        let mut model = self.model.borrow_mut();
        let sums = model.entry(path.clone()).or_default();
        *sums = sums.plus(ContextSums {
            calls: 1,
            total: time,
            own: call.own,
            ..ContextSums::default()
        });
        drop(model);
        path.pop();
        time
    }

    fn sums(&self, node: usize) -> ContextSums {
        self.cpus[0].sums(node).plus(self.cpus[1].sums(node))
    }

    fn read(&self) -> Tree {
        Tree::new(self.tree.keys(), |node| self.sums(node)).unwrap()
    }

    fn lines(&self, measure: Measure) -> Vec<(String, u64)> {
        lines(&self.read(), measure)
    }
}

/// Returns the lines; function 1 is `f1`.
fn lines(tree: &Tree, measure: Measure) -> Vec<(String, u64)> {
    let all = tree.lines(measure).unwrap();
    let lines = all.iter().map(|line| {
        let mut text = Text::new();
        let name =
            |text: &mut Text, number: usize| text.push_bytes(format!("f{number}").as_bytes());
        let waker =
            |text: &mut Text, by: Waker| text.push_bytes(format!("w{}", by.pid()).as_bytes());
        tree.write_path(*line, &mut text, name, waker).unwrap();
        let path = String::from_utf8(text.as_bytes().to_vec()).unwrap();
        (path, tree.value(*line, measure))
    });
    lines.collect()
}

fn path_of(numbers: &[u64]) -> String {
    let names: Vec<_> = numbers.iter().map(|number| format!("f{number}")).collect();
    names.join(";")
}

fn by_path(mut lines: Vec<(String, u64)>) -> Vec<(String, u64)> {
    lines.sort();
    lines
}

proptest! {
    #![proptest_config(cases(200))]

    /// With room for all, each path has what was counted on it, whatever CPUs a task was on.
    #[test]
    fn paths_have_their_counts(calls in vec(calls(), 1..4)) {
        let machine = Machine::new(400);
        for call in &calls {
            machine.call(call, CallContext::TASKS, &mut Vec::new());
        }
        let model = machine.model.borrow();
        prop_assert_eq!(machine.tree.used(), model.len());
        let of: [(Measure, Value); 3] = [
            (Measure::Calls, |sums| sums.calls),
            (Measure::Total, |sums| sums.total),
            (Measure::Own, |sums| sums.own),
        ];
        for (measure, value) in of {
            let wanted = model.iter().map(|(path, sums)| (path_of(path), value(sums)));
            let wanted: Vec<_> = wanted.filter(|(_, value)| *value != 0).collect();
            let got = machine.lines(measure);
            prop_assert!(got.is_sorted_by(|a, b| a.1 >= b.1));
            prop_assert_eq!(by_path(got), by_path(wanted));
        }
    }

    /// With too little room nothing is lost: what has none is with the last that has, and no time
    /// is counted twice.
    #[test]
    fn what_has_no_room_is_counted(calls in vec(calls(), 1..4), limit in 0usize..20) {
        let machine = Machine::new(limit);
        for call in &calls {
            machine.call(call, CallContext::TASKS, &mut Vec::new());
        }
        let model = machine.model.borrow();
        let sum = |of: Value| model.values().map(of).sum::<u64>();
        let got = |measure| machine.lines(measure).iter().map(|line| line.1).sum::<u64>();
        prop_assert_eq!(got(Measure::Calls), sum(|sums| sums.calls));
        prop_assert_eq!(got(Measure::Own), sum(|sums| sums.own));
        prop_assert!(got(Measure::Total) <= sum(|sums| sums.total));
        prop_assert_eq!(machine.tree.used(), limit.min(model.len()));
        let mut others = 0;
        for (path, calls) in machine.lines(Measure::Calls) {
            let parts: Vec<_> = path.split(';').collect();
            let functions = parts.iter().take_while(|part| **part != "[other]").count();
            // Nothing is below what has no room.
            prop_assert!(functions + 1 >= parts.len(), "{path}");
            if functions < parts.len() {
                others += calls;
            } else {
                let numbers: Vec<u64> = parts.iter().map(|part| part[1..].parse().unwrap()).collect();
                prop_assert_eq!(calls, model[&numbers].calls);
            }
        }
        let counted = machine.tree.others().map(|node| machine.sums(node.index()).calls);
        prop_assert_eq!(counted.sum::<u64>(), others);
        // The time of all that is below a context is no more than its own.
        let totals: BTreeMap<_, _> = machine.lines(Measure::Total).into_iter().collect();
        for (path, total) in &totals {
            let below = |other: &str| {
                other.strip_prefix(path.as_str()).and_then(|rest| rest.strip_prefix(';'))
                    .is_some_and(|rest| !rest.contains(';'))
            };
            let sum: u64 = totals.iter().filter(|(path, _)| below(path)).map(|(_, total)| total).sum();
            prop_assert!(sum <= *total, "{path}: {sum} of {total}");
        }
    }

    /// Names are written as they are, but for what has a meaning in lines.
    #[test]
    fn tasks_have_their_names(name in "[ -~]{0,15}", rest: [u8; 16]) {
        let tree = Rc::new(Contexts::new(20).unwrap());
        let mut bytes = rest;
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        bytes[name.len()] = 0;
        bytes[15] = 0;
        let [low, high] = [0, 8].map(|at| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()));
        let cpu = CpuContexts::new(tree.clone()).unwrap();
        for before in [false, true] {
            let node = tree.named(Node::root(Level::Task, before), [low, high]);
            prop_assert_eq!(tree.named(Node::root(Level::Task, before), [low, high]), node);
            cpu.enter(node, 7, 0);
        }
        let read = Tree::new(tree.keys(), |node| cpu.sums(node)).unwrap();
        let shown = name.replace(' ', "_").replace(';', ":");
        prop_assert_eq!(by_path(lines(&read, Measure::Calls)), by_path(vec![
            (format!("{shown};f7"), 1),
            (format!("{shown};[before];f7"), 1),
        ]));
        prop_assert!(tree.used() <= 8);
    }

    /// An address is within a function if it is one of its own.
    #[test]
    fn extents_are_known(sizes in vec((1usize..60, 0usize..20), 0..50), is_gone: bool) {
        let (mut ips, mut all, mut next) = (Vec::new(), Vec::new(), 0xffff_ffff_8100_0000usize);
        for (size, gap) in sizes {
            ips.push(next + 4);
            all.push(next..next + size.max(5));
            next += size.max(5) + gap;
        }
        let extent = |ip: usize| all.iter().find(|range| range.start == ip - 4).cloned();
        let mut extents = Extents::of(&ips, extent).unwrap();
        if is_gone {
            let gone = next - (next - 0xffff_ffff_8100_0000) / 2..next;
            all.retain(|range| !gone.contains(&range.start));
            extents = extents.without(&gone).unwrap();
        }
        for address in 0xffff_ffff_8100_0000usize - 10..next + 10 {
            let wanted = all.iter().any(|range| range.contains(&address));
            prop_assert_eq!(extents.contain(address as u64), wanted);
            prop_assert!(!extents.contain(address as u64 ^ (1 << 40)));
        }
    }
}

/// Roots say what their calls are below.
#[test]
fn roots_have_names() {
    let tree = Rc::new(Contexts::new(50).unwrap());
    let cpu = CpuContexts::new(tree.clone()).unwrap();
    let levels = [Level::Task, Level::Softirq, Level::Hardirq, Level::Nmi];
    let mut wanted = Vec::new();
    for (level, name) in levels
        .into_iter()
        .zip(["", "[softirq];", "[hardirq];", "[nmi];"])
    {
        for (before, more) in [(false, ""), (true, "[before];")] {
            let root = Node::root(level, before);
            assert_eq!(root.as_root(), Some((level, before)));
            let context = cpu.enter(root, 3, 77);
            assert_eq!(context.interrupts(), 77);
            cpu.enter(context.node(), 4, 77);
            wanted.push((format!("{name}{more}f3"), 1));
            wanted.push((format!("{name}{more}f3;f4"), 1));
        }
    }
    let read = Tree::new(tree.keys(), |node| cpu.sums(node)).unwrap();
    assert_eq!(by_path(lines(&read, Measure::Calls)), by_path(wanted));
    for node in [REST, CallContext::NOWHERE.node(), Node(FIRST as u32)] {
        assert_eq!(node.as_root(), None);
    }
}

/// A call whose context is not known is in none.
#[test]
fn nowhere_is_nothing() {
    let tree = Rc::new(Contexts::new(50).unwrap());
    let cpu = CpuContexts::new(tree.clone()).unwrap();
    assert_eq!(cpu.enter_near(CallContext::NOWHERE, 3), None);
    let of = cpu.of(CallContext::NOWHERE).unwrap();
    of.add(Times { time: 5, within: 0 });
    let read = Tree::new(tree.keys(), |node| cpu.sums(node)).unwrap();
    assert!(lines(&read, Measure::Total).is_empty());
    // Nor is what points out of the tree.
    assert!(cpu.of(CallContext(u64::MAX)).is_none());
}

/// The number of slots with each key.
fn keys(tree: &Contexts) -> BTreeMap<u64, usize> {
    let mut keys = BTreeMap::new();
    for key in tree.keys().filter(|key| *key != 0) {
        *keys.entry(key).or_default() += 1;
    }
    keys
}

/// Interrupts at any step of an insertion, and an NMI at any of theirs, insert the same or another
/// one: each is there once, also where there is no room for all.
#[test]
fn interrupts_insert_what_is_inserted() {
    for (limit, other) in [(50, 1), (50, 2), (2, 2), (1, 2), (1, 1), (0, 2)] {
        let mut rounds = 0;
        'points: for first in points() {
            for second in points() {
                let tree = Rc::new(Contexts::new(limit).unwrap());
                let cpu = Rc::new(CpuContexts::new(tree.clone()).unwrap());
                let all_came = Rc::new(Cell::new(false));
                let nmi_came = all_came.clone();
                let (of_irq, of_nmi) = (cpu.clone(), cpu.clone());
                let interrupt = move |_| {
                    let of_nmi = of_nmi.clone();
                    let nmi = move |_| {
                        of_nmi.enter(ROOT, 1, 0);
                    };
                    nmi_came.set(interrupted([second], nmi, || {
                        of_irq.enter(ROOT, other, 0);
                    }));
                };
                let came = interrupted([first], interrupt, || {
                    cpu.enter(ROOT, 1, 0);
                });
                if !came {
                    break 'points;
                }
                if !all_came.get() {
                    break;
                }
                rounds += 1;
                assert!(keys(&tree).values().all(|count| *count == 1));
                let read = Tree::new(tree.keys(), |node| cpu.sums(node)).unwrap();
                let sum: u64 = lines(&read, Measure::Calls).iter().map(|line| line.1).sum();
                assert_eq!(sum, 3, "{limit} {first} {second}");
                let functions = keys(&tree)
                    .keys()
                    .filter(|key| matches!(step(**key), Some((Step::Function(_), _))))
                    .count();
                assert!(functions <= limit);
                assert_eq!(tree.used(), functions, "{limit} {first} {second}");
                // What is about to be inserted counts: near the limit the other may be refused.
                if limit > 2 {
                    assert_eq!(functions, if other == 1 { 1 } else { 2 });
                }
            }
        }
        assert!(cfg!(miri) || rounds >= 4, "{limit}: {rounds}");
    }
}

/// CPUs that insert the same nodes at once find the same ones.
#[test]
fn cpus_insert_the_same() {
    const COUNT: u64 = if cfg!(miri) { 100 } else { 1000 };
    let tree = Arc::new(Contexts::new(3 * COUNT as usize).unwrap());
    let threads: Vec<_> = (0..4u64)
        .map(|thread| {
            let tree = tree.clone();
            thread::spawn(move || {
                let mut found = Vec::new();
                for index in 0..COUNT {
                    // Each has them in another order.
                    let number = index * [1, 3, 7, 9][thread as usize] % COUNT;
                    let node = tree.enter(ROOT, number);
                    found.push((number, node.0, tree.enter(node, number).0));
                }
                found.sort();
                found
            })
        })
        .collect();
    let found: Vec<_> = threads.into_iter().map(|it| it.join().unwrap()).collect();
    assert!(found.iter().all(|it| *it == found[0]));
    assert_eq!(tree.used(), 2 * COUNT as usize);
    assert!(keys(&tree).values().all(|count| *count == 1));
}

/// The tree is full when it has as many as may be, or nearly, and a search ends all the same.
#[test]
fn a_full_tree_is_full() {
    const LIMIT: usize = if cfg!(miri) { 150 } else { 1500 };
    let tree = Contexts::new(LIMIT).unwrap();
    let mut found = BTreeMap::new();
    for number in 0..3 * LIMIT as u64 {
        let node = tree.enter(ROOT, number);
        if !tree.is_other(node) {
            assert_eq!(found.insert(node.0, number), None);
        }
    }
    assert!(
        found.len() == tree.used() && tree.used() > LIMIT - 10,
        "{}",
        tree.used()
    );
    for (node, number) in found {
        assert_eq!(tree.enter(ROOT, number), Node(node));
    }
    // Others have room for themselves, but not for ever.
    let nodes: Vec<_> = (FIRST as u32..).take(LIMIT + 500).map(Node).collect();
    let others: Vec<_> = nodes.iter().map(|node| tree.enter(*node, 5000)).collect();
    assert!(others.iter().all(|node| tree.is_other(*node)));
    assert!(others.contains(&REST));
    assert_eq!(tree.enter(REST, 1), REST);
}

#[test]
fn a_place_says_how_large_a_function_is() {
    assert_eq!(
        extent_of(b"vfs_read+0x4/0x1a0", 0x1004),
        Some(0x1000..0x11a0)
    );
    assert_eq!(extent_of(b"f+o+0x0/0x10 [module]", 0x10), Some(0x10..0x20));
    for text in [
        "",
        "vfs_read",
        "0xffffffff81000000",
        "a+0x4",
        "a+4/0x10",
        "a+0x4/",
        "a+0x2000/0x1",
    ] {
        assert_eq!(extent_of(text.as_bytes(), 0x1004), None, "{text}");
    }
}

#[test]
fn clean_tasks_are_known() {
    let tasks = CleanTasks::new().unwrap();
    assert!((0..9000).all(|pid| !tasks.has(pid)));
    tasks.add(5);
    tasks.add(0);
    assert!(tasks.has(5) && !tasks.has(0) && !tasks.has(5 + 8192));
    // The last is known.
    tasks.add(5 + 8192);
    assert!(!tasks.has(5) && tasks.has(5 + 8192));
    tasks.forget(5);
    assert!(tasks.has(5 + 8192));
    tasks.forget(5 + 8192);
    assert!(!tasks.has(5 + 8192));
    tasks.add(7);
    tasks.clear();
    assert!(!tasks.has(7));
}

/// Own times that are negative, as the whole was seen before a part, are none.
#[test]
fn time_may_go_back() {
    let tree = Rc::new(Contexts::new(5).unwrap());
    let cpu = CpuContexts::new(tree.clone()).unwrap();
    let context = cpu.enter(ROOT, 1, 0);
    cpu.of(context).unwrap().add(Times { time: 3, within: 5 });
    let read = Tree::new(tree.keys(), |node| cpu.sums(node)).unwrap();
    assert!(lines(&read, Measure::Own).is_empty());
    assert_eq!(lines(&read, Measure::Total).len(), 1);
}

/// Without memory nothing is made.
#[test]
fn memory_may_be_short() {
    memory::with_allocations(0, || assert!(Contexts::new(100).is_err()));
    let tree = Rc::new(Contexts::new(100).unwrap());
    memory::with_allocations(0, || assert!(CpuContexts::new(tree.clone()).is_err()));
    memory::with_allocations(0, || {
        assert!(Tree::new(tree.keys(), |_| ContextSums::default()).is_err())
    });
}

/// Waits are lines of the innermost call, and parts of its own time.
#[test]
fn waits_have_lines() {
    let tree = Rc::new(Contexts::new(20).unwrap());
    let cpu = CpuContexts::new(tree.clone()).unwrap();
    let waits = Waits::new(tree.nodes()).unwrap();
    let outer = cpu.enter(CallContext::TASKS.node(), 1, 0);
    let inner = cpu.enter(outer.node(), 2, 0);
    let add = |context: CallContext, time, within, slept, queued| {
        cpu.of(context).unwrap().add(Times { time, within });
        waits.add(context.node().index(), slept, queued);
    };
    // The inner call was asleep for 400 ticks, and for 100 in a queue; the outer one for 50 of
    // its own.
    add(inner, 1000, 0, 500, 200);
    add(outer, 1500, 1000, 550, 200);
    let read = |sleep_counts| {
        let sums = |node| {
            let [slept, queued] = waits.sums(node);
            let waits = ContextSums {
                slept,
                queued,
                ..ContextSums::default()
            };
            cpu.sums(node).plus(waits)
        };
        let tree = Tree::new(tree.keys(), sums).unwrap();
        // Two ns are a tick.
        tree.with_waits(sleep_counts, |ns| ns / 2).unwrap()
    };
    let said = |tree: &Tree, measure| -> Vec<String> {
        let lines = lines(tree, measure).into_iter();
        lines
            .map(|(path, value)| format!("{path} {value}"))
            .collect()
    };
    let own = said(&read(true), Measure::Own);
    let wanted = [
        "f1;f2 500",
        "f1 450",
        "f1;f2;[asleep] 400",
        "f1;f2;[queued] 100",
        "f1;[asleep] 50",
    ];
    assert_eq!(own, wanted);
    let own = said(&read(false), Measure::Own);
    assert_eq!(own[..2], ["f1;f2 1000", "f1 500"]);
    assert_eq!(own[2..], wanted[2..]);
    assert_eq!(said(&read(true), Measure::Total), ["f1 1500", "f1;f2 1000"]);
    assert_eq!(said(&read(true), Measure::Calls), ["f1 1", "f1;f2 1"]);
    // What woke the task is told of the sleeps for which it is known, also in a call that is open.
    let woken = |context: CallContext, by, slept, queued| {
        let waker = Waker::new(by, WakeContext::Task);
        let node = tree.woken(context.node(), waker).unwrap();
        waits.add(node.index(), slept, queued);
    };
    woken(inner, 7, 250, 100);
    woken(inner, 9, 120, 0);
    woken(outer, 7, 60, 0);
    let wanted = [
        "f1;f2 500",
        "f1 450",
        "f1;f2;[asleep];w7 200",
        "f1;f2;[asleep];w9 120",
        "f1;f2;[queued] 100",
        "f1;f2;[asleep] 80",
        "f1;[asleep];w7 60",
    ];
    assert_eq!(said(&read(true), Measure::Own), wanted);
    assert_eq!(said(&read(true), Measure::Total), ["f1 1500", "f1;f2 1000"]);
    assert_eq!(said(&read(true), Measure::Calls), ["f1 1", "f1;f2 1"]);
    // Those for which there is no room are not told.
    let full = Contexts::new(1).unwrap();
    let node = full.enter(ROOT, 1);
    assert_eq!(full.woken(node, Waker::new(7, WakeContext::Task)), None);
    // Without any, nothing is said.
    let none = Tree::new(tree.keys(), |node| cpu.sums(node)).unwrap();
    let none = none.with_waits(true, |ns| ns).unwrap();
    assert_eq!(said(&none, Measure::Own), ["f1;f2 1000", "f1 500"]);
}
