// SPDX-License-Identifier: GPL-2.0

//! Random programs run by tasks that are interrupted and migrate; the depths that follow from their
//! entries are compared with the true ones.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::cases;
use crate::engine::call_sites::{CallSites, CodeRole, FunctionCode};
use crate::engine::context::{ContextWord, Level, HARDIRQ, IRQS_ON, NMI, SOFTIRQ};
use crate::engine::decode::Event;
use crate::engine::replay::Replay;
use crate::support::task;

const STACK: u64 = 1 << 14;
const FUNCTION_BYTES: u64 = 0x1000;

/// Functions that always exist.
const SYSCALL: usize = 1;
const SYSVEC: usize = 2;
const NMI_ENTRY: usize = 3;
const IRQ_ENTER: usize = 4;
const IRQ_EXIT: usize = 5;
const HANDLE_SOFTIRQS: usize = 6;
const DO_SOFTIRQ: usize = 7;
const FIRST_PLAIN: usize = 8;
/// Functions in assembly or `noinstr`: never traced.
const NEVER: [usize; 3] = [SYSCALL, SYSVEC, NMI_ENTRY];

/// Numbers that look random, all of which follow from the first.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (self.0 >> 33) % end
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

enum Callees {
    Direct(usize),
    /// Calls any of these, by a pointer.
    Any(Vec<usize>),
}

struct Site {
    /// Offset of the return address from the function's start, in bytes.
    offset: u64,
    /// Size of the arguments on the stack, in bytes.
    arguments: u64,
    callees: Callees,
}

struct Function {
    /// Size of its frame, with the return address, in bytes.
    frame: u64,
    sites: Vec<Site>,
    /// The function that it sometimes ends with instead of a return.
    tail: Option<usize>,
}

/// The functions of a kernel.
struct Program {
    functions: Vec<Function>,
    traced: Vec<bool>,
    /// True if other functions are hidden than those that cannot be traced.
    is_filtered: bool,
}

fn start(function: usize) -> u64 {
    0xffff_ffff_8100_0000 + function as u64 * FUNCTION_BYTES
}

fn location(function: usize) -> u64 {
    start(function) + 4
}

impl Program {
    /// Returns functions that call each other, but only later ones if they do not `recurse`; each
    /// is hidden if `hides` says so.
    fn new(
        numbers: &mut Numbers,
        recurse: bool,
        mut hides: impl FnMut(&mut Numbers) -> bool,
    ) -> Self {
        // Half of them are only ever jumped to, and not by pointers: otherwise a jump cannot be
        // told from a call.
        const CALLED: usize = 10;
        const JUMPED_TO: usize = 8;
        let mut functions = Vec::new();
        let mut traced = Vec::new();
        let end = FIRST_PLAIN + CALLED;
        for function in 0..end + JUMPED_TO {
            let after = |first: usize| match recurse {
                true => first,
                false => first.max(function + 1),
            };
            let one_of = |numbers: &mut Numbers, first: usize, end: usize| {
                let first = after(first);
                (first < end).then(|| first + numbers.below((end - first) as u64) as usize)
            };
            let mut sites = Vec::new();
            for site in 0..numbers.below(4) {
                let callees = match numbers.one_in(3) {
                    true => (0..3)
                        .map(|_| one_of(numbers, FIRST_PLAIN, end))
                        .collect::<Option<Vec<_>>>()
                        .map(Callees::Any),
                    false if numbers.one_in(8) => Some(Callees::Direct(DO_SOFTIRQ)),
                    false => one_of(numbers, FIRST_PLAIN, end).map(Callees::Direct),
                };
                if let Some(callees) = callees.filter(|_| function >= FIRST_PLAIN) {
                    sites.push(Site {
                        offset: 0x100 + 0x10 * site,
                        arguments: 0,
                        callees,
                    });
                }
            }
            let tail = match function >= FIRST_PLAIN && numbers.one_in(3) {
                true => one_of(numbers, end, end + JUMPED_TO),
                false => None,
            };
            functions.push(Function {
                frame: 8 * (2 + numbers.below(20)),
                sites,
                // A jump to itself is a loop.
                tail: tail.filter(|tail| *tail != function),
            });
            traced.push(!NEVER.contains(&function) && function != 0 && !hides(numbers));
        }
        let mut program = Self {
            functions,
            traced,
            is_filtered: !recurse,
        };
        for function in FIRST_PLAIN..end + JUMPED_TO {
            // Not if it calls itself, or jumps to a function that does: which of its calls has
            // arguments on the stack and makes the next one, cannot be told.
            let is_alone = !program.comes_to(function);
            for site in &mut program.functions[function].sites {
                if is_alone && numbers.one_in(6) {
                    site.arguments = 16;
                }
            }
        }
        program
    }

