// SPDX-License-Identifier: GPL-2.0

//! Lines in other styles; the guest's tests compare them with the kernel's own.

use super::render::{Names, Page};
use crate::engine::clock::TimeUnit;
use crate::engine::context::{ContextWord, HARDIRQ, IRQS_ON};
use crate::engine::decode::Event;
use crate::engine::graph_header;
use crate::engine::header::{write_header, BufferTotals, LatencyHeader};
use crate::engine::line::ROOM;
use crate::engine::options::{Options, TraceOption};
use crate::engine::render::{EntryColumns, Moment, Style};
use crate::engine::slot::Container;
use crate::support::task;

fn options(changes: &[(TraceOption, bool)]) -> Options {
    let with = |options: Options, (option, on): &(TraceOption, bool)| options.with(*option, *on);
    changes.iter().fold(Options::new(), with)
}

fn style(changes: &[(TraceOption, bool)]) -> Style {
    Style::new(options(changes))
}

/// Options, the clock's unit, the columns, and the place of the mark.
type Line = (
    &'static [(TraceOption, bool)],
    TimeUnit,
    &'static str,
    Option<usize>,
);

#[test]
fn columns() {
    use TraceOption::{
        ContextInfo, FuncDepth, IrqInfo, LatencyFormat, RecordCgroup, RecordTgid, Verbose,
    };
    let event = Event {
        task: task(77, 77, "a_name_of_tasks"),
        container: Some(Container::new(4567, 12, 10)),
        context: ContextWord(IRQS_ON | HARDIRQ | 1),
        ..Event::default()
    };
    let moment = Moment {
        time: (5_000_123_456_789, TimeUnit::Nanoseconds),
        start: 5_000_123_000_000,
        index: 18,
    };
    let lines: &[Line] = &[
        (&[(ContextInfo, false)], TimeUnit::Nanoseconds, "", None),
        (
            &[(IrqInfo, false)],
            TimeUnit::Nanoseconds,
            " a_name_of_tasks-77      [003]   5000.123457: ",
            None,
        ),
        (
            &[(IrqInfo, false)],
            TimeUnit::Counts,
            " a_name_of_tasks-77      [003]  5000123456789: ",
            None,
        ),
        (
            &[(RecordTgid, true)],
            TimeUnit::Nanoseconds,
            " a_name_of_tasks-77      (     77) [003] ..h1.  5000.123457: ",
            None,
        ),
        (
            &[(RecordCgroup, true)],
            TimeUnit::Nanoseconds,
            " a_name_of_tasks-77          4567:12      [003] ..h1.  5000.123457: ",
            None,
        ),
        (
            &[(LatencyFormat, true)],
            TimeUnit::Nanoseconds,
            "a_name_o-77        3..h1.  457us : ",
            Some(3),
        ),
        (
            &[(LatencyFormat, true), (Verbose, true)],
            TimeUnit::Counts,
            " a_name_of_tasks      77   3 8 00000001 00000012 [0000048c2e951d15] 456789 (+0): ",
            None,
        ),
    ];
    for (changes, unit, wanted, mark) in lines {
        let style = style(changes);
        assert!(!style.is_plain());
        let mut page = Page(String::new(), [0; ROOM]);
        let moment = Moment {
            time: (moment.time.0, *unit),
            ..moment
        };
        let found = style.write_columns(&mut page, 3, &event, moment);
        assert_eq!(
            (page.0.as_str(), found.expect("a string")),
            (*wanted, *mark)
        );
    }
    let style_of_cgroups = style(&[(RecordCgroup, true), (RecordTgid, true)]);
    let mut page = Page(String::new(), [0; ROOM]);
    let unknown = Event {
        container: None,
        ..event
    };
    let _ = style_of_cgroups.write_columns(&mut page, 3, &unknown, moment);
    assert_eq!(
        page.0,
        " a_name_of_tasks-77      (     77)        -:-       [003] ..h1.  5000.123457: "
    );
    assert!(style(&[]).is_plain());
    assert!(style(&[(FuncDepth, true)]).is_plain());
}

