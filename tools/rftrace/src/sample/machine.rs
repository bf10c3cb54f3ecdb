// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A machine that follows a script, and knows all of its calls: an analysis of its records can be
//! compared with the truth.

use std::collections::BTreeMap;

use rftrace_engine::engine::context::{HARDIRQ, IRQS_ON, SOFTIRQ};
use rftrace_engine::engine::slot::Task;

use super::{task, CpuSample, Edge, SampleMemory, TEXT};
use crate::stream::{CpuEvents, Error, MergedEvents};

/// Number of functions.
pub const FUNCTIONS: u8 = 6;
/// Distance from one function to the next, in bytes.
const FUNCTION_BYTES: u64 = 0x40;
/// Maximum depth of nested calls.
const MAX_DEPTH: usize = 8;

/// A step of a machine.
#[derive(Clone, Copy, Debug)]
pub enum MachineStep {
    /// A function is called on a CPU.
    Begin {
        /// The CPU.
        cpu: u8,
        /// The function.
        function: u8,
    },
    /// The innermost call on a CPU returns.
    End {
        /// The CPU.
        cpu: u8,
    },
    /// An interrupt calls a function.
    Interrupt {
        /// The CPU.
        cpu: u8,
        /// The function.
        function: u8,
        /// True for a hardirq, false for a softirq.
        is_hard: bool,
    },
    /// An interrupt comes, and ends, when a function was entered, and that is not recorded yet.
    InterruptedEntry {
        /// The CPU.
        cpu: u8,
        /// The function.
        function: u8,
    },
    /// A task goes on on a CPU, wherever it was before.
    Run {
        /// The CPU.
        cpu: u8,
        /// The task.
        task: u8,
    },
    /// The next events of a CPU are lost.
    Lose {
        /// The CPU.
        cpu: u8,
        /// Number of the events.
        events: u8,
    },
    /// A record of a CPU ends, and perhaps its sub-buffer.
    Cut {
        /// The CPU.
        cpu: u8,
        /// True if the sub-buffer goes on.
        is_within: bool,
    },
}

/// A call as it was.
#[derive(Clone, Debug)]
pub struct TrueCall {
    /// The function.
    pub ip: u64,
    /// The task.
    pub task: Task,
    /// Number of the call around it, or of the one that it interrupts.
    pub around: Option<usize>,
    /// True if it interrupts that call.
    pub is_interrupt: bool,
    /// Time at which it began.
    pub begin: u64,
    /// Time at which it ended, if it did.
    pub end: Option<u64>,
    /// The part of its time that neither calls nor interrupts had.
    pub self_time: u64,
    /// True if its entry was recorded, and not lost.
    pub entry_is_recorded: bool,
    /// True if its return was recorded, and not lost.
    pub end_is_recorded: bool,
    /// Bits of its context that tell of an interrupt.
    pub level: u32,
}

impl TrueCall {
    /// Returns the duration, if the call has ended.
    pub fn duration(&self) -> Option<u64> {
        self.end.map(|end| end - self.begin)
    }
}

/// A CPU of the machine.
struct SampleCpu {
    sample: CpuSample,
    task: usize,
    /// Number of events that are still to be lost.
    losing: u64,
    /// Time of its last event that was recorded and not lost.
    last: u64,
    /// True if events were lost since.
    has_lost: bool,
}

/// A machine.
pub struct SampleMachine {
    now: u64,
    is_recording: bool,
    cpus: Vec<SampleCpu>,
    /// Open calls of each task, by their numbers.
    tasks: Vec<(Task, Vec<usize>)>,
    /// All calls, by their numbers.
    pub calls: Vec<TrueCall>,
    /// Times in which events were lost: time of the last event before, and of the first one after.
    pub losses: Vec<(u64, u64)>,
    /// Time of the last event that was recorded.
    pub last: u64,
    /// Number of events that were recorded and lost.
    pub lost: u64,
}

/// Returns the address of a function.
pub fn ip(function: u8) -> u64 {
    TEXT + u64::from(function % FUNCTIONS) * FUNCTION_BYTES + 4
}