    /// Returns whether a function that it calls is the function itself, or jumps there.
    fn comes_to(&self, function: usize) -> bool {
        self.functions[function].sites.iter().any(|site| {
            let callees = match &site.callees {
                Callees::Direct(callee) => std::slice::from_ref(callee),
                Callees::Any(callees) => callees,
            };
            callees.iter().any(|callee| {
                let mut jumped = HashSet::new();
                let mut next = Some(*callee);
                while let Some(function) = next.filter(|next| jumped.insert(*next)) {
                    next = self.functions[function].tail;
                }
                jumped.contains(&function)
            })
        })
    }
}

impl CallSites for &Program {
    fn code(&mut self, address: u64) -> FunctionCode {
        let function = (address - start(0)) / FUNCTION_BYTES;
        FunctionCode {
            start: start(function as usize),
            role: match function as usize {
                SYSCALL => CodeRole::TaskEntry,
                SYSVEC | NMI_ENTRY => CodeRole::InterruptEntry,
                IRQ_ENTER | IRQ_EXIT => CodeRole::InterruptEdge,
                _ => CodeRole::Plain,
            },
        }
    }

    fn target(&mut self, parent_ip: u64) -> Option<u64> {
        let function = ((parent_ip - start(0)) / FUNCTION_BYTES) as usize;
        let sites = &self.functions[function].sites;
        let site = sites
            .iter()
            .find(|site| start(function) + site.offset == parent_ip)?;
        match site.callees {
            Callees::Direct(callee) => Some(start(callee)),
            Callees::Any(_) => None,
        }
    }

    fn jumps(&mut self, from: u64, to: u64) -> bool {
        let function = ((from - start(0)) / FUNCTION_BYTES) as usize;
        self.functions[function].tail.map(location) == Some(to)
    }

    fn calls(&mut self, from: u64, to: u64) -> bool {
        let function = ((from - start(0)) / FUNCTION_BYTES) as usize;
        let to = ((to - start(0)) / FUNCTION_BYTES) as usize;
        let function = &self.functions[function];
        !self.is_filtered
            && (function.tail == Some(to)
                || (function.sites.iter())
                    .any(|site| matches!(site.callees, Callees::Direct(callee) if callee == to)))
    }

    fn is_traced(&mut self, start: u64) -> bool {
        self.traced[((start - self::start(0)) / FUNCTION_BYTES) as usize]
    }
}

/// A call that runs.
#[derive(Clone, Copy)]
struct Activation {
    function: usize,
    /// Address of its return address on the stack.
    sp: u64,
    /// Index of the event of the innermost traced call that it is below of, or is itself.
    traced: Option<usize>,
    /// True if it is that call itself.
    is_traced: bool,
    /// The number of traced calls that it is below of.
    depth: usize,
}

/// The truth of an entry, beside the event.
struct Truth {
    depth: usize,
    /// The event of its caller, if that is traced, and did call it.
    caller: Option<usize>,
    /// Address of the return address of its caller, traced or not.
    caller_sp: Option<u64>,
}

/// A task at work.
struct Run<'a> {
    program: &'a Program,
    numbers: &'a mut Numbers,
    pid: u32,
    cpu: u32,
    cpus: u64,
    /// Bits of the context that are set now.
    level: u32,
    tag: u32,
    events: Vec<(u32, Event)>,
    truths: Vec<Truth>,
    /// Number of calls that may still come.
    left: usize,
}

/// Returns the start of a stack: those of tasks are in three quarters of the window, those of
/// interrupts in the fourth.
fn task_stack(pid: u32) -> u64 {
    (u64::from(pid) % 3 + 1) * STACK
}

const IRQ_STACK: u64 = 4 * STACK;
const NMI_STACK: u64 = IRQ_STACK - STACK / 2;

