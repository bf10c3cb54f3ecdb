// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Raw pages, the records: events in the format of the kernel's own ring buffer, as programs read
//! them from `trace_pipe_raw` (kernel/trace/ring_buffer.c, include/linux/ring_buffer.h,
//! kernel/trace/trace_entries.h).
//!
//! A page has a header of 16 bytes and records:
//!
//! | bytes | what                                                                             |
//! |-------|----------------------------------------------------------------------------------|
//! | 0-7   | time of the first record, in ticks of the clock that is shown                    |
//! | 8-15  | bits 0-19: bytes of records; bit 30: the number of lost events is behind them;   |
//! |       | bit 31: events were lost before                                                  |
//!
//! A record of event `type` begins with 4 bytes, bits 0-4 of which are its length in words less
//! one, and bits 5-31 the ticks since the record before it. A length of 30 says that the word that
//! follows has the upper bits of a time; 0 says that the word that follows has the length in bytes,
//! its own four included. Then come the fields that all events have (8 bytes: type, flags, preempt
//! count, pid) and the fields of the event. All numbers are little-endian.

use core::ops::DerefMut;

use super::context::{
    ContextWord, BH_OFF, HARDIRQ, IRQS_ON, NEED_RESCHED, NEED_RESCHED_LAZY, NMI, PREEMPT_RESCHED,
    SOFTIRQ,
};
use super::decode::{Decoder, Event, EventKind, Extras};
use super::slot::{SlotWords, Task, TIME_BITS};

/// Bytes of a page, unless another size was asked for.
pub const PAGE_BYTES: usize = 4096;
/// Bytes of its header.
pub const PAGE_HEADER_BYTES: usize = 16;

/// The events by their numbers, which are the kernel's, as their `format` files say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum RecordType {
    /// `function`.
    Function = 1,
    /// `kernel_stack`.
    KernelStack = 4,
    /// `print`.
    Print = 5,
    /// `funcgraph_exit`.
    GraphExit = 10,
    /// `funcgraph_entry`.
    GraphEntry = 11,
    /// `raw_data`.
    RawData = 19,
}

impl RecordType {
    /// Returns the event of that number.
    pub fn from_number(number: u16) -> Option<Self> {
        let all = [
            Self::Function,
            Self::KernelStack,
            Self::Print,
            Self::GraphExit,
            Self::GraphEntry,
            Self::RawData,
        ];
        all.into_iter().find(|kind| *kind as u16 == number)
    }
}

/// The length in a record's first word that stands for a length in a word of its own.
const LONG: u32 = 0;
const TIME_EXTEND: u32 = 30;
/// Most words of a payload whose length is in the first word.
const MAX_WORDS: usize = 28;
/// Number of bits of the first word that are time.
const DELTA_BITS: u32 = 27;
const LOST: u64 = 1 << 31;
const LOST_STORED: u64 = 1 << 30;

/// Bytes of a function's record, and words behind the first.
const FUNCTION_BYTES: usize = 28;
const FUNCTION_WORDS: u32 = (FUNCTION_BYTES / 4 - 1) as u32;

/// Bits of `common_flags`.
const FLAG_IRQS_OFF: u8 = 0x01;
const FLAG_NEED_RESCHED_LAZY: u8 = 0x02;
const FLAG_NEED_RESCHED: u8 = 0x04;
const FLAG_HARDIRQ: u8 = 0x08;
const FLAG_SOFTIRQ: u8 = 0x10;
const FLAG_PREEMPT_RESCHED: u8 = 0x20;
const FLAG_NMI: u8 = 0x40;
const FLAG_BH_OFF: u8 = 0x80;

/// `common_flags` by bits 8-15 of the context.
const FLAGS: [u8; 256] = {
    let bits = [
        (NEED_RESCHED_LAZY, FLAG_NEED_RESCHED_LAZY),
        (NEED_RESCHED, FLAG_NEED_RESCHED),
        (HARDIRQ, FLAG_HARDIRQ),
        (SOFTIRQ, FLAG_SOFTIRQ),
        (PREEMPT_RESCHED, FLAG_PREEMPT_RESCHED),
        (NMI, FLAG_NMI),
        (BH_OFF, FLAG_BH_OFF),
    ];
    let mut flags = [FLAG_IRQS_OFF; 256];
    let mut state = 0;
    while state < flags.len() {
        let context = ContextWord((state as u32) << 8);
        if context.has(IRQS_ON) {
            flags[state] = 0;
        }
        let mut index = 0;
        while index < bits.len() {
            if context.has(bits[index].0) {
                flags[state] |= bits[index].1;
            }
            index += 1;
        }
        state += 1;
    }
    flags
};

