// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A line of text that is being made, in few instructions.

use core::fmt::{Error, Result, Write};

use super::clock::TimeUnit;
use super::slot::Task;

/// Room for a line: the columns before the function take 120 bytes at most, and names have the
/// rest.
pub const ROOM: usize = 256;

/// An output that lines are written to.
pub trait LineOutput: Write {
    /// Writes bytes, which need not be UTF-8.
    fn write_bytes(&mut self, bytes: &[u8]) -> Result;

    /// Returns room for the next bytes, which [`LineOutput::advance`] writes.
    fn room(&mut self) -> core::result::Result<&mut [u8; ROOM], Error>;

    /// Writes the first `length` bytes of the room.
    fn advance(&mut self, length: usize);
}

/// Returns the eight digits of a number below 10^8, one in each byte, the first in the lowest.
#[inline(always)]
const fn digits_of(value: u32) -> u64 {
    // The number is divided into halves of four digits, quarters of two, and eighths: each step
    // divides all parts at once, by a factor that is exact for as many digits.
    let (high, low) = (value / 10_000, value % 10_000);
    let halves = high as u64 | ((low as u64) << 32);
    let tops = (halves.wrapping_mul(10_486) >> 20) & 0x0000_007f_0000_007f;
    let quarters = tops | (halves.wrapping_sub(tops.wrapping_mul(100)) << 16);
    let tops = (quarters.wrapping_mul(103) >> 10) & 0x000f_000f_000f_000f;
    tops | (quarters.wrapping_sub(tops.wrapping_mul(10)) << 8)
}

/// Returns a word whose bytes are all `byte`.
pub(super) const fn all(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// Returns a mask of the lowest `count` bytes.
#[inline(always)]
const fn lowest(count: u32) -> u64 {
    match count {
        0..8 => !(u64::MAX << (8 * count)),
        _ => u64::MAX,
    }
}

/// Bytes that stay free behind text of any length, for eight bytes that are put up to three bytes
/// further on.
const BEHIND: usize = 16;

/// A line that is made in place. `core::fmt` would take longer for it than all the rest.
///
/// Most text is put there eight bytes at a time, of which the last are overwritten by the next
/// text.
pub(super) struct Line<'a> {
    bytes: &'a mut [u8; ROOM],
    length: usize,
}

impl<'a> Line<'a> {
    /// Begins a line at the start of the room.
    pub(super) fn new(bytes: &'a mut [u8; ROOM]) -> Self {
        Self { bytes, length: 0 }
    }

    /// Returns the number of its bytes.
    #[inline(always)]
    pub(super) const fn length(&self) -> usize {
        self.length
    }

    /// Appends the first `count` bytes of eight, if there is room for all eight.
    #[inline(always)]
    pub(super) fn put(&mut self, bytes: u64, count: usize) {
        let rest = self.bytes.get_mut(self.length..);
        if let Some(room) = rest.and_then(|rest| rest.first_chunk_mut()) {
            *room = bytes.to_le_bytes();
            self.length = self.length.wrapping_add(count);
        }
    }

    /// Appends a byte.
    #[inline(always)]
    pub(super) fn push(&mut self, byte: u8) {
        self.put(byte.into(), 1);
    }

    /// Appends all bytes. Returns false, and appends none, if there is no room for them and for the
    /// text behind a name.
    #[inline(always)]
    pub(super) fn push_all(&mut self, bytes: &[u8]) -> bool {
        let rest = self.bytes.get_mut(self.length..).unwrap_or_default();
        let Some((room, _)) = rest.split_at_mut_checked(bytes.len().saturating_add(BEHIND)) else {
            return false;
        };
        let (room, _) = room.split_at_mut_checked(bytes.len()).unwrap_or_default();
        // `copy_from_slice()` would call a function that is made for longer copies.
        if let (Some(last), Some(last_room)) = (bytes.last_chunk::<8>(), room.last_chunk_mut::<8>())
        {
            *last_room = *last;
            let (mut bytes, mut room) = (bytes, room);
            while let (Some((eight, rest)), Some((eight_room, rest_room))) = (
                bytes.split_first_chunk::<8>(),
                room.split_first_chunk_mut::<8>(),
            ) {
                *eight_room = *eight;
                (bytes, room) = (rest, rest_room);
            }
        } else {
            for (byte, room) in bytes.iter().zip(room) {
                *room = *byte;
            }
        }
        self.length = self.length.wrapping_add(bytes.len());
        true
    }

    /// Returns whether there is room for so many bytes and for the text behind a name.
    #[inline(always)]
    pub(super) const fn has_room(&self, count: usize) -> bool {
        self.length.saturating_add(count).saturating_add(BEHIND) <= ROOM
    }

    /// Appends blanks. Returns false, and appends none, if there is no room for them and for the
    /// text behind a name.
    #[inline(always)]
    pub(super) fn blanks(&mut self, mut count: usize) -> bool {
        if !self.has_room(count) {
            return false;
        }
        while count > 8 {
            self.put(all(b' '), 8);
            count = count.wrapping_sub(8);
        }
        self.put(all(b' '), count);
        true
    }