/// Returns the symbols of the functions, as `/proc/kallsyms` has them: `f0`, `f1`, ...
pub fn symbols() -> String {
    let line = |function| format!("{:x} T f{function}\n", ip(function) - 4);
    let end = TEXT + u64::from(FUNCTIONS) * FUNCTION_BYTES;
    (0..FUNCTIONS).map(line).collect::<String>() + &format!("{end:x} T _etext\n")
}

impl SampleMachine {
    /// Returns a machine of so many CPUs, with one task more. It records if `is_recording`.
    pub fn new(cpus: u8, is_recording: bool) -> Self {
        let cpu = |number: u8| SampleCpu {
            sample: CpuSample::new(number.into()),
            task: number.into(),
            losing: 0,
            last: 0,
            has_lost: false,
        };
        let task = |number: i32| {
            let comm = format!("task/{}", number % 2);
            (task(100 + number, 100 + number / 2 * 2, &comm), Vec::new())
        };
        Self {
            // Near the end of an epoch.
            now: (7 << 32) - 5000,
            is_recording,
            cpus: (0..cpus).map(cpu).collect(),
            tasks: (0..=i32::from(cpus)).map(task).collect(),
            calls: Vec::new(),
            losses: Vec::new(),
            last: 0,
            lost: 0,
        }
    }

    /// Starts recording.
    pub fn start(&mut self) {
        self.is_recording = true;
    }

    /// Does a step, so many ns after the last, and some more: nothing takes no time.
    pub fn step(&mut self, step: MachineStep, after: u16) {
        self.now += 20 + u64::from(after);
        let count = self.cpus.len();
        let of = |cpu: u8| usize::from(cpu) % count;
        match step {
            MachineStep::Begin { cpu, function } => self.begin(of(cpu), function, 0),
            MachineStep::End { cpu } => self.end(of(cpu)),
            MachineStep::Interrupt {
                cpu,
                function,
                is_hard,
            } => {
                let context = if is_hard { HARDIRQ } else { SOFTIRQ };
                self.begin(of(cpu), function, context);
            }
            MachineStep::InterruptedEntry { cpu, function } => self.interrupted(of(cpu), function),
            MachineStep::Run { cpu, task } => {
                self.run(of(cpu), usize::from(task) % self.tasks.len())
            }
            MachineStep::Lose { cpu, events } => self.cpus[of(cpu)].losing += u64::from(events % 8),
            MachineStep::Cut { cpu, is_within } => {
                let sample = &mut self.cpus[of(cpu)].sample;
                sample.complete();
                match is_within {
                    true => sample.cut_within(),
                    false => sample.cut(),
                }
            }
        }
    }

    fn level(&self, cpu: usize) -> u32 {
        let open = &self.tasks[self.cpus[cpu].task].1;
        open.last().map_or(0, |call| self.calls[*call].level)
    }

    fn begin(&mut self, cpu: usize, function: u8, level: u32) {
        // Only a higher level interrupts an interrupt.
        if level != 0 && level <= self.level(cpu) {
            return;
        }
        self.begin_at(cpu, function, level, 0);
    }

    fn begin_at(&mut self, cpu: usize, function: u8, interrupt: u32, too_deep: u32) {
        let level = interrupt.max(self.level(cpu));
        let number = self.calls.len();
        let (task, open) = &mut self.tasks[self.cpus[cpu].task];
        if open.len() >= MAX_DEPTH {
            return;
        }
        let around = open.last().copied();
        let edge = Edge {
            time: self.now,
            task: *task,
            ip: ip(function),
            parent_ip: TEXT + 0x20,
            depth: open.len() as u32 + too_deep,
            context: IRQS_ON | level,
        };
        open.push(number);
        let is_recorded = self.record(cpu, |sample| sample.entry(edge, number as u64));
        self.calls.push(TrueCall {
            ip: edge.ip,
            task: edge.task,
            around,
            is_interrupt: interrupt != 0,
            begin: self.now,
            end: None,
            self_time: 0,
            entry_is_recorded: is_recorded,
            end_is_recorded: false,
            level,
        });
    }

    fn end(&mut self, cpu: usize) {
        self.end_at(cpu, 0);
    }

