// SPDX-License-Identifier: GPL-2.0

//! Tasks are recorded with their containers, if that is wanted.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use proptest::prelude::*;

use super::super::{cases, interrupted, points};
use crate::engine::consumer::Consumer;
use crate::engine::reader::Cursor;
use crate::engine::ring::{EventContext, Ring, WriteOutcome};
use crate::engine::slot::{Container, SlotKind, SlotWords, Task};
use crate::platform::preempt;
use crate::raw_decoder;
use crate::support::{self, call, copy_space, raw_record, Heap};

/// Tasks have IDs below this.
const TASKS: usize = 4;

/// An event that was written, with the cgroups that its task was in before and after.
#[derive(Clone, Copy, Debug)]
struct Known {
    ip: u64,
    pid: i32,
    /// `None` if containers are not recorded.
    cgroup: Option<(u64, u64)>,
}

/// A CPU whose tasks are moved from cgroup to cgroup. A task's cgroups have ascending IDs.
struct Cpu {
    ring: Ring<Heap>,
    now: Cell<u64>,
    serial: Cell<u64>,
    running: Cell<usize>,
    cgroups: [Cell<u64>; TASKS],
    is_wanted: Cell<bool>,
    written: RefCell<Vec<Known>>,
}

#[derive(Clone, Copy)]
struct Running<'a>(&'a Cpu);

impl EventContext for Running<'_> {
    fn now(&self) -> u64 {
        preempt::point();
        self.0.now.set(self.0.now.get() + 1);
        self.0.now.get()
    }

    fn context(&self) -> u32 {
        0
    }

    fn task(&self) -> Task {
        let pid = self.0.running.get() as u32;
        support::task(pid, pid, "task")
    }

    fn container(&self) -> Container {
        preempt::point();
        let running = self.0.running.get();
        let id = running as u32;
        let container = Container::new(self.0.cgroups[running].get(), 1000 + id, 2000 + id);
        preempt::point();
        container
    }

    fn is_task(&self, word: impl Fn(usize) -> u64) -> bool {
        let task = self.task();
        [task.ids, task.comm[0], task.comm[1]]
            .into_iter()
            .enumerate()
            .all(|(index, own)| word(index) == own)
    }
}

impl Cpu {
    fn new(subbufs: usize, subbuf_slots: usize) -> Self {
        Self {
            ring: support::ring(subbufs, subbuf_slots),
            now: Cell::new(0),
            serial: Cell::new(0),
            running: Cell::new(0),
            cgroups: Default::default(),
            is_wanted: Cell::new(false),
            written: RefCell::default(),
        }
    }

    fn cgroup(&self) -> u64 {
        self.cgroups[self.running.get()].get()
    }

    fn write(&self, wide: bool) {
        let serial = self.serial.get();
        self.serial.set(serial + 1);
        let (call, _) = call(serial, wide);
        let before = self.cgroup();
        // SAFETY: The thread is this CPU, and what interrupts it does so by function calls.
        let outcome = unsafe { self.ring.write(call, Running(self)) };
        assert_eq!(outcome, WriteOutcome::Written);
        self.written.borrow_mut().push(Known {
            ip: call.ip,
            pid: self.running.get() as i32,
            cgroup: self.is_wanted.get().then(|| (before, self.cgroup())),
        });
    }

    /// Moves a task to a cgroup that it was never in.
    fn move_task(&self, pid: usize) {
        self.cgroups[pid].set(self.cgroups[pid].get() + 1);
        self.ring.forget_container(pid as u32);
    }

    fn want(&self, wanted: bool) {
        self.is_wanted.set(wanted);
        self.ring.set_containers(wanted);
        self.ring.forget_task();
    }

    /// Checks an event that was read.
    #[track_caller]
    fn check(&self, ip: u64, pid: i32, container: Option<Container>) {
        let written = self.written.borrow();
        let known =
            (written.iter().find(|known| known.ip == ip)).expect("an event that was written");
        assert_eq!(pid, known.pid);
        match (known.cgroup, container) {
            (None, None) => {}
            (Some((first, last)), Some(found)) => {
                assert!(
                    (first..=last).contains(&found.cgroup),
                    "{known:?}: {found:?}"
                );
                assert_eq!(found.pid(), 1000 + pid as u32);
                assert_eq!(found.tgid(), 2000 + pid as u32);
            }
            other => panic!("{known:?}: {other:?}"),
        }
    }

    /// Reads all that is there.
    fn check_all(&self) {
        let mut cursor = Cursor::new(&self.ring, copy_space(&self.ring), 0);
        while let Some(event) = cursor.next(&self.ring) {
            self.check(event.ip, event.task.pid(), event.container);
        }
    }

