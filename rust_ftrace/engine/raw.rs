// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The format of `per_cpu/cpuN/raw`: records of slots as the ring has them, each behind a header
//! with everything that is needed to decode it alone. docs/raw-format.md describes it for authors
//! of readers.
//!
//! | bytes | what                                                                       |
//! |-------|----------------------------------------------------------------------------|
//! | 0-3   | [`MAGIC`]                                                                  |
//! | 4-5   | [`VERSION`]                                                                |
//! | 6-7   | bytes of this header, [`HEADER_BYTES`]                                     |
//! | 8-11  | CPU                                                                        |
//! | 12-15 | number of slots that follow                                                |
//! | 16-23 | number of the sub-buffer they are from                                     |
//! | 24-31 | index of their first event, counted since the CPU's buffer was made         |
//! | 32-39 | events that were lost right before them                                    |
//! | 40-43 | number of their events                                                     |
//! | 44-47 | flags: bit 0: times are in ns, else they are counts                         |
//! | 48-51 | epoch at the first slot                                                    |
//! | 52-55 | clock: its place in `trace_clock`, from 0                                   |
//! | 56-59 | factor of the conversion of times                                          |
//! | 60-63 | shift of it                                                                |
//! | 64-71 | offset of it                                                               |
//! | 72-75 | pid at the first slot                                                      |
//! | 76-79 | tgid                                                                       |
//! | 80-95 | comm, filled up with zeroes                                                |
//!
//! If the container of the task at the first slot is known, the first slot is one that says it.
//!
//! All numbers are little-endian.

use super::consumer::TakenSlots;
use super::slot::{SlotWords, SLOT_BYTES};

/// The bytes that a header begins with: `RFTR`.
pub const MAGIC: [u8; 4] = *b"RFTR";
/// The format's version. It changes when an old decoder would go wrong.
pub const VERSION: u16 = 3;
/// Bytes of a header.
pub const HEADER_BYTES: usize = 96;
/// Most bytes that come before the slots that were taken.
pub const BEGIN_BYTES: usize = HEADER_BYTES + SLOT_BYTES;

/// Flag: converted times are in ns.
pub const FLAG_NS: u32 = 1 << 0;

/// The conversion of stamps to times: `(stamp * mult >> shift) + offset`, modulo 2^64, with a
/// product of 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeFormat {
    /// Place of the clock in `trace_clock`.
    pub clock: u32,
    /// Times are in ns.
    pub is_ns: bool,
    /// The factor; 1 where stamps are times.
    pub mult: u32,
    /// Bits to shift to the right by.
    pub shift: u32,
    /// Added at the end.
    pub offset: u64,
}

/// Makes what comes before the slots of `chunk` in its record: the header, and the container of the
/// task at the first slot, if it is known. The chunk was taken from `cpu`.
pub fn begin_record<'a>(
    bytes: &'a mut [u8; BEGIN_BYTES],
    chunk: &TakenSlots,
    cpu: u32,
    time: &TimeFormat,
) -> &'a [u8] {
    let container = chunk.decoder.container.map(SlotWords::container_slot);
    let slots = chunk.slots.len().saturating_add(container.iter().len());
    let task = &chunk.decoder.task;
    let flags = if time.is_ns { FLAG_NS } else { 0 };
    let mut header = HeaderWriter { bytes, length: 0 };
    header.put(MAGIC);
    header.put(VERSION.to_le_bytes());
    header.put((HEADER_BYTES as u16).to_le_bytes());
    header.put(cpu.to_le_bytes());
    header.put((slots as u32).to_le_bytes());
    header.put(chunk.seq.to_le_bytes());
    header.put(chunk.first_event.to_le_bytes());
    header.put(chunk.lost.to_le_bytes());
    header.put((chunk.events as u32).to_le_bytes());
    header.put(flags.to_le_bytes());
    header.put(chunk.decoder.epoch.to_le_bytes());
    header.put(time.clock.to_le_bytes());
    header.put(time.mult.to_le_bytes());
    header.put(time.shift.to_le_bytes());
    header.put(time.offset.to_le_bytes());
    header.put(task.ids.to_le_bytes());
    header.put(task.comm[0].to_le_bytes());
    header.put(task.comm[1].to_le_bytes());
    if let Some(SlotWords(first, second)) = container {
        header.put(first.to_le_bytes());
        header.put(second.to_le_bytes());
    }
    let length = header.length;
    bytes.get(..length).unwrap_or_default()
}

/// A buffer that is filled from its start.
struct HeaderWriter<'a> {
    bytes: &'a mut [u8; BEGIN_BYTES],
    length: usize,
}

impl HeaderWriter<'_> {
    fn put<const N: usize>(&mut self, value: [u8; N]) {
        let end = self.length.saturating_add(N);
        if let Some(place) = self.bytes.get_mut(self.length..end) {
            place.copy_from_slice(&value);
        }
        self.length = end;
    }
}
