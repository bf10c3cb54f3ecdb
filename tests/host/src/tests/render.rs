// SPDX-License-Identifier: GPL-2.0

use std::fmt::{Error, Result, Write};

use proptest::prelude::*;

use super::cases;
use crate::engine::clock::TimeUnit;
use crate::engine::context::{
    ContextWord, BH_OFF, HARDIRQ, IRQS_ON, NEED_RESCHED, NEED_RESCHED_LAZY, NMI, PREEMPT_RESCHED,
    SOFTIRQ,
};
use crate::engine::decode::Event;
use crate::engine::line::{LineOutput, ROOM};
use crate::engine::render::{
    write_cpu_started, write_entry, write_lost, write_rootless, write_time, EntryColumns,
    SymbolNames,
};
use crate::engine::slot::Task;
use crate::support::task;

/// Names of some functions, and room for the others'.
pub(super) struct Names(pub(super) String);

impl SymbolNames for Names {
    fn name(&mut self, address: u64) -> &[u8] {
        match address {
            1 => b"vfs_read",
            2 => b"ksys_read",
            3 => b"ext4_read [ext4]",
            _ => {
                self.0 = format!("0x{address:x}");
                self.0.as_bytes()
            }
        }
    }

    fn place(&mut self, address: u64) -> &[u8] {
        self.0 = format!("{address:x}+0x0/0x10");
        self.0.as_bytes()
    }
}

/// A page that is written, and room behind it.
pub(super) struct Page(pub(super) String, pub(super) [u8; ROOM]);

impl Write for Page {
    fn write_str(&mut self, text: &str) -> Result {
        self.0.write_str(text)
    }
}

impl LineOutput for Page {
    fn write_bytes(&mut self, bytes: &[u8]) -> Result {
        self.0.write_str(std::str::from_utf8(bytes).expect("text"))
    }

    fn room(&mut self) -> std::result::Result<&mut [u8; ROOM], Error> {
        // Makes bytes that are not overwritten visible.
        self.1.fill(b'#');
        Ok(&mut self.1)
    }

    fn advance(&mut self, length: usize) {
        let bytes = self.1;
        self.write_bytes(&bytes[..length]).expect("a string");
    }
}

/// Here the bit has the meaning that is shown.
const IRQS_OFF: u32 = IRQS_ON;

fn event(task: Task, context: u32) -> Event {
    Event {
        ip: 1,
        parent_ip: 2,
        context: ContextWord(context ^ IRQS_ON),
        task,
        ..Event::default()
    }
}

fn line(cpu: u32, event: &Event, time: (u64, TimeUnit), depth: Option<usize>) -> String {
    let mut page = Page(String::new(), [0; ROOM]);
    write_entry(
        &mut page,
        &mut Names(String::new()),
        cpu,
        event,
        time,
        EntryColumns {
            depth,
            ..EntryColumns::default()
        },
    )
    .expect("a string");
    page.0
}

fn ns(time: u64) -> (u64, TimeUnit) {
    (time, TimeUnit::Nanoseconds)
}

#[test]
fn entries() {
    let sh = task(123, 123, "sh");
    let state = HARDIRQ | IRQS_OFF | 2;
    let time = ns(12_345_678_901_000);
    assert_eq!(
        line(1, &event(sh, state), time, None),
        "              sh-123     [001] d.h2. 12345.678901: vfs_read <-ksys_read\n"
    );
    assert_eq!(
        line(1, &event(sh, state), time, Some(7)),
        "              sh-123     [001] d.h2. 12345.678901:     7 vfs_read <-ksys_read\n"
    );
    assert_eq!(
        line(
            1234,
            &event(task(4_194_304, 1, "sixteen bytes..."), 0),
            ns(0),
            None
        ),
        "sixteen bytes...-4194304 [1234] .....     0.000000: vfs_read <-ksys_read\n"
    );
    let mut other = event(task(0, 0, "swapper/0"), 0);
    (other.ip, other.parent_ip) = (3, 0xdead);
    assert_eq!(
        line(0, &other, (42, TimeUnit::Counts), None),
        "          <idle>-0       [000] .....           42: ext4_read [ext4] <-0xdead\n"
    );
    assert_eq!(
        line(0, &other, (u64::MAX, TimeUnit::Counts), None),
        "          <idle>-0       [000] ..... 18446744073709551615: ext4_read [ext4] <-0xdead\n"
    );
}

