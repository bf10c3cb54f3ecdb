// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Recording, the columns: rearranges records for a compressor. docs/file-format.md has the layout.
//!
//! Functions, callers and kinds of slots repeat, and stand beside their like. Times are stored as
//! the difference from those that the slots before let expect, which is small, and in planes:
//! lowest bytes, second bytes, and so on.

use rftrace_engine::engine::slot::SLOT_BYTES;

use crate::stream::RecordHeader;

/// Size of a slot in its row: all but the time.
const ROW_BYTES: usize = 12;
/// Number of planes: the bytes of a number.
const PLANES: usize = size_of::<u32>();
/// Kind of a slot that begins a call (docs/raw-format.md).
const ENTRY: u32 = 64;
/// Kind of a slot that is a whole call.
const CALL: u32 = 65;
/// Kind of a slot that ends a call.
const RETURN: u32 = 66;

/// The values that the slots so far let expect of the next one.
struct ExpectedSlot {
    /// Time at which the last event was over.
    time: u32,
    /// Times of the last entries, by their depth.
    entries: [u32; 256],
}

/// A slot, as a record has it.
#[derive(Clone, Copy)]
struct SlotColumns {
    ip: u32,
    time: u32,
    /// Lower half of the second word.
    kind: u32,
    /// Upper half of the second word.
    value: u32,
}

impl ExpectedSlot {
    fn new() -> Self {
        Self {
            time: 0,
            entries: [0; 256],
        }
    }

    /// Returns the time expected of a slot of this kind, which is subtracted.
    #[inline]
    fn time_of(&self, kind: u32) -> u32 {
        match is_event(kind) {
            true => self.time,
            false => 0,
        }
    }

    /// Returns the value expected of a slot of this kind at a time, which is subtracted.
    #[inline]
    fn value_of(&self, kind: u32, time: u32) -> u32 {
        match kind >> 24 {
            RETURN => time.wrapping_sub(self.entries[depth(kind)]),
            _ => 0,
        }
    }

    /// Learns from a slot.
    #[inline]
    fn see(&mut self, slot: &SlotColumns) {
        if !is_event(slot.kind) {
            return;
        }
        self.time = slot.time;
        match slot.kind >> 24 {
            ENTRY => self.entries[depth(slot.kind)] = slot.time,
            CALL => self.time = slot.time.wrapping_add(slot.value),
            _ => {}
        }
    }
}

/// Returns whether a slot is an event, and so has a time.
#[inline]
fn is_event(kind: u32) -> bool {
    kind >> 24 >= ENTRY
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..).and_then(<[u8]>::first_chunk);
    four.map_or(0, |four| u32::from_le_bytes(*four))
}

#[inline]
fn depth(kind: u32) -> usize {
    (kind & 0xff) as usize
}

impl SlotColumns {
    /// Parses the bytes of a slot.
    #[inline]
    fn of(bytes: &[u8]) -> Self {
        Self {
            ip: word(bytes, 0),
            time: word(bytes, 4),
            kind: word(bytes, 8),
            value: word(bytes, 12),
        }
    }

    /// Parses a row: the time is elsewhere.
    #[inline]
    fn of_row(bytes: &[u8]) -> Self {
        Self {
            ip: word(bytes, 0),
            time: 0,
            kind: word(bytes, 4),
            value: word(bytes, 8),
        }
    }

    #[inline]
    fn put(&self, bytes: &mut [u8]) {
        let numbers = [self.ip, self.time, self.kind, self.value];
        for (four, number) in bytes.chunks_exact_mut(4).zip(numbers) {
            four.copy_from_slice(&number.to_le_bytes());
        }
    }
}

/// Bytes of the headers of records, and their number of slots.
struct Sizes {
    headers: usize,
    slots: usize,
}

impl Sizes {
    /// Returns the sizes of records of `bytes` together; `header` returns the record whose header
    /// begins at that offset of the headers, behind so many slots. `None` if they do not add up to
    /// `bytes`.
    fn of(bytes: usize, header: impl Fn(usize, usize) -> Option<RecordHeader>) -> Option<Self> {
        let mut sizes = Self {
            headers: 0,
            slots: 0,
        };
        while sizes.bytes() < bytes {
            let record = header(sizes.headers, sizes.slots)?;
            sizes.headers += record.header_bytes;
            sizes.slots += record.slots;
        }
        (sizes.bytes() == bytes).then_some(sizes)
    }

    fn bytes(&self) -> usize {
        self.headers + self.slots * SLOT_BYTES
    }
}