/// Returns the fields of all events: type, flags, preempt count, pid.
fn common(kind: RecordType, event: &Event) -> u64 {
    common_of(kind, &event.task) | common_state(event.context)
}

/// Returns those fields that say the type and the task.
fn common_of(kind: RecordType, task: &Task) -> u64 {
    (u64::from(task.pid() as u32) << 32) | u64::from(kind as u16)
}

/// Returns those fields that say the state of the CPU.
#[inline(always)]
fn common_state(context: ContextWord) -> u64 {
    // The depths of preemption and migration have the kernel's layout already.
    let [depths, state, ..] = context.0.to_le_bytes();
    let flags = FLAGS.get(usize::from(state)).copied().unwrap_or(0);
    (u64::from(depths) << 24) | (u64::from(flags) << 16)
}

/// Returns the first word of a record, `delta` ticks after the record before it, in front of so
/// many `words`.
const fn first_word(delta: u64, words: u32) -> u32 {
    ((delta as u32) << (u32::BITS - DELTA_BITS)) | words
}

/// A record that is being written.
struct RecordWriter<'a> {
    /// The bytes from the begin of the record to the end of the page.
    bytes: &'a mut [u8],
    length: usize,
    /// There was room for all of the record.
    fits: bool,
}

impl RecordWriter<'_> {
    #[inline(always)]
    fn put<const N: usize>(&mut self, value: [u8; N]) {
        let rest = self.bytes.get_mut(self.length..).unwrap_or_default();
        match rest.first_chunk_mut() {
            Some(place) => {
                *place = value;
                self.length = self.length.wrapping_add(N);
            }
            None => self.fits = false,
        }
    }

    /// Fills up the last word.
    fn fill_up(&mut self) {
        while self.length % 4 != 0 && self.fits {
            self.put([0]);
        }
    }

    fn word(&mut self, value: u64) {
        self.put(value.to_le_bytes());
    }

    /// Adds the fields of all events.
    fn common(&mut self, kind: RecordType, event: &Event) {
        self.word(common(kind, event));
    }

    fn args(&mut self, extras: &Extras) {
        for value in extras.args.iter().flatten() {
            self.word(*value);
        }
    }
}

/// The layout of pages that readers can choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of a page: [`PAGE_BYTES`] or more.
    pub page_bytes: usize,
    /// `funcgraph_exit` has the values that functions return.
    pub retval: bool,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            page_bytes: PAGE_BYTES,
            retval: false,
        }
    }
}

/// A page that is being filled.
pub struct KernelPage<B> {
    bytes: B,
    layout: Layout,
    /// Bytes of records.
    used: usize,
    /// Time of the last record.
    time: u64,
}

impl<B: DerefMut<Target = [u8]>> KernelPage<B> {
    /// Makes an empty page in `bytes`, which has as many as the layout says.
    pub fn new(bytes: B, layout: Layout) -> Self {
        Self {
            bytes,
            layout,
            used: 0,
            time: 0,
        }
    }

    /// Returns whether the page is empty.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Empties the page. Its first record may be earlier than the last one was.
    pub fn clear(&mut self) {
        self.used = 0;
        self.time = 0;
    }

