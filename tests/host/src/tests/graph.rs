// SPDX-License-Identifier: GPL-2.0

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;

use proptest::prelude::*;

use super::cases;
use super::render::Page;
use crate::engine::decode::{Event, EventKind, Extras};
use crate::engine::graph::{ticks_of, time_of, CallLine, GraphLines};
use crate::engine::graph_header::write_header;
use crate::engine::header::{BufferTotals, LatencyHeader};
use crate::engine::line::ROOM;
use crate::engine::options::{Options, TraceOption};
use crate::engine::render::SymbolNames;
use crate::engine::slot::{Container, Task};
use crate::support::task;

const TOTALS: BufferTotals = BufferTotals {
    present: 7,
    written: 9,
    cpus: 2,
};

const MACHINE: LatencyHeader<'_> = LatencyHeader {
    release: "7.2",
    preemption: "PREEMPT(lazy)",
};

/// Functions called `f` and their address; those of which the last three bits are set have names
/// that no line has room for, and others a module.
struct Names(String);

fn name_of(address: u64) -> String {
    let long = if address % 8 == 7 { 300 } else { 0 };
    let module = if address % 8 == 6 { " [module]" } else { "" };
    format!("f{address:x}{}{module}", "_".repeat(long))
}

fn place_of(address: u64) -> String {
    let name = name_of(address);
    let (name, module) = name.split_once(' ').unwrap_or((&name, ""));
    let space = if module.is_empty() { "" } else { " " };
    format!("{name}+0x12/0x34{space}{module}")
}

impl SymbolNames for Names {
    fn name(&mut self, address: u64) -> &[u8] {
        self.0 = name_of(address);
        self.0.as_bytes()
    }

    fn place(&mut self, address: u64) -> &[u8] {
        self.0 = place_of(address);
        self.0.as_bytes()
    }
}

/// Code by which interrupts are entered.
const IRQ_TEXT: Range<u64> = 0x100..0x110;

/// Returns the options at the start, but for `changes` as they are written to `trace_options`.
fn options(changes: &str) -> Options {
    let mut options = Options::new();
    for word in changes.split_whitespace() {
        let (option, on) = TraceOption::parse(word.as_bytes()).expect("an option");
        options = options.with(option, on);
    }
    options
}

/// The writer of a test, and the text that it wrote.
struct Screen {
    graph: GraphLines,
    page: Page,
}

impl Screen {
    fn new(changes: &str) -> Self {
        Self {
            graph: GraphLines::new(options(changes), 2, IRQ_TEXT),
            page: Page(String::new(), [0; ROOM]),
        }
    }

    /// Writes an event whose ticks are nanoseconds.
    fn write(&mut self, cpu: u32, event: &Event, extras: &Extras, arguments: &str) {
        let shown = CallLine {
            cpu,
            event,
            extras,
            time: time_of(event, extras),
            duration: ticks_of(event),
            arguments: arguments.as_bytes(),
            waits: &[],
        };
        (self.graph)
            .write_event(&mut self.page, &mut Names(String::new()), &shown)
            .expect("a string");
    }

    /// Writes an event without anything beside it.
    fn event(&mut self, event: &Event) {
        self.write(0, event, &Extras::default(), "");
    }

    /// Takes the text that has been written since the last time.
    fn take(&mut self) -> String {
        std::mem::take(&mut self.page.0)
    }

    fn shows(&mut self, wanted: &str) {
        assert_eq!(self.take(), wanted);
    }
}

fn event(what: EventKind, depth: u8, ip: u64, duration: u64) -> Event {
    Event {
        what,
        depth,
        ip,
        parent_ip: match what {
            EventKind::Return => 0,
            _ => 0x20,
        },
        duration,
        time: 12_345_678_901_999,
        task: task(123, 123, "sh"),
        ..Event::default()
    }
}

fn entry(depth: u8, ip: u64) -> Event {
    event(EventKind::Entry, depth, ip, 0)
}

fn leaf(depth: u8, ip: u64, duration: u64) -> Event {
    event(EventKind::Call, depth, ip, duration)
}

fn end(depth: u8, ip: u64, duration: u64) -> Event {
    event(EventKind::Return, depth, ip, duration)
}

/// Writes three lines, one of each kind.
fn three(screen: &mut Screen) {
    screen.event(&entry(0, 1));
    screen.event(&leaf(1, 2, 1_234));
    screen.event(&end(0, 1, 10_001));
}

#[test]
fn calls() {
    let mut screen = Screen::new("");
    three(&mut screen);
    screen.shows(concat!(
        " 0)               |  f1() {\n",
        " 0)   1.234 us    |    f2();\n",
        " 0) + 10.001 us   |  }\n",
    ));
}

