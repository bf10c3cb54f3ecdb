// SPDX-License-Identifier: GPL-2.0

use crate::engine::call_sites::{CallSites, CodeRole, FunctionCode};
use crate::engine::context::{ContextWord, HARDIRQ, IRQS_ON, NMI, SOFTIRQ};
use crate::engine::decode::Event;
use crate::engine::replay::{Replay, MAX_TASKS};
use crate::support::task;

/// Size of a task's stack, in bytes.
const STACK: u32 = 1 << 14;

/// A model of code: where the function of an address begins, and what it is; which are traced; and
/// the callers of hidden ones. No jumps are known.
struct Sites {
    code: fn(u64) -> FunctionCode,
    is_traced: fn(u64) -> bool,
    calls: fn(u64, u64) -> bool,
}

impl CallSites for Sites {
    fn code(&mut self, address: u64) -> FunctionCode {
        (self.code)(address)
    }

    fn target(&mut self, _parent_ip: u64) -> Option<u64> {
        None
    }

    fn jumps(&mut self, _from: u64, _to: u64) -> bool {
        false
    }

    fn calls(&mut self, from: u64, to: u64) -> bool {
        (self.calls)(from, to)
    }

    fn is_traced(&mut self, start: u64) -> bool {
        (self.is_traced)(start)
    }
}

/// A model in which nothing is known of any code.
const NO_CODE: Sites = Sites {
    code: |_| FunctionCode::default(),
    is_traced: |_| true,
    calls: |_, _| false,
};

/// Size of the stack window, in bytes.
const WINDOW: u64 = 1 << 16;

/// A CPU's number, a pid, bits of the level, the stack pointer and the depth that is wanted.
type Step = (u32, u32, u32, u64, usize);

fn play(steps: &[Step]) {
    let mut replay = Replay::new(STACK);
    for (index, &(cpu, pid, level, sp, wanted)) in steps.iter().enumerate() {
        // No call site comes twice: that is a sign of its own.
        let event = Event {
            parent_ip: index as u64,
            context: ContextWord(level | ContextWord::place(sp, 0)),
            task: task(pid, pid, "task"),
            ..Event::default()
        };
        let depth = replay
            .enter(cpu, &event, &mut { NO_CODE })
            .expect("memory")
            .depth;
        assert_eq!(depth, wanted, "step {index}");
    }
}

#[test]
fn nesting_and_siblings() {
    play(&[
        (0, 1, 0, 0x8000, 0),
        (0, 1, 0, 0x7f00, 1),
        (0, 1, 0, 0x7e00, 2),
        // A sibling of the last: its return address lies where that one's lay.
        (0, 1, 0, 0x7e00, 2),
        // A sibling with a smaller frame between them.
        (0, 1, 0, 0x7e80, 2),
        (0, 1, 0, 0x7e78, 3),
        // Two returns.
        (0, 1, 0, 0x7f00, 1),
        // The next system call.
        (0, 1, 0, 0x8000, 0),
        (0, 1, 0, 0x7ff8, 1),
    ]);
}

#[test]
fn interrupt_on_top() {
    play(&[
        (0, 1, 0, 0x8000, 0),
        (0, 1, 0, 0x7f00, 1),
        // On a stack of its own, wherever that is.
        (0, 1, HARDIRQ, 0xff00, 0),
        (0, 1, HARDIRQ, 0xfe00, 1),
        // The task goes on where it was.
        (0, 1, 0, 0x7e00, 2),
        // Nothing is left of the interrupt before.
        (0, 1, HARDIRQ, 0xfd00, 0),
        (0, 1, 0, 0x7f00, 1),
    ]);
}

#[test]
fn levels() {
    play(&[
        (0, 1, 0, 0x8000, 0),
        (0, 1, SOFTIRQ, 0x3000, 0),
        (0, 1, SOFTIRQ, 0x2f00, 1),
        (0, 1, HARDIRQ | SOFTIRQ, 0x5000, 0),
        (0, 1, HARDIRQ | SOFTIRQ, 0x4f00, 1),
        (0, 1, NMI | HARDIRQ | SOFTIRQ, 0x9000, 0),
        (0, 1, NMI | HARDIRQ | SOFTIRQ, 0x8f00, 1),
        // Back down, each where it was.
        (0, 1, HARDIRQ | SOFTIRQ, 0x4e00, 2),
        (0, 1, SOFTIRQ, 0x2e00, 2),
        (0, 1, NMI | SOFTIRQ, 0x8e00, 0),
        (0, 1, 0, 0x7f00, 1),
        (0, 1, SOFTIRQ, 0x2d00, 0),
    ]);
}

