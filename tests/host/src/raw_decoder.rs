// SPDX-License-Identifier: GPL-2.0

//! A decoder of the raw format, written from docs/raw-format.md and from nothing of the engine.

/// The stream ends in the middle of a record, or is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The stream ends in the middle of a record.
    Truncated,
    /// There is no header of a record.
    NoRecord,
    /// The record is of another version of the format.
    OtherVersion,
    /// The header has another number of events than the slots hold.
    WrongCount,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The CPU it was recorded on.
    pub cpu: u32,
    /// The number of its first event.
    pub first_event: u64,
    /// Events that were lost before it.
    pub lost: u64,
    /// Times are in nanoseconds.
    pub is_ns: bool,
    /// Its events, oldest first.
    pub events: Vec<RawEvent>,
}

/// An event of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawEvent {
    /// The stamp, converted.
    pub time: u64,
    /// The address of the function.
    pub ip: u64,
    /// The address it was called from.
    pub parent_ip: u64,
    /// The bits of the context.
    pub context: u32,
    /// The thread.
    pub pid: u32,
    /// Its process.
    pub tgid: u32,
    /// The thread's name.
    pub comm: [u8; 16],
    /// The ID of its cgroup, its pid and its tgid in its own namespace.
    pub container: Option<(u64, u32, u32)>,
    /// 0 for a function's entry, else the kind.
    pub kind: u32,
    /// Open calls around it.
    pub depth: u32,
    /// In units of the stamp.
    pub duration: u64,
    /// The value that the function returned.
    pub retval: Option<u64>,
    /// The stamp of its beginning, if that was before the one of its entry.
    pub since: Option<u64>,
    /// Calls of the task that were too deep to be traced.
    pub overrun: Option<u32>,
    /// Calls within the call are too deep to be traced.
    pub too_deep: bool,
    /// The arguments of the call.
    pub args: Option<[u64; 6]>,
    /// The bytes that a program has written.
    pub text: Option<Vec<u8>>,
    /// The return addresses behind `parent_ip`; empty also for a stack that is not known.
    pub stack: Option<Vec<u64>>,
}

/// Stacks by their places in the sub-buffer of that number.
type Stacks = (u64, std::collections::HashMap<u32, (usize, Vec<u64>)>);

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
pub fn decode(mut stream: &[u8]) -> Result<Vec<Record>, Error> {
    let mut records = Vec::new();
    let mut stacks = Stacks::default();
    while !stream.is_empty() {
        let (record, length) = decode_record(stream, &mut stacks)?;
        records.push(record);
        stream = &stream[length..];
    }
    Ok(records)
}

/// Decodes a record; also returns its bytes.
fn decode_record(from: &[u8], stacks: &mut Stacks) -> Result<(Record, usize), Error> {
    if bytes(from, 0)? != *b"RFTR" {
        return Err(Error::NoRecord);
    }
    if u16::from_le_bytes(bytes(from, 4)?) != 3 {
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
    if stacks.0 != word(from, 16)? {
        *stacks = (word(from, 16)?, Default::default());
    }
    let mut wide = None;
    let mut container = None;
    // Fields for the next event, and the place of the stack of the next slots.
    let mut next = RawEvent::default();
    let mut place = None;
    let mut high_duration = 0;
    let mut said = Vec::new();
    let mut events = Vec::new();
    for slot in slots.chunks_exact(16) {
        let (low0, high0) = (half(slot, 0)?, half(slot, 4)?);
        let (low1, high1) = (half(slot, 8)?, half(slot, 12)?);
        let text = |low: u32| 0xffff_ffff_8000_0000 | u64::from(low);
        let kind = low1 >> 24;
        let is_entry = low1 >> 31 != 0;
        if is_entry || kind & 64 != 0 {
            let stack = place.take().map(|place| {
                let (count, mut addresses) = stacks.1.get(&place).cloned().unwrap_or_default();
                addresses.truncate(count);
                addresses
            });
            events.push(RawEvent {
                time: convert((u64::from(epoch) << 32) | u64::from(high0)),
                ip: text(low0),
                parent_ip: wide.take().unwrap_or(match kind {
                    _ if is_entry => text(low1),
                    64 => text(high1),
                    _ => 0,
                }),
                context: if is_entry {
                    high1
                } else {
                    (low1 >> 8) & 0xffff
                },
                pid,
                tgid,
                comm,
                container,
                kind: if is_entry { 0 } else { kind },
                depth: if is_entry { 0 } else { low1 & 0xff },
                duration: match kind {
                    65 | 66 if !is_entry => high_duration | u64::from(high1),
                    _ => 0,
                },
                text: match kind {
                    67 | 68 if !is_entry => {
                        said.truncate(high1 as usize);
                        Some(std::mem::take(&mut said))
                    }
                    _ => None,
                },
                stack,
                ..std::mem::take(&mut next)
            });
            high_duration = 0;
            said.clear();
            continue;
        }
        let halves = u64::from(high0) | (u64::from(high1) << 32);
        match kind {
            6 => high_duration = u64::from(high1) << 32,
            7 => next.retval = Some(halves),
            8 => next.since = Some(halves),
            9 => next.overrun = Some(high1),
            14 => next.too_deep = true,
            20 => {
                said.extend(&low0.to_le_bytes()[..3]);
                said.extend(high0.to_le_bytes());
                said.extend(&low1.to_le_bytes()[..3]);
                said.extend(high1.to_le_bytes());
            }
            10 | 11 => place = Some((low1 >> 8) & 0x7fff),
            16..19 => {
                let args = next.args.get_or_insert_default();
                let (low0, high0) = (u64::from(low0 & 0x7fff_ffff), u64::from(high0));
                let (low1, high1) = (u64::from(low1 & 0xff_ffff), u64::from(high1));
                let first = low0 | ((high1 & 0xfff_ffff) << 31);
                let second = high0 | (low1 << 32) | (((high1 >> 28) & 7) << 56);
                let extended = |value: u64| ((value << 5) as i64) >> 5;
                let at = (kind as usize - 16) * 2;
                args[at] = extended(first) as u64;
                args[at + 1] = extended(second) as u64;
            }
            19 => {
                for (index, arg) in next.args.get_or_insert_default().iter_mut().enumerate() {
                    let high = (u64::from(high1) >> (5 * index)) & 31;
                    *arg = (*arg << 5 >> 5) | (high << 59);
                }
            }
            _ => {}
        }
        if let (10 | 12, Some(place)) = (kind, place) {
            if kind == 10 {
                stacks.1.insert(place, (low1 as usize & 0xff, vec![]));
            }
            if let Some((_, addresses)) = stacks.1.get_mut(&place) {
                addresses.extend([low0, high0, high1].map(text));
            }
        }
        match kind {
            2 => epoch = high1,
            3 => {
                (pid, tgid) = (low0 & 0xff_ffff, low1 & 0xff_ffff);
                container = None;
                comm[0..4].copy_from_slice(&high1.to_le_bytes());
                comm[4..8].copy_from_slice(&high0.to_le_bytes());
            }
            4 => {
                comm[8..12].copy_from_slice(&high0.to_le_bytes());
                comm[12..16].copy_from_slice(&high1.to_le_bytes());
            }
            5 => wide = Some(halves),
            13 => container = Some((halves, low0 & 0xff_ffff, low1 & 0xff_ffff)),
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