#[test]
fn columns() {
    for (changes, wanted) in [
        (
            "nofuncgraph-cpu",
            [
                "              |  f1() {",
                "  1.234 us    |    f2();",
                "+ 10.001 us   |  }",
            ],
        ),
        (
            "nofuncgraph-overhead",
            [
                " 0)               |  f1() {",
                " 0)   1.234 us    |    f2();",
                " 0)   10.001 us   |  }",
            ],
        ),
        (
            "nofuncgraph-duration",
            [" 0) f1() {", " 0)   f2();", " 0) }"],
        ),
        (
            "nofuncgraph-duration nofuncgraph-cpu",
            ["f1() {", "  f2();", "}"],
        ),
        (
            "funcgraph-abstime",
            [
                "12345.678901 |   0)               |  f1() {",
                "12345.678901 |   0)   1.234 us    |    f2();",
                "12345.678901 |   0) + 10.001 us   |  }",
            ],
        ),
        (
            "funcgraph-proc",
            [
                " 0)     sh-123     |               |  f1() {",
                " 0)     sh-123     |   1.234 us    |    f2();",
                " 0)     sh-123     | + 10.001 us   |  }",
            ],
        ),
        (
            "funcgraph-abstime funcgraph-proc nofuncgraph-cpu",
            [
                "12345.678901 |      sh-123     |               |  f1() {",
                "12345.678901 |      sh-123     |   1.234 us    |    f2();",
                "12345.678901 |      sh-123     | + 10.001 us   |  }",
            ],
        ),
        (
            "funcgraph-tail",
            [
                " 0)               |  f1() {",
                " 0)   1.234 us    |    f2();",
                " 0) + 10.001 us   |  } /* f1 */",
            ],
        ),
        (
            "funcgraph-overrun",
            [
                " 0)               |  f1() {",
                " 0)   1.234 us    |    f2();",
                " 0) + 10.001 us   |  }\n (Overruns: 0)",
            ],
        ),
        (
            "funcgraph-retaddr",
            [
                " 0)               |  f1() { /* <-f20+0x12/0x34 */",
                " 0)   1.234 us    |    f2(); /* <-f20+0x12/0x34 */",
                " 0) + 10.001 us   |  }",
            ],
        ),
        // Nothing was recorded of them.
        (
            "funcgraph-retval",
            [
                " 0)               |  f1() {",
                " 0)   1.234 us    |    f2();",
                " 0) + 10.001 us   |  } /* f1 */",
            ],
        ),
        // Not of a shown event, or not while there is nothing to show it with.
        (
            "funcgraph-retval-hex funcgraph-args nosleep-time nograph-time func-depth",
            [
                " 0)               |  f1() {",
                " 0)   1.234 us    |    f2();",
                " 0) + 10.001 us   |  }",
            ],
        ),
    ] {
        let mut screen = Screen::new(changes);
        three(&mut screen);
        assert_eq!(screen.take(), wanted.join("\n") + "\n", "{changes}");
    }
}

/// Agrees with trace_print_graph_duration() and trace_find_mark().
#[test]
fn durations() {
    for (ns, wanted) in [
        (0, "  0.000 us    |"),
        (9, "  0.009 us    |"),
        (999, "  0.999 us    |"),
        (1_000, "  1.000 us    |"),
        (10_000, "  10.000 us   |"),
        (10_001, "+ 10.001 us   |"),
        (100_000, "+ 100.000 us  |"),
        (100_001, "! 100.001 us  |"),
        (999_999, "! 999.999 us  |"),
        (1_000_000, "! 1000.000 us |"),
        (1_000_001, "# 1000.001 us |"),
        (9_999_999, "# 9999.999 us |"),
        (10_000_999, "* 10000.99 us |"),
        (99_999_999, "* 99999.99 us |"),
        (100_000_999, "@ 100000.9 us |"),
        (999_999_999, "@ 999999.9 us |"),
        (1_000_000_999, "$ 1000000 us  |"),
        (12_345_678_901, "$ 12345678 us |"),
        (123_456_789_012, "$ 123456789 us |"),
        (1 << 43, "$ 8796093022 us |"),
    ] {
        let mut screen = Screen::new("");
        screen.event(&end(0, 1, ns));
        screen.shows(&format!(" 0) {wanted}  }} /* f1 */\n"));
    }
}

/// A call that began before time 0 has no duration, and one that ends after the end of time none
/// either.
#[test]
fn no_nonsense() {
    let mut screen = Screen::new("");
    let mut event = end(0, 1, 5_001);
    event.time = 5_000;
    screen.event(&event);
    screen.shows(" 0)               |  } /* f1 */\n");
    event.duration = u64::MAX;
    screen.event(&event);
    screen.shows(" 0)               |  } /* f1 */\n");
    event.duration = 5_000;
    screen.event(&event);
    screen.shows(" 0)   5.000 us    |  } /* f1 */\n");
    event = leaf(0, 1, u64::MAX - 4_999);
    event.time = 5_000;
    screen.event(&event);
    screen.shows(" 0)               |  f1();\n");
}