impl Run<'_> {
    /// Enters a function, and runs it to its end. `parent` called it; by a jump if the return
    /// addresses are the same.
    fn call(
        &mut self,
        function: usize,
        sp: u64,
        parent_ip: u64,
        parent: Option<Activation>,
        bits: u32,
    ) {
        let mut activation = Activation {
            function,
            sp,
            traced: parent.and_then(|parent| parent.traced),
            is_traced: self.program.traced[function],
            depth: parent.map_or(0, |parent| parent.depth),
        };
        self.left = self.left.saturating_sub(1);
        if activation.is_traced {
            self.truths.push(Truth {
                depth: activation.depth,
                caller: parent
                    .filter(|parent| parent.is_traced && parent.sp != sp)
                    .and(activation.traced),
                caller_sp: parent.map(|parent| parent.sp),
            });
            activation.traced = Some(self.events.len());
            activation.depth += 1;
            let event = Event {
                time: self.events.len() as u64,
                ip: location(function),
                parent_ip,
                context: ContextWord(bits | ContextWord::place(sp, self.tag)),
                task: task(self.pid, self.pid, "task"),
                ..Event::default()
            };
            self.events.push((self.cpu, event));
        }
        match function {
            HANDLE_SOFTIRQS => self.in_level(SOFTIRQ, |run| {
                for _ in 0..=run.numbers.below(2) {
                    run.call_plain(&activation, 0x100);
                }
            }),
            DO_SOFTIRQ if self.level == 0 => {
                // On another stack, with interrupts off.
                self.call(
                    HANDLE_SOFTIRQS,
                    IRQ_STACK - 16,
                    start(DO_SOFTIRQ) + 0x80,
                    Some(activation),
                    0,
                );
            }
            _ => self.body(&activation),
        }
        if let Some(tail) = self.program.functions[function].tail {
            if self.left > 0 && self.numbers.one_in(2) {
                self.call(tail, sp, parent_ip, Some(activation), bits);
            }
        }
    }

    fn body(&mut self, activation: &Activation) {
        let function = &self.program.functions[activation.function];
        let has_room = (activation.sp - 1) % STACK > STACK / 8;
        for site in &function.sites {
            // The same site may come more than once, in a loop.
            for _ in 0..self.numbers.below(3) {
                if self.left == 0 || !has_room {
                    return;
                }
                self.interrupts();
                let callee = match &site.callees {
                    Callees::Direct(callee) => *callee,
                    Callees::Any(callees) => callees[self.numbers.below(3) as usize],
                };
                let sp = activation.sp - function.frame - site.arguments;
                let bits = self.bits();
                let parent_ip = start(activation.function) + site.offset;
                self.call(callee, sp, parent_ip, Some(*activation), bits);
            }
        }
    }

    /// Calls any function, from a place of its own.
    fn call_plain(&mut self, caller: &Activation, offset: u64) {
        let callee = FIRST_PLAIN + self.numbers.below(4) as usize;
        let sp = caller.sp - self.program.functions[caller.function].frame;
        let bits = self.bits();
        self.call(
            callee,
            sp,
            start(caller.function) + offset,
            Some(*caller),
            bits,
        );
    }

    fn bits(&mut self) -> u32 {
        self.level | if self.numbers.one_in(4) { 0 } else { IRQS_ON }
    }

    fn in_level(&mut self, level: u32, body: impl FnOnce(&mut Self)) {
        let before = self.level;
        self.level |= level;
        body(self);
        self.level = before;
    }

    /// Runs the interrupts that come between two calls.
    fn interrupts(&mut self) {
        if self.level & (HARDIRQ | NMI) == 0 && self.numbers.one_in(12) {
            self.interrupt();
        }
        if self.level & NMI == 0 && self.numbers.one_in(20) {
            let entry = Activation {
                function: NMI_ENTRY,
                sp: NMI_STACK - 8,
                traced: None,
                is_traced: false,
                depth: 0,
            };
            self.in_level(NMI, |run| run.call_plain(&entry, 0x100));
        }
        if self.level == 0 && self.numbers.one_in(10) {
            self.cpu = self.numbers.below(self.cpus) as u32;
        }
    }

    fn interrupt(&mut self) {
        // A softirq that is interrupted is on that stack already.
        let sp = match self.level & SOFTIRQ {
            0 => IRQ_STACK - 8,
            _ => IRQ_STACK - STACK / 4,
        };
        let entry = Activation {
            function: SYSVEC,
            sp,
            traced: None,
            is_traced: false,
            depth: 0,
        };
        let bits = self.level;
        self.call(IRQ_ENTER, sp - 8, start(SYSVEC) + 0x20, Some(entry), bits);
        self.in_level(HARDIRQ, |run| run.call_plain(&entry, 0x30));
        let before = self.events.len();
        self.call(IRQ_EXIT, sp - 8, start(SYSVEC) + 0x40, Some(entry), bits);
        if self.level & SOFTIRQ == 0 && self.numbers.one_in(2) {
            let is_traced = self.program.traced[IRQ_EXIT];
            let exit = Activation {
                function: IRQ_EXIT,
                sp: sp - 8,
                traced: is_traced.then_some(before),
                is_traced,
                depth: usize::from(is_traced),
            };
            let sp = exit.sp - self.program.functions[IRQ_EXIT].frame;
            self.call(
                HANDLE_SOFTIRQS,
                sp,
                start(IRQ_EXIT) + 0x50,
                Some(exit),
                bits,
            );
        }
    }

    /// Makes system calls, each of which begins at another height.
    fn system_calls(&mut self) {
        while self.left > 0 {
            self.tag = self.numbers.below(8) as u32;
            let entry = Activation {
                function: SYSCALL,
                sp: task_stack(self.pid) - 0x200 - 16 * self.numbers.below(64),
                traced: None,
                is_traced: false,
                depth: 0,
            };
            for _ in 0..=self.numbers.below(2) {
                self.call_plain(&entry, 0x100 + 0x10 * u64::from(self.tag));
            }
        }
    }
}

