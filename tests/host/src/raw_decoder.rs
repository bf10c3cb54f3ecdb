// SPDX-License-Identifier: GPL-2.0

//! A decoder of the raw format, written from docs/raw-format.md and from nothing of the engine.

/// The stream ends in the middle of a record, or is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Error {
    Truncated,
    NoRecord,
    OtherVersion,
    /// The header says another number of events than the slots hold.
    WrongCount,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) cpu: u32,
    pub(crate) first_event: u64,
    pub(crate) lost: u64,
    pub(crate) is_ns: bool,
    pub(crate) events: Vec<RawEvent>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawEvent {
    pub(crate) time: u64,
    pub(crate) ip: u64,
    pub(crate) parent_ip: u64,
    pub(crate) context: u32,
    pub(crate) pid: u32,
    pub(crate) tgid: u32,
    pub(crate) comm: [u8; 16],
}

fn bytes<const N: usize>(from: &[u8], at: usize) -> Result<[u8; N], Error> {
    let rest = from.get(at..).ok_or(Error::Truncated)?;
    Ok(*rest.first_chunk().ok_or(Error::Truncated)?)
}

fn half(from: &[u8], at: usize) -> Result<u32, Error> {
    Ok(u32::from_le_bytes(bytes(from, at)?))
}

fn word(from: &[u8], at: usize) -> Result<u64, Error> {
    Ok(u64::from_le_bytes(bytes(from, at)?))
}

/// Decodes a stream of whole records.
pub(crate) fn decode(mut stream: &[u8]) -> Result<Vec<Record>, Error> {
    let mut records = Vec::new();
    while !stream.is_empty() {
        let (record, length) = decode_record(stream)?;
        records.push(record);
        stream = &stream[length..];
    }
    Ok(records)
}

/// Decodes a record; also returns its bytes.
fn decode_record(from: &[u8]) -> Result<(Record, usize), Error> {
    if bytes(from, 0)? != *b"RFTR" {
        return Err(Error::NoRecord);
    }
    if u16::from_le_bytes(bytes(from, 4)?) != 1 {
        return Err(Error::OtherVersion);
    }
    let header = usize::from(u16::from_le_bytes(bytes(from, 6)?));
    if header < 96 {
        return Err(Error::NoRecord);
    }
    let slots = half(from, 12)? as usize * 16;
    let length = header + slots;
    let slots = from.get(header..length).ok_or(Error::Truncated)?;
    let (mult, shift, offset) = (half(from, 56)?, half(from, 60)?, word(from, 64)?);
    if shift >= 64 {
        return Err(Error::NoRecord);
    }
    let convert = |stamp: u64| {
        let product = u128::from(stamp) * u128::from(mult);
        ((product >> shift) as u64).wrapping_add(offset)
    };

    let mut epoch = half(from, 48)?;
    let (mut pid, mut tgid) = (half(from, 72)?, half(from, 76)?);
    let mut comm: [u8; 16] = bytes(from, 80)?;
    let mut wide = None;
    let mut events = Vec::new();
    for slot in slots.chunks_exact(16) {
        let (low0, high0) = (half(slot, 0)?, half(slot, 4)?);
        let (low1, high1) = (half(slot, 8)?, half(slot, 12)?);
        let text = |low: u32| 0xffff_ffff_8000_0000 | u64::from(low);
        if low1 >> 31 != 0 {
            events.push(RawEvent {
                time: convert((u64::from(epoch) << 32) | u64::from(high0)),
                ip: text(low0),
                parent_ip: wide.take().unwrap_or(text(low1)),
                context: high1,
                pid,
                tgid,
                comm,
            });
            continue;
        }
        match low1 >> 24 {
            2 => epoch = high1,
            3 => {
                (pid, tgid) = (low0 & 0xff_ffff, low1 & 0xff_ffff);
                comm[0..4].copy_from_slice(&high1.to_le_bytes());
                comm[4..8].copy_from_slice(&high0.to_le_bytes());
            }
            4 => {
                comm[8..12].copy_from_slice(&high0.to_le_bytes());
                comm[12..16].copy_from_slice(&high1.to_le_bytes());
            }
            5 => wide = Some(u64::from(high0) | (u64::from(high1) << 32)),
            _ => {}
        }
    }
    if events.len() != half(from, 40)? as usize {
        return Err(Error::WrongCount);
    }
    let record = Record {
        cpu: half(from, 8)?,
        first_event: word(from, 24)?,
        lost: word(from, 32)?,
        is_ns: half(from, 44)? & 1 != 0,
        events,
    };
    Ok((record, length))
}
