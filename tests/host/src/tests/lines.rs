// SPDX-License-Identifier: GPL-2.0

//! Golden texts: whole lines, as `trace` and `trace_pipe` have them. Those of `function` and
//! `function_graph` are what kernel/trace/trace_output.c, trace_functions_graph.c and trace.c write
//! of such events; `calltrace` and the depth are this module's own.

use std::fmt::Error;
use std::ops::Range;

use crate::engine::call_sites::{CallSites, CodeRole, FunctionCode};
use crate::engine::clock::TimeUnit;
use crate::engine::context::{ContextWord, BH_OFF, HARDIRQ, IRQS_ON, NEED_RESCHED, SOFTIRQ};
use crate::engine::decode::{Event, EventKind, Extras};
use crate::engine::extras::ARGS;
use crate::engine::header::{BufferTotals, LatencyHeader};
use crate::engine::lines::{KernelLayout, LineMaker, LineSettings, ReadEvent, TracedKernel};
use crate::engine::options::{Options, TraceOption};
use crate::engine::render::SymbolNames;
use crate::engine::settings::Tracer;
use crate::engine::text::Text;
use crate::engine::timeline::Timeline;
use crate::support::task;

/// Functions by their first addresses, each of [`FUNCTION_BYTES`].
const FUNCTIONS: [(u64, &str); 7] = [
    (SYSCALL, "do_syscall_64"),
    (READ, "ksys_read"),
    (VFS, "vfs_read"),
    (VERIFY, "rw_verify_area"),
    (EXT4, "ext4_file_read_iter [ext4]"),
    (TIMER, "sysvec_apic_timer_interrupt"),
    (MARK, "tracing_mark_write"),
];
const FUNCTION_BYTES: u64 = 0x100;
pub(super) const SYSCALL: u64 = 0xffff_ffff_8000_1000;
pub(super) const READ: u64 = 0xffff_ffff_8000_1100;
pub(super) const VFS: u64 = 0xffff_ffff_8000_1200;
pub(super) const VERIFY: u64 = 0xffff_ffff_8000_1300;
pub(super) const EXT4: u64 = 0xffff_ffff_8000_1400;
pub(super) const TIMER: u64 = 0xffff_ffff_8000_2000;
pub(super) const MARK: u64 = 0xffff_ffff_8000_3000;
/// An address behind a call.
pub(super) const BEHIND: u64 = 0x20;
const IRQ_TEXT: Range<u64> = TIMER..TIMER + FUNCTION_BYTES;

fn function_at(address: u64) -> Option<(u64, &'static str)> {
    let start = address & !(FUNCTION_BYTES - 1);
    FUNCTIONS.into_iter().find(|known| known.0 == start)
}

/// A kernel of these functions. Of `vfs_read` alone the types of parameters are known.
#[derive(Default)]
pub(super) struct Kernel {
    names: Names,
    sites: Sites,
}

#[derive(Default)]
pub(super) struct Names(String);

#[derive(Default)]
pub(super) struct Sites;

impl SymbolNames for Names {
    fn name(&mut self, address: u64) -> &[u8] {
        self.0 = match function_at(address) {
            Some((_, name)) => name.to_owned(),
            None => format!("{address:#x}"),
        };
        self.0.as_bytes()
    }

    fn place(&mut self, address: u64) -> &[u8] {
        let place = |(start, name): (u64, &str)| {
            let (name, module) = name.split_at(name.find(' ').unwrap_or(name.len()));
            format!("{name}+{:#x}/{FUNCTION_BYTES:#x}{module}", address - start)
        };
        self.0 = function_at(address).map_or_else(|| format!("{address:#x}"), place);
        self.0.as_bytes()
    }
}

impl CallSites for Sites {
    fn code(&mut self, address: u64) -> FunctionCode {
        let code = |(start, name): (u64, &str)| FunctionCode {
            start,
            role: CodeRole::of(name.as_bytes()),
        };
        function_at(address).map(code).unwrap_or_default()
    }

    fn target(&mut self, _parent_ip: u64) -> Option<u64> {
        None
    }

    fn jumps(&mut self, _from: u64, _to: u64) -> bool {
        false
    }

