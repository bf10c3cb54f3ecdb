// SPDX-License-Identifier: GPL-2.0

//! Pages in the kernel's format, with a decoder written from include/linux/ring_buffer.h.

use std::iter::empty;

use proptest::prelude::*;

use super::{cases, some_under_miri};
use crate::engine::context::{ContextWord, BH_OFF, HARDIRQ, IRQS_ON, NEED_RESCHED, SOFTIRQ};
use crate::engine::decode::{Event, EventKind, Extras};
use crate::engine::event_format::{write_event_header, write_format, write_page_header};
use crate::engine::kernel_page::{KernelPage, Layout, RecordType, PAGE_BYTES};
use crate::support::task;

#[derive(Debug, PartialEq)]
struct Record {
    time: u64,
    payload: Vec<u8>,
}

impl Record {
    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.payload[at..at + 8].try_into().unwrap())
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.payload[at..at + 4].try_into().unwrap())
    }

    fn kind(&self) -> u16 {
        u16::from_le_bytes(self.payload[..2].try_into().unwrap())
    }
}

/// Decodes the records of a page, and the number of events lost before it.
fn decode(page: &[u8]) -> (Vec<Record>, Option<u64>) {
    assert_eq!(page.len(), PAGE_BYTES);
    let word = |at: usize| u32::from_le_bytes(page[at..at + 4].try_into().unwrap());
    let long = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().unwrap());
    let mut time = long(0);
    let commit = long(8);
    let end = 16 + (commit & 0xf_ffff) as usize;
    assert!(end <= PAGE_BYTES);
    let mut records = vec![];
    let mut at = 16;
    while at < end {
        let first = word(at);
        match first & 31 {
            30 => {
                time += (u64::from(word(at + 4)) << 27) + u64::from(first >> 5);
                at += 8;
            }
            0 => {
                time += u64::from(first >> 5);
                let length = word(at + 4) as usize;
                assert_eq!(length % 4, 0);
                let payload = page[at + 8..at + 4 + length].to_vec();
                records.push(Record { time, payload });
                at += 4 + length;
            }
            words @ 1..=28 => {
                time += u64::from(first >> 5);
                let length = 4 * words as usize;
                let payload = page[at + 4..at + 4 + length].to_vec();
                records.push(Record { time, payload });
                at += 4 + length;
            }
            other => panic!("a record of kind {other}"),
        }
    }
    assert_eq!(at, end);
    let lost = match (commit >> 30) & 3 {
        0 => None,
        3 => {
            let lost = long(end);
            assert!(page[end + 8..].iter().all(|byte| *byte == 0));
            Some(lost)
        }
        2 => Some(0),
        _ => panic!("a number of lost events, and none is lost"),
    };
    if lost.is_none() {
        assert!(page[end..].iter().all(|byte| *byte == 0));
    }
    (records, lost)
}

fn page() -> KernelPage<Vec<u8>> {
    KernelPage::new(vec![0xee; PAGE_BYTES], Layout::default())
}

fn none() -> impl Iterator<Item = u64> {
    std::iter::empty()
}

fn event(what: EventKind) -> Event {
    Event {
        ip: 0xffff_ffff_8123_4564,
        parent_ip: 0xffff_ffff_8765_4321,
        context: ContextWord(3 | (2 << 4)),
        task: task(1234, 1200, "test"),
        what,
        depth: 7,
        ..Event::default()
    }
}

#[test]
fn functions() {
    let mut page = page();
    let extras = Extras::default();
    let mut count = 0;
    while page.push(
        &event(EventKind::Function),
        &extras,
        &mut none(),
        &mut empty(),
        1000 + count,
        0,
    ) {
        count += 1;
    }
    // As many as the kernel has on a page.
    assert_eq!(count, 145);
    page.finish(0);
    let (records, lost) = decode(page.bytes());
    assert_eq!((records.len(), lost), (145, None));
    for (record, time) in records.iter().zip(1000..) {
        assert_eq!((record.time, record.kind()), (time, 1));
        // interrupts off, preempt depth 3, migrate depth 2
        assert_eq!(record.payload[2..4], [1, 0x23]);
        assert_eq!(record.u32(4), 1234);
        assert_eq!(record.u64(8), 0xffff_ffff_8123_4564);
        assert_eq!(record.u64(16), 0xffff_ffff_8765_4321);
        assert_eq!(record.payload.len(), 24);
    }
    assert!(!page.is_empty());
    page.clear();
    page.finish(0);
    assert_eq!(decode(page.bytes()), (vec![], None));
}

