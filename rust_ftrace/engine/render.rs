// SPDX-License-Identifier: GPL-2.0

//! Events as text, in the format of tracefs's `trace` (kernel/trace/trace.c, trace_output.c).

use core::fmt::{Error, Result, Write};

use super::context::{
    Context, BH_OFF, HARDIRQ, IRQS_ON, NEED_RESCHED, NEED_RESCHED_LAZY, NMI, PREEMPT_RESCHED,
    SOFTIRQ,
};
use super::reader::Event;
use super::slot::Task;

/// Gives addresses their names.
pub(crate) trait Symbols {
    /// The name of the function that `address` lies in, without offset, as `name` or
    /// `name [module]`; the address in hex if none is known.
    fn name(&mut self, address: u64) -> &[u8];
}

/// Room for a line in the making: the columns before the function take 100 bytes at their longest, and
/// names have the rest.
pub(crate) const ROOM: usize = 256;

/// Where text goes.
pub(crate) trait Output: Write {
    /// Writes bytes, which need not be UTF-8.
    fn write_bytes(&mut self, bytes: &[u8]) -> Result;

    /// Room for the next bytes. What is put there is written by [`Output::advance`].
    fn room(&mut self) -> core::result::Result<&mut [u8; ROOM], Error>;

    /// Writes the first `length` bytes of the room.
    fn advance(&mut self, length: usize);
}

/// The unit that a trace clock counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeUnit {
    /// Shown as seconds and microseconds.
    Nanoseconds,
    /// Shown as a plain number.
    Counts,
}

/// What the header says of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Events that are still there.
    pub(crate) present: u64,
    /// Events written since the buffer was cleared.
    pub(crate) written: u64,
    /// CPUs that are online.
    pub(crate) cpus: u32,
}

/// Writes the lines that begin with `#`.
pub(crate) fn write_header(
    out: &mut dyn Write,
    tracer: &str,
    totals: &Totals,
    with_depth: bool,
) -> Result {
    write!(out, "# tracer: {tracer}\n#\n")?;
    writeln!(
        out,
        "# entries-in-buffer/entries-written: {}/{}   #P:{}\n#",
        totals.present, totals.written, totals.cpus
    )?;
    out.write_str(concat!(
        "#                                _-----=> irqs-off/BH-disabled\n",
        "#                               / _----=> need-resched\n",
        "#                              | / _---=> hardirq/softirq\n",
        "#                              || / _--=> preempt-depth\n",
        "#                              ||| / _-=> migrate-disable\n",
        "#                              |||| /     delay\n",
    ))?;
    out.write_str(if with_depth {
        concat!(
            "#           TASK-PID     CPU#  |||||  TIMESTAMP  DEPTH FUNCTION\n",
            "#              | |         |   |||||     |         |   |\n",
        )
    } else {
        concat!(
            "#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n",
            "#              | |         |   |||||     |         |\n",
        )
    })
}

/// Writes that `lost` events of `cpu` were overwritten before they could be read.
pub(crate) fn write_lost(out: &mut dyn Write, cpu: u32, lost: u64) -> Result {
    writeln!(out, "CPU:{cpu} [LOST {lost} EVENTS]")
}

/// Writes that the events of `cpu` begin here, later than those of others.
pub(crate) fn write_cpu_started(out: &mut dyn Write, cpu: u32) -> Result {
    writeln!(out, "##### CPU {cpu} buffer started ####")
}

/// One digit in each byte, the first in the lowest, of a number below 10^8.
#[inline(always)]
const fn digits_of(value: u32) -> u64 {
    // In halves of four digits, in quarters of two, and in eighths: each step divides all parts at once,
    // by a factor that is exact for as many digits.
    let (high, low) = (value / 10_000, value % 10_000);
    let halves = high as u64 | ((low as u64) << 32);
    let tops = (halves.wrapping_mul(10_486) >> 20) & 0x0000_007f_0000_007f;
    let quarters = tops | (halves.wrapping_sub(tops.wrapping_mul(100)) << 16);
    let tops = (quarters.wrapping_mul(103) >> 10) & 0x000f_000f_000f_000f;
    tops | (quarters.wrapping_sub(tops.wrapping_mul(10)) << 8)
}