    /// Returns the page, as programs read it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn store(&mut self, at: usize, value: &[u8]) {
        let end = at.saturating_add(value.len());
        if let Some(place) = self.bytes.get_mut(at..end) {
            place.copy_from_slice(value);
        }
    }

    /// Adds the records of `event`, which begins at `time` and whose call took `duration` if it has
    /// ended, both in ticks of the clock that is shown; and of its stack, if it has one, which is
    /// its `parent_ip` and `callers`. `text` is what a program has written, if the event is a
    /// marker. Returns false, and adds nothing, if there is no room.
    pub fn push(
        &mut self,
        event: &Event,
        extras: &Extras,
        callers: &mut dyn Iterator<Item = u64>,
        text: &mut dyn Iterator<Item = u8>,
        time: u64,
        duration: u64,
    ) -> bool {
        let (used, last) = (self.used, self.time);
        let added = match event.what {
            EventKind::Function => {
                self.push_function(event, extras, time)
                    && (extras.stack.is_none() || self.push_stack(event, callers, time))
            }
            EventKind::Entry => self.push_entry(event, extras, time),
            EventKind::Call => {
                self.push_entry(event, extras, time)
                    && self.push_exit(event, extras, time, time.wrapping_add(duration))
            }
            EventKind::Return => self.push_exit(event, extras, time.wrapping_sub(duration), time),
            EventKind::Marker => self.push_print(event, text, time),
            EventKind::RawMarker => self.push_raw_data(event, text, time),
        };
        if !added {
            self.used = used;
            self.time = last;
        }
        added
    }

    /// Adds the first of `slots` that are entries of functions, as many as have room, and no time
    /// that needs a record of its own. Returns how many. None of the slots has extras, and their
    /// state is that of `decoder`; `to_time` turns a stamp into the time that is shown.
    ///
    /// It does as [`Self::push`] does, in fewer instructions.
    #[inline(always)]
    pub fn push_functions(
        &mut self,
        decoder: &Decoder,
        slots: &[SlotWords],
        to_time: impl Fn(u64) -> u64,
    ) -> usize {
        if self.used == 0 {
            // The first record has its time in the header.
            return 0;
        }
        let start = PAGE_HEADER_BYTES.saturating_add(self.used);
        let rest = self.bytes.get_mut(start..).unwrap_or_default();
        let epoch = u64::from(decoder.epoch) << TIME_BITS;
        let common = common_of(RecordType::Function, &decoder.task);
        let mut last = self.time;
        let mut count = 0usize;
        for (record, words) in rest.chunks_exact_mut(FUNCTION_BYTES).zip(slots) {
            let time = to_time(epoch | u64::from(words.high0()));
            // A negative difference is a large number here.
            let delta = time.wrapping_sub(last);
            let Some((first, fields)) = record.split_first_chunk_mut() else {
                break;
            };
            if !words.is_entry() || delta >> DELTA_BITS != 0 {
                break;
            }
            *first = first_word(delta, FUNCTION_WORDS).to_le_bytes();
            let common = common | common_state(ContextWord(words.high1()));
            let values = [common, words.ip(), words.parent_ip()];
            for (field, value) in fields.chunks_exact_mut(8).zip(values) {
                field.copy_from_slice(&value.to_le_bytes());
            }
            last = time;
            count = count.wrapping_add(1);
        }
        self.used = self.used.wrapping_add(count.wrapping_mul(FUNCTION_BYTES));
        self.time = last;
        count
    }

    /// Adds an event without extras, as [`Self::push`] does.
    pub fn push_plain(&mut self, event: &Event, time: u64, duration: u64) -> bool {
        let none = (&mut core::iter::empty(), &mut core::iter::empty());
        self.push(event, &Extras::default(), none.0, none.1, time, duration)
    }

    fn push_function(&mut self, event: &Event, extras: &Extras, time: u64) -> bool {
        self.add(time, |record| {
            record.common(RecordType::Function, event);
            record.word(event.ip);
            record.word(event.parent_ip);
            record.args(extras);
        })
    }

    fn push_stack(
        &mut self,
        event: &Event,
        callers: &mut dyn Iterator<Item = u64>,
        time: u64,
    ) -> bool {
        self.add(time, |record| {
            record.common(RecordType::KernelStack, event);
            let size = record.length;
            record.word(0);
            let mut count = 0u32;
            for address in [event.ip, event.parent_ip].into_iter().chain(callers) {
                record.word(address);
                count = count.wrapping_add(1);
            }
            if let Some(place) = record
                .bytes
                .get_mut(size..)
                .and_then(<[u8]>::first_chunk_mut)
            {
                *place = count.to_le_bytes();
            }
        })
    }

    fn push_print(&mut self, event: &Event, text: &mut dyn Iterator<Item = u8>, time: u64) -> bool {
        self.add(time, |record| {
            record.common(RecordType::Print, event);
            record.word(event.ip);
            let mut last = 0;
            for byte in text {
                record.put([byte]);
                last = byte;
            }
            if last != b'\n' {
                record.put([b'\n']);
            }
            record.put([0]);
        })
    }

    fn push_raw_data(
        &mut self,
        event: &Event,
        bytes: &mut dyn Iterator<Item = u8>,
        time: u64,
    ) -> bool {
        self.add(time, |record| {
            record.common(RecordType::RawData, event);
            bytes.for_each(|byte| record.put([byte]));
        })
    }

    fn push_entry(&mut self, event: &Event, extras: &Extras, time: u64) -> bool {
        self.add(time, |record| {
            record.common(RecordType::GraphEntry, event);
            record.word(event.ip);
            record.word(event.depth.into());
            record.args(extras);
        })
    }

    fn push_exit(&mut self, event: &Event, extras: &Extras, began: u64, ended: u64) -> bool {
        let with_retval = self.layout.retval;
        self.add(ended, |record| {
            record.common(RecordType::GraphExit, event);
            record.word(event.ip);
            if with_retval {
                record.word(extras.retval.unwrap_or(0));
            }
            record.put(u32::from(event.depth).to_le_bytes());
            record.put(extras.overrun.unwrap_or(0).to_le_bytes());
            record.word(began);
            record.word(ended);
        })
    }

    /// Adds a record that `fill` makes. Returns false if there is no room.
    #[inline(always)]
    fn add(&mut self, time: u64, fill: impl FnOnce(&mut RecordWriter<'_>)) -> bool {
        let delta = match self.used {
            0 => 0,
            _ => time.saturating_sub(self.time),
        };
        let mut at = PAGE_HEADER_BYTES.saturating_add(self.used);
        let extends = delta >> DELTA_BITS != 0;
        let start = if extends { at.saturating_add(8) } else { at };
        let payload = start.saturating_add(4);
        let mut record = RecordWriter {
            bytes: (self.bytes.get_mut(payload..)).unwrap_or_default(),
            length: 0,
            fits: true,
        };
        fill(&mut record);
        record.fill_up();
        let mut length = record.length;
        let is_long = length > 4 * MAX_WORDS;
        if is_long {
            // The length takes a word before the payload.
            length = length.saturating_add(4);
            match record.bytes.get_mut(..length) {
                Some(bytes) => bytes.copy_within(..record.length, 4),
                None => record.fits = false,
            }
        }
        if !record.fits || payload.saturating_add(length) > self.layout.page_bytes {
            return false;
        }
        if extends {
            self.store(at, &first_word(delta, TIME_EXTEND).to_le_bytes());
            self.store(at + 4, &((delta >> DELTA_BITS) as u32).to_le_bytes());
            at = start;
        }
        let delta = if extends { 0 } else { delta };
        let words = if is_long { LONG } else { (length / 4) as u32 };
        self.store(at, &first_word(delta, words).to_le_bytes());
        if is_long {
            self.store(payload, &(length as u32).to_le_bytes());
        }
        if self.used == 0 {
            self.store(0, &time.to_le_bytes());
        }
        self.used = payload
            .saturating_add(length)
            .saturating_sub(PAGE_HEADER_BYTES);
        self.time = self.time.max(time);
        true
    }

    /// Completes the page: writes the header, which says that `lost` events were before it, and
    /// zeroes behind the records.
    pub fn finish(&mut self, lost: u64) {
        let end = PAGE_HEADER_BYTES.saturating_add(self.used);
        if let Some(rest) = self.bytes.get_mut(end..) {
            rest.fill(0);
        }
        if self.used == 0 {
            self.store(0, &[0; 8]);
        }
        let mut commit = self.used as u64;
        if lost != 0 {
            commit |= LOST;
            if end.saturating_add(8) <= self.layout.page_bytes {
                commit |= LOST_STORED;
                self.store(end, &lost.to_le_bytes());
            }
        }
        self.store(8, &commit.to_le_bytes());
    }
}