    fn calls(&mut self, _from: u64, _to: u64) -> bool {
        false
    }

    fn is_traced(&mut self, start: u64) -> bool {
        start != SYSCALL
    }
}

impl TracedKernel for Kernel {
    type Symbols = Names;
    type Sites = Sites;

    fn symbols(&mut self) -> &mut Names {
        &mut self.names
    }

    fn sites(&mut self) -> &mut Sites {
        &mut self.sites
    }

    fn write_args(&mut self, text: &mut Text, ip: u64, args: &[u64; ARGS]) -> Result<bool, Error> {
        if ip != VFS {
            return Ok(false);
        }
        let known = format!("(file={:#x}, count={})", args[0], args[2]);
        text.push_bytes(known.as_bytes())?;
        Ok(true)
    }
}

const TOTALS: BufferTotals = BufferTotals {
    present: 3,
    written: 10,
    cpus: 2,
};

pub(super) const MACHINE: LatencyHeader<'_> = LatencyHeader {
    release: "7.3.4",
    preemption: "preempt",
};

/// Returns the maker of lines of `tracer`, with the options at the start but for `changes`, as they
/// are written to `trace_options`.
pub(super) fn maker(tracer: Tracer, changes: &str) -> LineMaker {
    let mut options = Options::new();
    for word in changes.split_whitespace() {
        let (option, on) = TraceOption::parse(word.as_bytes()).expect("an option");
        options = options.with(option, on);
    }
    let layout = KernelLayout {
        cpus: 2,
        irq_text: IRQ_TEXT,
        stack_bytes: 1 << 14,
    };
    let settings = LineSettings {
        options,
        tracer,
        timeline: Timeline::Plain(TimeUnit::Nanoseconds),
        began: 12_345_678_000_000,
    };
    LineMaker::new(layout, settings)
}

/// An event, and the data beside it.
#[derive(Clone, Default)]
struct Sample {
    cpu: u32,
    event: Event,
    extras: Extras,
    callers: Vec<u64>,
    bytes: Vec<u8>,
}

impl Sample {
    /// Returns this sample with the stack behind its caller.
    fn with_stack(mut self, callers: &[u64]) -> Self {
        self.extras.stack = Some(0);
        self.callers = callers.to_vec();
        self
    }

    /// Returns this sample with values of the first registers of arguments.
    fn with_args(mut self, first: u64) -> Self {
        let mut args = [0; ARGS];
        args.iter_mut()
            .zip(first..)
            .for_each(|(arg, value)| *arg = value);
        self.extras.args = Some(args);
        self
    }

    fn with_retval(mut self, value: u64) -> Self {
        self.extras.retval = Some(value);
        self
    }

    fn after_loss(mut self, lost: u64) -> Self {
        self.event.lost = lost;
        self
    }
}

/// Returns the lines of `samples`, with the header.
fn text(tracer: Tracer, changes: &str, samples: &[Sample]) -> String {
    let mut maker = maker(tracer, changes);
    let mut text = Text::new();
    maker
        .write_header(&mut text, tracer.name(), &TOTALS, MACHINE)
        .expect("memory");
    text.push_bytes(lines_of(&mut maker, samples).as_bytes())
        .expect("memory");
    String::from_utf8(text.as_bytes().to_vec()).expect("text")
}

/// Returns the lines of `samples` alone.
fn lines(tracer: Tracer, changes: &str, samples: &[Sample]) -> String {
    lines_of(&mut maker(tracer, changes), samples)
}

fn lines_of(maker: &mut LineMaker, samples: &[Sample]) -> String {
    let (mut text, mut kernel) = (Text::new(), Kernel::default());
    for sample in samples {
        let read = ReadEvent {
            cpu: sample.cpu,
            event: &sample.event,
            extras: &sample.extras,
            callers: &mut sample.callers.iter().copied(),
            bytes: &mut sample.bytes.iter().copied(),
        };
        maker
            .write_event(&mut text, &mut kernel, read)
            .expect("memory");
    }
    String::from_utf8(text.as_bytes().to_vec()).expect("text")
}

#[track_caller]
fn shows(found: &str, wanted: &str) {
    assert!(found == wanted, "found:\n{found}\nwanted:\n{wanted}");
}

