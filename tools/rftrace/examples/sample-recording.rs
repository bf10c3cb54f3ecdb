// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Writes a recording of made-up calls, for tests of its readers: `sample-recording FILE
//! [graph|function] [EVENTS]`.
//!
//! It has two CPUs, tasks with threads, one that migrates, interrupts, softirqs in them, errors
//! that are returned, arguments, marks and losses. All that was put in is printed, a line for each
//! event: `CPU TIME COMM PID TGID KIND DEPTH LEVEL NAME DURATION LOST`.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use rftrace_cli::recording::{ClockPair, CpuTotals, RecordingEnd, RecordingSettings, Writer};
use rftrace_engine::engine::consumer::TakenSlots;
use rftrace_engine::engine::context::{HARDIRQ, IRQS_ON, SOFTIRQ};
use rftrace_engine::engine::decode::Decoder;
use rftrace_engine::engine::marker::TEXT_BYTES;
use rftrace_engine::engine::raw::{begin_record, TimeFormat, BEGIN_BYTES};
use rftrace_engine::engine::slot::{SlotKind, SlotWords, Task};

const START: u64 = 10_000_000_000;
const CPUS: usize = 2;
/// Functions; their addresses follow from their places.
const FUNCTIONS: [&str; 14] = [
    "path_mount",
    "security_sb_mount",
    "tomoyo_sb_mount",
    "ns_capable",
    "vfs_get_tree",
    "alloc_super",
    "ext4_fill_super",
    "kfree",
    "_raw_spin_lock",
    "handle_irq_event",
    "tick_handle_periodic",
    "handle_softirqs",
    "tracing_mark_write",
    "__x64_sys_mount",
];
const IRQ: usize = 9;
const SOFT: usize = 11;
const MARK: usize = 12;
const CALLER: usize = 13;

fn address(function: usize) -> u64 {
    0xffff_ffff_8100_0000 + 0x100 * function as u64
}

fn task(pid: u64, tgid: u64, comm: &str) -> Task {
    let mut bytes = [0; 16];
    bytes[..comm.len()].copy_from_slice(comm.as_bytes());
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    Task {
        ids: pid | (tgid << 32),
        comm: [word(0), word(8)],
    }
}

/// A generator of numbers that are the same each time (Knuth's MMIX).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// The records of a CPU.
#[derive(Default)]
struct Cpu {
    now: u64,
    records: Vec<u8>,
    in_records: u32,
    slots: Vec<SlotWords>,
    events: u64,
    first_event: u64,
    epoch: u64,
    task: Option<Task>,
    seq: u64,
    /// Number of events lost before the slots.
    lost: u64,
    /// Number of events, lost ones included.
    seen: u64,
    /// True while events are being lost.
    is_losing: bool,
    all_lost: u64,
}

/// An event as it is put in.
#[derive(Clone, Copy)]
struct Put {
    kind: SlotKind,
    task: Task,
    function: usize,
    depth: u32,
    level: u32,
    time: u64,
    duration: u64,
    retval: Option<u64>,
}

struct Sample {
    random: Random,
    cpus: Vec<Cpu>,
    writer: Writer,
    truth: BufWriter<io::Stdout>,
    count: u64,
    is_graph: bool,
}

impl Sample {
    /// Ends the open record, and writes all records if they are many.
    fn end_record(&mut self, cpu: usize) -> io::Result<()> {
        let at = &mut self.cpus[cpu];
        if at.events == 0 {
            return Ok(());
        }
        at.seq += 1;
        let chunk = TakenSlots {
            slots: 0..at.slots.len(),
            seq: at.seq,
            first_event: at.first_event,
            events: at.events,
            lost: std::mem::take(&mut at.lost),
            decoder: Decoder::default(),
        };
        let time = TimeFormat {
            clock: 0,
            is_ns: true,
            mult: 1,
            shift: 0,
            offset: 0,
        };
        let mut begin = [0; BEGIN_BYTES];
        let begin = begin_record(&mut begin, &chunk, cpu as u32, &time);
        at.records.extend(begin);
        at.records.extend(SlotWords::as_bytes(&at.slots));
        at.in_records += at.events as u32;
        at.first_event += at.events;
        at.events = 0;
        at.slots.clear();
        at.task = None;
        match at.records.len() > 1 << 20 {
            true => self.flush(cpu),
            false => Ok(()),
        }
    }

    fn flush(&mut self, cpu: usize) -> io::Result<()> {
        let at = &mut self.cpus[cpu];
        if at.records.is_empty() {
            return Ok(());
        }
        self.writer.events(cpu as u32, &at.records, at.in_records)?;
        at.records.clear();
        at.in_records = 0;
        Ok(())
    }