    fn end_at(&mut self, cpu: usize, too_deep: u32) {
        let (task, open) = &mut self.tasks[self.cpus[cpu].task];
        let Some(number) = open.pop() else {
            return;
        };
        let call = &self.calls[number];
        let edge = Edge {
            time: self.now,
            task: *task,
            ip: call.ip,
            parent_ip: 0,
            depth: open.len() as u32 + too_deep,
            context: IRQS_ON | call.level,
        };
        let duration = self.now - call.begin;
        let is_recorded = self.record(cpu, |sample| sample.end(edge, number as u64, duration));
        let call = &mut self.calls[number];
        call.end = Some(self.now);
        call.end_is_recorded = is_recorded;
    }

    fn interrupted(&mut self, cpu: usize, function: u8) {
        // The interrupt that begins here finds one level more than there is in what is recorded.
        if self.level(cpu) != 0 {
            return;
        }
        let open = self.tasks[self.cpus[cpu].task].1.len();
        if open + 1 >= MAX_DEPTH {
            return;
        }
        self.begin_at(cpu, function, HARDIRQ, 1);
        self.now += 30;
        self.end_at(cpu, 1);
        self.now += 20;
        self.begin_at(cpu, function.wrapping_add(1), 0, 0);
    }

    /// Records an event on a CPU, unless that is lost.
    fn record(&mut self, cpu: usize, event: impl FnOnce(&mut CpuSample)) -> bool {
        if !self.is_recording {
            return false;
        }
        let cpu = &mut self.cpus[cpu];
        if cpu.losing > 0 {
            cpu.losing -= 1;
            cpu.sample.lose(1);
            cpu.has_lost = true;
            self.lost += 1;
            return false;
        }
        if std::mem::take(&mut cpu.has_lost) {
            self.losses.push((cpu.last, self.now));
        }
        event(&mut cpu.sample);
        cpu.last = self.now;
        self.last = self.now;
        true
    }

    fn run(&mut self, cpu: usize, task: usize) {
        let from = self.cpus.iter().position(|other| other.task == task);
        // Interrupts stay on their CPU.
        if self.level(cpu) != 0 || from.is_some_and(|from| self.level(from) != 0) {
            return;
        }
        let before = std::mem::replace(&mut self.cpus[cpu].task, task);
        if let Some(from) = from {
            self.cpus[from].task = before;
        }
    }

    /// Records an event on each CPU, to tell of losses.
    pub fn tell_losses(&mut self) {
        for cpu in 0..self.cpus.len() {
            self.cpus[cpu].losing = 0;
            if self.cpus[cpu].has_lost {
                self.now += 20;
                let depth = self.tasks[self.cpus[cpu].task].1.len();
                match depth {
                    0 => self.begin_at(cpu, 0, 0, 0),
                    _ => self.end(cpu),
                }
            }
        }
        self.add_up();
    }

    /// Computes the calls' own times.
    fn add_up(&mut self) {
        let mut others: BTreeMap<usize, u64> = BTreeMap::new();
        for call in &self.calls {
            let duration = call.end.unwrap_or(self.last).saturating_sub(call.begin);
            if let Some(around) = call.around {
                *others.entry(around).or_default() += duration;
            }
        }
        let last = self.last;
        for (number, call) in self.calls.iter_mut().enumerate() {
            let duration = call.end.unwrap_or(last).saturating_sub(call.begin);
            let others = others.get(&number).copied().unwrap_or(0);
            call.self_time = duration.saturating_sub(others);
        }
    }

    /// Returns the records of all CPUs.
    pub fn records(&self) -> Vec<Vec<u8>> {
        let cpus = self.cpus.iter();
        cpus.map(|cpu| cpu.sample.clone().finish().0).collect()
    }

    /// Returns the events of all CPUs.
    ///
    /// # Errors
    ///
    /// [`Error`] if they cannot be had.
    pub fn events(&self) -> Result<MergedEvents<SampleMemory>, Error> {
        let records = self.records().into_iter().zip(0..);
        MergedEvents::new(
            records.map(|(records, cpu)| CpuEvents::new(cpu, SampleMemory::of(records))),
        )
    }
}