/// Three entries: of a shell, of a worker in an interrupt, with its stack, and of an idle CPU.
fn entries() -> [Sample; 3] {
    [
        Sample {
            cpu: 1,
            event: Event {
                time: 12_345_678_901_000,
                ip: VFS,
                parent_ip: READ + BEHIND,
                context: ContextWord(IRQS_ON | 1),
                task: task(123, 120, "sh"),
                ..Event::default()
            },
            ..Sample::default()
        },
        Sample {
            cpu: 1,
            event: Event {
                time: 12_345_678_914_600,
                ip: EXT4,
                parent_ip: VFS + BEHIND,
                context: ContextWord(HARDIRQ | NEED_RESCHED),
                task: task(4567, 4567, "kworker/1:2"),
                ..Event::default()
            },
            ..Sample::default()
        }
        .with_stack(&[READ + BEHIND, SYSCALL + BEHIND]),
        Sample {
            cpu: 0,
            event: Event {
                time: 12_345_700_000_000,
                ip: VERIFY,
                parent_ip: 0xffff_ffff_a000_0000,
                context: ContextWord(IRQS_ON | BH_OFF | SOFTIRQ | 0x31),
                task: task(0, 0, "swapper/0"),
                ..Event::default()
            },
            ..Sample::default()
        },
    ]
}

#[test]
fn function() {
    let [first, second, third] = entries();
    let samples = [first, second.after_loss(7), third];
    shows(
        &text(Tracer::Function, "", &samples),
        "\
# tracer: function
#
# entries-in-buffer/entries-written: 3/10   #P:2
#
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
              sh-123     [001] ...1. 12345.678901: vfs_read <-ksys_read
CPU:1 [LOST 7 EVENTS]
     kworker/1:2-4567    [001] dnh.. 12345.678915: ext4_file_read_iter [ext4] <-vfs_read
     kworker/1:2-4567    [001] dnh.. 12345.678915: <stack trace>
 => ext4_file_read_iter [ext4]
 => vfs_read
 => ksys_read
 => do_syscall_64
          <idle>-0       [000] b.s13 12345.700000: rw_verify_area <-0xffffffffa0000000
",
    );
}