/// Nothing is cut off, however long.
#[test]
fn longest() {
    let mut event = event(task(0xff_ffff, 0, "sixteen bytes..."), !0);
    (event.ip, event.parent_ip) = (4, u64::MAX);
    assert_eq!(
        line(
            u32::MAX,
            &event,
            (u64::MAX, TimeUnit::Counts),
            Some(usize::MAX)
        ),
        "sixteen bytes...-16777215 [4294967295] DBZff 18446744073709551615: \
         18446744073709551615 0x4 <-0xffffffffffffffff\n"
    );
}

/// Names of functions of every length, also those that there is no room for in the line.
struct Lengths(Vec<u8>);

impl SymbolNames for Lengths {
    fn name(&mut self, address: u64) -> &[u8] {
        self.0 = (0..address).map(|at| b'a' + (at % 26) as u8).collect();
        &self.0
    }

    fn place(&mut self, _address: u64) -> &[u8] {
        unreachable!("no column of it")
    }
}

/// Returns numbers of all lengths, with as many as there are of each.
fn number() -> impl Strategy<Value = u64> {
    (0..20u32, any::<u64>()).prop_map(|(digits, number)| match digits {
        19 => number,
        _ => number % 10u64.pow(digits + 1),
    })
}

proptest! {
    #![proptest_config(cases(2000))]

    /// Agrees with `core::fmt`.
    #[test]
    fn lines(
        comm in prop::collection::vec(prop_oneof![4 => 1..0x80u8, 1 => any::<u8>()], 0..=16),
        pid in 1..1u32 << 24,
        cpu in number(),
        (stamp, is_ns) in (number(), any::<bool>()),
        depth in prop::option::of(number()),
        indent in prop_oneof![4 => Just(0), 2 => 0..50usize, 1 => 0..500usize],
        names in prop_oneof![(0..80u64, 0..80u64), (0..600u64, 0..600u64)],
    ) {
        let cpu = cpu as u32;
        let mut bytes = [0; 16];
        bytes[..comm.len()].copy_from_slice(&comm);
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let mut event = event(task(pid, pid, ""), 0);
        event.task.comm = [word(0), word(8)];
        (event.ip, event.parent_ip) = names;

        let end = comm.iter().position(|byte| *byte == 0).unwrap_or(comm.len());
        let mut wanted = " ".repeat(16 - end);
        for chunk in comm[..end].utf8_chunks() {
            wanted += chunk.valid();
            wanted += &"?".repeat(chunk.invalid().len());
        }
        wanted += &format!("-{pid:<7} [{cpu:03}] ..... ");
        let micros = stamp.wrapping_add(500) / 1000;
        wanted += &match is_ns {
            true => format!("{:5}.{:06}: ", micros / 1_000_000, micros % 1_000_000),
            false => format!("{stamp:12}: "),
        };
        if let Some(depth) = depth {
            wanted += &format!("{depth:5} ");
        }
        wanted += &"  ".repeat(indent);
        let mut lengths = Lengths(Vec::new());
        for (address, after) in [(names.0, " <-"), (names.1, "\n")] {
            wanted += std::str::from_utf8(lengths.name(address)).unwrap();
            wanted += after;
        }

        let unit = if is_ns { TimeUnit::Nanoseconds } else { TimeUnit::Counts };
        let mut page = Page(String::new(), [0; ROOM]);
        let depth = depth.map(|depth| depth as usize);
        write_entry(&mut page, &mut lengths, cpu, &event, (stamp, unit), EntryColumns { depth, indent, args: b"" }).expect("a string");
        prop_assert_eq!(page.0, wanted);
    }
}