    fn put(&mut self, cpu: usize, put: Put, text: &[u8]) -> io::Result<()> {
        self.count += 1;
        self.cpus[cpu].seen += 1;
        // Even in the middle of calls.
        if self.cpus[cpu].is_losing || (cpu == 1 && self.cpus[cpu].seen % 1500 > 1450) {
            self.end_record(cpu)?;
            let at = &mut self.cpus[cpu];
            at.lost += 1;
            at.all_lost += 1;
            return Ok(());
        }
        let at = &mut self.cpus[cpu];
        if at.task.is_none() || at.epoch != put.time >> 32 {
            at.epoch = put.time >> 32;
            at.slots.push(SlotWords::time_slot(put.time));
        }
        if at.task != Some(put.task) {
            at.task = Some(put.task);
            at.slots.extend(SlotWords::task_slots(&put.task));
        }
        let context = put.level | IRQS_ON;
        let ip = address(put.function);
        let lost = if at.events == 0 { at.lost } else { 0 };
        match put.kind {
            SlotKind::Function => {
                let parent_ip = address(CALLER) + 8;
                at.slots
                    .push(SlotWords::entry(ip, parent_ip, context, put.time));
            }
            SlotKind::Marker => {
                at.slots
                    .extend(text.chunks(TEXT_BYTES).map(SlotWords::text_slot));
                let length = text.len() as u32;
                at.slots.push(SlotWords::marker(
                    SlotKind::Marker,
                    ip,
                    put.time,
                    context,
                    length,
                ));
            }
            kind => {
                if kind != SlotKind::CallEntry {
                    at.slots.extend(put.retval.map(SlotWords::retval_slot));
                }
                if kind != SlotKind::Return && put.function == 0 {
                    let args = [0x1000, 7, u64::MAX, 0, 0xffff_8880_0000_1000, 1];
                    at.slots.extend(SlotWords::args_slots(&args).slots());
                }
                let parent_ip = address(CALLER) + 8;
                let high = match kind {
                    SlotKind::CallEntry => parent_ip,
                    _ => put.duration,
                } as u32;
                if put.duration >> 32 != 0 {
                    at.slots.push(SlotWords::long_slot(put.duration));
                }
                let slot = SlotWords::call(kind, ip, put.time, put.depth, context, high);
                at.slots.push(slot);
            }
        }
        at.events += 1;
        let mut comm = [0; 16];
        let comm = String::from_utf8_lossy(put.task.name(&mut comm)).into_owned();
        let kind = match put.kind {
            SlotKind::Function => "function",
            SlotKind::Marker => "mark",
            SlotKind::CallEntry => "entry",
            SlotKind::Call => "call",
            _ => "return",
        };
        let level = match put.level {
            0 => "task",
            SOFTIRQ => "softirq",
            _ => "hardirq",
        };
        writeln!(
            self.truth,
            "{cpu} {} {comm} {} {} {kind} {} {level} {} {} {lost}",
            put.time,
            put.task.pid(),
            put.task.tgid(),
            put.depth,
            FUNCTIONS[put.function],
            put.duration
        )?;
        match self.cpus[cpu].events >= 2000 {
            true => self.end_record(cpu),
            false => Ok(()),
        }
    }

    /// Makes a call, with calls and perhaps interrupts in it.
    fn call(
        &mut self,
        cpu: usize,
        task: Task,
        function: usize,
        depth: u32,
        level: u32,
    ) -> io::Result<()> {
        self.cpus[cpu].now += 50 + self.random.below(200);
        let begin = self.cpus[cpu].now;
        let mut put = Put {
            kind: SlotKind::CallEntry,
            task,
            function,
            depth,
            level,
            time: begin,
            duration: 0,
            retval: None,
        };
        if !self.is_graph {
            put.kind = SlotKind::Function;
            put.depth = 0;
            self.put(cpu, put, &[])?;
        }
        let children = match depth {
            0 => 3,
            1..=4 => self.random.below(4),
            _ => 0,
        };
        let is_interrupted = level == 0 && self.random.below(40) == 0;
        let is_long = self.random.below(200) == 0;
        let is_leaf = children == 0 && !is_interrupted;
        if !is_leaf && self.is_graph {
            self.put(cpu, put, &[])?;
        }
        for _ in 0..children {
            let callee = match level {
                0 => 1 + self.random.below(8) as usize,
                _ => 7 + self.random.below(2) as usize,
            };
            self.call(cpu, task, callee, depth + 1, level)?;
        }
        if is_interrupted {
            self.call(cpu, task, IRQ, depth + 1, HARDIRQ)?;
            self.call(cpu, task, SOFT, depth + 1, SOFTIRQ)?;
        }
        let more = if is_long { 3_000_000 } else { 2_000 };
        self.cpus[cpu].now += 20 + self.random.below(more);
        let end = self.cpus[cpu].now;
        put.duration = end - begin;
        put.retval = match self.random.below(4) {
            0 => Some(-22_i64 as u64),
            1 => Some(0xffff_8880_1234_5600),
            _ => Some(0),
        };
        if self.is_graph {
            (put.kind, put.time) = match is_leaf {
                true => (SlotKind::Call, begin),
                false => (SlotKind::Return, end),
            };
            self.put(cpu, put, &[])?;
        }
        Ok(())
    }

    fn mark(&mut self, cpu: usize, task: Task, text: &str) -> io::Result<()> {
        self.cpus[cpu].now += 100;
        let put = Put {
            kind: SlotKind::Marker,
            task,
            function: MARK,
            depth: 0,
            level: 0,
            time: self.cpus[cpu].now,
            duration: 0,
            retval: None,
        };
        self.put(cpu, put, text.as_bytes())
    }