/// The function is named where its entry is not shown.
#[test]
fn matching() {
    let mut screen = Screen::new("");
    screen.event(&end(3, 1, 1));
    screen.shows(" 0)   0.001 us    |        } /* f1 */\n");
    screen.event(&entry(3, 1));
    screen.event(&entry(3, 2));
    screen.event(&end(3, 1, 1));
    screen.shows(concat!(
        " 0)               |        f1() {\n",
        " 0)               |        f2() {\n",
        " 0)   0.001 us    |        } /* f1 */\n",
    ));
    screen.event(&end(3, 2, 1));
    screen.shows(" 0)   0.001 us    |        } /* f2 */\n");
    // A whole call ends what was open at its depth.
    screen.event(&entry(3, 1));
    screen.event(&leaf(3, 2, 1));
    screen.event(&end(3, 1, 1));
    screen.shows(concat!(
        " 0)               |        f1() {\n",
        " 0)   0.001 us    |        f2();\n",
        " 0)   0.001 us    |        } /* f1 */\n",
    ));
    // Another CPU's calls are others.
    screen.event(&entry(3, 1));
    screen.write(1, &end(3, 1, 1), &Extras::default(), "");
    screen.event(&end(3, 1, 1));
    screen.shows(concat!(
        " 0)               |        f1() {\n",
        " 1)   0.001 us    |        } /* f1 */\n",
        " 0)   0.001 us    |        }\n",
    ));
    // FTRACE_RETFUNC_DEPTH: deeper entries are not remembered, and none is named.
    screen.event(&end(49, 1, 1));
    screen.event(&end(50, 1, 1));
    let indent = " ".repeat(98);
    screen.shows(&format!(
        " 0)   0.001 us    |  {indent}}} /* f1 */\n 0)   0.001 us    |  {indent}  }}\n"
    ));
}

#[test]
fn switches() {
    let mut screen = Screen::new("");
    let mut other = leaf(0, 1, 1);
    for (pid, name) in [
        (0, "swapper/0"),
        (4_194_304, "kworker/0:1H"),
        (7, "a"),
        // Not even when it has another name.
        (7, "b"),
        (0, "swapper/0"),
    ] {
        other.task = task(pid, pid, name);
        screen.event(&other);
    }
    let rule = " ------------------------------------------\n";
    let line = " 0)   0.001 us    |  f1();\n";
    screen.shows(&format!(
        concat!(
            "{line}",
            "{rule} 0)    <idle>-0    => kworker-4194304\n{rule}\n{line}",
            "{rule} 0) kworker-4194304 =>      a-7      \n{rule}\n{line}{line}",
            "{rule} 0)      b-7       =>    <idle>-0   \n{rule}\n{line}",
        ),
        line = line,
        rule = rule
    ));
    // Each CPU has its own.
    other.task = task(9, 9, "c");
    screen.write(1, &other, &Extras::default(), "");
    screen.shows(" 1)   0.001 us    |  f1();\n");
}

#[test]
fn names_that_are_no_text() {
    let mut screen = Screen::new("funcgraph-proc nofuncgraph-duration");
    let mut event = leaf(0, 1, 1);
    for (name, wanted) in [
        (*b"a\xffb\0............", "    a?b-1     "),
        // Cut in the middle of a character.
        (*b"sixsix\xc3\xa4........", "  sixsix?-1   "),
        (*b"a%s\\n\0..........", "   a%s\\n-1    "),
    ] {
        let word = |at: usize| u64::from_le_bytes(name[at..at + 8].try_into().unwrap());
        event.task = task(1, 1, "");
        event.task.comm = [word(0), word(8)];
        screen.event(&event);
        screen.shows(&format!(" 0) {wanted} | f1();\n"));
    }
}

#[test]
fn interrupts() {
    let mut screen = Screen::new("");
    let all = [
        entry(0, 1),
        entry(1, 0x100),
        leaf(2, 2, 1),
        end(1, 0x100, 1),
        leaf(1, 0x10f, 1),
        leaf(1, 0x110, 1),
        end(0, 1, 1),
    ];
    for event in &all {
        screen.event(event);
    }
    screen.shows(
        concat!(
            " 0)               |  f1() {\n",
            " 0)   ==========> |\n",
            " 0)               |    f100() {\n",
            " 0)   0.001 us    |      f2();\n",
            " 0)   0.001 us    |    }\n",
            " 0)   <========== |\n",
            " 0)   ==========> |\n",
            " 0)   0.001 us    |    f10f____\n",
            " 0)   <========== |\n",
            " 0)   0.001 us    |    f110();\n",
            " 0)   0.001 us    |  }\n",
        )
        .replace("____", &format!("{}();", "_".repeat(300)))
        .as_str(),
    );

    let mut screen = Screen::new("nofuncgraph-irqs");
    for event in &all {
        screen.event(event);
    }
    screen.shows(concat!(
        " 0)               |  f1() {\n",
        " 0)   0.001 us    |    f110();\n",
        " 0)   0.001 us    |  }\n",
    ));
    // Whatever is lost, its end is the end of a call that is no deeper.
    for event in [entry(2, 0x100), leaf(3, 5, 1), end(1, 6, 1), end(0, 7, 1)] {
        screen.event(&event);
    }
    screen.shows(
        " 0)   0.001 us    |  } /* f7_ */\n"
            .replace("_", &"_".repeat(300))
            .as_str(),
    );

    let mut screen = Screen::new("funcgraph-abstime funcgraph-proc nofuncgraph-duration");
    screen.event(&entry(0, 0x100));
    screen.shows(concat!(
        "12345.678901 |   0)     sh-123     | ==========>\n",
        "12345.678901 |   0)     sh-123     | f100() {\n",
    ));
}