#[test]
fn names_that_are_no_text() {
    let mut task = task(1, 1, "");
    for (bytes, wanted) in [
        (*b"a\xffb\0............", "             a?b-1"),
        (*b"\xc3\xa4\0.............", "              \u{e4}-1"),
        (*b"a%s\\n\0..........", "           a%s\\n-1"),
    ] {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        task.comm = [word(0), word(8)];
        let line = line(0, &event(task, 0), ns(0), None);
        assert!(line.starts_with(wanted), "{line:?}");
    }
    // Cut in the middle of a character.
    let bytes = *b"fifteen bytes..\xc3";
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    task.comm = [word(0), word(8)];
    assert!(line(0, &event(task, 0), ns(0), None).starts_with("fifteen bytes..?-1 "));
}

#[test]
fn times() {
    let shown = |time| {
        let line = line(0, &event(task(1, 1, "sh"), 0), ns(time), None);
        line[30..].split(": ").next().expect("a time").to_owned()
    };
    for (time, wanted) in [
        (499, " .....     0.000000"),
        (500, " .....     0.000001"),
        (1_499, " .....     0.000001"),
        (1_500, " .....     0.000002"),
        (999_999_499, " .....     0.999999"),
        (999_999_500, " .....     1.000000"),
        (99_999_000_000_000, " ..... 99999.000000"),
        (100_000_000_000_000, " ..... 100000.000000"),
        // As ns2usecs() does.
        (u64::MAX, " .....     0.000000"),
    ] {
        assert_eq!(shown(time), wanted, "{time} ns");
    }
}

/// Agrees with trace_print_lat_fmt() of kernel/trace/trace_output.c.
#[test]
fn states() {
    for (context, wanted) in [
        (0, "....."),
        (IRQS_OFF | BH_OFF, "D...."),
        (IRQS_OFF, "d...."),
        (BH_OFF, "b...."),
        (NEED_RESCHED | NEED_RESCHED_LAZY | PREEMPT_RESCHED, ".B..."),
        (NEED_RESCHED | PREEMPT_RESCHED, ".N..."),
        (NEED_RESCHED_LAZY | PREEMPT_RESCHED, ".L..."),
        (NEED_RESCHED | NEED_RESCHED_LAZY, ".b..."),
        (NEED_RESCHED, ".n..."),
        (PREEMPT_RESCHED, ".p..."),
        (NEED_RESCHED_LAZY, ".l..."),
        (NMI | HARDIRQ | SOFTIRQ, "..Z.."),
        (NMI | HARDIRQ, "..Z.."),
        (NMI | SOFTIRQ, "..z.."),
        (NMI, "..z.."),
        (HARDIRQ | SOFTIRQ, "..H.."),
        (HARDIRQ, "..h.."),
        (SOFTIRQ, "..s.."),
        (1, "...1."),
        (9, "...9."),
        (10, "...a."),
        (15, "...f."),
        (0x10, "....1"),
        (0xf0, "....f"),
        (0xa3, "...3a"),
        (IRQS_OFF | NEED_RESCHED | HARDIRQ | 0x21, "dnh12"),
        // The stack offset is not shown.
        (0xffff_0000, "....."),
    ] {
        let line = line(0, &event(task(1, 1, "sh"), context), ns(0), None);
        assert_eq!(&line[31..36], wanted, "{context:#x}");
    }
}

#[test]
fn notes() {
    let mut out = String::new();
    write_lost(&mut out, 3, 42).expect("a string");
    write_cpu_started(&mut out, 3).expect("a string");
    assert_eq!(
        out,
        "CPU:3 [LOST 42 EVENTS]\n##### CPU 3 buffer started ####\n"
    );
}

#[test]
fn a_call_without_its_entry() {
    for (pid, wanted) in [
        (
            0,
            "##### <idle>-0: the entry of vfs_read is not in this trace ####\n",
        ),
        (
            7,
            "##### cat-7: the entry of vfs_read is not in this trace ####\n",
        ),
    ] {
        let mut page = Page(String::new(), [0; ROOM]);
        let written = write_rootless(&mut page, &task(pid, 7, "cat"), b"vfs_read");
        assert_eq!((page.0.as_str(), written), (wanted, Ok(())));
    }
    let mut page = Page(String::new(), [0; ROOM]);
    write_time(&mut page, (5_000_123_456_789, TimeUnit::Nanoseconds)).expect("a string");
    assert_eq!(page.0.trim(), "5000.123457");
}
