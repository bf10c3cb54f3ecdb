// SPDX-License-Identifier: GPL-2.0

//! Recordings of any chunks and records, whose checksums and sizes are right: a fuzzer does not
//! find these.

use std::io::Write;

use flate2::write::ZlibEncoder;
use flate2::Compression;
use rftrace_cli::recording::{ChunkHeader, ChunkKind, Encoding, FILE_HEADER};

use crate::engine::consumer::TakenSlots;
use crate::engine::decode::Decoder;
use crate::engine::slot::SLOT_BYTES;
use crate::input::Input;
use crate::support::raw_record;

/// Size of a number in the planes of columns.
const PLANES: usize = 4;

/// Returns a file: empty settings, and then the chunks that `data` describes, each by
///
/// | bytes | of a chunk                                                                |
/// |-------|---------------------------------------------------------------------------|
/// | 0     | bits 0-2: its kind; 3-5: its encoding; 6: its contents are not compressed |
/// |       | as they should be; 7: they are the slots of records                       |
/// | 1     | bits 0-1: the CPU; 2-3: number of records, less one; 4-7: number of calls |
/// |       | in columns, else the length is wrong unless they are 0                    |
/// | 2-3   | a byte of the first record's header, and its value                        |
/// | 4     | number of records that come before the chunk, by which `seq` goes on      |
/// | 5-6   | bytes of contents                                                         |
/// | 7-    | the contents                                                              |
pub(crate) fn file_of_chunks(data: &[u8]) -> Vec<u8> {
    let mut file = FILE_HEADER.to_vec();
    let settings = ChunkHeader {
        kind: ChunkKind::Settings as u16,
        encoding: Encoding::Plain as u16,
        cpu: 0,
        stored: 0,
        plain: 2,
        crc: 0,
        events: 0,
    };
    append(&mut file, settings, b"{}");
    let mut input = Input(data);
    let mut seq = 0;
    while append_next(&mut file, &mut input, &mut seq).is_some() {}
    file
}

/// Appends the next chunk that `input` describes.
fn append_next(file: &mut Vec<u8>, input: &mut Input<'_>, seq: &mut u64) -> Option<()> {
    let (form, place) = (input.byte()?, input.byte()?);
    let (patched, patch) = (usize::from(input.byte()?), input.byte()?);
    *seq += u64::from(input.byte()?);
    let length = usize::from(input.half()?);
    let contents = input.bytes(length);

    let cpu = u32::from(place % 4);
    let number = usize::from(place / 16);
    let encoding = u16::from(form / 8 % 8);
    let is_columns = encoding == Encoding::Columns as u16;
    // The numbers of calls in columns are behind all slots.
    let behind = if is_columns { number * PLANES } else { 0 };
    let slots = contents.len().saturating_sub(behind) / SLOT_BYTES;
    let mut headers = Vec::new();
    let mut plain = Vec::new();
    let mut rest = contents;
    if form & 0x80 != 0 {
        let records = usize::from(place / 4 % 4) + 1;
        for record in 0..records {
            let begin = slots * record / records;
            let end = slots * (record + 1) / records;
            *seq += 1;
            let mut header = record_header(cpu, *seq, end - begin);
            if let (0, Some(byte)) = (record, header.get_mut(patched)) {
                *byte = patch;
            }
            let (slots, behind) = rest.split_at((end - begin) * SLOT_BYTES);
            rest = behind;
            headers.extend_from_slice(&header);
            plain.extend_from_slice(&header);
            plain.extend_from_slice(slots);
        }
    }
    let (unpacked, length) = match is_columns {
        true => {
            let length = headers.len() + slots * SLOT_BYTES;
            ([&headers, contents].concat(), length)
        }
        false => {
            plain.extend_from_slice(rest);
            let length = plain.len();
            (plain, length + number)
        }
    };
    let stored = match Encoding::from_number(encoding) {
        _ if form & 0x40 != 0 => unpacked,
        Some(Encoding::Lz4 | Encoding::Columns) => lz4_flex::block::compress(&unpacked),
        Some(Encoding::Zlib) => {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(&unpacked).ok()?;
            encoder.finish().ok()?
        }
        _ => unpacked,
    };
    let header = ChunkHeader {
        kind: u16::from(form % 8),
        encoding,
        cpu,
        stored: 0,
        plain: length as u32,
        crc: 0,
        events: slots as u32,
    };
    append(file, header, &stored);
    Some(())
}

/// Appends a chunk, whose header gets its size and checksum.
fn append(file: &mut Vec<u8>, header: ChunkHeader, stored: &[u8]) {
    let header = ChunkHeader {
        stored: stored.len() as u32,
        crc: crc32fast::hash(stored),
        ..header
    };
    file.extend_from_slice(&header.to_bytes());
    file.extend_from_slice(stored);
}

/// Returns the header of a record of so many slots, each an event.
pub(crate) fn record_header(cpu: u32, seq: u64, slots: usize) -> Vec<u8> {
    let chunk = TakenSlots {
        slots: 0..slots,
        seq,
        first_event: 0,
        events: slots as u64,
        lost: 0,
        decoder: Decoder::default(),
    };
    raw_record(&chunk, cpu, &[])
}