#[test]
fn marks() {
    for (ns, mark) in [
        (0, b' '),
        (10_400, b' '),
        (10_600, b'+'),
        (2_000_000, b'#'),
        (2_000_000_000, b'$'),
    ] {
        assert_eq!(Style::delay(7_000, 7_000 + ns), mark, "{ns}");
    }
}

#[test]
fn bodies() {
    use TraceOption::{PrintParent, SymAddr, SymOffset};
    let event = Event {
        ip: 1,
        parent_ip: 2,
        ..Event::default()
    };
    let shown = EntryColumns {
        depth: None,
        indent: 0,
        args: b"",
    };
    let inner = EntryColumns {
        depth: Some(3),
        indent: 2,
        args: b"(fd=0x1)",
    };
    let all = [(SymOffset, true), (SymAddr, true)];
    for (changes, shown, wanted) in [
        (&all[..0], shown, "vfs_read <-ksys_read\n"),
        (&[(PrintParent, false)], shown, "vfs_read\n"),
        (
            &all[..1],
            inner,
            "    3     1+0x0/0x10(fd=0x1) <-2+0x0/0x10\n",
        ),
        (
            &all[1..],
            shown,
            "vfs_read <0000000000000001> <-ksys_read <0000000000000002>\n",
        ),
    ] {
        let mut page = Page(String::new(), [0; ROOM]);
        let names = &mut Names(String::new());
        let written = style(changes).write_entry(&mut page, names, &event, shown);
        assert_eq!((page.0.as_str(), written), (wanted, Ok(())));
    }
    let mut page = Page(String::new(), [0; ROOM]);
    let names = &mut Names(String::new());
    let callers = &mut [3].into_iter();
    let written = style(&all).write_stack(&mut page, names, &event, callers);
    let wanted = "<stack trace>\n \
        => 1+0x0/0x10 <0000000000000001>\n \
        => 2+0x0/0x10 <0000000000000002>\n \
        => 3+0x0/0x10 <0000000000000003>\n";
    assert_eq!((page.0.as_str(), written), (wanted, Ok(())));
}

const MACHINE: LatencyHeader<'_> = LatencyHeader {
    release: "7.3.4",
    preemption: "preempt",
};

const TOTALS: BufferTotals = BufferTotals {
    present: 7,
    written: 9,
    cpus: 2,
};