    /// Returns how many slots of a kind there are.
    fn count(&self, kind: SlotKind) -> usize {
        let words = self.ring.slots().iter();
        words
            .map(|slot| SlotWords(slot.0.load_relaxed(), slot.1.load_relaxed()))
            .filter(|words| words.kind() == Some(kind))
            .count()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write {
        wide: bool,
        times: u8,
    },
    /// In the middle of writing an event, tasks are moved, and others written.
    Interrupted {
        point: u32,
        pid: usize,
        times: u8,
    },
    Switch(usize),
    Move(usize),
    Want(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (any::<bool>(), 1..9u8).prop_map(|(wide, times)| Step::Write { wide, times }),
        6 => (0..60u32, 0..TASKS, 0..4u8)
            .prop_map(|(point, pid, times)| Step::Interrupted { point, pid, times }),
        3 => (0..TASKS).prop_map(Step::Switch),
        4 => (0..TASKS).prop_map(Step::Move),
        1 => any::<bool>().prop_map(Step::Want),
    ]
}

fn run(cpu: &Rc<Cpu>, steps: &[Step]) {
    for step in steps {
        match *step {
            Step::Write { wide, times } => (0..times).for_each(|_| cpu.write(wide)),
            Step::Interrupted { point, pid, times } => {
                let other = cpu.clone();
                let interrupt = move |_| {
                    other.move_task(pid);
                    (0..times).for_each(|_| other.write(false));
                };
                interrupted([point], interrupt, || cpu.write(false));
            }
            Step::Switch(pid) => cpu.running.set(pid),
            Step::Move(pid) => cpu.move_task(pid),
            Step::Want(wanted) => cpu.want(wanted),
        }
    }
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn each_event_has_its_container(
        subbufs in 8..10usize,
        subbuf_bits in 3..6u32,
        wanted: bool,
        steps in prop::collection::vec(step(), 1..100),
    ) {
        let cpu = Rc::new(Cpu::new(subbufs, 1 << subbuf_bits));
        cpu.want(wanted);
        run(&cpu, &steps);
        cpu.check_all();
    }

    /// Records of any number of slots can be decoded by themselves.
    #[test]
    fn each_record_has_its_containers(
        steps in prop::collection::vec(step(), 1..30),
        sizes in prop::collection::vec(1..12usize, 1..20),
    ) {
        let cpu = Rc::new(Cpu::new(64, 32));
        cpu.want(true);
        run(&cpu, &steps);
        let mut consumer = Consumer::new(copy_space(&cpu.ring));
        let mut sizes = sizes.iter().cycle();
        let mut into = copy_space(&cpu.ring);
        let mut most = 8;
        while let Some(chunk) = consumer.take_chunk(&cpu.ring, most, &mut into) {
            let record = raw_record(&chunk, 0, &into[chunk.slots.clone()]);
            let decoded = raw_decoder::decode(&record).expect("a record");
            for event in decoded.iter().flat_map(|record| &record.events) {
                let container = event.container;
                let container = container.map(|(cgroup, pid, tgid)| Container::new(cgroup, pid, tgid));
                cpu.check(event.ip, event.pid as i32, container);
            }
            most = 8 + sizes.next().copied().unwrap_or(0);
        }
    }
}

/// At every point of an event that announces its task, the task is moved, by itself and with events
/// of the interrupt.
#[test]
fn moved_at_every_point() {
    for times in 0..3 {
        for point in points() {
            let cpu = Rc::new(Cpu::new(4, 8));
            cpu.want(true);
            (0..2).for_each(|_| cpu.write(false));
            cpu.running.set(1);
            let other = cpu.clone();
            let interrupt = move |_| {
                other.move_task(1);
                (0..times).for_each(|_| other.write(false));
            };
            let has_come = interrupted([point], interrupt, || cpu.write(false));
            (0..2).for_each(|_| cpu.write(false));
            cpu.check_all();
            if !has_come {
                assert!(point > 20, "{point} points");
                break;
            }
        }
    }
}

#[test]
fn nothing_is_there_that_is_not_asked_for() {
    let cpu = Cpu::new(16, 16);
    let write = || {
        for pid in [0, 1, 1, 2, 0] {
            cpu.running.set(pid);
            cpu.move_task(pid);
            cpu.write(false);
        }
    };
    write();
    let tasks = cpu.count(SlotKind::Task);
    assert_eq!(cpu.count(SlotKind::Container), 0);
    cpu.want(true);
    write();
    let announced = cpu.count(SlotKind::Task) - tasks;
    // One more: the same task was moved.
    assert_eq!((announced, cpu.count(SlotKind::Container)), (5, 5));
    cpu.want(false);
    write();
    assert_eq!(cpu.count(SlotKind::Container), 5);
    cpu.check_all();
}

#[test]
fn only_tasks_that_are_meant_are_told_again() {
    let cpu = Cpu::new(16, 64);
    cpu.want(true);
    cpu.running.set(1);
    cpu.write(false);
    cpu.ring.forget_container(2);
    cpu.write(false);
    assert_eq!(cpu.count(SlotKind::Container), 1);
    cpu.ring.forget_container(1);
    cpu.write(false);
    assert_eq!(cpu.count(SlotKind::Container), 2);
}