/// All bytes the same.
const fn all(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// The lowest `count` bytes.
#[inline(always)]
const fn lowest(count: u32) -> u64 {
    match count {
        0..8 => !(u64::MAX << (8 * count)),
        _ => u64::MAX,
    }
}

/// A line in the making, where it will be. `core::fmt` would take longer for it than all else does.
///
/// Most is put there eight bytes at a time, of which the last are overwritten by what comes next.
struct Line<'a> {
    bytes: &'a mut [u8; ROOM],
    length: usize,
}

impl<'a> Line<'a> {
    fn new(bytes: &'a mut [u8; ROOM]) -> Self {
        Self { bytes, length: 0 }
    }

    /// Appends the first `count` bytes of eight, if there is room for all.
    #[inline(always)]
    fn put(&mut self, bytes: u64, count: usize) {
        let rest = self.bytes.get_mut(self.length..);
        if let Some(room) = rest.and_then(|rest| rest.first_chunk_mut()) {
            *room = bytes.to_le_bytes();
            self.length = self.length.wrapping_add(count);
        }
    }

    /// Appends a byte.
    #[inline(always)]
    fn push(&mut self, byte: u8) {
        self.put(byte.into(), 1);
    }

    /// Appends all bytes; false if there is no room for them and what comes behind a name, and none is
    /// appended.
    #[inline(always)]
    fn push_all(&mut self, bytes: &[u8]) -> bool {
        // (an eight put three bytes further on)
        const BEHIND: usize = 16;
        let rest = self.bytes.get_mut(self.length..).unwrap_or_default();
        let Some((room, _)) = rest.split_at_mut_checked(bytes.len().saturating_add(BEHIND)) else {
            return false;
        };
        let (room, _) = room.split_at_mut_checked(bytes.len()).unwrap_or_default();
        // (not `copy_from_slice`, which calls what is made for more)
        if let (Some(last), Some(last_room)) = (bytes.last_chunk::<8>(), room.last_chunk_mut::<8>())
        {
            *last_room = *last;
            for (eight, room) in bytes.chunks_exact(8).zip(room.chunks_exact_mut(8)) {
                if let (Ok(eight), Ok(room)) =
                    (<&[u8; 8]>::try_from(eight), <&mut [u8; 8]>::try_from(room))
                {
                    *room = *eight;
                }
            }
        } else {
            for (byte, room) in bytes.iter().zip(room) {
                *room = *byte;
            }
        }
        self.length = self.length.wrapping_add(bytes.len());
        true
    }

