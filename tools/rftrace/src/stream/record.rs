// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Streams, the header of a record (rust_ftrace/engine/raw.rs), as it is read.

use rftrace_engine::engine::decode::{DecodedGroup, Decoder};
use rftrace_engine::engine::raw::{TimeFormat, FLAG_NS, HEADER_BYTES, MAGIC, VERSION};
use rftrace_engine::engine::slot::{SlotWords, Task, SLOT_BYTES};

/// Maximum number of slots of a record: as many as the largest sub-buffer has.
const MAX_SLOTS: u32 = (512 << 10) / SLOT_BYTES as u32;

/// A record without its slots.
#[derive(Clone, Copy, Debug)]
pub struct RecordHeader {
    /// The CPU that recorded it.
    pub cpu: u32,
    /// Bytes before the slots.
    pub header_bytes: usize,
    /// Number of slots.
    pub slots: usize,
    /// Number of the sub-buffer that they are from.
    pub seq: u64,
    /// Number of events that were lost right before them.
    pub lost: u64,
    /// Number of events.
    pub events: u32,
    /// The conversion of stamps to times.
    pub time: TimeFormat,
    /// Epoch and task at the first slot.
    pub decoder: Decoder,
}

impl RecordHeader {
    /// Parses the record that `bytes` begin with; returns `None` if they end in its header.
    ///
    /// # Errors
    ///
    /// A word for what is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, &'static str> {
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        if header[..4] != MAGIC {
            return Err("no magic number");
        }
        let half = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let word = |at: usize| u32::from(half(at)) | (u32::from(half(at + 2)) << 16);
        let long = |at: usize| u64::from(word(at)) | (u64::from(word(at + 4)) << 32);
        if half(4) != VERSION {
            return Err("another version of the raw format");
        }
        let header_bytes = usize::from(half(6));
        if header_bytes < HEADER_BYTES {
            return Err("a header that is too short");
        }
        if word(12) > MAX_SLOTS {
            return Err("more slots than there are in any sub-buffer");
        }
        if word(60) > 63 {
            return Err("a shift of times by more than 63 bits");
        }
        Ok(Some(Self {
            cpu: word(8),
            header_bytes,
            slots: word(12) as usize,
            seq: long(16),
            lost: long(32),
            events: word(40),
            time: TimeFormat {
                is_ns: word(44) & FLAG_NS != 0,
                clock: word(52),
                mult: word(56),
                shift: word(60),
                offset: long(64),
            },
            decoder: Decoder {
                epoch: word(48),
                task: Task {
                    ids: long(72),
                    comm: [long(80), long(88)],
                },
                // The first slot says it.
                container: None,
            },
        }))
    }

    /// Returns the size of the record, with its slots.
    pub fn bytes(&self) -> usize {
        self.header_bytes + self.slots * SLOT_BYTES
    }

    /// Returns the time of a stamp, in ns.
    #[inline]
    pub fn ns(&self, stamp: u64) -> u64 {
        self.ticks(stamp).wrapping_add(self.time.offset)
    }

    /// Returns a duration in ns.
    #[inline]
    pub fn ticks(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.time.mult)) >> self.time.shift) as u64
    }

    /// Returns the slots of the record that `bytes` begin with, as far as they are there.
    pub fn slots_of<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = SlotWords> + 'a {
        let slots = bytes.get(self.header_bytes..).unwrap_or_default();
        slots.chunks_exact(SLOT_BYTES).take(self.slots).map(words)
    }

    /// Returns the time of the last event of the record that `bytes` begin with, in ns; `None` if
    /// it has no event.
    pub fn last_time(&self, bytes: &[u8]) -> Option<u64> {
        let (mut decoder, mut group) = (self.decoder, DecodedGroup::default());
        let events = self
            .slots_of(bytes)
            .filter_map(|words| decoder.decode(words, &mut group));
        events.last().map(|event| self.ns(event.time))
    }
}

/// Returns the words of a slot of [`SLOT_BYTES`] bytes.
fn words(bytes: &[u8]) -> SlotWords {
    let (low, high) = bytes.split_at(8);
    let word = |half: &[u8]| {
        half.first_chunk()
            .map_or(0, |half| u64::from_le_bytes(*half))
    };
    SlotWords(word(low), word(high))
}