    /// Appends a number in hex.
    pub(super) fn hex(&mut self, value: u64) {
        let digits = 16u32.wrapping_sub((value | 1).leading_zeros() / 4);
        for index in (0..digits).rev() {
            let digit = (value >> (4 * index)) as u8 & 0xf;
            self.push(match digit {
                0..=9 => b'0' + digit,
                _ => b'a' - 10 + digit,
            });
        }
    }

    /// Appends the number of a CPU, in at least three digits.
    #[inline(always)]
    pub(super) fn cpu(&mut self, cpu: u32) {
        if cpu >= 1000 {
            return self.long_number(cpu.into(), 3, b'0');
        }
        let (tens, ones) = (cpu / 10, cpu % 10);
        let digits = (tens / 10) | ((tens % 10) << 8) | (ones << 16);
        self.put(u64::from(digits) | all(b'0'), 3);
    }

    /// Appends a number, right-aligned in at least `width` bytes by `pad`, a space or a zero.
    #[inline(always)]
    pub(super) fn number(&mut self, value: u64, width: u32, pad: u8) {
        match u32::try_from(value) {
            Ok(value @ 0..100_000_000) if width <= 8 => {
                let digits = digits_of(value);
                // The last digit is shown even if it is 0.
                let zeros = (digits.trailing_zeros() / 8).min(7);
                let padding = all(b'0' ^ pad) & lowest(zeros);
                let hidden = zeros.min(8 - width);
                let text = (digits | all(b'0')) ^ padding;
                self.put(text >> (8 * hidden), 8 - hidden as usize);
            }
            _ => self.long_number(value, width as usize, pad),
        }
    }

    #[cold]
    pub(super) fn long_number(&mut self, mut value: u64, width: usize, pad: u8) {
        let mut digits = [pad; 20];
        let mut first = digits.len();
        for (index, digit) in digits.iter_mut().enumerate().rev() {
            *digit = b'0' + (value % 10) as u8;
            first = index;
            value /= 10;
            if value == 0 {
                break;
            }
        }
        let start = first.min(digits.len().saturating_sub(width));
        self.push_all(digits.get(start..).unwrap_or_default());
    }

    /// Appends a task's name, right-aligned.
    #[inline(always)]
    pub(super) fn task_name(&mut self, task: &Task) {
        const ONES: u128 = u128::from_ne_bytes([1; 16]);
        const SPACES: u128 = u128::from_ne_bytes([b' '; 16]);
        let name = match task.pid() {
            // tracefs calls the idle tasks so.
            0 => u128::from_le_bytes(*b"<idle>\0\0\0\0\0\0\0\0\0\0"),
            _ => u128::from(task.comm[0]) | (u128::from(task.comm[1]) << 64),
        };
        // The highest bit of each byte that is zero; bits above the first of them may be wrong.
        let zeroes = name.wrapping_sub(ONES) & !name & (ONES << 7);
        let behind = 128 - zeroes.trailing_zeros() / 8 * 8;
        let text = name.checked_shl(behind).unwrap_or(0)
            | (SPACES & !u128::MAX.checked_shl(behind).unwrap_or(0));
        if text & (ONES << 7) != 0 {
            return self.odd_name(task);
        }
        self.put(text as u64, 8);
        self.put((text >> 64) as u64, 8);
    }

    /// Adds a name that may not be text.
    #[cold]
    fn odd_name(&mut self, task: &Task) {
        let mut bytes = [0; 16];
        let name = task.name(&mut bytes);
        for _ in name.len()..16 {
            self.push(b' ');
        }
        for chunk in name.utf8_chunks() {
            self.push_all(chunk.valid().as_bytes());
            for _ in chunk.invalid() {
                self.push(b'?');
            }
        }
    }

    /// Appends a pid, left-aligned.
    #[inline(always)]
    pub(super) fn pid(&mut self, pid: i32) {
        let start = self.length;
        self.push(b'-');
        self.number(pid.unsigned_abs().into(), 1, b' ');
        let missing = 8usize.saturating_sub(self.length.wrapping_sub(start));
        self.put(all(b' '), missing);
    }

    /// Appends a time: seconds and microseconds, or a number in at least `width` bytes.
    #[inline(always)]
    pub(super) fn time(&mut self, (time, unit): (u64, TimeUnit), width: u32) {
        match unit {
            TimeUnit::Nanoseconds => {
                let micros = time.wrapping_add(500) / 1000;
                self.number(micros / 1_000_000, 5, b' ');
                self.push(b'.');
                self.number(micros % 1_000_000, 6, b'0');
            }
            TimeUnit::Counts => self.long_number(time, width as usize, b' '),
        }
    }
}

/// Writes `length` bytes that are in the room, and then bytes that have no room there.
#[cold]
pub(super) fn write_long<'a>(
    out: &'a mut impl LineOutput,
    length: usize,
    bytes: &[u8],
) -> core::result::Result<Line<'a>, Error> {
    out.advance(length);
    out.write_bytes(bytes)?;
    Ok(Line::new(out.room()?))
}

/// Appends bytes to a line. If there is no room for them, it writes the line so far and the bytes,
/// and begins the line anew.
macro_rules! append {
    ($out:ident, $line:ident, $bytes:expr) => {
        let bytes = $bytes;
        if !$line.push_all(bytes) {
            let length = $line.length();
            $line = $crate::engine::line::write_long($out, length, bytes)?;
        }
    };
}
pub(super) use append;