#[test]
fn tasks_in_turn() {
    play(&[
        (0, 1, 0, 0x8000, 0),
        (0, 1, 0, 0x7f00, 1),
        (0, 2, 0, 0x4000, 0),
        (0, 2, 0, 0x3f00, 1),
        (0, 1, 0, 0x7e00, 2),
        (0, 2, 0, 0x3e00, 2),
        (0, 2, 0, 0x3f00, 1),
        (0, 1, 0, 0x7d00, 3),
    ]);
}

#[test]
fn task_on_another_cpu() {
    play(&[
        (0, 1, 0, 0x8000, 0),
        (0, 1, 0, 0x7f00, 1),
        (3, 1, 0, 0x7e00, 2),
        // An interrupt of the old CPU is nothing to it.
        (0, 9, HARDIRQ, 0x5000, 0),
        (3, 1, 0, 0x7d00, 3),
        (0, 9, HARDIRQ, 0x4f00, 1),
        // It left no interrupt open when it went.
        (3, 1, HARDIRQ, 0x5000, 0),
        (0, 1, HARDIRQ, 0x4f00, 0),
        (0, 1, 0, 0x7c00, 4),
    ]);
}

#[test]
fn idle_tasks() {
    play(&[
        (0, 0, 0, 0x8000, 0),
        (0, 0, 0, 0x7f00, 1),
        (1, 0, 0, 0x8000, 0),
        (0, 0, 0, 0x7e00, 2),
        (1, 0, 0, 0x7f00, 1),
        (0, 0, 0, 0x7d00, 3),
    ]);
}

#[test]
fn stack_across_the_window_end() {
    let top = 5 * WINDOW + 0x100;
    play(&[
        (0, 1, 0, top, 0),
        (0, 1, 0, top - 0x80, 1),
        (0, 1, 0, top - 0x100, 2),
        (0, 1, 0, top - 0x108, 3),
        (0, 1, 0, top - 0x4000, 4),
        (0, 1, 0, top - 0x100, 2),
        (0, 1, 0, top - 0x80, 1),
        (0, 1, 0, top, 0),
    ]);
}

#[test]
fn deepest_stack() {
    // Half a window less one word.
    play(&[
        (0, 1, 0, WINDOW, 0),
        (0, 1, 0, WINDOW / 2 + 8, 1),
        (0, 1, 0, WINDOW, 0),
    ]);
}

/// Plays system calls that each begin at another height, as (number, parent_ip, stack pointer,
/// depth).
fn play_calls(steps: &[(u32, u64, u64, usize)]) {
    let mut replay = Replay::new(STACK);
    for (index, &(number, parent_ip, sp, wanted)) in steps.iter().enumerate() {
        let event = Event {
            parent_ip,
            context: ContextWord(ContextWord::place(sp, number)),
            task: task(1, 1, "task"),
            ..Event::default()
        };
        let depth = replay
            .enter(0, &event, &mut { NO_CODE })
            .expect("memory")
            .depth;
        assert_eq!(depth, wanted, "step {index}");
    }
}

#[test]
fn random_height_of_a_system_call() {
    const READ: u32 = 0;
    const WRITE: u32 = 1;
    play_calls(&[
        (READ, 0x100, 0x8000, 0),
        (READ, 0x200, 0x7f00, 1),
        // The same system call, deeper: its outermost call site is met again.
        (READ, 0x100, 0x7d00, 0),
        (READ, 0x200, 0x7c00, 1),
        // Another system call, deeper than all before.
        (WRITE, 0x300, 0x7a00, 0),
        (WRITE, 0x400, 0x7900, 1),
        // And one that begins higher.
        (READ, 0x200, 0x7f80, 0),
    ]);
}

#[test]
fn recursion() {
    play_calls(&[
        (0, 0x100, 0x8000, 0),
        // A function that calls itself: a call site that is not the outermost one may come again.
        (0, 0x200, 0x7f00, 1),
        (0, 0x200, 0x7e00, 2),
        (0, 0x200, 0x7d00, 3),
    ]);
}

const HOOK: u64 = 0x1000;

/// Functions of 256 bytes, of which the first is where hooked returns go.
const HOOKED: Sites = Sites {
    code: |address| FunctionCode {
        start: address & !0xff,
        role: match address & !0xff {
            HOOK => CodeRole::ReturnHook,
            _ => CodeRole::Plain,
        },
    },
    is_traced: |start| start == 0x2000,
    calls: |_, _| false,
};

