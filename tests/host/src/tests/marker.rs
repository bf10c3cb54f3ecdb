// SPDX-License-Identifier: GPL-2.0

//! Marks of programs in a ring, between entries of functions, and interrupted by them.

use std::cell::Cell;
use std::rc::Rc;

use proptest::prelude::*;

use super::render::Page;
use super::{cases, interrupted, points, some_under_miri};
use crate::engine::consumer::Consumer;
use crate::engine::decode::{Event, EventKind};
use crate::engine::line::ROOM;
use crate::engine::marker::{write_marker, TEXT_BYTES};
use crate::engine::reader::{Cursor, EventExtras};
use crate::engine::ring::{Ring, WriteOutcome};
use crate::engine::slot::{SlotKind, SlotWords};
use crate::platform::preempt;
use crate::raw_decoder;
use crate::support::{self, call, copy_space, raw_record, task, FixedContext, Heap};

const IP: u64 = 0xffff_ffff_8123_4560;
const CONTEXT: u32 = 0x8205;

/// A ring, and a clock.
struct Cpu {
    ring: Ring<Heap>,
    now: Cell<u64>,
}

impl Cpu {
    fn new(subbufs: usize, subbuf_slots: usize) -> Rc<Self> {
        Rc::new(Self {
            ring: support::ring(subbufs, subbuf_slots),
            now: Cell::new(1 << 33),
        })
    }

    fn clock(&self) -> u64 {
        preempt::point();
        self.now.set(self.now.get() + 1);
        self.now.get()
    }

    fn mark(&self, kind: SlotKind, bytes: &[u8]) -> Result<usize, WriteOutcome> {
        let slots: Vec<SlotWords> = bytes.chunks(TEXT_BYTES).map(SlotWords::text_slot).collect();
        let who = FixedContext {
            context: CONTEXT,
            task: task(77, 70, "marker"),
            clock: &|| self.clock(),
        };
        // SAFETY: The thread is this CPU, and what interrupts it does so by function calls.
        unsafe { (self.ring).write_marker(kind, IP, &slots, bytes.len(), who) }
    }

    fn enter(&self, serial: u64) -> WriteOutcome {
        let (call, context) = call(serial, false);
        let who = FixedContext {
            context,
            task: task(77, 70, "marker"),
            clock: &|| self.clock(),
        };
        // SAFETY: As above.
        unsafe { self.ring.write(call, who) }
    }

    /// Reads all events, with the bytes of marks.
    fn read(&self) -> Vec<(Event, Vec<u8>)> {
        let mut cursor = Cursor::new(&self.ring, copy_space(&self.ring), 0);
        let mut read = vec![];
        while let Some(event) = cursor.next(&self.ring) {
            read.push((event, cursor.text().collect()));
        }
        read
    }

    /// Takes the marks out one by one.
    fn take(&self) -> Vec<(Event, Vec<u8>)> {
        let mut consumer = Consumer::new(copy_space(&self.ring));
        let mut taken = vec![];
        while let Some((index, event)) = consumer.peek(&self.ring) {
            taken.push((event, consumer.text().collect()));
            assert!(consumer.take(index));
        }
        taken
    }

    /// Drains the marks by a sink that accepts so many in a row, and then looks at the next one
    /// again.
    fn drain(&self, in_row: usize) -> Vec<(Event, Vec<u8>)> {
        let mut consumer = Consumer::new(copy_space(&self.ring));
        let mut taken = vec![];
        loop {
            let (mut accepted, mut refused) = (0, false);
            consumer.drain(&self.ring, &mut |event: &Event,
                                             event_extras: Option<
                EventExtras<'_, Vec<SlotWords>>,
            >| {
                assert_eq!(event.has_extras, event_extras.is_some());
                refused = accepted == in_row;
                if !refused {
                    let text = event_extras.map(|event_extras| event_extras.text().collect());
                    taken.push((*event, text.unwrap_or_default()));
                    accepted += 1;
                }
                !refused
            });
            assert_eq!(consumer.read(), taken.len() as u64);
            if !refused {
                return taken;
            }
        }
    }

    /// Decodes the marks by the documentation of the raw format.
    fn decode(&self) -> Vec<raw_decoder::RawEvent> {
        let mut consumer = Consumer::new(copy_space(&self.ring));
        let mut slots = copy_space(&self.ring);
        let mut bytes = vec![];
        while let Some(chunk) = consumer.take_chunk(&self.ring, usize::MAX, &mut slots) {
            let of_chunk = &slots[chunk.slots.clone()];
            bytes.extend(raw_record(&chunk, 0, of_chunk));
        }
        let records = raw_decoder::decode(&bytes).unwrap();
        records
            .into_iter()
            .flat_map(|record| record.events)
            .collect()
    }
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length)
        .map(|index| (index * 7 + length) as u8)
        .collect()
}