/// Returns the record whose header is at `at`.
fn record_at(bytes: &[u8], at: usize) -> Option<RecordHeader> {
    RecordHeader::parse(bytes.get(at..)?).ok().flatten()
}

/// Appends numbers taken apart: all lowest bytes, all second bytes, and so on.
fn append_planes(bytes: &mut Vec<u8>, numbers: &[u32]) {
    for place in 0..PLANES {
        bytes.extend(numbers.iter().map(|number| (number >> (8 * place)) as u8));
    }
}

/// Puts numbers together from their planes.
fn of_planes(planes: &[u8]) -> Vec<u32> {
    let count = planes.len() / PLANES;
    let mut numbers = vec![0; count];
    for (place, plane) in planes.chunks_exact(count.max(1)).enumerate() {
        // A loop that the compiler vectorizes.
        for (number, byte) in numbers.iter_mut().zip(plane) {
            *number |= u32::from(*byte) << (8 * place);
        }
    }
    numbers
}

/// Returns the maximum size in columns of records of `bytes`.
pub(super) fn most_bytes(bytes: usize) -> usize {
    bytes + bytes / SLOT_BYTES * PLANES
}

/// Returns records in columns; `None` if they are not whole records.
pub(super) fn from_records(records: &[u8]) -> Option<Vec<u8>> {
    let at = |headers, slots| record_at(records, headers + slots * SLOT_BYTES);
    let sizes = Sizes::of(records.len(), at)?;
    let mut headers = Vec::with_capacity(most_bytes(records.len()));
    let mut rows = vec![0; sizes.slots * ROW_BYTES];
    let mut rows_left = rows.chunks_exact_mut(ROW_BYTES);
    let (mut times, mut durations) = (Vec::with_capacity(sizes.slots), Vec::new());
    let mut expected = ExpectedSlot::new();
    let mut rest = records;
    while let Some(record) = record_at(rest, 0) {
        let (header, behind) = rest.split_at_checked(record.header_bytes)?;
        let (slots, behind) = behind.split_at_checked(record.slots * SLOT_BYTES)?;
        rest = behind;
        headers.extend_from_slice(header);
        let slots = slots.chunks_exact(SLOT_BYTES);
        for (slot, row) in slots.map(SlotColumns::of).zip(&mut rows_left) {
            times.push(slot.time.wrapping_sub(expected.time_of(slot.kind)));
            let usual = expected.value_of(slot.kind, slot.time);
            let mut value = slot.value.wrapping_sub(usual);
            expected.see(&slot);
            if slot.kind >> 24 == CALL {
                durations.push(value);
                value = 0;
            }
            row[..4].copy_from_slice(&slot.ip.to_le_bytes());
            row[4..8].copy_from_slice(&slot.kind.to_le_bytes());
            row[8..].copy_from_slice(&value.to_le_bytes());
        }
    }
    let mut columns = headers;
    columns.extend_from_slice(&rows);
    append_planes(&mut columns, &times);
    append_planes(&mut columns, &durations);
    Some(columns)
}