/// Each option that changes the look of entries.
#[test]
fn function_with_options() {
    let samples = entries();
    shows(
        &text(Tracer::Function, "nocontext-info", &samples),
        "\
# tracer: function
#
vfs_read <-ksys_read
ext4_file_read_iter [ext4] <-vfs_read
<stack trace>
 => ext4_file_read_iter [ext4]
 => vfs_read
 => ksys_read
 => do_syscall_64
rw_verify_area <-0xffffffffa0000000
",
    );
    shows(
        &text(Tracer::Function, "noirq-info", &samples),
        "\
# tracer: function
#
# entries-in-buffer/entries-written: 3/10   #P:2
#
#           TASK-PID     CPU#     TIMESTAMP  FUNCTION
#              | |         |         |         |
              sh-123     [001]  12345.678901: vfs_read <-ksys_read
     kworker/1:2-4567    [001]  12345.678915: ext4_file_read_iter [ext4] <-vfs_read
     kworker/1:2-4567    [001]  12345.678915: <stack trace>
 => ext4_file_read_iter [ext4]
 => vfs_read
 => ksys_read
 => do_syscall_64
          <idle>-0       [000]  12345.700000: rw_verify_area <-0xffffffffa0000000
",
    );
    shows(
        &text(Tracer::Function, "noirq-info record-tgid", &samples[..1]),
        "\
# tracer: function
#
# entries-in-buffer/entries-written: 3/10   #P:2
#
#           TASK-PID       TGID    CPU#     TIMESTAMP  FUNCTION
#              | |           |       |         |         |
              sh-123     (    120) [001]  12345.678901: vfs_read <-ksys_read
",
    );
    shows(
        &text(Tracer::Function, "record-tgid", &samples),
        "\
# tracer: function
#
# entries-in-buffer/entries-written: 3/10   #P:2
#
#                                          _-----=> irqs-off/BH-disabled
#                                         / _----=> need-resched
#                                        | / _---=> hardirq/softirq
#                                        || / _--=> preempt-depth
#                                        ||| / _-=> migrate-disable
#                                        |||| /     delay
#           TASK-PID       TGID    CPU#  |||||  TIMESTAMP  FUNCTION
#              | |           |       |   |||||     |         |
              sh-123     (    120) [001] ...1. 12345.678901: vfs_read <-ksys_read
     kworker/1:2-4567    (   4567) [001] dnh.. 12345.678915: ext4_file_read_iter [ext4] <-vfs_read
     kworker/1:2-4567    (   4567) [001] dnh.. 12345.678915: <stack trace>
 => ext4_file_read_iter [ext4]
 => vfs_read
 => ksys_read
 => do_syscall_64
          <idle>-0       (-------) [000] b.s13 12345.700000: rw_verify_area <-0xffffffffa0000000
",
    );
    shows(
        &lines(Tracer::Function, "sym-offset sym-addr", &samples[1..]),
        "     kworker/1:2-4567    [001] dnh.. 12345.678915: \
         ext4_file_read_iter+0x0/0x100 [ext4] <ffffffff80001400> \
         <-vfs_read+0x20/0x100 <ffffffff80001220>
     kworker/1:2-4567    [001] dnh.. 12345.678915: <stack trace>
 => ext4_file_read_iter+0x0/0x100 [ext4] <ffffffff80001400>
 => vfs_read+0x20/0x100 <ffffffff80001220>
 => ksys_read+0x20/0x100 <ffffffff80001120>
 => do_syscall_64+0x20/0x100 <ffffffff80001020>
          <idle>-0       [000] b.s13 12345.700000: rw_verify_area+0x0/0x100 <ffffffff80001300> \
         <-0xffffffffa0000000 <ffffffffa0000000>
",
    );
    shows(
        &lines(Tracer::Function, "noprint-parent", &samples[..1]),
        "              sh-123     [001] ...1. 12345.678901: vfs_read\n",
    );
    shows(
        &text(Tracer::Function, "verbose", &samples[..1]),
        "\
# tracer: function
#
              sh-123     [001] ...1. 12345.678901: vfs_read <-ksys_read
",
    );
}

/// The marks of how much later the next event came are another's: a line does not know it.
#[test]
fn function_with_latency_columns() {
    let samples = entries();
    shows(
        &text(Tracer::Function, "latency-format", &samples),
        &format!(
            "\
# tracer: function
#
# function latency trace v1.1.5 on 7.3.4
# --------------------------------------------------------------------
# latency: 0 us, #3/10, CPU#0 | (M:preempt VP:0, KP:0, SP:0 HP:0 #P:2)
#    -----------------
#    | task: -0 (uid:0 nice:0 policy:0 rt_prio:0)
#    -----------------
#
#                    _------=> CPU#{blanks12}
#                   / _-----=> irqs-off/BH-disabled
#                  | / _----=> need-resched{blanks4}
#                  || / _---=> hardirq/softirq{blanks1}
#                  ||| / _--=> preempt-depth{blanks3}
#                  |||| / _-=> migrate-disable{blanks1}
#                  ||||| /     delay{blanks11}
#  cmd     pid     |||||| time  |   caller{blanks5}
#     \\   /        ||||||  \\    |    /{blanks7}
      sh-123       1...1.  901us : vfs_read <-ksys_read
kworker/-4567      1dnh..  915us : ext4_file_read_iter [ext4] <-vfs_read
kworker/-4567      1dnh..  915us : <stack trace>
 => ext4_file_read_iter [ext4]
 => vfs_read
 => ksys_read
 => do_syscall_64
  <idle>-0         0b.s13 22000us : rw_verify_area <-0xffffffffa0000000
",
            blanks1 = " ",
            blanks3 = "   ",
            blanks4 = "    ",
            blanks5 = "     ",
            blanks7 = "       ",
            blanks11 = "           ",
            blanks12 = "            ",
        ),
    );
    shows(
        &text(Tracer::Function, "latency-format verbose", &samples),
        "\
# tracer: function
#
# function latency trace v1.1.5 on 7.3.4
# --------------------------------------------------------------------
# latency: 0 us, #3/10, CPU#0 | (M:preempt VP:0, KP:0, SP:0 HP:0 #P:2)
#    -----------------
#    | task: -0 (uid:0 nice:0 policy:0 rt_prio:0)
#    -----------------
#
              sh     123   1 0 00000001 00000000 [2dfdc1c35] 0.901ms (+0.000ms): vfs_read <-ksys_read
     kworker/1:2    4567   1 13 00000000 00000001 [2dfdc1c43] 0.915ms (+0.000ms): \
         ext4_file_read_iter [ext4] <-vfs_read
     kworker/1:2    4567   1 13 00000000 00000002 [2dfdc1c43] 0.915ms (+0.000ms): <stack trace>
 => ext4_file_read_iter [ext4]
 => vfs_read
 => ksys_read
 => do_syscall_64
          <idle>       0   0 144 00000001 00000003 [2dfdc6ea0] 22.000ms (+0.000ms): \
         rw_verify_area <-0xffffffffa0000000
",
    );
}