/// Marks of all lengths, with functions between them, come back whole, every way.
#[test]
fn lengths() {
    let most = if cfg!(miri) { 60 } else { 399 };
    let cpu = Cpu::new(64, 256);
    for length in 1..=most {
        let kind = [SlotKind::Marker, SlotKind::RawMarker][length % 2];
        assert_eq!(cpu.mark(kind, &bytes(length)), Ok(length));
        assert_eq!(cpu.enter(length as u64), WriteOutcome::Written);
    }
    assert_eq!(cpu.ring.markers(), most as u64);
    let read = cpu.read();
    assert_eq!(read.len(), 2 * most);
    for (pair, length) in read.chunks(2).zip(1..) {
        let (event, text) = &pair[0];
        let what = [EventKind::Marker, EventKind::RawMarker][length % 2];
        assert_eq!(
            (event.what, event.ip, event.task),
            (what, IP, task(77, 70, "marker"))
        );
        assert_eq!(event.context.0, CONTEXT);
        assert_eq!(*text, bytes(length));
        let (event, text) = &pair[1];
        assert_eq!((event.what, text.len()), (EventKind::Function, 0));
    }
    assert_eq!(cpu.take(), read);
    for in_row in 1..5 {
        assert_eq!(cpu.drain(in_row), read, "{in_row} in a row");
    }
    let decoded = cpu.decode();
    assert_eq!(decoded.len(), 2 * most);
    for ((event, text), raw) in read.iter().zip(decoded) {
        assert_eq!((raw.time, raw.ip), (event.time, event.ip));
        assert_eq!(raw.text.unwrap_or_default(), *text);
    }
}

/// Refuses a mark that a sub-buffer has no room for, and tells the writer.
#[test]
fn too_long() {
    let cpu = Cpu::new(4, 32);
    let room = cpu.ring.text_room() * TEXT_BYTES;
    assert_eq!(cpu.mark(SlotKind::Marker, &bytes(room)), Ok(room));
    assert_eq!(cpu.mark(SlotKind::Marker, &bytes(room + 100)), Ok(room));
    let texts: Vec<Vec<u8>> = cpu.read().into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, [bytes(room), bytes(room + 100)[..room].to_vec()]);
}

/// A writer is interrupted by others, at every place where it can be.
#[test]
fn interrupts() {
    for before in some_under_miri(0..20, 7) {
        for length in [1, 14, 15, 100] {
            for point in points() {
                let cpu = Cpu::new(4, 16);
                for serial in 0..before {
                    cpu.enter(serial);
                }
                let other = cpu.clone();
                let interrupt = move |_: usize| {
                    other.enter(1000);
                    other.mark(SlotKind::RawMarker, b"interrupt").unwrap();
                };
                let body = || assert_eq!(cpu.mark(SlotKind::Marker, &bytes(length)), Ok(length));
                let came = interrupted([point], interrupt, body);
                let markers: Vec<_> = (cpu.read().into_iter())
                    .filter(|(event, _)| event.what != EventKind::Function)
                    .map(|(event, text)| (event.what, text))
                    .collect();
                let own = (EventKind::Marker, bytes(length));
                let foreign = (EventKind::RawMarker, b"interrupt".to_vec());
                match came {
                    false => assert_eq!(markers, [own]),
                    true => {
                        assert!(
                            markers == [own.clone(), foreign.clone()] || markers == [foreign, own]
                        )
                    }
                }
                if !came {
                    break;
                }
            }
        }
    }
}

fn text_of(what: EventKind, bytes: &[u8]) -> String {
    let mut page = Page(String::new(), [0; ROOM]);
    write_marker(&mut page, what, bytes).unwrap();
    page.0
}

/// Marks are shown as by ftrace.
#[test]
fn shown() {
    assert_eq!(text_of(EventKind::Marker, b"hello"), "hello");
    assert_eq!(text_of(EventKind::Marker, b"hello\n"), "hello");
    assert_eq!(text_of(EventKind::Marker, b"a\nb\n\n"), "a\nb\n");
    assert_eq!(text_of(EventKind::Marker, b"a\0b"), "a");
    assert_eq!(
        text_of(EventKind::RawMarker, b"\x01\0\0\0xyz"),
        "# 1 buf: 78 79 7a 00"
    );
    assert_eq!(
        text_of(EventKind::RawMarker, b"\xff\x01\x02\x83"),
        "# 830201ff buf:"
    );
}

proptest! {
    #![proptest_config(cases(64))]

    /// In a ring that is much too small, the last marks are there as they were written.
    #[test]
    fn overwritten(lengths in prop::collection::vec(1usize..150, 1..100)) {
        let cpu = Cpu::new(4, 16);
        for length in &lengths {
            cpu.mark(SlotKind::Marker, &bytes(*length)).unwrap();
        }
        // Losses come with the same events, however they are taken.
        let taken = cpu.take();
        for in_row in 1..4 {
            prop_assert_eq!(&cpu.drain(in_row), &taken);
        }
        let room = cpu.ring.text_room() * TEXT_BYTES;
        let read = cpu.read();
        prop_assert!(!read.is_empty());
        let last = &lengths[lengths.len() - read.len()..];
        for ((_, text), length) in read.iter().zip(last) {
            prop_assert_eq!(text, &bytes(*length)[..room.min(*length)]);
        }
    }
}