/// Returns entries in the order of time, each with the truth about it.
fn run(
    program: &Program,
    numbers: &mut Numbers,
    tasks: u32,
    cpus: u64,
) -> Vec<(u32, Event, Truth)> {
    let mut runs = Vec::new();
    for pid in 1..=tasks {
        let mut run = Run {
            program,
            numbers,
            pid,
            cpu: 0,
            cpus,
            level: 0,
            tag: 0,
            events: Vec::new(),
            truths: Vec::new(),
            left: 400,
        };
        run.system_calls();
        let pairs = run.events.into_iter().zip(run.truths);
        let entries: Vec<_> = pairs
            .map(|((cpu, event), truth)| (cpu, event, truth))
            .collect();
        runs.push((entries.into_iter().peekable(), 0u64));
    }
    // In turns; a truth's caller is then counted within its task.
    let mut all = Vec::new();
    loop {
        runs.retain_mut(|(entries, _)| entries.peek().is_some());
        if runs.is_empty() {
            return all;
        }
        let index = numbers.below(runs.len() as u64) as usize;
        for _ in 0..=numbers.below(9) {
            all.extend(runs[index].0.next());
        }
    }
}

/// Plays the entries; calls `check` with each one, its depth and those of the same task before it.
fn play(
    program: &Program,
    entries: &[(u32, Event, Truth)],
    mut check: impl FnMut(&Event, &Truth, usize, &[usize]) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let mut replay = Replay::new(STACK as u32);
    let mut depths: HashMap<i32, Vec<usize>> = HashMap::new();
    for (cpu, event, truth) in entries {
        let mut sites = program;
        let entered = replay.enter(*cpu, event, &mut sites).expect("memory");
        // Every root is there.
        prop_assert_eq!(entered.missing, 0);
        let before = depths.entry(event.task.pid()).or_default();
        check(event, truth, entered.depth, before)?;
        before.push(entered.depth);
    }
    Ok(())
}

/// Returns whether the event is of the begin or the end of an interrupt: on that level, but no tree
/// of the interrupt begins there.
fn is_edge(event: &Event) -> bool {
    let caller = ((event.parent_ip - start(0)) / FUNCTION_BYTES) as usize;
    (event.context.level() as usize) < Level::Hardirq as usize
        && [SYSVEC, IRQ_EXIT].contains(&caller)
}

/// Signs that a task's depths are guesses, until another tree begins:
///
/// - One of its calls lies where its hidden caller would make another call, with up to 64 bytes of
///   arguments, from where that was met before: it is taken to be the same call of that.
/// - A call lies on the stack of interrupts, and where the task's own is, is not known yet.
#[derive(Default)]
struct Guesses {
    /// True once it had an event with interrupts on.
    is_known: bool,
    levels: [Tree; 4],
}

/// The tree that is open on a level.
#[derive(Default)]
struct Tree {
    /// Hidden callers that were met, with the places of the calls, and of their own return
    /// addresses.
    met: Vec<(u64, u16, Option<u64>)>,
    is_guess: bool,
}