#[test]
fn function_with_arguments() {
    let [first, second, _] = entries();
    let second = Sample {
        extras: Extras::default(),
        ..second
    };
    let samples = [first.with_args(0x40), second.with_args(9)];
    shows(
        &lines(Tracer::Function, "func-args", &samples),
        "              sh-123     [001] ...1. 12345.678901: vfs_read(file=0x40, count=66) <-ksys_read
     kworker/1:2-4567    [001] dnh.. 12345.678915: \
         ext4_file_read_iter [ext4](0x9, 0xa, 0xb, 0xc, 0xd, 0xe) <-vfs_read
",
    );
    shows(
        &lines(Tracer::Function, "func-args noprint-parent", &samples[..1]),
        "              sh-123     [001] ...1. 12345.678901: vfs_read(file=0x40, count=66)\n",
    );
}

/// Writes of a shell to `trace_marker` and `trace_marker_raw`.
fn markers() -> [Sample; 2] {
    let [first, ..] = entries();
    let marker = |what, bytes: &[u8], later| {
        let mut marker = first.clone();
        marker.event.what = what;
        marker.event.ip = MARK;
        marker.event.parent_ip = 0;
        marker.event.time += later;
        marker.extras.text = Some(bytes.len() as u32);
        marker.bytes = bytes.to_vec();
        marker
    };
    [
        marker(EventKind::Marker, b"hello, world\n", 0),
        marker(EventKind::RawMarker, &[0x34, 0x12, 0, 0, 1, 2, 0xff], 1000),
    ]
}

#[test]
fn function_with_markers() {
    let samples = markers();
    shows(
        &lines(Tracer::Function, "", &samples),
        "              sh-123     [001] ...1. 12345.678901: tracing_mark_write: hello, world
              sh-123     [001] ...1. 12345.678902: # 1234 buf: 01 02 ff 00
",
    );
    shows(
        &lines(Tracer::Function, "noirq-info sym-offset", &samples),
        "              sh-123     [001]  12345.678901: tracing_mark_write+0x0/0x100: hello, world
              sh-123     [001]  12345.678902: # 1234 buf: 01 02 ff 00
",
    );
}

/// A read by a system call, interrupted, and one of another task that has begun before the trace.
fn calls() -> Vec<Sample> {
    let call = |(ip, parent_ip, context, sp): (u64, u64, u32, u64), pid, comm| {
        let mut sample = entries()[0].clone();
        sample.event.ip = ip;
        sample.event.parent_ip = parent_ip + BEHIND;
        sample.event.context = ContextWord(context | ContextWord::place(sp, 0));
        sample.event.task = task(pid, pid, comm);
        sample
    };
    let sh = |call_of| call(call_of, 123, "sh");
    let mut calls = vec![
        sh((READ, SYSCALL, IRQS_ON, 0x7f00)),
        sh((VFS, READ, IRQS_ON, 0x7e00)),
        sh((VERIFY, VFS, IRQS_ON, 0x7d00)),
        sh((EXT4, VFS, IRQS_ON, 0x7d00)),
        sh((VERIFY, TIMER, HARDIRQ, 0x3f00)),
        sh((VERIFY, EXT4, IRQS_ON, 0x7c00)),
        call((VFS, READ, IRQS_ON, 0x3e00), 77, "cat"),
        call((VERIFY, VFS, IRQS_ON, 0x3d00), 77, "cat"),
    ];
    for (sample, index) in calls.iter_mut().zip(0..) {
        sample.event.time += 1000 * index;
    }
    calls
}