    /// Makes a call that begins on one CPU and ends on the other, with another task meanwhile.
    fn migrate(&mut self, task: Task, other: Task) -> io::Result<()> {
        let begin = self.cpus[0].now + 100;
        self.cpus[0].now = begin;
        let mut put = Put {
            kind: SlotKind::CallEntry,
            task,
            function: 4,
            depth: 0,
            level: 0,
            time: begin,
            duration: 0,
            retval: None,
        };
        self.put(0, put, &[])?;
        self.call(0, other, 0, 0, 0)?;
        let end = self.cpus[0].now.max(self.cpus[1].now) + 100;
        self.cpus[1].now = end;
        put.kind = SlotKind::Return;
        put.time = end;
        put.duration = end - begin;
        put.retval = Some(0);
        self.put(1, put, &[])
    }

    fn fill(&mut self, events: u64) -> io::Result<()> {
        let mount = task(121, 121, "mount");
        let threads = [task(130, 130, "worker"), task(131, 130, "worker/1")];
        let mover = task(140, 140, "mover");
        let idle = task(0, 0, "swapper/1");
        for round in 0.. {
            self.call(0, mount, 0, 0, 0)?;
            self.call(1, threads[round % 2], 0, 0, 0)?;
            if round % 50 == 3 && self.is_graph {
                self.migrate(mover, mount)?;
            }
            if round % 50 == 5 {
                self.call(1, idle, IRQ, 0, HARDIRQ)?;
            }
            if round % 100 == 7 {
                self.mark(0, mount, &format!("round {round}: half of it\n"))?;
            }
            if self.count >= events {
                break;
            }
        }
        // The beginning of a call that never ends.
        let open = Put {
            kind: if self.is_graph {
                SlotKind::CallEntry
            } else {
                SlotKind::Function
            },
            task: mount,
            function: 0,
            depth: 0,
            level: 0,
            time: self.cpus[0].now + 100,
            duration: 0,
            retval: None,
        };
        self.put(0, open, &[])?;
        // And losses that no event tells of.
        self.cpus[0].is_losing = true;
        self.call(0, mount, 0, 0, 0)?;
        for cpu in 0..CPUS {
            self.end_record(cpu)?;
            self.flush(cpu)?;
        }
        Ok(())
    }
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments
        .next()
        .expect("usage: sample-recording FILE [graph|function] [EVENTS]");
    let is_graph = arguments.next().as_deref() != Some("function");
    let events = arguments
        .next()
        .map_or(2_000, |number| number.parse().expect("a number"));
    let start = ClockPair {
        trace_ns: START,
        realtime_ns: 1_790_000_000_000_000_000,
        boottime_ns: START + 1_000_000_000,
    };
    let settings = RecordingSettings {
        rftrace: env!("CARGO_PKG_VERSION").into(),
        release: "7.3.4+deb13-amd64".into(),
        version: "#1 SMP PREEMPT_DYNAMIC Debian 7.3.4-1".into(),
        machine: "x86_64".into(),
        host: "sample".into(),
        tracer: if is_graph {
            "function_graph"
        } else {
            "function"
        }
        .into(),
        cpus: vec![0, 1],
        clock: "local".into(),
        start,
        ..RecordingSettings::default()
    };
    let writer = Writer::new(File::create(path)?, &settings)?;
    let mut symbols = format!("{:016x} T _stext\n", address(0) - 0x100);
    for (function, name) in FUNCTIONS.iter().enumerate() {
        symbols.push_str(&format!("{:016x} T {name}\n", address(function)));
    }
    symbols.push_str(&format!("{:016x} T _etext\n", address(FUNCTIONS.len())));
    writer.symbols(&symbols)?;
    let cpu = || Cpu {
        now: START + 1_000,
        ..Cpu::default()
    };
    let mut sample = Sample {
        random: Random(1),
        cpus: (0..CPUS).map(|_| cpu()).collect(),
        writer,
        truth: BufWriter::new(io::stdout()),
        count: 0,
        is_graph,
    };
    sample.fill(events)?;
    let totals = sample
        .cpus
        .iter()
        .enumerate()
        .map(|(number, cpu)| CpuTotals {
            cpu: number as u32,
            written: cpu.first_event + cpu.all_lost,
            read: cpu.first_event,
            overwritten: cpu.all_lost,
            ..CpuTotals::default()
        });
    let last = sample.cpus.iter().map(|cpu| cpu.now).max().unwrap_or(START);
    let later = |ns: u64| ns + (last - START);
    let end = RecordingEnd {
        end: ClockPair {
            trace_ns: last,
            realtime_ns: later(start.realtime_ns),
            boottime_ns: later(start.boottime_ns),
        },
        cpus: totals.collect(),
        lost: vec![("missed returns".into(), 3), ("calls too deep".into(), 0)],
        ..RecordingEnd::default()
    };
    sample.writer.end(&end)?;
    sample.truth.flush()
}