/// On a larger page there is room for more, and the format says so.
#[test]
fn large_pages() {
    let layout = Layout {
        page_bytes: 4 * PAGE_BYTES,
        ..Layout::default()
    };
    let mut page = KernelPage::new(vec![0xee; layout.page_bytes], layout);
    let mut count = 0;
    while page.push_plain(&event(EventKind::Function), 1000 + count, 0) {
        count += 1;
    }
    page.finish(0);
    assert_eq!(count, (4 * 4096 - 16) / 28);
    assert_eq!(page.bytes().len(), 4 * PAGE_BYTES);
    let mut text = String::new();
    write_page_header(&mut text, layout).unwrap();
    assert!(
        text.contains("char data;\toffset:16;\tsize:16368;"),
        "{text}"
    );
}

#[test]
fn state() {
    let mut page = page();
    let bits = IRQS_ON | NEED_RESCHED | HARDIRQ | SOFTIRQ | BH_OFF;
    let event = Event {
        context: ContextWord(bits),
        ..event(EventKind::Function)
    };
    assert!(page.push(&event, &Extras::default(), &mut none(), &mut empty(), 0, 0));
    page.finish(0);
    assert_eq!(decode(page.bytes()).0[0].payload[2..4], [0x9c, 0]);
}

#[test]
fn arguments() {
    let mut page = page();
    let extras = Extras {
        args: Some([1, 2, 3, 4, 5, u64::MAX]),
        ..Extras::default()
    };
    assert!(page.push(
        &event(EventKind::Function),
        &extras,
        &mut none(),
        &mut empty(),
        5,
        0
    ));
    assert!(page.push(
        &event(EventKind::Entry),
        &extras,
        &mut none(),
        &mut empty(),
        6,
        0
    ));
    page.finish(0);
    let (records, _) = decode(page.bytes());
    for record in &records {
        assert_eq!(record.payload.len(), 72);
        assert_eq!((record.u64(24), record.u64(64)), (1, u64::MAX));
    }
}

/// A whole call is an entry and an exit, or not there.
#[test]
fn calls() {
    let mut page = page();
    let extras = Extras {
        overrun: Some(9),
        ..Extras::default()
    };
    let mut count = 0;
    while page.push(
        &event(EventKind::Call),
        &extras,
        &mut none(),
        &mut empty(),
        100 * count,
        30,
    ) {
        count += 1;
    }
    page.finish(0);
    let (records, _) = decode(page.bytes());
    assert_eq!(records.len() as u64, 2 * count);
    for (call, start) in records.chunks(2).zip((0..).step_by(100)) {
        let (entry, exit) = (&call[0], &call[1]);
        assert_eq!((entry.kind(), entry.time), (11, start));
        assert_eq!((entry.u64(8), entry.u64(16)), (0xffff_ffff_8123_4564, 7));
        assert_eq!((exit.kind(), exit.time), (10, start + 30));
        assert_eq!(
            (exit.u64(8), exit.u32(16), exit.u32(20)),
            (0xffff_ffff_8123_4564, 7, 9)
        );
        assert_eq!((exit.u64(24), exit.u64(32)), (start, start + 30));
    }
    // A return tells when its call began.
    page.clear();
    assert!(page.push(
        &event(EventKind::Return),
        &extras,
        &mut none(),
        &mut empty(),
        5000,
        4000
    ));
    page.finish(0);
    let (records, _) = decode(page.bytes());
    assert_eq!((records[0].u64(24), records[0].u64(32)), (1000, 5000));
}