/// A function's name begins in a line where the header has it.
#[test]
fn headers() {
    use TraceOption::{ContextInfo, IrqInfo, LatencyFormat, RecordCgroup, RecordTgid, Verbose};
    let header = |changes: &[(TraceOption, bool)], totals, with_depth| {
        let mut text = String::new();
        let options = options(changes);
        let written = write_header(&mut text, "function", options, &totals, with_depth, MACHINE);
        assert_eq!(written, Ok(()));
        text
    };
    let nothing = "# tracer: function\n#\n";
    assert_eq!(header(&[(ContextInfo, false)], TOTALS, false), nothing);
    assert_eq!(header(&[(Verbose, true)], TOTALS, false), nothing);
    let empty = BufferTotals {
        present: 0,
        ..TOTALS
    };
    assert_eq!(header(&[(LatencyFormat, true)], empty, false), nothing);

    let latency = header(&[(LatencyFormat, true)], TOTALS, false);
    assert!(latency.contains("# function latency trace v1.1.5 on 7.3.4\n"));
    assert!(
        latency.contains("# latency: 0 us, #7/9, CPU#0 | (M:preempt VP:0, KP:0, SP:0 HP:0 #P:2)\n")
    );
    assert!(latency.ends_with("#     \\   /        ||||||  \\    |    /       \n"));
    let verbose = header(&[(LatencyFormat, true), (Verbose, true)], TOTALS, false);
    assert_eq!(
        latency
            .strip_prefix(&verbose)
            .map(|rest| rest.lines().count()),
        Some(9)
    );

    let event = Event {
        task: task(77, 77, "a_name_of_tasks"),
        context: ContextWord(IRQS_ON),
        ..Event::default()
    };
    let moment = Moment {
        time: (5_000_123_456_789, TimeUnit::Nanoseconds),
        start: 0,
        index: 0,
    };
    for irqs in [false, true] {
        for (tgid, cgroup) in [(false, false), (false, true), (true, false), (true, true)] {
            let changes = [(IrqInfo, irqs), (RecordTgid, tgid), (RecordCgroup, cgroup)];
            let text = header(&changes, TOTALS, true);
            assert!(text.starts_with(
                "# tracer: function\n#\n# entries-in-buffer/entries-written: 7/9   #P:2\n#\n"
            ));
            let names = text.lines().rev().nth(1).expect("a line of names");
            assert!(names.ends_with("  DEPTH FUNCTION"), "{names}");
            let mut page = Page(String::new(), [0; ROOM]);
            let columns = style(&changes).write_columns(&mut page, 3, &event, moment);
            assert_eq!(columns, Ok(None));
            let (first, flags) = (page.0.find('['), page.0.find("...."));
            assert_eq!(names.find("CPU#"), first, "{names}");
            assert_eq!(names.find("|||||"), flags, "{names}");
            assert_eq!(names.contains("TGID"), tgid);
            // Both stand above the colon between them.
            let place = |text: &str, what| cgroup.then(|| text.find(what));
            assert_eq!(names.contains("CGROUP:PID"), cgroup);
            let colon = place(&page.0, ":-").map(|colon| colon.map(|colon| colon - 6));
            assert_eq!(place(names, "CGROUP:PID"), colon, "{names}");
        }
    }
}

#[test]
fn headers_of_calls() {
    use TraceOption::{
        ContextInfo, GraphAbstime, GraphCpu, GraphDuration, GraphProc, LatencyFormat, RecordCgroup,
    };
    let header = |changes: &[(TraceOption, bool)], totals: BufferTotals| {
        let options = options(changes);
        let mut text = String::new();
        graph_header::write_header(&mut text, "function_graph", options, &totals, MACHINE)
            .expect("a string");
        text
    };
    let nothing = "# tracer: function_graph\n#\n";
    assert_eq!(header(&[(ContextInfo, false)], TOTALS), nothing);
    let empty = BufferTotals {
        present: 0,
        ..TOTALS
    };
    assert_eq!(header(&[(LatencyFormat, true)], empty), nothing);
    let all = [(GraphAbstime, true), (GraphProc, true)];
    let plain = header(&all, TOTALS);
    let names =
        "#     TIME        CPU  TASK/PID         DURATION                  FUNCTION CALLS\n\
        #      |          |     |    |           |   |                     |   |   |   |\n";
    assert_eq!(plain, format!("{nothing}{names}"));
    let with_cgroup = header(
        &[
            (GraphProc, true),
            (RecordCgroup, true),
            (GraphDuration, false),
        ],
        TOTALS,
    );
    let names = "# CPU  TASK/PID         CGROUP:PID                      FUNCTION CALLS\n\
        # |     |    |               | |                        |   |   |   |\n";
    assert_eq!(with_cgroup, format!("{nothing}{names}"));
    // The flags' explanation is above the flags' column, whatever is before it.
    let cgroup = [(GraphProc, true), (RecordCgroup, true)];
    for columns in [&all[..], &all[..1], &[(GraphCpu, false)], &cgroup] {
        let text = header(&[columns, &[(LatencyFormat, true)]].concat(), TOTALS);
        let lines: Vec<&str> = text.lines().collect();
        let [.., above, _, rule] = lines[..] else {
            panic!("{text}");
        };
        assert_eq!(above.find("||| /"), rule.find("||||"), "{text}");
    }
}