#[test]
fn jumps_where_returns_are_hooked() {
    let mut replay = Replay::new(STACK);
    for (index, (ip, parent_ip, sp, wanted)) in [
        (0x2000, 0x9050, 0x3f00, 0),
        // Called, and then jumps are seen by the hook of the function that jumps.
        (0x2100, 0x2050, 0x3e00, 1),
        (0x2200, HOOK, 0x3e00, 2),
        // A function that it calls is near, and jumps, too.
        (0x2300, 0x2210, 0x3de0, 3),
        (0x2400, HOOK, 0x3de0, 4),
        (0x2500, HOOK, 0x3de0, 5),
        // All but the outermost have returned.
        (0x2100, 0x2060, 0x3e00, 1),
    ]
    .into_iter()
    .enumerate()
    {
        let event = Event {
            time: index as u64,
            ip,
            parent_ip,
            context: ContextWord(ContextWord::place(sp, 0) | IRQS_ON),
            task: task(1, 1, "task"),
            ..Event::default()
        };
        let entered = replay.enter(0, &event, &mut { HOOKED }).expect("memory");
        assert_eq!(entered.depth, wanted, "step {index}");
        assert_eq!(entered.missing, 0, "step {index}");
    }
}

/// Functions of 256 bytes: `TRACED` and those from `CALLEES` on are traced, and `HIDDEN` is called
/// by `TRACED`.
const TRACED: u64 = 0x2000;
const HIDDEN: u64 = 0x3000;
const CALLEES: u64 = 0x4000;
const WITH_HIDDEN: Sites = Sites {
    code: |address| FunctionCode {
        start: address & !0xff,
        role: CodeRole::Plain,
    },
    is_traced: |start| start != HIDDEN,
    calls: |from, to| from == TRACED && to == HIDDEN,
};

/// Plays entries as (ip, parent_ip, bits of the level, stack pointer, depth).
fn play_hidden(steps: &[(u64, u64, u32, u64, usize)]) {
    let mut replay = Replay::new(STACK);
    for (index, &(ip, parent_ip, level, sp, wanted)) in steps.iter().enumerate() {
        let event = Event {
            ip,
            parent_ip,
            context: ContextWord(ContextWord::place(sp, 0) | level),
            task: task(1, 1, "task"),
            ..Event::default()
        };
        let entered = replay
            .enter(0, &event, &mut { WITH_HIDDEN })
            .expect("memory");
        assert_eq!(entered.depth, wanted, "step {index}");
    }
}

#[test]
fn arguments_on_the_stack() {
    // The caller of the hidden function is not known. The bytes that a hidden function pushes for
    // its callees differ: by up to 8 words they are siblings.
    for bytes in [8, 64] {
        play_hidden(&[
            (TRACED + 0x100, 0x9050, IRQS_ON, 0x3f00, 0),
            (CALLEES, HIDDEN + 0x10, IRQS_ON, 0x3e00, 1),
            (CALLEES + 0x100, HIDDEN + 0x20, IRQS_ON, 0x3e00 - bytes, 1),
        ]);
    }
    // More than any function gets: another call of the hidden function, in the callee.
    play_hidden(&[
        (TRACED + 0x100, 0x9050, IRQS_ON, 0x3f00, 0),
        (CALLEES, HIDDEN + 0x10, IRQS_ON, 0x3e00, 1),
        (CALLEES + 0x100, HIDDEN + 0x20, IRQS_ON, 0x3e00 - 72, 2),
    ]);
}

#[test]
fn who_calls_a_hidden_function() {
    play_hidden(&[
        (TRACED, 0x9050, IRQS_ON, 0x3f00, 0),
        // It has returned when the hidden function is called, though the callees of that lie
        // deeper.
        (CALLEES, TRACED + 0x10, IRQS_ON, 0x3e00, 1),
        (CALLEES + 0x100, HIDDEN + 0x10, IRQS_ON, 0x3d00, 1),
    ]);
}

#[test]
fn back_from_another_stack() {
    play_hidden(&[
        (TRACED, 0x9050, IRQS_ON, 0x3f00, 0),
        // With interrupts off, on a stack elsewhere, and calls from there.
        (CALLEES, TRACED + 0x10, 0, 0xff00, 1),
        (CALLEES + 0x100, CALLEES + 0x10, 0, 0xfe00, 2),
        // The task's own stack again: nothing is left of it, whatever lies where.
        (CALLEES + 0x200, 0x9150, IRQS_ON, 0x3e00, 1),
    ]);
}