#[test]
fn calltrace() {
    shows(
        &text(Tracer::CallTrace, "", &calls()),
        "\
# tracer: calltrace
#
# entries-in-buffer/entries-written: 3/10   #P:2
#
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
              sh-123     [001] ..... 12345.678901: ksys_read <-do_syscall_64
              sh-123     [001] ..... 12345.678902:   vfs_read <-ksys_read
              sh-123     [001] ..... 12345.678903:     rw_verify_area <-vfs_read
              sh-123     [001] ..... 12345.678904:     ext4_file_read_iter [ext4] <-vfs_read
              sh-123     [001] d.h.. 12345.678905: rw_verify_area <-sysvec_apic_timer_interrupt
              sh-123     [001] ..... 12345.678906:       rw_verify_area <-ext4_file_read_iter [ext4]
##### cat-77: the entry of ksys_read is not in this trace ####
             cat-77      [001] ..... 12345.678907: vfs_read <-ksys_read
             cat-77      [001] ..... 12345.678908:   rw_verify_area <-vfs_read
",
    );
    // Behind a loss nothing is known of the calls before.
    let mut samples = calls()[..3].to_vec();
    samples[2].event.lost = 5;
    shows(
        &lines(Tracer::CallTrace, "func-depth", &samples),
        "              sh-123     [001] ..... 12345.678901:     0 ksys_read <-do_syscall_64
              sh-123     [001] ..... 12345.678902:     1   vfs_read <-ksys_read
CPU:1 [LOST 5 EVENTS]
##### sh-123: the entry of vfs_read is not in this trace ####
              sh-123     [001] ..... 12345.678903:     0 rw_verify_area <-vfs_read
",
    );
}

#[test]
fn function_with_depth() {
    shows(
        &text(Tracer::Function, "func-depth", &calls()[..3]),
        "\
# tracer: function
#
# entries-in-buffer/entries-written: 3/10   #P:2
#
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#           TASK-PID     CPU#  |||||  TIMESTAMP  DEPTH FUNCTION
#              | |         |   |||||     |         |   |
              sh-123     [001] ..... 12345.678901:     0 ksys_read <-do_syscall_64
              sh-123     [001] ..... 12345.678902:     1 vfs_read <-ksys_read
              sh-123     [001] ..... 12345.678903:     2 rw_verify_area <-vfs_read
",
    );
    shows(
        &lines(Tracer::Function, "func-depth noirq-info", &calls()[1..3]),
        "              sh-123     [001]  12345.678902:     0 vfs_read <-ksys_read
              sh-123     [001]  12345.678903:     1 rw_verify_area <-vfs_read
",
    );
}

fn of_call(what: EventKind, depth: u8, ip: u64, duration: u64) -> Sample {
    let mut sample = entries()[0].clone();
    sample.event.what = what;
    sample.event.depth = depth;
    sample.event.ip = ip;
    sample.event.duration = duration;
    if what == EventKind::Return {
        sample.event.parent_ip = 0;
    }
    sample
}

/// A read, with the timer's interrupt in it.
fn calls_of_read() -> Vec<Sample> {
    vec![
        of_call(EventKind::Entry, 0, READ, 0),
        of_call(EventKind::Entry, 1, VFS, 0).with_args(0x40),
        of_call(EventKind::Call, 2, VERIFY, 1_234).with_retval(0),
        of_call(EventKind::Entry, 2, TIMER, 0),
        of_call(EventKind::Call, 3, VERIFY, 987).with_retval(0xffff_fff5),
        of_call(EventKind::Return, 2, TIMER, 9_000).with_retval(1),
        of_call(EventKind::Call, 2, EXT4, 15_678).with_retval(-11_i64 as u64),
        of_call(EventKind::Return, 1, VFS, 120_000).with_retval(512),
        of_call(EventKind::Return, 0, READ, 2_345_678_000).with_retval(512),
    ]
}

