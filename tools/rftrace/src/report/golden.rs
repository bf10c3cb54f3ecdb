// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Report, the golden tests: the text of reports and graphs of a small machine.

use super::*;
use crate::calls::{Assembler, CallCounts, GroupBy as Grouping, MemoryLimits};
use crate::cli::report::ReportBy;
use crate::kernel::KernelSymbols;
use crate::sample::{task, CpuSample, Edge, SampleMemory, TEXT};
use crate::stream::{CpuEvents, MergedEvents};
use rftrace_engine::engine::context::HARDIRQ;
use std::cell::RefCell;
use std::rc::Rc;

const SYMBOLS: &str = "ffffffff81000000 T vfs_read
ffffffff81000100 T ext4_read\t[ext4]
ffffffff81000200 T copy_page
ffffffff81000300 T handle_irq
ffffffff81000400 T poll
ffffffff81000500 T _etext
";

/// Returns events: a task reads twice; the second time an interrupt comes, and something is lost.
/// Another one polls to the end.
fn sample() -> Vec<u8> {
    let mut sample = CpuSample::new(0);
    let mut number = 0;
    let mut open = Vec::new();
    let edge = |time: u64, place: u64, depth: u32, context: u32, pid: i32| Edge {
        time: 1_000_000 + time,
        task: task(pid, pid, if pid == 7 { "cat" } else { "ssh" }),
        ip: TEXT + place + 4,
        parent_ip: TEXT + 0x50,
        depth,
        context,
    };
    let mut begin = |sample: &mut CpuSample, open: &mut Vec<(Edge, u64)>, edge: Edge| {
        number += 1;
        sample.entry(edge, number);
        open.push((edge, number));
    };
    let end = |sample: &mut CpuSample, open: &mut Vec<(Edge, u64)>, time: u64| {
        let (edge, number) = open.pop().unwrap();
        let time = 1_000_000 + time;
        sample.end(Edge { time, ..edge }, number, time - edge.time);
    };
    begin(&mut sample, &mut open, edge(0, 0x000, 0, 0, 7));
    begin(&mut sample, &mut open, edge(1_000, 0x100, 1, 0, 7));
    begin(&mut sample, &mut open, edge(2_000, 0x200, 2, 0, 7));
    end(&mut sample, &mut open, 2_500);
    begin(&mut sample, &mut open, edge(3_000, 0x200, 2, 0, 7));
    end(&mut sample, &mut open, 3_700);
    end(&mut sample, &mut open, 5_000);
    end(&mut sample, &mut open, 9_000);
    let mut polls = Vec::new();
    begin(&mut sample, &mut polls, edge(10_000, 0x400, 0, 0, 9));
    begin(&mut sample, &mut open, edge(20_000, 0x000, 0, 0, 7));
    begin(&mut sample, &mut open, edge(21_000, 0x300, 1, HARDIRQ, 7));
    end(&mut sample, &mut open, 24_000);
    end(&mut sample, &mut open, 30_000);
    begin(&mut sample, &mut open, edge(40_000, 0x000, 0, 0, 7));
    sample.lose(3);
    end(&mut sample, &mut open, 1_540_000);
    sample.finish().0
}

fn analysis(by: Grouping) -> (Analysis, CallCounts, Rc<RefCell<Symbolizer>>) {
    let symbols = KernelSymbols::of_text(SYMBOLS).unwrap();
    let symbolizer = Rc::new(RefCell::new(Symbolizer::new(symbols)));
    let analysis = Analysis::new(by, false, MemoryLimits::default());
    let mut assembler = Assembler::new(analysis, symbolizer.clone());
    let mut events = MergedEvents::new([CpuEvents::new(0, SampleMemory::of(sample()))]).unwrap();
    assembler.run(&mut events, |_| {}).unwrap();
    let (analysis, counts) = assembler.finish();
    (analysis, counts, symbolizer)
}