impl Guesses {
    fn meet(&mut self, program: &Program, event: &Event, truth: &Truth, depth: usize) -> bool {
        let level = event.context.level() as usize;
        // What interrupted it is over.
        for over in &mut self.levels[level + 1..] {
            *over = Default::default();
        }
        let Tree { met, is_guess } = &mut self.levels[level];
        let caller = (event.parent_ip - start(0)) / FUNCTION_BYTES;
        if depth == 0 && !is_edge(event) {
            met.clear();
            *is_guess &= truth.depth != 0;
        }
        let offset = event.context.stack_offset();
        if event.context.level() == Level::Task {
            self.is_known |= event.context.has(IRQS_ON);
            *is_guess |=
                !self.is_known && caller as usize == DO_SOFTIRQ && !program.traced[DO_SOFTIRQ];
        }
        if !program.traced[caller as usize] {
            *is_guess |= met.iter().any(|(of, at, sp)| {
                *of == caller
                    && (1..=8).contains(&at.wrapping_sub(offset))
                    && *sp != truth.caller_sp
            });
            met.push((caller, offset, truth.caller_sp));
        }
        self.levels.iter().any(|tree| tree.is_guess)
    }
}

proptest! {
    #![proptest_config(cases(if cfg!(miri) { 256 } else { 600 }))]

    /// Depths are right where all functions are traced that can be.
    #[test]
    fn all_functions(seed in any::<u64>(), tasks in 1..5u32, cpus in 1..4u64) {
        let mut numbers = Numbers(seed);
        let program = Program::new(&mut numbers, true, |_| false);
        let entries = run(&program, &mut numbers, tasks, cpus);
        play(&program, &entries, |event, truth, depth, before| {
            prop_assert_eq!(depth, truth.depth, "event {} of {}", before.len(), event.task.pid());
            Ok(())
        })?;
    }

    /// A call is right below its caller, where any functions are hidden, if the caller is traced
    /// and no function calls itself.
    #[test]
    fn hidden_functions(seed in any::<u64>(), tasks in 1..4u32, one_in in 2..6u64) {
        let mut numbers = Numbers(seed);
        let program = Program::new(&mut numbers, false, |numbers| numbers.one_in(one_in));
        let entries = run(&program, &mut numbers, tasks, 2);
        // By the outermost call site of a tree that is met again, another tree is taken to begin:
        // where that is guessed, nothing is certain until the next system call.
        let mut outermost = HashMap::new();
        let mut guesses: HashMap<i32, Guesses> = HashMap::new();
        play(&program, &entries, |event, truth, depth, before| {
            let guesses = guesses.entry(event.task.pid()).or_default();
            let is_guess = guesses.meet(&program, event, truth, depth);
            if event.context.level() == Level::Task && !is_edge(event) {
                let (site, is_met) = outermost.entry(event.task.pid()).or_insert((0, false));
                if event.parent_ip / FUNCTION_BYTES == start(SYSCALL) / FUNCTION_BYTES {
                    (*site, *is_met) = (event.parent_ip, false);
                } else if depth == 0 && !*is_met {
                    *is_met = *site == event.parent_ip;
                    *site = event.parent_ip;
                }
                if *is_met {
                    return Ok(());
                }
            }
            if let Some(caller) = truth.caller.filter(|_| !is_guess) {
                prop_assert_eq!(depth, before[caller] + 1, "event {} of {}", before.len(), event.task.pid());
            }
            Ok(())
        })?;
    }
}

/// The test's own programs contain all that they are made for.
#[test]
fn programs_have_all_there_is() {
    let mut seen = HashSet::new();
    for seed in 0..if cfg!(miri) { 5 } else { 50 } {
        let mut numbers = Numbers(seed);
        let program = Program::new(&mut numbers, true, |_| false);
        let entries = run(&program, &mut numbers, 3, 2);
        for pair in entries.windows(2) {
            let [(_, first, Truth { depth: before, .. }), (_, event, truth)] = pair else {
                continue;
            };
            seen.insert(("level", event.context.level() as usize));
            let is_tail = first.parent_ip == event.parent_ip
                && first.context.stack_offset() == event.context.stack_offset()
                && first.task == event.task;
            if is_tail {
                seen.insert(("at the same place", usize::from(truth.depth == before + 1)));
            }
            if truth.depth >= 10 {
                seen.insert(("deep", 0));
            }
        }
    }
    for what in [
        ("level", 0),
        ("level", 1),
        ("level", 2),
        ("level", 3),
        ("at the same place", 0),
        ("at the same place", 1),
        ("deep", 0),
    ] {
        assert!(seen.contains(&what), "no {what:?}");
    }
}