/// Agrees with print_graph_retval().
#[test]
fn values() {
    for (value, wanted, hex) in [
        (0, "0x0", "0x0"),
        (1, "0x1", "0x1"),
        (0x7fff_ffff, "0x7fffffff", "0x7fffffff"),
        // -1 and -4095 of an int, and what is less is no error.
        (0xffff_ffff, "-1", "0xffffffff"),
        (0xffff_fffe, "-2", "0xfffffffe"),
        (0xffff_f001, "-4095", "0xfffff001"),
        (0xffff_f000, "0xfffff000", "0xfffff000"),
        (0x8000_0000, "0x80000000", "0x80000000"),
        (u64::MAX, "-1", "0xffffffffffffffff"),
        ((-4095i64) as u64, "-4095", "0xfffffffffffff001"),
        (
            (-4096i64) as u64,
            "0xfffffffffffff000",
            "0xfffffffffffff000",
        ),
        (0x1_ffff_ffff, "0x1ffffffff", "0x1ffffffff"),
        (
            0xffff_8881_0000_0000,
            "0xffff888100000000",
            "0xffff888100000000",
        ),
    ] {
        let extras = Extras {
            retval: Some(value),
            ..Extras::default()
        };
        for (changes, wanted) in [("", wanted), (" funcgraph-retval-hex", hex)] {
            let mut screen = Screen::new(&format!("funcgraph-retval{changes}"));
            screen.write(0, &leaf(0, 1, 1), &extras, "");
            screen.write(0, &end(0, 1, 1), &extras, "");
            screen.shows(&format!(
                " 0)   0.001 us    |  f1(); /* ret={wanted} */\n \
                 0)   0.001 us    |  }} /* f1 ret={wanted} */\n"
            ));
        }
    }
    // Without the option, nothing is shown.
    let mut screen = Screen::new("");
    let extras = Extras {
        retval: Some(1),
        ..Extras::default()
    };
    screen.write(0, &leaf(0, 1, 1), &extras, "");
    screen.shows(" 0)   0.001 us    |  f1();\n");
}

#[test]
fn all_that_is_beside() {
    let mut screen = Screen::new(
        "funcgraph-retval funcgraph-retaddr funcgraph-overrun funcgraph-tail nofuncgraph-duration",
    );
    let extras = Extras {
        retval: Some(3),
        overrun: Some(4_294_967_295),
        ..Extras::default()
    };
    screen.write(0, &entry(0, 1), &extras, "(fd=0x3, buf=0x10)");
    screen.write(0, &leaf(1, 0x16, 1), &extras, "(?)");
    screen.write(0, &end(0, 1, 1), &extras, "");
    let mut unknown = leaf(0, 2, 1);
    unknown.parent_ip = 0;
    screen.event(&unknown);
    screen.shows(concat!(
        " 0) f1(fd=0x3, buf=0x10) { /* <-f20+0x12/0x34 */\n",
        " 0)   f16 [module](?); /* <-f20+0x12/0x34 ret=0x3 */\n",
        " 0) } /* f1 ret=0x3 */\n (Overruns: 4294967295)\n",
        " 0) f2();\n",
    ));
}

/// A call at the limit says that those within it are not seen.
#[test]
fn too_deep() {
    let mut screen = Screen::new("nofuncgraph-duration");
    let deepest = Extras {
        too_deep: true,
        ..Extras::default()
    };
    screen.write(0, &leaf(1, 2, 1), &deepest, "");
    screen.write(0, &entry(1, 2), &deepest, "(fd=0x3)");
    screen.write(0, &end(1, 2, 1), &deepest, "");
    screen.shows(concat!(
        " 0)   f2(); /* [too deep] */\n",
        " 0)   f2(fd=0x3) { /* [too deep] */\n",
        " 0)   }\n",
    ));
    let mut screen = Screen::new("nofuncgraph-duration funcgraph-retval funcgraph-retaddr");
    let extras = Extras {
        retval: Some(1),
        ..deepest
    };
    screen.write(0, &leaf(0, 2, 1), &extras, "");
    screen.shows(" 0) f2(); /* <-f20+0x12/0x34 ret=0x1 [too deep] */\n");
}

/// An entry that comes late shows when the call began.
#[test]
fn late_entries() {
    let mut screen = Screen::new("funcgraph-abstime nofuncgraph-duration");
    let since = |time| Extras {
        since: Some(time),
        ..Extras::default()
    };
    screen.write(0, &entry(0, 1), &since(12_345_600_000_000), "");
    screen.shows("12345.600000 |   0) f1() {\n");
    // Not after it was recorded.
    screen.write(0, &entry(0, 1), &since(u64::MAX), "");
    screen.shows("12345.678901 |   0) f1() {\n");
}

