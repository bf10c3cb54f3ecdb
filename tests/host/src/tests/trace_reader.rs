// SPDX-License-Identifier: GPL-2.0

//! Golden texts of whole readings, from rings to the lines of `trace`.

use std::rc::Rc;

use super::lines::{maker, Kernel, BEHIND, EXT4, MACHINE, READ, SYSCALL, VERIFY, VFS};
use crate::engine::context::{ContextWord, IRQS_ON};
use crate::engine::header::BufferTotals;
use crate::engine::merge::Merge;
use crate::engine::reader::Cursor;
use crate::engine::ring::{Call, Ring, WriteOutcome};
use crate::engine::settings::Tracer;
use crate::engine::slot::SlotWords;
use crate::engine::text::Text;
use crate::engine::trace_reader::{CpuBuffer, CpuEvents, TraceReader};
use crate::support::{copy_space, ring, task, FixedContext, Heap};

/// A ring of a CPU, in which all events are of one task.
#[derive(Clone)]
struct Buffer {
    cpu: u32,
    ring: Rc<Ring<Heap>>,
}

impl CpuBuffer for Buffer {
    type Memory = Heap;

    fn cpu(&self) -> u32 {
        self.cpu
    }

    fn ring(&self) -> &Ring<Heap> {
        &self.ring
    }
}

/// Time at which the buffers were cleared, in ns.
const BEGAN: u64 = 12_345_678_000_000;

impl Buffer {
    fn new(cpu: u32) -> Self {
        Self {
            cpu,
            ring: Rc::new(ring(4, 64)),
        }
    }

    /// Writes an entry `us` behind the beginning; `sp` is where its return address lies.
    fn write(&self, us: u64, ip: u64, parent_ip: u64, sp: u64) {
        let call = Call {
            ip,
            parent_ip: parent_ip + BEHIND,
        };
        let context = FixedContext {
            context: IRQS_ON | ContextWord::place(sp, 0),
            task: task(100 + self.cpu, 100, "sh"),
            clock: || BEGAN + 1000 * us,
        };
        // SAFETY: The thread is this CPU, and nothing interrupts it.
        let outcome = unsafe { self.ring.write(call, context) };
        assert_eq!(outcome, WriteOutcome::Written);
    }

    fn cursor(&self) -> Cursor<Vec<SlotWords>> {
        Cursor::new(&self.ring, copy_space(&self.ring), 0)
    }
}

type Reader = TraceReader<Buffer, Vec<SlotWords>, Kernel>;

/// Returns a reader of the buffers of each CPU, in the order in which they were written.
fn reader(tracer: Tracer, changes: &str, buffers: Vec<Vec<Buffer>>, annotates: bool) -> Reader {
    let mut events = Merge::new();
    let mut totals = BufferTotals {
        present: 0,
        written: 0,
        cpus: buffers.len() as u32,
    };
    for of_cpu in buffers {
        let mut of_cpu = of_cpu.into_iter().map(|buffer| {
            let extent = buffer.ring.extent();
            totals.present += extent.end_event - extent.first_event;
            totals.written += extent.end_event;
            let cursor = buffer.cursor();
            (buffer, cursor)
        });
        let first = of_cpu.next().expect("a buffer");
        let mut later = crate::platform::Vec::new();
        for next in of_cpu {
            later.push(next).expect("memory");
        }
        events.add(CpuEvents::new(first, later)).expect("memory");
    }
    let lines = maker(tracer, changes);
    TraceReader::new(events, lines, Kernel::default(), totals, annotates)
}

/// Returns all that is read, without the header.
fn read(reader: &mut Reader) -> String {
    let mut text = Text::new();
    while reader.write_next(&mut text).expect("memory") {}
    String::from_utf8(text.as_bytes().to_vec()).expect("text")
}

#[track_caller]
fn shows(found: &str, wanted: &str) {
    assert!(found == wanted, "found:\n{found}\nwanted:\n{wanted}");
}

/// Two CPUs, one of which begins later; test_cpu_buff_start() of kernel/trace/trace.c says so.
fn two_cpus() -> Vec<Vec<Buffer>> {
    let (first, second) = (Buffer::new(0), Buffer::new(1));
    first.write(1, READ, SYSCALL, 0x7f00);
    first.write(2, VFS, READ, 0x7e00);
    second.write(3, VFS, READ, 0x3e00);
    first.write(4, VERIFY, VFS, 0x7d00);
    second.write(20, EXT4, VFS, 0x3d00);
    vec![vec![first], vec![second]]
}