/// Replaces `records` by the records of columns, `length` bytes.
///
/// # Errors
///
/// A word for what is wrong.
pub(super) fn to_records(
    columns: &[u8],
    length: usize,
    records: &mut Vec<u8>,
) -> Result<(), &'static str> {
    let sizes = Sizes::of(length, |headers, _| record_at(columns, headers));
    let sizes = sizes.ok_or("headers of records of another length than it says")?;
    let in_planes = columns.len().checked_sub(length);
    let in_planes = in_planes.filter(|bytes| bytes % PLANES == 0);
    in_planes.ok_or("columns of another length than it says")?;
    let (headers, rest) = columns.split_at(sizes.headers);
    let (rows, rest) = rest.split_at(sizes.slots * ROW_BYTES);
    let (times, durations) = rest.split_at(sizes.slots * PLANES);
    let mut durations = of_planes(durations).into_iter();
    let mut rows = rows.chunks_exact(ROW_BYTES).zip(of_planes(times));
    let mut expected = ExpectedSlot::new();
    records.resize(length, 0);
    let (mut to, mut from) = (&mut records[..], headers);
    while let Some(record) = record_at(from, 0) {
        let (header, behind) = from.split_at(record.header_bytes);
        from = behind;
        let (header_to, behind) = to.split_at_mut(record.header_bytes);
        let (slots_to, behind) = behind.split_at_mut(record.slots * SLOT_BYTES);
        to = behind;
        header_to.copy_from_slice(header);
        for (bytes, (row, time)) in slots_to.chunks_exact_mut(SLOT_BYTES).zip(&mut rows) {
            let mut slot = SlotColumns::of_row(row);
            if slot.kind >> 24 == CALL {
                slot.value = durations.next().ok_or("fewer durations than calls")?;
            }
            slot.time = time.wrapping_add(expected.time_of(slot.kind));
            let usual = expected.value_of(slot.kind, slot.time);
            slot.value = slot.value.wrapping_add(usual);
            expected.see(&slot);
            slot.put(bytes);
        }
    }
    match durations.next() {
        None => Ok(()),
        Some(_) => Err("more durations than calls"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rftrace_engine::engine::raw::HEADER_BYTES;

    use super::*;
    use crate::sample::machine::{MachineStep, SampleMachine};

    /// Returns the records of columns.
    fn back(columns: &[u8], length: usize) -> Result<Vec<u8>, &'static str> {
        let mut records = vec![7; 7];
        to_records(columns, length, &mut records).map(|()| records)
    }

    /// Returns records of a CPU of a machine, and some more.
    fn records() -> Vec<u8> {
        let mut machine = SampleMachine::new(1, true);
        for number in 0..200_u8 {
            let step = match number % 5 {
                0..3 => MachineStep::Begin {
                    cpu: 0,
                    function: number / 11,
                },
                _ => MachineStep::End { cpu: 0 },
            };
            machine.step(step, u16::from(number) * 7);
        }
        let records = machine.records().remove(0);
        [&records[..], &records].concat()
    }

    #[test]
    fn records_come_back() {
        let records = records();
        let columns = from_records(&records).unwrap();
        assert_eq!(back(&columns, records.len()).unwrap(), records);
        let none = from_records(&[]).unwrap();
        assert!(back(&none, 0).unwrap().is_empty());
    }

    /// Times of nested calls are in planes of which only the lowest has anything, and returns add
    /// nothing new.
    #[test]
    fn what_was_to_be_expected_is_zero() {
        let records = records();
        let columns = from_records(&records).unwrap();
        let sizes = Sizes::of(records.len(), |headers, _| record_at(&columns, headers)).unwrap();
        let rows = &columns[sizes.headers..][..sizes.slots * ROW_BYTES];
        let returns = rows.chunks_exact(ROW_BYTES).map(SlotColumns::of_row);
        let returns: Vec<u32> = returns
            .filter(|row| row.kind >> 24 == RETURN)
            .map(|row| row.value)
            .collect();
        assert!(returns.len() > 20 && returns.iter().all(|value| *value == 0));
        let once = &records[..records.len() / 2];
        let compressed = |bytes: &[u8]| lz4_flex::block::compress(bytes).len();
        let (columns, records) = (compressed(&from_records(once).unwrap()), compressed(once));
        assert!(columns * 3 < records * 2, "{columns} of {records}");
    }

    #[test]
    fn what_is_no_record_has_no_columns() {
        let records = records();
        assert!(from_records(&records[..records.len() - 1]).is_none());
        assert!(from_records(&records[1..]).is_none());
    }

    #[test]
    fn columns_of_another_length_are_refused() {
        let records = records();
        let columns = from_records(&records).unwrap();
        for length in [0, 1, HEADER_BYTES, records.len() - 16, records.len() + 16] {
            assert!(back(&columns, length).is_err(), "{length}");
        }
        for length in 0..columns.len() {
            assert!(back(&columns[..length], records.len()).is_err());
        }
        let longer = [&columns[..], &[0; 4]].concat();
        assert!(back(&longer, records.len()).is_err());
    }

    proptest! {
        /// Slots of any contents come back, and spoilt columns are refused or give as many bytes.
        #[test]
        fn any_slots_come_back(
            slots in prop::collection::vec((any::<u32>(), any::<u32>(), 60_u32..70, 0..4_u32, any::<u32>()), 1..80),
            spoilt in any::<(prop::sample::Index, u8)>(),
        ) {
            let mut bytes = records()[..HEADER_BYTES].to_vec();
            bytes[12..16].copy_from_slice(&(slots.len() as u32).to_le_bytes());
            for (ip, time, kind, depth, value) in slots {
                let begin = bytes.len();
                bytes.resize(begin + SLOT_BYTES, 0);
                let kind = (kind << 24) | depth;
                SlotColumns { ip, time, kind, value }.put(&mut bytes[begin..]);
            }
            let mut columns = from_records(&bytes).unwrap();
            prop_assert_eq!(&back(&columns, bytes.len()).unwrap(), &bytes);
            let place = spoilt.0.index(columns.len());
            columns[place] = spoilt.1;
            if let Ok(records) = back(&columns, bytes.len()) {
                prop_assert_eq!(records.len(), bytes.len());
            }
        }
    }
}