/// A return that comes late shows the result, whatever the option says.
#[test]
fn late_results() {
    let mut screen = Screen::new("nofuncgraph-duration");
    let late = Extras {
        since: Some(1),
        retval: Some(-19_i64 as u64),
        ..Extras::default()
    };
    let whole = Extras {
        ended: Some(2),
        retval: Some(0),
        ..late
    };
    let usual = Extras {
        since: None,
        ..late
    };
    screen.write(0, &entry(0, 1), &late, "");
    screen.write(0, &leaf(1, 0x16, 1), &whole, "");
    screen.write(0, &end(0, 1, 1), &late, "");
    screen.write(0, &leaf(0, 2, 1), &usual, "");
    screen.write(0, &entry(0, 1), &usual, "");
    screen.write(0, &end(0, 1, 1), &usual, "");
    screen.shows(concat!(
        " 0) f1() {\n",
        " 0)   f16 [module](); /* ret=0x0 */\n",
        " 0) } /* f1 ret=-19 */\n",
        " 0) f2();\n",
        " 0) f1() {\n",
        " 0) }\n",
    ));
}

/// Nothing is cut off, however long.
#[test]
fn longest() {
    let mut screen =
        Screen::new("funcgraph-abstime funcgraph-proc funcgraph-retval funcgraph-retaddr");
    let mut event = leaf(255, 7, (1 << 63) - 1);
    (event.time, event.parent_ip) = (1 << 63, 0xf);
    event.task = task(0xff_ffff, 0, "sixteen bytes...");
    let extras = Extras {
        retval: Some(u64::MAX / 2),
        ..Extras::default()
    };
    let arguments = "=".repeat(1000);
    screen.write(u32::MAX, &event, &extras, &arguments);
    screen.shows(&format!(
        "9223372036.854775 |   4294967295) sixteen-16777215 | $ 9223372036854775 us |  {}f7{}{}; \
         /* <-ff{}+0x12/0x34 ret=0x7fffffffffffffff */\n",
        " ".repeat(510),
        "_".repeat(300),
        arguments,
        "_".repeat(300),
    ));
}

#[test]
fn headers() {
    for (changes, wanted) in [
        (
            "",
            concat!(
                "# CPU  DURATION                  FUNCTION CALLS\n",
                "# |     |   |                     |   |   |   |\n",
            ),
        ),
        (
            "funcgraph-proc funcgraph-abstime",
            concat!(
                "#     TIME        CPU  TASK/PID         DURATION                  FUNCTION CALLS\n",
                "#      |          |     |    |           |   |                     |   |   |   |\n",
            ),
        ),
        (
            "nofuncgraph-cpu nofuncgraph-duration",
            concat!(
                "#               FUNCTION CALLS\n",
                "#               |   |   |   |\n",
            ),
        ),
    ] {
        let mut out = String::new();
        write_header(&mut out, "function_graph", options(changes), &TOTALS, MACHINE).expect("a string");
        assert_eq!(out, format!("# tracer: function_graph\n#\n{wanted}"), "{changes}");
    }
}

/// A model of kernel/trace/trace_functions_graph.c, line by line, with `core::fmt`.
#[derive(Default)]
struct Reference {
    last: HashMap<u32, Task>,
    depth_irq: HashMap<u32, u8>,
    enter_funcs: HashMap<(u32, u8), u64>,
}