#[test]
fn cpus_are_merged() {
    let mut reader = reader(Tracer::Function, "", two_cpus(), true);
    assert_eq!(reader.present(), 5);
    let mut header = Text::new();
    reader.write_header(&mut header, MACHINE).expect("memory");
    assert!(header.as_bytes().starts_with(
        b"# tracer: function\n#\n# entries-in-buffer/entries-written: 5/5   #P:2\n#\n"
    ));
    shows(
        &read(&mut reader),
        "              sh-100     [000] ..... 12345.678001: ksys_read <-do_syscall_64
              sh-100     [000] ..... 12345.678002: vfs_read <-ksys_read
##### CPU 1 buffer started ####
              sh-101     [001] ..... 12345.678003: vfs_read <-ksys_read
              sh-100     [000] ..... 12345.678004: rw_verify_area <-vfs_read
              sh-101     [001] ..... 12345.678020: ext4_file_read_iter [ext4] <-vfs_read
",
    );
}

#[test]
fn beginnings_are_not_said() {
    for (tracer, annotates) in [(Tracer::Function, false), (Tracer::FunctionGraph, true)] {
        let mut reader = reader(tracer, "", two_cpus(), annotates);
        assert!(!read(&mut reader).contains("buffer started"));
    }
}

/// A mark tells how much later the next event came, of whatever CPU: trace_print_lat_context().
#[test]
fn latency_columns() {
    let mut reader = reader(Tracer::Function, "latency-format", two_cpus(), true);
    shows(
        &read(&mut reader),
        "      sh-100       0.....    1us : ksys_read <-do_syscall_64
      sh-100       0.....    2us : vfs_read <-ksys_read
##### CPU 1 buffer started ####
      sh-101       1.....    3us : vfs_read <-ksys_read
      sh-100       0.....    4us+: rw_verify_area <-vfs_read
      sh-101       1.....   20us : ext4_file_read_iter [ext4] <-vfs_read
",
    );
}

/// Lost events of a CPU lie before its first one.
#[test]
fn depths_begin_anew() {
    let mut reader = reader(Tracer::CallTrace, "", two_cpus(), true);
    shows(
        &read(&mut reader),
        "              sh-100     [000] ..... 12345.678001: ksys_read <-do_syscall_64
              sh-100     [000] ..... 12345.678002:   vfs_read <-ksys_read
##### CPU 1 buffer started ####
##### sh-101: the entry of ksys_read is not in this trace ####
              sh-101     [001] ..... 12345.678003: vfs_read <-ksys_read
              sh-100     [000] ..... 12345.678004:     rw_verify_area <-vfs_read
              sh-101     [001] ..... 12345.678020:   ext4_file_read_iter [ext4] <-vfs_read
",
    );
}

#[test]
fn buffers_of_a_cpu_follow_each_other() {
    let (first, second, third) = (Buffer::new(0), Buffer::new(0), Buffer::new(0));
    first.write(1, READ, SYSCALL, 0x7f00);
    second.write(2, VFS, READ, 0x7e00);
    third.write(3, VERIFY, VFS, 0x7d00);
    let mut reader = reader(
        Tracer::Function,
        "nocontext-info",
        vec![vec![first, second, third]],
        false,
    );
    assert!(reader.skip_next());
    shows(
        &read(&mut reader),
        "vfs_read <-ksys_read\nrw_verify_area <-vfs_read\n",
    );
    assert!(!reader.skip_next());
}

/// Events that are overwritten while they are read are lost, and counted: print_trace_line().
#[test]
fn events_are_lost() {
    let buffer = Buffer::new(0);
    let write = |until: u64| {
        let newest = || buffer.ring.extent().newest;
        while newest() < until {
            buffer.write(1, VERIFY, VFS, 0x7d00);
        }
    };
    write(4);
    let written = buffer.ring.extent().end_event;
    let buffers = vec![vec![buffer.clone()]];
    let mut reader = reader(Tracer::Function, "nocontext-info", buffers, false);
    // The first sub-buffer was copied by now, and the two behind it are overwritten.
    write(7);
    let text = read(&mut reader);
    let (before, rest) = text.split_once("CPU:0 [LOST ").expect("a loss");
    let (lost, after) = rest.split_once(" EVENTS]\n").expect("a number");
    let line = "rw_verify_area <-vfs_read\n";
    let count = |text: &str| {
        assert_eq!(text, line.repeat(text.len() / line.len()));
        text.len() / line.len()
    };
    let lost: usize = lost.parse().expect("a number");
    assert_eq!(count(before) + lost + count(after), written as usize);
    assert!(lost > 60);
}