#[test]
fn a_root_that_is_missing() {
    let mut replay = Replay::new(STACK);
    let mut enter = |time: u64, pid: u32, parent_ip: u64, sp: u64| {
        let event = Event {
            time,
            ip: 0x3000,
            parent_ip,
            context: ContextWord(ContextWord::place(sp, 0) | IRQS_ON),
            task: task(pid, pid, "task"),
            ..Event::default()
        };
        let entered = replay.enter(0, &event, &mut { HOOKED }).expect("memory");
        (entered.depth, entered.missing)
    };
    // Once for each task, and again if the same event comes again.
    assert_eq!(enter(1, 1, 0x2050, 0x3f00), (0, 0x2000));
    assert_eq!(enter(1, 1, 0x2050, 0x3f00), (0, 0x2000));
    assert_eq!(enter(2, 1, 0x2050, 0x3f08), (0, 0));
    assert_eq!(enter(3, 2, 0x2050, 0x3f00), (0, 0x2000));
    // Its caller is not traced.
    assert_eq!(enter(4, 3, 0x9050, 0x3f00), (0, 0));
}

#[test]
fn another_task_with_the_same_pid() {
    // Each with its own stack, which is known from code that runs with interrupts on.
    play(&[
        (0, 1, IRQS_ON, 0x4000 - 0x100, 0),
        (0, 1, IRQS_ON, 0x4000 - 0x200, 1),
        (0, 1, IRQS_ON, 0x8000 - 0x300, 0),
        (0, 1, IRQS_ON, 0x8000 - 0x400, 1),
        // A stack below the one before, where its own calls would lie deeper.
        (0, 1, IRQS_ON, 0x4000 - 0x100, 0),
        (0, 1, IRQS_ON, 0x4000 - 0x200, 1),
    ]);
}

#[test]
fn other_stacks() {
    play(&[
        (0, 1, IRQS_ON, 0x4000 - 0x100, 0),
        (0, 1, IRQS_ON, 0x4000 - 0x200, 1),
        // On the stack of interrupts, though not yet in one.
        (0, 1, 0, 0xfff0, 0),
        (0, 1, 0, 0xff00, 1),
        (0, 1, IRQS_ON, 0x4000 - 0x300, 2),
        // Nothing is left of it.
        (0, 1, 0, 0xfe00, 0),
        // With interrupts off, and still on its own.
        (0, 1, 0, 0x4000 - 0x400, 3),
    ]);
}

#[test]
fn tasks_that_are_gone() {
    let mut replay = Replay::new(STACK);
    let mut enter = |pid: u32, sp: u64| {
        let event = Event {
            parent_ip: sp,
            context: ContextWord(ContextWord::place(sp, 0) | IRQS_ON),
            task: task(pid, pid, "task"),
            ..Event::default()
        };
        let entered = replay.enter(0, &event, &mut { NO_CODE });
        entered.expect("memory").depth
    };
    let pids = MAX_TASKS as u32;
    for round in 0..3u32 {
        for pid in 1..=pids {
            let sp = 0x3f00 - 8 * u64::from(round);
            assert_eq!(enter(pid, sp), round as usize);
        }
    }
    // One more than there is room for: the one that was not seen for the longest time goes.
    assert_eq!(enter(1, 0x3e00), 3);
    assert_eq!(enter(pids + 1, 0x3f00), 0);
    assert_eq!(enter(1, 0x3d00), 4);
    assert_eq!(enter(3, 0x3e00), 3);
    assert_eq!(enter(2, 0x3e00), 0);
}

#[test]
fn missing_events() {
    let mut replay = Replay::new(STACK);
    let enter = |replay: &mut Replay, cpu: u32, pid: u32, sp: u64| {
        let event = Event {
            parent_ip: sp,
            context: ContextWord(ContextWord::place(sp, 0) | IRQS_ON),
            task: task(pid, pid, "task"),
            ..Event::default()
        };
        let entered = replay.enter(cpu, &event, &mut { NO_CODE });
        entered.expect("memory").depth
    };
    for pid in 1..=3 {
        assert_eq!(enter(&mut replay, pid, pid, 0x3f00), 0);
        assert_eq!(enter(&mut replay, pid, pid, 0x3e00), 1);
    }
    replay.skip(1).expect("memory");
    // Calls that were open on that CPU are not known to be open any more, nor are those of the task
    // that comes there.
    assert_eq!(enter(&mut replay, 1, 1, 0x3d00), 0);
    assert_eq!(enter(&mut replay, 1, 1, 0x3c00), 1);
    assert_eq!(enter(&mut replay, 2, 2, 0x3d00), 2);
    assert_eq!(enter(&mut replay, 1, 3, 0x3d00), 0);
}