#[test]
fn function_graph() {
    shows(
        &text(Tracer::FunctionGraph, "", &calls_of_read()),
        "\
# tracer: function_graph
#
# CPU  DURATION                  FUNCTION CALLS
# |     |   |                     |   |   |   |
 1)               |  ksys_read() {
 1)               |    vfs_read(file=0x40, count=66) {
 1)   1.234 us    |      rw_verify_area();
 1)   ==========> |
 1)               |      sysvec_apic_timer_interrupt() {
 1)   0.987 us    |        rw_verify_area();
 1)   9.000 us    |      }
 1)   <========== |
 1) + 15.678 us   |      ext4_file_read_iter [ext4]();
 1) ! 120.000 us  |    }
 1) $ 2345678 us  |  }
",
    );
}

/// Each option that changes the look of calls.
#[test]
fn function_graph_with_options() {
    let samples = calls_of_read();
    let all = |changes| text(Tracer::FunctionGraph, changes, &samples);
    let graph = |changes| lines(Tracer::FunctionGraph, changes, &samples);
    shows(
        &all("funcgraph-proc funcgraph-abstime nofuncgraph-irqs"),
        "\
# tracer: function_graph
#
#     TIME        CPU  TASK/PID         DURATION                  FUNCTION CALLS
#      |          |     |    |           |   |                     |   |   |   |
12345.678901 |   1)     sh-123     |               |  ksys_read() {
12345.678901 |   1)     sh-123     |               |    vfs_read(file=0x40, count=66) {
12345.678901 |   1)     sh-123     |   1.234 us    |      rw_verify_area();
12345.678901 |   1)     sh-123     | + 15.678 us   |      ext4_file_read_iter [ext4]();
12345.678901 |   1)     sh-123     | ! 120.000 us  |    }
12345.678901 |   1)     sh-123     | $ 2345678 us  |  }
",
    );
    shows(
        &all("nofuncgraph-duration nofuncgraph-irqs"),
        "\
# tracer: function_graph
#
# CPU               FUNCTION CALLS
# |                 |   |   |   |
 1) ksys_read() {
 1)   vfs_read(file=0x40, count=66) {
 1)     rw_verify_area();
 1)     ext4_file_read_iter [ext4]();
 1)   }
 1) }
",
    );
    shows(
        &all("nofuncgraph-cpu nofuncgraph-overhead"),
        "\
# tracer: function_graph
#
#  DURATION                  FUNCTION CALLS
#   |   |                     |   |   |   |
              |  ksys_read() {
              |    vfs_read(file=0x40, count=66) {
  1.234 us    |      rw_verify_area();
  ==========> |
              |      sysvec_apic_timer_interrupt() {
  0.987 us    |        rw_verify_area();
  9.000 us    |      }
  <========== |
  15.678 us   |      ext4_file_read_iter [ext4]();
  120.000 us  |    }
  2345678 us  |  }
",
    );
    shows(
        &graph("funcgraph-tail"),
        " 1)               |  ksys_read() {
 1)               |    vfs_read(file=0x40, count=66) {
 1)   1.234 us    |      rw_verify_area();
 1)   ==========> |
 1)               |      sysvec_apic_timer_interrupt() {
 1)   0.987 us    |        rw_verify_area();
 1)   9.000 us    |      } /* sysvec_apic_timer_interrupt */
 1)   <========== |
 1) + 15.678 us   |      ext4_file_read_iter [ext4]();
 1) ! 120.000 us  |    } /* vfs_read */
 1) $ 2345678 us  |  } /* ksys_read */
",
    );
    shows(
        &graph("funcgraph-retval nofuncgraph-irqs"),
        " 1)               |  ksys_read() {
 1)               |    vfs_read(file=0x40, count=66) {
 1)   1.234 us    |      rw_verify_area(); /* ret=0x0 */
 1) + 15.678 us   |      ext4_file_read_iter [ext4](); /* ret=-11 */
 1) ! 120.000 us  |    } /* vfs_read ret=0x200 */
 1) $ 2345678 us  |  } /* ksys_read ret=0x200 */
