// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Perfetto, the packets: messages one after the other, with the numbers of their fields
//! (<https://perfetto.dev/docs/reference/trace-packet-proto>).

use std::io::{self, Write};

use rustc_hash::FxHashMap;

use crate::export::protobuf::Message;
use crate::symbolizer::{FunctionId, Symbolizer};

/// Field of `Trace`.
const PACKET: u32 = 1;

/// Fields of `TracePacket`.
const FTRACE_EVENTS: u32 = 1;
const CLOCK_SNAPSHOT: u32 = 6;
const TIMESTAMP: u32 = 8;
const SEQUENCE_ID: u32 = 10;
const TRACK_EVENT: u32 = 11;
const INTERNED_DATA: u32 = 12;
const SEQUENCE_FLAGS: u32 = 13;
const FTRACE_STATS: u32 = 34;
const SYSTEM_INFO: u32 = 45;
const TRACK_DESCRIPTOR: u32 = 60;

/// Fields of `InternedData`; the number and the name are 1 and 2 in all of its messages.
const EVENT_NAMES: u32 = 2;
const ANNOTATION_NAMES: u32 = 3;
const STRING_VALUES: u32 = 29;

/// Fields of `TrackEvent`.
const ANNOTATION: u32 = 4;
const TYPE: u32 = 9;
const NAME_IID: u32 = 10;
const TRACK: u32 = 11;
const NAME: u32 = 23;

/// Numbers of clocks.
const REALTIME: u64 = 1;
const BOOTTIME: u64 = 6;

/// Size of the buffer before the output, in bytes.
const BUFFER_BYTES: usize = 1 << 16;

/// A kind of `TrackEvent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TrackEventType {
    Begin = 1,
    End = 2,
    Instant = 3,
}

/// A name of an event.
#[derive(Clone, Copy)]
pub(super) enum Name<'a> {
    None,
    Function(FunctionId),
    Text(&'a str),
}

/// A value of a debug annotation.
#[derive(Clone, Copy)]
pub(super) enum Value<'a> {
    Number(i64),
    /// Shown in hexadecimal.
    Address(u64),
    Text(&'a str),
    Function(FunctionId),
}

/// Names that were interned, with their numbers.
#[derive(Default)]
struct Interned {
    /// Functions that were interned as names of events.
    names: Vec<bool>,
    /// Functions that were interned as values.
    values: Vec<bool>,
    /// Numbers of the names of debug annotations.
    annotations: FxHashMap<String, u64>,
    /// Names that the next packet interns.
    data: Message,
}

/// Sets the bit of a function, and returns whether it was clear.
fn is_new(bits: &mut Vec<bool>, function: FunctionId) -> bool {
    if bits.len() <= function.index() {
        bits.resize(function.index() + 1, false);
    }
    !std::mem::replace(&mut bits[function.index()], true)
}

fn iid(function: FunctionId) -> u64 {
    u64::from(function.0) + 1
}

/// Packets in the making.
pub(super) struct Packets<W> {
    out: W,
    trace: Message,
    has_begun: bool,
    interned: Interned,
}

impl<W: Write> Packets<W> {
    pub(super) fn new(out: W) -> Self {
        Self {
            out,
            trace: Message::new(),
            has_begun: false,
            interned: Interned::default(),
        }
    }

    fn packet(&mut self, fill: impl FnOnce(&mut Message, &mut Interned)) -> io::Result<()> {
        // 1: what was interned before is no longer valid, 2: interned data is needed.
        let flags = if self.has_begun { 2 } else { 1 };
        self.has_begun = true;
        let interned = &mut self.interned;
        self.trace.message(PACKET, |packet| {
            packet.uint(SEQUENCE_ID, 1);
            packet.uint(SEQUENCE_FLAGS, flags);
            fill(packet, interned);
        });
        match self.trace.bytes().len() < BUFFER_BYTES {
            true => Ok(()),
            false => self.flush(),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(self.trace.bytes())?;
        self.trace.clear();
        Ok(())
    }

    /// Writes the rest of the buffer.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.out.flush()
    }

    /// Writes a snapshot of the clocks.
    pub(super) fn clocks(&mut self, boottime: u64, realtime: u64) -> io::Result<()> {
        self.packet(|packet, _| {
            packet.message(CLOCK_SNAPSHOT, |snapshot| {
                for (id, time) in [(BOOTTIME, boottime), (REALTIME, realtime)] {
                    snapshot.message(1, |clock| {
                        clock.uint(1, id);
                        clock.uint(2, time);
                    });
                }
                snapshot.uint(2, BOOTTIME);
            });
        })
    }

