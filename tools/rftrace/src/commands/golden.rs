// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Golden tests of the verbs that read a recording, word for word. `UPDATE_EXPECT=1` writes the
//! texts that have changed.

use std::path::{Path, PathBuf};

use clap::FromArgMatches;
use expect_test::expect_file;

use super::{export, graph, info, replay, report};
use crate::cli::{command, Cli, Verb};
use crate::recording::{ClockPair, CpuTotals, RecordingEnd, RecordingSettings, Writer};
use crate::sample::{task, CpuSample, Edge, TEXT};

/// Functions, each of 64 bytes.
const FUNCTIONS: [&str; 6] = [
    "do_syscall_64",
    "vfs_read",
    "ext4_read",
    "kmalloc",
    "handle_irq",
    "vfs_write",
];

fn ip(function: &str) -> u64 {
    let index = FUNCTIONS.iter().position(|name| *name == function);
    TEXT + 64 * index.unwrap() as u64 + 4
}

/// In hardirq context, interrupts off.
const HARDIRQ: u32 = rftrace_engine::engine::context::HARDIRQ;
const IRQS_ON: u32 = rftrace_engine::engine::context::IRQS_ON;

/// Writes a recording: `cat` reads, and is interrupted; `dd` writes on the other CPU, where some
/// events are lost; one call is open at the end.
fn recording(folder: &Path) -> PathBuf {
    let path = folder.join("sample.data");
    let settings = RecordingSettings {
        rftrace: "0.1.0".into(),
        release: "7.3.4".into(),
        version: "#1 SMP".into(),
        machine: "x86_64".into(),
        host: "sample".into(),
        tracer: "function_graph".into(),
        cpus: vec![0, 1],
        clock: "local".into(),
        start: ClockPair {
            trace_ns: 1_000_000_000,
            realtime_ns: 1_795_430_605_000_000_000,
            boottime_ns: 1_000_000_000,
        },
        command: vec!["cat".into()],
        arguments: vec!["record".into(), "cat".into()],
        files: vec![("current_tracer".into(), "function_graph".into())],
        irq_text: (0, 0),
    };
    let writer = Writer::new(std::fs::File::create(&path).unwrap(), &settings).unwrap();
    let lines = (FUNCTIONS.iter().enumerate())
        .map(|(index, name)| format!("{:x} t {name}", TEXT + 64 * index as u64));
    let lines: Vec<String> = lines.collect();
    writer.symbols(&lines.join("\n")).unwrap();

    let mut number = 0;
    let mut cpus = [CpuSample::new(0), CpuSample::new(1)];
    let (cat, dd) = (task(7, 7, "cat"), task(9, 8, "dd"));
    let edge = |time: u64, task, function, depth, context| Edge {
        time: 1_000_000_000 + time,
        task,
        ip: ip(function),
        parent_ip: ip("do_syscall_64") + 9,
        depth,
        context,
    };
    let mut entry = |cpus: &mut [CpuSample; 2], cpu: usize, edge: Edge| {
        number += 1;
        cpus[cpu].entry(edge, number);
        number
    };
    let read = entry(&mut cpus, 0, edge(1000, cat, "vfs_read", 0, IRQS_ON));
    let allocate = entry(&mut cpus, 0, edge(1500, cat, "kmalloc", 1, IRQS_ON));
    cpus[0].end(edge(1500, cat, "kmalloc", 1, IRQS_ON), allocate, 250);
    let ext4 = entry(&mut cpus, 0, edge(2000, cat, "ext4_read", 1, IRQS_ON));
    let irq = entry(&mut cpus, 0, edge(3000, cat, "handle_irq", 2, HARDIRQ));
    cpus[0].end(edge(3000, cat, "handle_irq", 2, HARDIRQ), irq, 700);
    cpus[0].end(edge(14_000, cat, "ext4_read", 1, IRQS_ON), ext4, 12_000);
    cpus[0].end(edge(15_000, cat, "vfs_read", 0, IRQS_ON), read, 14_000);
    let write = entry(&mut cpus, 1, edge(20_000, dd, "vfs_write", 0, IRQS_ON));
    cpus[1].lose(5);
    cpus[1].end(edge(169_000, dd, "vfs_write", 0, IRQS_ON), write, 149_000);
    let open = entry(&mut cpus, 0, edge(180_000, cat, "vfs_read", 0, IRQS_ON));
    assert_ne!(open, read);
    for (cpu, sample) in cpus.into_iter().enumerate() {
        let (records, events) = sample.finish();
        writer.events(cpu as u32, &records, events).unwrap();
    }
    let end = RecordingEnd {
        cpus: vec![
            CpuTotals {
                cpu: 0,
                written: 7,
                read: 7,
                ..CpuTotals::default()
            },
            CpuTotals {
                cpu: 1,
                written: 7,
                read: 2,
                overwritten: 5,
                ..CpuTotals::default()
            },
        ],
        bytes: 500,
        took_ns: 170_000,
        recorder_cpu_ns: 12_000,
        status: Some(0),
        ..RecordingEnd::default()
    };
    writer.end(&end).unwrap();
    path
}

/// Returns the text of a verb; `FILE` is the recording.
fn text(line: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = recording(folder.path());
    let output = folder.path().join("output");
    let replaced = |word: &str| match word {
        "FILE" => path.clone().into_os_string(),
        "OUT" => output.clone().into_os_string(),
        word => word.into(),
    };
    let matches = command().try_get_matches_from(line.split(' ').map(replaced));
    let cli = Cli::from_arg_matches(&matches.unwrap()).unwrap();
    let mut out = Vec::new();
    match &cli.verb {
        Verb::Replay(arguments) => replay::run(arguments, &mut out).unwrap(),
        Verb::Info(arguments) => info::run(arguments, &mut out).unwrap(),
        Verb::Report(arguments) => report::run(arguments, &mut out).unwrap(),
        Verb::Graph(arguments) => graph::run(arguments, &mut out).unwrap(),
        Verb::Export(arguments) => {
            export::run(arguments).unwrap();
            out = std::fs::read(&output).unwrap();
        }
        verb => panic!("no golden text of {verb:?}"),
    }
    String::from_utf8(out).unwrap()
}

macro_rules! golden {
    ($($name:ident: $line:literal;)*) => {
        $(
            #[test]
            fn $name() {
                expect_file![concat!("golden/", stringify!($name), ".txt")].assert_eq(&text($line));
            }
        )*
    };
}

golden! {
    replay_all: "rftrace replay FILE";
    replay_times: "rftrace replay FILE -t -O funcgraph-proc -O funcgraph-tail";
    replay_wall: "rftrace replay FILE --wall -l vfs_*";
    replay_root: "rftrace replay FILE -g ext4_read";
    replay_threshold: "rftrace replay FILE --thresh 10us";
    replay_pid: "rftrace replay FILE -P 8";
    replay_json: "rftrace replay FILE --json";
    info_text: "rftrace info FILE";
    info_json: "rftrace info FILE --json";
    report_text: "rftrace report FILE";
    report_comm: "rftrace report FILE --by comm -s total";
    report_json: "rftrace report FILE --by caller --json";
    graph_text: "rftrace graph ext4_read FILE";
    export_folded: "rftrace export FILE --to folded -o OUT";
}
