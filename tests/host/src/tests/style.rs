// SPDX-License-Identifier: GPL-2.0

//! Lines other than usual; the guest's tests compare them with the kernel's own.

use super::render::Page;
use crate::engine::context::{Context, HARDIRQ, IRQS_ON};
use crate::engine::decode::Event;
use crate::engine::line::ROOM;
use crate::engine::options::{Options, TraceOption};
use crate::engine::render::TimeUnit;
use crate::engine::style::{Moment, Style};
use crate::support::task;

fn style(changes: &[(TraceOption, bool)]) -> Style {
    let with = |options: Options, (option, on): &(TraceOption, bool)| options.with(*option, *on);
    Style::new(changes.iter().fold(Options::new(), with))
}

/// Options, the clock's unit, the columns, and where the mark is.
type Line = (
    &'static [(TraceOption, bool)],
    TimeUnit,
    &'static str,
    Option<usize>,
);

#[test]
fn columns() {
    use TraceOption::{ContextInfo, FuncDepth, IrqInfo, LatencyFormat, RecordTgid, Verbose};
    let event = Event {
        task: task(77, 77, "a_name_of_tasks"),
        context: Context(IRQS_ON | HARDIRQ | 1),
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
        assert_eq!(Style::mark(7_000, 7_000 + ns), mark, "{ns}");
    }
}