/// A stack is a record behind its event's, or both are missing.
#[test]
fn stacks() {
    let mut page = page();
    let extras = Extras {
        stack: Some(1),
        ..Extras::default()
    };
    let mut count = 0;
    while page.push(
        &event(EventKind::Function),
        &extras,
        &mut (100..100 + count),
        &mut empty(),
        count,
        0,
    ) {
        count += 1;
    }
    page.finish(0);
    let (records, _) = decode(page.bytes());
    assert_eq!(records.len() as u64, 2 * count);
    for (pair, number) in records.chunks(2).zip(0..) {
        let (call, stack) = (&pair[0], &pair[1]);
        assert_eq!((call.kind(), call.time), (1, number));
        assert_eq!((stack.kind(), stack.time), (4, number));
        assert_eq!(u64::from(stack.u32(8)), number + 2);
        assert_eq!(stack.payload.len() as u64, 16 + 8 * (number + 2));
        assert_eq!((stack.u64(16), stack.u64(24)), (call.u64(8), call.u64(16)));
        for index in 0..number {
            assert_eq!(stack.u64(32 + 8 * index as usize), 100 + index);
        }
    }
}

/// Pages keep the bytes of programs, of all lengths.
#[test]
fn marks() {
    for length in some_under_miri(1..1000usize, 97) {
        let text: Vec<u8> = (0..length).map(|index| b'a' + (index % 26) as u8).collect();
        let mut page = page();
        let mut push = |what, bytes: &[u8]| {
            let bytes = &mut bytes.iter().copied();
            page.push(&event(what), &Extras::default(), &mut none(), bytes, 5, 0)
        };
        assert!(push(EventKind::Marker, &text));
        assert!(push(EventKind::RawMarker, &text));
        assert!(push(EventKind::Marker, b"has one\n"));
        page.finish(0);
        let (records, _) = decode(page.bytes());
        let kinds: Vec<u16> = records.iter().map(Record::kind).collect();
        assert_eq!(kinds, [5, 19, 5]);
        assert_eq!(records[0].payload[16..16 + length], text);
        assert_eq!(records[0].payload[16 + length..][..2], *b"\n\0");
        assert_eq!(records[0].payload.len(), (18 + length).next_multiple_of(4));
        assert_eq!(records[1].payload[8..8 + length], text);
        assert_eq!(records[2].payload[16..25], *b"has one\n\0");
        let zeroes = [
            &records[0].payload[18 + length..],
            &records[1].payload[8 + length..],
        ];
        assert!(zeroes.concat().iter().all(|byte| *byte == 0));
    }
}

/// Returns the place of a field as the `format` tells it.
fn offset_of(kind: RecordType, layout: Layout, name: &str) -> usize {
    let mut text = String::new();
    write_format(&mut text, kind, layout).unwrap();
    let line = text
        .lines()
        .find(|line| line.contains(&format!(" {name};")));
    let (_, rest) = line.unwrap().split_once("offset:").unwrap();
    rest.split_once(';').unwrap().0.parse().unwrap()
}

/// Programs find what is in a record by its format.
#[test]
fn formats() {
    let extras = Extras {
        retval: Some(0xfffe),
        overrun: Some(9),
        ..Extras::default()
    };
    for retval in [false, true] {
        let layout = Layout {
            retval,
            ..Layout::default()
        };
        let mut page = KernelPage::new(vec![0; PAGE_BYTES], layout);
        assert!(page.push(
            &event(EventKind::Call),
            &extras,
            &mut none(),
            &mut empty(),
            100,
            30
        ));
        page.finish(0);
        let (records, _) = decode(page.bytes());
        let entry = |name| offset_of(RecordType::GraphEntry, layout, name);
        let exit = |name| offset_of(RecordType::GraphExit, layout, name);
        assert_eq!(records[0].u32(entry("common_pid")), 1234);
        assert_eq!(records[0].u64(entry("func")), 0xffff_ffff_8123_4564);
        assert_eq!(records[0].u64(entry("depth")), 7);
        assert_eq!(records[1].u64(exit("func")), 0xffff_ffff_8123_4564);
        assert_eq!(records[1].u32(exit("depth")), 7);
        assert_eq!(records[1].u32(exit("overrun")), 9);
        assert_eq!(records[1].u64(exit("calltime")), 100);
        assert_eq!(records[1].u64(exit("rettime")), 130);
        assert_eq!(records[1].payload.len(), exit("rettime") + 8);
        if layout.retval {
            assert_eq!(records[1].u64(exit("retval")), 0xfffe);
        }
    }
}

/// Returns the number behind the first `key` in `text`.
fn number_behind(text: &str, key: &str) -> usize {
    let (_, rest) = text.split_once(key).expect(key);
    let rest = rest.trim_start();
    let end = rest.find(|sign: char| !sign.is_ascii_digit());
    rest[..end.unwrap_or(rest.len())].parse().expect(key)
}