    /// Describes the kernel: version, release, machine.
    pub(super) fn system(&mut self, version: &str, release: &str, machine: &str) -> io::Result<()> {
        self.packet(|packet, _| {
            packet.message(SYSTEM_INFO, |info| {
                info.message(1, |uname| {
                    uname.text(1, "Linux");
                    uname.text(2, version);
                    uname.text(3, release);
                    uname.text(4, machine);
                });
            });
        })
    }

    /// Describes a track; `fill` adds the fields of its kind.
    pub(super) fn track(
        &mut self,
        uuid: u64,
        parent: Option<u64>,
        fill: impl FnOnce(&mut Message),
    ) -> io::Result<()> {
        self.packet(|packet, _| {
            packet.message(TRACK_DESCRIPTOR, |track| {
                track.uint(1, uuid);
                if let Some(parent) = parent {
                    track.uint(5, parent);
                }
                fill(track);
            });
        })
    }

    /// Reports that events of a CPU were lost before this time.
    pub(super) fn lost(&mut self, cpu: u32, time: u64) -> io::Result<()> {
        self.packet(|packet, _| {
            packet.uint(TIMESTAMP, time);
            packet.message(FTRACE_EVENTS, |bundle| {
                bundle.uint(1, cpu.into());
                bundle.uint(3, 1);
            });
        })
    }

    /// Writes counts of CPUs, at the start or at the end: CPU, overwritten, commit overrun,
    /// dropped, read.
    pub(super) fn stats(&mut self, is_end: bool, cpus: &[[u64; 5]]) -> io::Result<()> {
        self.packet(|packet, _| {
            packet.message(FTRACE_STATS, |stats| {
                stats.uint(1, if is_end { 2 } else { 1 });
                for counts in cpus {
                    stats.message(2, |cpu| {
                        for (field, count) in [1, 3, 4, 8, 9].into_iter().zip(counts) {
                            cpu.uint(field, *count);
                        }
                    });
                }
            });
        })
    }

    /// Adds an event of a track.
    pub(super) fn event(
        &mut self,
        symbolizer: &Symbolizer,
        kind: TrackEventType,
        track: u64,
        time: u64,
        name: Name<'_>,
        annotations: &[(&str, Value<'_>)],
    ) -> io::Result<()> {
        self.packet(|packet, interned| {
            packet.uint(TIMESTAMP, time);
            intern(packet, interned, symbolizer, name, annotations);
            packet.message(TRACK_EVENT, |event| {
                event.uint(TYPE, kind as u64);
                event.uint(TRACK, track);
                match name {
                    Name::None => {}
                    Name::Function(function) => event.uint(NAME_IID, iid(function)),
                    Name::Text(text) => event.text(NAME, text),
                }
                for (name, value) in annotations {
                    let iid_of_name = interned.annotations.get(*name).copied();
                    event.message(ANNOTATION, |annotation| {
                        annotation.uint(1, iid_of_name.unwrap_or(0));
                        match *value {
                            Value::Number(number) => annotation.int(4, number),
                            Value::Address(address) => annotation.uint(7, address),
                            Value::Text(text) => annotation.text(6, text),
                            Value::Function(function) => annotation.uint(17, iid(function)),
                        }
                    });
                }
            });
        })
    }
}

/// Gives numbers to those names of an event that have none yet.
fn intern(
    packet: &mut Message,
    interned: &mut Interned,
    symbolizer: &Symbolizer,
    name: Name<'_>,
    annotations: &[(&str, Value<'_>)],
) {
    // A packet has one message of interned data, however many names are in it.
    let data = &mut interned.data;
    data.clear();
    let mut add = |field: u32, iid: u64, text: &str| {
        data.message(field, |entry| {
            entry.uint(1, iid);
            entry.text(2, text);
        });
    };
    if let Name::Function(function) = name {
        if is_new(&mut interned.names, function) {
            add(EVENT_NAMES, iid(function), symbolizer.name(function));
        }
    }
    for (name, value) in annotations {
        if !interned.annotations.contains_key(*name) {
            let next = interned.annotations.len() as u64 + 1;
            interned.annotations.insert((*name).to_owned(), next);
            add(ANNOTATION_NAMES, next, name);
        }
        if let Value::Function(function) = *value {
            if is_new(&mut interned.values, function) {
                add(STRING_VALUES, iid(function), symbolizer.name(function));
            }
        }
    }
    if !data.is_empty() {
        packet.blob(INTERNED_DATA, data.bytes());
    }
}