    /// Appends a number, right-aligned in at least `width` bytes by `pad`, a space or a zero.
    #[inline(always)]
    fn number(&mut self, value: u64, width: u32, pad: u8) {
        match u32::try_from(value) {
            Ok(value @ 0..100_000_000) if width <= 8 => {
                let digits = digits_of(value);
                // (the last digit is shown, whatever it is)
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
    fn long_number(&mut self, mut value: u64, width: usize, pad: u8) {
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
    fn task_name(&mut self, task: &Task) {
        const ONES: u128 = u128::from_ne_bytes([1; 16]);
        const SPACES: u128 = u128::from_ne_bytes([b' '; 16]);
        let name = match task.pid() {
            // (tracefs's word for the idle tasks)
            0 => u128::from_le_bytes(*b"<idle>\0\0\0\0\0\0\0\0\0\0"),
            _ => u128::from(task.comm[0]) | (u128::from(task.comm[1]) << 64),
        };
        // The highest bits of bytes, of zeroes: all up to the first are right.
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

    /// The same for a name that is no more than probably text.
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
    fn pid(&mut self, pid: i32) {
        let start = self.length;
        self.push(b'-');
        self.number(pid.unsigned_abs().into(), 1, b' ');
        let missing = 8usize.saturating_sub(self.length.wrapping_sub(start));
        self.put(all(b' '), missing);
    }

    /// Appends a time: seconds and microseconds, or a number in at least `width` bytes.
    #[inline(always)]
    fn time(&mut self, (time, unit): (u64, TimeUnit), width: u32) {
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

/// Writes a time in its unit: seconds and microseconds, or a number.
pub(crate) fn write_time(out: &mut dyn Output, time: (u64, TimeUnit)) -> Result {
    let mut line = Line::new(out.room()?);
    line.time(time, 1);
    let length = line.length;
    out.advance(length);
    Ok(())
}

/// Writes one function entry; `time` in `unit`, `depth` only if its column is wanted.
#[inline(always)]
pub(crate) fn write_entry<O: Output>(
    out: &mut O,
    symbols: &mut impl Symbols,
    cpu: u32,
    event: &Event,
    time: (u64, TimeUnit),
    depth: Option<usize>,
) -> Result {
    let mut line = Line::new(out.room()?);
    line.task_name(&event.task);
    line.pid(event.task.pid());
    line.put(u64::from_le_bytes(*b" [      "), 2);
    line.number(cpu.into(), 3, b'0');
    let [a, b, c, d, e] = state(event.context);
    line.put(u64::from_le_bytes([b']', b' ', a, b, c, d, e, b' ']), 8);
    line.time(time, 12);
    line.put(u64::from_le_bytes(*b":       "), 2);
    if let Some(depth) = depth {
        line.number(depth as u64, 5, b' ');
        line.push(b' ');
    }
    let name = symbols.name(event.ip);
    if !line.push_all(name) {
        let length = line.length;
        line = write_long(out, length, name)?;
    }
    line.put(u64::from_le_bytes(*b" <-     "), 3);
    let name = symbols.name(event.parent_ip);
    if !line.push_all(name) {
        let length = line.length;
        line = write_long(out, length, name)?;
    }
    line.push(b'\n');
    let length = line.length;
    out.advance(length);
    Ok(())
}

/// Writes `length` bytes that are in the room, and a name that is not, as there is none for it there.
#[cold]
fn write_long<'a>(
    out: &'a mut impl Output,
    length: usize,
    name: &[u8],
) -> core::result::Result<Line<'a>, Error> {
    out.advance(length);
    out.write_bytes(name)?;
    Ok(Line::new(out.room()?))
}

/// The five columns of interrupt and preemption state.
fn state(context: Context) -> [u8; 5] {
    let irqs_off = match (context.has(IRQS_ON), context.has(BH_OFF)) {
        (false, true) => b'D',
        (false, false) => b'd',
        (true, true) => b'b',
        (true, false) => b'.',
    };
    let need_resched = match (
        context.has(NEED_RESCHED),
        context.has(NEED_RESCHED_LAZY),
        context.has(PREEMPT_RESCHED),
    ) {
        (true, true, true) => b'B',
        (true, false, true) => b'N',
        (false, true, true) => b'L',
        (true, true, false) => b'b',
        (true, false, false) => b'n',
        (false, false, true) => b'p',
        (false, true, false) => b'l',
        (false, false, false) => b'.',
    };
    let interrupt = match (context.has(NMI), context.has(HARDIRQ), context.has(SOFTIRQ)) {
        (true, true, _) => b'Z',
        (true, false, _) => b'z',
        (false, true, true) => b'H',
        (false, true, false) => b'h',
        (false, false, true) => b's',
        (false, false, false) => b'.',
    };
    let digit = |depth: u32| match depth {
        0 => b'.',
        1..=9 => b'0' + depth as u8,
        10..=15 => b'a' + (depth as u8 - 10),
        _ => b'f',
    };
    [
        irqs_off,
        need_resched,
        interrupt,
        digit(context.preempt_depth()),
        digit(context.migrate_depth()),
    ]
}