/// Fields follow each other, and what is printed is among them.
#[test]
fn formats_of_all_records() {
    let all = (0..=u16::MAX).filter_map(RecordType::from_number);
    let mut names = std::collections::BTreeSet::new();
    for kind in all {
        for retval in [false, true] {
            let layout = Layout {
                retval,
                ..Layout::default()
            };
            let mut text = String::new();
            write_format(&mut text, kind, layout).unwrap();
            let (head, rest) = text.split_once("\nID: ").unwrap();
            names.insert(head.strip_prefix("name: ").unwrap().to_owned());
            assert_eq!(number_behind(rest, ""), kind as usize);
            let (fields, print) = rest.split_once("\nprint fmt: ").unwrap();
            let mut declared = Vec::new();
            let mut end = 0;
            for line in fields.lines().filter(|line| line.contains("field:")) {
                let (declaration, place) = line.split_once(';').unwrap();
                let name = declaration.rsplit(' ').next().unwrap();
                declared.push(name.split('[').next().unwrap().to_owned());
                let offset = number_behind(place, "offset:");
                assert!(offset >= end, "{line}");
                end = offset + number_behind(place, "size:");
            }
            for used in print.split("REC->").skip(1) {
                let used = used.split(|sign: char| !(sign.is_alphanumeric() || sign == '_'));
                let used = used.into_iter().next().unwrap();
                assert!(declared.iter().any(|name| name == used), "{used} in {text}");
            }
        }
    }
    assert_eq!(names.len(), 6);
}

/// The kinds and the widths of a record's head are those by which `decode` reads it.
#[test]
fn head_of_records() {
    let mut text = String::new();
    write_event_header(&mut text).unwrap();
    let widths = ["type_len", "time_delta", "array"].map(|name| {
        let at = text.find(name).expect(name);
        number_behind(&text[at..], ":")
    });
    assert_eq!(widths, [5, 27, 32]);
    let kinds = ["padding", "time_extend", "time_stamp", "max type_len"].map(|name| {
        let at = text.find(name).expect(name);
        number_behind(&text[at..], "==")
    });
    assert_eq!(kinds, [29, 30, 31, 28]);
}

#[test]
fn lost_events() {
    let mut page = page();
    assert!(page.push(
        &event(EventKind::Function),
        &Extras::default(),
        &mut none(),
        &mut empty(),
        5,
        0
    ));
    page.finish(77);
    let (records, lost) = decode(page.bytes());
    assert_eq!((records.len(), lost), (1, Some(77)));
}

/// A page begins when its first event was, though the page before it has later ones: the clock was
/// changed, or a call began before others ended.
#[test]
fn earlier_pages() {
    let mut page = page();
    for began in [1 << 40, 1000] {
        page.clear();
        for (what, time) in [
            (EventKind::Call, began),
            (EventKind::Function, began + 20),
            (EventKind::Call, began + 30),
        ] {
            assert!(page.push_plain(&event(what), time, 10));
        }
        page.finish(0);
        let times: Vec<u64> = decode(page.bytes()).0.iter().map(|it| it.time).collect();
        assert_eq!(times, [0, 10, 20, 30, 40].map(|after| began + after));
    }
}

proptest! {
    #![proptest_config(cases(256))]

    /// Times of all distances are right; an event that does not fit comes with the next page, and
    /// nothing is lost.
    #[test]
    fn times(steps in prop::collection::vec((0u64..1 << 40, any::<bool>()), 1..400)) {
        let mut page = page();
        let (mut now, mut written, mut read) = (1, vec![], vec![]);
        for (step, near) in steps {
            now += if near { step & 0xff } else { step };
            let event = event(EventKind::Function);
            if !page.push(&event, &Extras::default(), &mut none(), &mut empty(), now, 0) {
                page.finish(0);
                read.extend(decode(page.bytes()).0.iter().map(|record| record.time));
                page.clear();
                assert!(page.push(&event, &Extras::default(), &mut none(), &mut empty(), now, 0));
            }
            written.push(now);
        }
        page.finish(0);
        read.extend(decode(page.bytes()).0.iter().map(|record| record.time));
        prop_assert_eq!(written, read);
    }
}
