// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Writes a recording of a made-up machine, for measurements: `make_recording FILE EVENTS [CPUS]`.
//!
//! Tasks on each CPU make calls that look like those of a kernel: of some 2,000 functions, mostly
//! leaves, up to 30 deep, with an interrupt now and then. The same numbers give the same file.

use std::fmt::Write;
use std::fs::File;
use std::path::Path;
use std::process::ExitCode;

use rftrace_cli::recording::{CpuTotals, RecordingEnd, RecordingSettings, Writer};
use rftrace_cli::sample::{self, CpuSample, Edge};
use rftrace_engine::engine::context::{HARDIRQ, IRQS_ON};
use rftrace_engine::engine::slot::Task;

/// Size of a chunk before it is compressed.
const CHUNK: usize = 1 << 20;
/// Number of functions.
const FUNCTIONS: u64 = 2000;
/// Maximum depth of nested calls.
const MAX_DEPTH: usize = 30;

/// A generator of numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        (high * bound) >> 32
    }
}

struct Open {
    edge: Edge,
    number: u64,
}

/// A CPU with its tasks.
struct Cpu {
    number: u32,
    random: Random,
    now: u64,
    calls: u64,
    tasks: Vec<(Task, Vec<Open>)>,
    current: usize,
    sample: CpuSample,
}

impl Cpu {
    fn new(number: u32) -> Self {
        let tasks = (0..16).map(|index| {
            let pid = 1000 + number as i32 * 16 + index;
            let comm = format!("worker/{}", index % 5);
            (sample::task(pid, pid, &comm), Vec::new())
        });
        Self {
            number,
            random: Random(0x9e37_79b9_7f4a_7c15 ^ u64::from(number)),
            now: 1_000_000_000 + u64::from(number),
            calls: 0,
            tasks: tasks.collect(),
            current: 0,
            sample: CpuSample::new(number),
        }
    }

    /// Begins or ends one more call.
    fn step(&mut self) {
        self.now += 20 + self.random.below(200);
        let open = self.tasks[self.current].1.len();
        let wants_more = self.random.below(100) < if open < 6 { 55 } else { 40 };
        match (open, wants_more) {
            (0, _) => self.begin(IRQS_ON),
            (1..MAX_DEPTH, true) => self.begin(IRQS_ON),
            _ => self.end(),
        }
        match self.random.below(2000) {
            // The task sleeps.
            0 => self.current = self.random.below(self.tasks.len() as u64) as usize,
            // An interrupt.
            1 => {
                let depth = self.tasks[self.current].1.len();
                for _ in 0..4 {
                    self.begin(HARDIRQ);
                }
                while self.tasks[self.current].1.len() > depth {
                    self.now += 50;
                    self.end();
                }
            }
            _ => {}
        }
    }

    fn begin(&mut self, context: u32) {
        // A function calls few others, and one of these above all.
        let kind = match self.random.below(100) {
            0..80 => 0,
            80..95 => 1,
            rare => rare,
        };
        let (task, open) = &mut self.tasks[self.current];
        let parent = open.last().map_or(sample::TEXT, |open| open.edge.ip);
        let callee = (parent >> 4)
            .wrapping_mul(0x9e37_79b9)
            .wrapping_add(kind * 7919);
        let edge = Edge {
            time: self.now,
            task: *task,
            ip: sample::TEXT + 4 + (callee % FUNCTIONS) * 64,
            parent_ip: parent + 20,
            depth: open.len() as u32,
            context,
        };
        self.calls += 1;
        let number = self.calls;
        self.sample.entry(edge, number);
        open.push(Open { edge, number });
    }

    fn end(&mut self) {
        if let Some(open) = self.tasks[self.current].1.pop() {
            let edge = Edge {
                time: self.now,
                ..open.edge
            };
            self.sample
                .end(edge, open.number, self.now - open.edge.time);
        }
    }

    /// Writes chunks of at least so many events, and returns how many there were.
    fn chunk(&mut self, writer: &Writer) -> std::io::Result<u64> {
        while self.sample.len() < CHUNK {
            for _ in 0..3000 {
                self.step();
            }
            self.sample.complete();
            self.sample.cut();
        }
        let (records, events) = self.sample.take();
        writer.events(self.number, &records, events)?;
        Ok(events.into())
    }
}

fn make(path: &Path, events: u64, cpus: u32) -> std::io::Result<()> {
    let settings = RecordingSettings {
        rftrace: "sample".into(),
        tracer: "function_graph".into(),
        clock: "local".into(),
        cpus: (0..cpus).collect(),
        ..RecordingSettings::default()
    };
    let writer = Writer::new(File::create(path)?, &settings)?;
    let mut symbols = String::new();
    for function in 0..FUNCTIONS {
        let address = sample::TEXT + function * 64;
        let _ = writeln!(symbols, "{address:x} T function_{function}");
    }
    let _ = writeln!(symbols, "{:x} T _etext", sample::TEXT + FUNCTIONS * 64);
    writer.symbols(&symbols)?;
    let mut machine: Vec<Cpu> = (0..cpus).map(Cpu::new).collect();
    let mut totals = vec![0; machine.len()];
    while totals.iter().sum::<u64>() < events {
        for (cpu, total) in machine.iter_mut().zip(&mut totals) {
            *total += cpu.chunk(&writer)?;
        }
    }
    let totals = totals.iter().zip(0..).map(|(events, cpu)| CpuTotals {
        cpu,
        written: *events,
        read: *events,
        ..CpuTotals::default()
    });
    let end = RecordingEnd {
        cpus: totals.collect(),
        ..RecordingEnd::default()
    };
    writer.end(&end)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize| arguments.get(place).and_then(|text| text.parse().ok());
    let (Some(path), Some(events)) = (arguments.first(), number(1)) else {
        eprintln!("usage: make_recording FILE EVENTS [CPUS]");
        return ExitCode::from(2);
    };
    let cpus = number(2).unwrap_or(4);
    match make(Path::new(path), events, cpus as u32) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("make_recording: {path}: {error}");
            ExitCode::FAILURE
        }
    }
}