impl Reference {
    fn write(&mut self, options: Options, cpu_digits: usize, shown: &CallLine<'_>) -> String {
        let has = |option| options.has(option);
        let (cpu, event, extras) = (shown.cpu, shown.event, shown.extras);
        let is_entry = event.what != EventKind::Return;
        let is_end = event.what != EventKind::Entry;
        let in_irq_text = IRQ_TEXT.contains(&event.ip);

        if !has(TraceOption::GraphIrqs) {
            // check_irq_entry(), check_irq_return(); a leaf is both.
            let mut hidden = false;
            if is_entry {
                hidden |= self.depth_irq.contains_key(&cpu);
                if !hidden && in_irq_text {
                    self.depth_irq.insert(cpu, event.depth);
                    hidden = true;
                }
            }
            if is_end {
                if let Some(depth) = self.depth_irq.get(&cpu).copied() {
                    hidden = true;
                    if depth >= event.depth {
                        self.depth_irq.remove(&cpu);
                    }
                }
            }
            if hidden {
                return String::new();
            }
        }

        let mut out = String::new();
        let comm = |task: &Task| {
            let mut bytes = [0; 16];
            let name = match task.pid() {
                0 => "<idle>".to_owned(),
                _ => String::from_utf8(task.name(&mut bytes).to_vec()).expect("ASCII"),
            };
            let text = format!("{:.7}-{}", name, task.pid());
            let spaces = 14usize.saturating_sub(text.len());
            " ".repeat(spaces / 2) + &text + &" ".repeat(spaces - spaces / 2)
        };
        let rule = " ------------------------------------------\n";
        if let Some(last) = self.last.insert(cpu, event.task) {
            if last.pid() != event.task.pid() {
                let (last, next) = (comm(&last), comm(&event.task));
                out += &format!("{rule} {cpu:cpu_digits$}) {last} => {next}\n{rule}\n");
            }
        }
        let mut prologue = String::new();
        if has(TraceOption::GraphAbstime) {
            let (secs, rest) = (shown.time / 1_000_000_000, shown.time % 1_000_000_000);
            prologue += &format!("{secs:5}.{:06} |  ", rest / 1000);
        }
        if has(TraceOption::GraphCpu) {
            prologue += &format!(" {cpu:cpu_digits$}) ");
        }
        if has(TraceOption::GraphProc) {
            prologue += &format!("{} | ", comm(&event.task));
        }
        // The kernel's tracer has no such column.
        if has(TraceOption::RecordCgroup) {
            prologue += &match event.container {
                None => "       -:-       | ".to_owned(),
                Some(container) => format!("{:8}:{:<7} | ", container.cgroup, container.pid()),
            };
        }
        let has_context = has(TraceOption::ContextInfo);
        if !has_context {
            prologue.clear();
        }
        let with_duration = has_context && has(TraceOption::GraphDuration);
        let arrow = |arrow| match with_duration {
            true => format!("{prologue}  {arrow} |\n"),
            false => format!("{prologue}{arrow}\n"),
        };
        if is_entry && in_irq_text {
            out += &arrow("==========>");
        }

        out += &prologue;
        if with_duration {
            out += &match shown.duration {
                None => "              |  ".to_owned(),
                Some(ns) => {
                    let marks = [
                        (1_000_000_000, '$'),
                        (100_000_000, '@'),
                        (10_000_000, '*'),
                        (1_000_000, '#'),
                        (100_000, '!'),
                        (10_000, '+'),
                    ];
                    let mark = marks.iter().find(|(above, _)| ns > *above);
                    let mark = match has(TraceOption::GraphOverhead) {
                        true => mark.map_or(' ', |(_, mark)| *mark),
                        false => ' ',
                    };
                    let mut text = (ns / 1000).to_string();
                    if text.len() < 7 {
                        let digits = (8 - text.len()).min(5) - 1;
                        let rest = format!("{:03}", ns % 1000);
                        text += &format!(".{rest:.digits$}");
                    }
                    let spaces = 8usize.saturating_sub(text.len());
                    format!("{mark} {text} us {}|  ", " ".repeat(spaces))
                }
            };
        }
        out += &"  ".repeat(event.depth.into());

        let name = name_of(event.ip);
        let key = (cpu, event.depth);
        let mut matches = true;
        if event.depth < 50 {
            match event.what {
                EventKind::Entry => {
                    self.enter_funcs.insert(key, event.ip);
                }
                EventKind::Return => matches = self.enter_funcs.remove(&key) == Some(event.ip),
                _ => {
                    self.enter_funcs.remove(&key);
                }
            }
        }
        // Of ours alone: a result that was recorded late is shown.
        let is_late = match event.what {
            EventKind::Return => extras.since.is_some(),
            _ => extras.ended.is_some(),
        };
        let with_retval = has(TraceOption::GraphRetval) || is_late;
        let retval = match extras.retval {
            Some(value) if with_retval && is_end => {
                let mut error = value as i64;
                if value >> 32 == 0 {
                    error = i64::from(value as u32 as i32);
                }
                let is_error = (-4095..0).contains(&error);
                match is_error && !has(TraceOption::GraphRetvalHex) {
                    true => format!(" ret={error}"),
                    false => format!(" ret={value:#x}"),
                }
            }
            _ => String::new(),
        };
        let mut comment = match has(TraceOption::GraphRetaddr) && event.parent_ip != 0 {
            true if is_entry => format!(" <-{}", place_of(event.parent_ip)),
            _ => String::new(),
        };
        comment += &retval;
        if extras.too_deep && is_entry {
            comment += " [too deep]";
        }
        if !comment.is_empty() {
            comment = format!(" /*{comment} */");
        }
        let arguments = match shown.arguments {
            b"" => "()",
            arguments => std::str::from_utf8(arguments).expect("text"),
        };
        out += &match event.what {
            EventKind::Entry => format!("{name}{arguments} {{{comment}\n"),
            EventKind::Return => {
                let named = !matches || has(TraceOption::GraphTail) || with_retval;
                match named {
                    true => format!("}} /* {name}{retval} */\n"),
                    false => "}\n".to_owned(),
                }
            }
            _ => format!("{name}{arguments};{comment}\n"),
        };
        if event.what == EventKind::Return && has(TraceOption::GraphOverrun) {
            writeln!(out, " (Overruns: {})", extras.overrun.unwrap_or(0)).expect("a string");
        }
        if is_end && in_irq_text {
            out += &arrow("<==========");
        }
        out
    }
}

/// Returns numbers of all lengths, and all sorts of values.
fn number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64u32, -2..3i64).prop_map(|(number, shift, by)| match by {
        -2 => number >> shift,
        // Next to the powers of ten, too.
        by => (10u64.pow(shift % 20)).wrapping_add(by as u64),
    })
}