",
    );
    shows(
        &lines(Tracer::FunctionGraph, "funcgraph-retval", &samples[4..5]),
        " 1)   0.987 us    |        rw_verify_area(); /* ret=-11 */\n",
    );
    shows(
        &graph("funcgraph-retval funcgraph-retval-hex funcgraph-retaddr nofuncgraph-irqs"),
        " 1)               |  ksys_read() { /* <-ksys_read+0x20/0x100 */
 1)               |    vfs_read(file=0x40, count=66) { /* <-ksys_read+0x20/0x100 */
 1)   1.234 us    |      rw_verify_area(); /* <-ksys_read+0x20/0x100 ret=0x0 */
 1) + 15.678 us   |      ext4_file_read_iter [ext4](); \
         /* <-ksys_read+0x20/0x100 ret=0xfffffffffffffff5 */
 1) ! 120.000 us  |    } /* vfs_read ret=0x200 */
 1) $ 2345678 us  |  } /* ksys_read ret=0x200 */
",
    );
    shows(
        &graph("nocontext-info nofuncgraph-irqs"),
        "ksys_read() {
  vfs_read(file=0x40, count=66) {
    rw_verify_area();
    ext4_file_read_iter [ext4]();
  }
}
",
    );
}

#[test]
fn function_graph_with_latency_columns() {
    let samples = calls_of_read();
    shows(
        &text(Tracer::FunctionGraph, "latency-format", &samples[..4]),
        &[
            "# tracer: function_graph\n",
            "#\n",
            "# function_graph latency trace v1.1.5 on 7.3.4\n",
            "# --------------------------------------------------------------------\n",
            "# latency: 0 us, #3/10, CPU#0 | (M:preempt VP:0, KP:0, SP:0 HP:0 #P:2)\n",
            "#    -----------------\n",
            "#    | task: -0 (uid:0 nice:0 policy:0 rt_prio:0)\n",
            "#    -----------------\n",
            "#\n",
            "#      _-----=> irqs-off        \n",
            "#     / _----=> need-resched    \n",
            "#    | / _---=> hardirq/softirq \n",
            "#    || / _--=> preempt-depth   \n",
            "#    ||| /                      \n",
            "# CPU||||     DURATION                  FUNCTION CALLS\n",
            "# |  ||||      |   |                     |   |   |   |\n",
            " 1)  ...1. |               |  ksys_read() {\n",
            " 1)  ...1. |               |    vfs_read(file=0x40, count=66) {\n",
            " 1)  ...1. |   1.234 us    |      rw_verify_area();\n",
            " 1)  ...1. |   ==========> |\n",
            " 1)  ...1. |               |      sysvec_apic_timer_interrupt() {\n",
        ]
        .concat(),
    );
}

/// Losses, another task, a return without its entry, numbers of overruns, and markers.
#[test]
fn function_graph_between_calls() {
    let mut other = of_call(EventKind::Return, 1, VFS, 100_100).after_loss(12);
    other.event.task = task(4567, 4567, "kworker/1:2");
    other.extras.overrun = Some(3);
    let [marker, raw] = markers();
    let samples = [
        of_call(EventKind::Entry, 0, READ, 0),
        marker,
        of_call(EventKind::Call, 1, VERIFY, 999_999_999),
        other,
        of_call(EventKind::Return, 0, READ, 1),
        raw,
    ];
    shows(
        &lines(Tracer::FunctionGraph, "", &samples),
        " 1)               |  ksys_read() {
 1)               |  /* hello, world */
 1) @ 999999.9 us |    rw_verify_area();
CPU:1 [LOST 12 EVENTS]
 ------------------------------------------
 1)     sh-123     =>  kworker-4567 
 ------------------------------------------

 1) ! 100.100 us  |    } /* vfs_read */
 ------------------------------------------
 1)  kworker-4567  =>     sh-123    
 ------------------------------------------

 1)   0.001 us    |  }
 1)               |  /* # 1234 buf: 01 02 ff 00 */
",
    );
    let overrun = lines(Tracer::FunctionGraph, "funcgraph-overrun", &samples[3..4]);
    shows(
        &overrun,
        "CPU:1 [LOST 12 EVENTS]
 1) ! 100.100 us  |    } /* vfs_read */
 (Overruns: 3)
",
    );
}