fn report(table: &TableArgs, is_json: bool) -> String {
    let (analysis, counts, symbolizer) = analysis(table.by.into());
    let symbolizer = symbolizer.borrow();
    let rows = Rows::new(&analysis, &symbolizer, table);
    let summary = Summary::new(&analysis, &counts, &symbolizer);
    let mut out = Vec::new();
    summary.write_with(&rows, is_json, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_report() {
    let text = report(&TableArgs::default(), false);
    assert_eq!(
        text,
        "      SELF      TOTAL     CALLS        AVG        P50        P99        MAX  FUNCTION
 12.000 us   1.519 ms         3 506.333 us  10.047 us   1.500 ms   1.500 ms  vfs_read
  3.000 us   3.000 us         1   3.000 us   3.000 us   3.000 us   3.000 us  handle_irq
  2.800 us   4.000 us         1   4.000 us   4.000 us   4.000 us   4.000 us  ext4_read [ext4]
  1.200 us   1.200 us         2     600 ns     501 ns     700 ns     700 ns  copy_page
         -          -         0          -          -          -          -  poll

3 events were lost: their calls are missing
self time unknown for 1 call: events were lost
1 call still open at the end; the longest: poll, 1.530 ms so far
",
    );
}

#[test]
fn a_report_by_caller() {
    let table = TableArgs {
        by: ReportBy::Caller,
        sort: Some(Sort::Calls),
        limit: Some(2),
    };
    assert_eq!(
        report(&table, false),
        "      SELF      TOTAL     CALLS        AVG        P50        P99        MAX  FUNCTION <- CALLER
 12.000 us   1.519 ms         3 506.333 us  10.047 us   1.500 ms   1.500 ms  vfs_read <- [none]
  1.200 us   1.200 us         2     600 ns     501 ns     700 ns     700 ns  copy_page <- ext4_read [ext4]
... and 3 more

3 events were lost: their calls are missing
self time unknown for 1 call: events were lost
1 call still open at the end; the longest: poll, 1.530 ms so far
",
    );
}

#[test]
fn a_report_for_machines() {
    let table = TableArgs {
        by: ReportBy::Comm,
        ..TableArgs::default()
    };
    assert_eq!(
        report(&table, true),
        concat!(
            r#"{"comm":"cat","calls":7,"total_ns":1519000,"self_ns":19000,"self_unknown":1,"avg_ns":218171,"#,
            r#""min_ns":500,"p50_ns":4015,"p90_ns":1500000,"p99_ns":1500000,"max_ns":1500000,"#,
            r#""open":0,"open_longest_ns":0,"missed":0}"#,
            "\n",
            r#"{"comm":"ssh","calls":0,"total_ns":0,"self_ns":0,"self_unknown":0,"avg_ns":0,"#,
            r#""min_ns":0,"p50_ns":0,"p90_ns":0,"p99_ns":0,"max_ns":0,"#,
            r#""open":1,"open_longest_ns":1530000,"missed":0}"#,
            "\n",
            r#"{"summary":{"events":12,"time_ns":1540000,"lost":3,"self_unknown":1,"open":1,"#,
            r#""open_longest":"ssh","open_longest_ns":1530000,"missed":0,"without_room":0,"is_broken_off":false}}"#,
            "\n",
        )
    );
}

#[test]
fn a_graph() {
    let (analysis, _, symbolizer) = analysis(Grouping::Function);
    let symbolizer = symbolizer.borrow();
    let function = (0..)
        .map(crate::symbolizer::FunctionId)
        .find(|function| symbolizer.name(*function) == "ext4_read [ext4]")
        .unwrap();
    let graph = GraphAround::new(&analysis, &symbolizer, &[function], usize::MAX).unwrap();
    let mut out = Vec::new();
    graph.write_text(&mut out).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "    CALLS      TOTAL       SELF  FUNCTION
                                 called by:
        1   4.000 us             `- vfs_read
                                 function:
        1   4.000 us   2.800 us  ext4_read [ext4]
        2   1.200 us   1.200 us  `- copy_page
"
    );
}