/// Returns any event that there can be of calls, whether it fits the others or not.
fn any_event() -> impl Strategy<Value = (u32, Event, Extras, usize)> {
    let function = || prop_oneof![4 => 1..6u64, 1 => 6..9u64, 2 => 0xfe..0x113u64];
    let tasks = prop_oneof![
        Just(task(0, 0, "swapper/1")),
        Just(task(1, 1, "systemd")),
        Just(task(4_194_303, 7, "kworker/0:1H-ev")),
    ];
    let container =
        (number(), 0..1u32 << 22).prop_map(|(cgroup, pid)| Container::new(cgroup, pid, 1));
    let who = (0..3u32, 0..3usize, tasks, prop::option::of(container));
    let depth = prop_oneof![6 => 0..4u8, 1 => 47..53u8, 1 => any::<u8>()];
    let numbers = (number(), number(), prop::option::of(number()));
    let extras = (prop::option::of(number()), prop::option::of(any::<u32>()));
    (
        who,
        depth,
        (function(), 0..9u64),
        numbers,
        extras,
        0..60usize,
    )
        .prop_map(
            |(
                (cpu, what, task, container),
                depth,
                (ip, parent_ip),
                (time, duration, since),
                (retval, overrun),
                arguments,
            )| {
                let event = Event {
                    what: [EventKind::Entry, EventKind::Call, EventKind::Return][what],
                    time,
                    duration,
                    ip,
                    parent_ip,
                    depth,
                    task,
                    container,
                    ..Event::default()
                };
                let extras = Extras {
                    retval,
                    since,
                    ended: since.filter(|_| depth % 2 == 0),
                    overrun,
                    too_deep: time % 4 == 0,
                    ..Extras::default()
                };
                (
                    cpu,
                    event,
                    extras,
                    if arguments < 50 { 0 } else { arguments },
                )
            },
        )
}

/// Returns all sorts of options. The column of latency-format is compared with the kernel's own in
/// the guest.
fn any_options() -> impl Strategy<Value = Options> {
    any::<u64>().prop_map(|bits| Options(bits).with(TraceOption::LatencyFormat, false))
}

proptest! {
    #![proptest_config(cases(1000))]

    /// The text is that of the kernel for any events in any order; and an event that is taken back
    /// leaves no trace.
    #[test]
    fn as_in_the_kernel(
        events in prop::collection::vec((any_event(), any::<bool>()), 0..60),
        (options, later) in (any_options(), prop::option::of((0..60usize, any_options()))),
        cpus in prop_oneof![Just(1u32), Just(10), Just(11), Just(1000), Just(u32::MAX)],
    ) {
        let mut reference = Reference::default();
        let cpu_digits = (cpus - 1).to_string().len();
        let mut screen = Screen {
            graph: GraphLines::new(options, cpus, IRQ_TEXT),
            page: Page(String::new(), [0; ROOM]),
        };
        let mut current = options;
        for (index, ((cpu, event, extras, arguments), twice)) in events.into_iter().enumerate() {
            if let Some((at, later)) = later {
                if at == index {
                    current = later;
                    screen.graph.set_options(later);
                }
            }
            let arguments = "=".repeat(arguments * 5);
            let duration = ticks_of(&event);
            let shown = CallLine {
                cpu,
                event: &event,
                extras: &extras,
                time: time_of(&event, &extras),
                duration,
                arguments: arguments.as_bytes(),
                waits: &[],
            };
            // A duration that is shown lies in what time there was.
            if let Some(duration) = duration {
                match event.what {
                    EventKind::Return => prop_assert!(duration <= event.time),
                    _ => prop_assert!(duration <= u64::MAX - event.time),
                }
            }
            let wanted = reference.write(current, cpu_digits, &shown);
            screen.write(cpu, &event, &extras, &arguments);
            prop_assert_eq!(screen.take(), wanted.as_str());
            if twice {
                screen.graph.take_back();
                // Once is enough.
                screen.graph.take_back();
                screen.write(cpu, &event, &extras, &arguments);
                prop_assert_eq!(screen.take(), wanted);
            }
        }
    }
}

/// Lines of the kernel's own tracer, by the options that were changed; see its first lines.
const SAMPLES: &str = include_str!("graph.samples");

/// Reads lines that the kernel wrote as events.
struct Parser {
    options: Options,
    /// The task that runs on each CPU.
    tasks: HashMap<u32, Task>,
    open: HashMap<(u32, u8), u64>,
    names: Vec<String>,
}

impl SymbolNames for Parser {
    fn name(&mut self, address: u64) -> &[u8] {
        self.names[address as usize - 1].as_bytes()
    }

    fn place(&mut self, _address: u64) -> &[u8] {
        unreachable!("the kernel was built without it")
    }
}

fn task_of(text: &str) -> Task {
    let (name, pid) = text.trim().rsplit_once('-').expect("a task");
    let pid = pid.parse().expect("a pid");
    task(pid, pid, name)
}

impl Parser {
    fn new(options: Options) -> Self {
        Self {
            options,
            tasks: HashMap::new(),
            open: HashMap::new(),
            names: Vec::new(),
        }
    }

    /// Takes the next column, up to `end`, off `rest`.
    fn column<'a>(&self, option: TraceOption, rest: &mut &'a str, end: &str) -> Option<&'a str> {
        if !self.options.has(option) {
            return None;
        }
        let (column, behind) = rest.split_once(end).expect("a column");
        *rest = behind;
        Some(column)
    }

    /// Returns the event of a line; `None` if it tells of a switch.
    fn event(&mut self, line: &str) -> Option<(u32, Event)> {
        if let Some((last, next)) = line.split_once(" => ") {
            let (cpu, last) = last.split_once(") ").expect("a CPU");
            let cpu = cpu.trim().parse().expect("a CPU");
            // The task that ran before the first switch is known only now, and does not matter.
            let before = self.tasks.insert(cpu, task_of(next));
            assert!(before.is_none_or(|before| before.pid() == task_of(last).pid()));
            return None;
        }
        if line.is_empty() || line.starts_with(" ---") {
            return None;
        }
        let mut rest = line;
        let time = self.column(TraceOption::GraphAbstime, &mut rest, " |  ");
        let cpu = self.column(TraceOption::GraphCpu, &mut rest, ") ");
        let cpu = cpu.map_or(0, |cpu| cpu.trim().parse().expect("a CPU"));
        if let Some(task) = self.column(TraceOption::GraphProc, &mut rest, " | ") {
            self.tasks.insert(cpu, task_of(task));
        }
        let duration = self.column(TraceOption::GraphDuration, &mut rest, "|  ");
        let text = rest.trim_start();
        let depth = u8::try_from((rest.len() - text.len()) / 2).expect("a depth");
        let (what, name) = if let Some(name) = text.strip_suffix("();") {
            (EventKind::Call, Some(name))
        } else if let Some(name) = text.strip_suffix("() {") {
            (EventKind::Entry, Some(name))
        } else {
            let name = text.strip_prefix("}").expect("an end");
            let name = name.strip_prefix(" /* ");
            (
                EventKind::Return,
                name.and_then(|name| name.strip_suffix(" */")),
            )
        };
        let ip = match name {
            Some(name) => {
                let known = self.names.iter().position(|known| known == name);
                let index = known.unwrap_or_else(|| {
                    self.names.push(name.to_owned());
                    self.names.len() - 1
                });
                index as u64 + 1
            }
            None => self.open[&(cpu, depth)],
        };
        if what == EventKind::Entry {
            self.open.insert((cpu, depth), ip);
        }
        let ns = |text: &str| {
            let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
            let text = format!("{whole}{rest:0<3}");
            text.parse::<u64>().expect("a number")
        };
        let is_number = |byte: char| byte.is_ascii_digit() || byte == '.';
        let duration = duration.map_or("", |text| text.trim_matches(|byte| !is_number(byte)));
        let event = Event {
            what,
            depth,
            ip,
            time: time.map_or(u64::MAX / 2, |time| ns(time.trim()) * 1000),
            duration: if duration.is_empty() { 0 } else { ns(duration) },
            task: *self.tasks.entry(cpu).or_insert_with(|| task(1, 1, "?")),
            ..Event::default()
        };
        Some((cpu, event))
    }
}

/// Lines of the kernel, made events and lines again, are the same.
#[test]
fn the_kernels_own() {
    let mut sections = 0;
    for section in SAMPLES.split("=== ").skip(1) {
        let (changes, text) = section.split_once('\n').expect("options and lines");
        let options = options(changes);
        let mut parser = Parser::new(options);
        // The first switch on a CPU names the task that ran first.
        for line in text.lines().rev() {
            if let Some((last, _)) = line.split_once(" => ") {
                let (cpu, last) = last.split_once(") ").expect("a CPU");
                parser
                    .tasks
                    .insert(cpu.trim().parse().expect("a CPU"), task_of(last));
            }
        }
        let mut out = Page(String::new(), [0; ROOM]);
        write_header(&mut out, "function_graph", options, &TOTALS, MACHINE).expect("a string");
        let mut graph = GraphLines::new(options, 2, IRQ_TEXT.end..IRQ_TEXT.end);
        let is_event = |line: &&str| !line.starts_with('#') && !line.starts_with(" (");
        let mut events = 0;
        for line in text.lines().filter(is_event) {
            let Some((cpu, event)) = parser.event(line) else {
                continue;
            };
            let shown = CallLine {
                cpu,
                event: &event,
                extras: &Extras::default(),
                time: event.time,
                duration: (event.what != EventKind::Entry).then_some(event.duration),
                arguments: b"",
                waits: &[],
            };
            graph
                .write_event(&mut out, &mut parser, &shown)
                .expect("a string");
            events += 1;
        }
        assert_eq!(out.0, text, "{changes}");
        assert!(events >= 20, "{changes}");
        sections += 1;
    }
    assert_eq!(sections, 7);
}
