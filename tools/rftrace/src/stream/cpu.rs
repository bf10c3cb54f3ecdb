// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Streams, one CPU: decodes its records to events.

use std::collections::HashMap;

use rftrace_engine::engine::decode::{DecodedGroup, Decoder, Event, EventKind, Extras};
use rftrace_engine::engine::extras::stack_at;
use rftrace_engine::engine::marker::text_at;
use rftrace_engine::engine::slot::{SlotKind, SlotWords};
use rftrace_engine::engine::waiting::Waited;

use super::record::RecordHeader;
use super::{Error, OwnedExtras};

/// A source of a CPU's records.
pub trait Blocks {
    /// Replaces `block` by the next whole records; returns false if there are none (now).
    ///
    /// # Errors
    ///
    /// [`Error::Source`] if they cannot be had.
    fn next(&mut self, block: &mut Vec<u8>) -> Result<bool, Error>;
}

/// Decodes the records of one CPU.
pub struct CpuEvents<B> {
    cpu: u32,
    blocks: B,
    block: Vec<u8>,
    /// Offset of the next record in `block`.
    at: usize,
    record: Option<RecordHeader>,
    /// Slots of the record.
    slots: Vec<SlotWords>,
    /// Number of slots that are decoded.
    decoded: usize,
    decoder: Decoder,
    group: DecodedGroup,
    event: Event,
    /// Losses that are passed on with the next event.
    lost: u64,
    /// Stacks of the sub-buffer, by their places in it.
    stacks: HashMap<usize, Vec<u64>>,
    stacks_of: u64,
    owned_extras: OwnedExtras,
}

impl<B: Blocks> CpuEvents<B> {
    /// Returns the events of `cpu`, from its blocks.
    pub fn new(cpu: u32, blocks: B) -> Self {
        Self {
            cpu,
            blocks,
            block: Vec::new(),
            at: 0,
            record: None,
            slots: Vec::new(),
            decoded: 0,
            decoder: Decoder::default(),
            group: DecodedGroup::default(),
            event: Event::default(),
            lost: 0,
            stacks: HashMap::new(),
            stacks_of: 0,
            owned_extras: OwnedExtras::default(),
        }
    }

    /// Returns the CPU's number.
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Returns the source of the records.
    pub fn blocks(&mut self) -> &mut B {
        &mut self.blocks
    }

    /// Returns the losses that were not passed on with an event: none came behind them.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the data beside the last event; there is none unless it has extras.
    pub fn owned_extras(&self) -> &OwnedExtras {
        &self.owned_extras
    }

    /// Returns the next event, its times in ns; `None` if there are no more records (now).
    ///
    /// # Errors
    ///
    /// [`Error`] if what comes next is not to be understood.
    pub fn next_event(&mut self) -> Result<Option<Event>, Error> {
        Ok(self.advance()?.then_some(self.event))
    }

    /// Goes on to the next [event](Self::event); returns false if there are no more records (now).
    ///
    /// # Errors
    ///
    /// [`Error`] if what comes next is not to be understood.
    #[inline(always)]
    pub fn advance(&mut self) -> Result<bool, Error> {
        loop {
            while let Some(words) = self.slots.get(self.decoded) {
                self.decoded += 1;
                if let Some(event) = self.decoder.decode(*words, &mut self.group) {
                    self.event = event;
                    self.finish();
                    return Ok(true);
                }
                self.keep(*words);
            }
            if !self.next_record()? {
                return Ok(false);
            }
        }
    }

    /// Returns the last event, its times in ns.
    #[inline]
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Keeps a stack, if a slot that is no event begins one.
    #[cold]
    fn keep(&mut self, words: SlotWords) {
        if words.kind() == Some(SlotKind::Stack) {
            let stack = stack_at(&self.slots, self.decoded);
            self.stacks.insert(words.stack_place(), stack.collect());
        }
    }

    /// Converts the event's times to ns, and adds the losses to it.
    #[inline(always)]
    fn finish(&mut self) {
        let event = &mut self.event;
        event.lost = std::mem::take(&mut self.lost);
        let Some(record) = &self.record else {
            return;
        };
        if event.what == EventKind::Return {
            // The duration of a call that began before time 0 is not known.
            event.duration = event.duration.min(event.time);
        }
        event.time = record.ns(event.time);
        event.duration = record.ticks(event.duration);
        if event.has_extras {
            let since = self.group.extras.since.map(|stamp| record.ns(stamp));
            let waited = self.group.extras.waited.map(|waited| Waited {
                slept: record.ticks(waited.slept),
                ..waited
            });
            let extras = Extras {
                since,
                waited,
                ..self.group.extras
            };
            self.set_beside(extras);
        }
    }

    #[inline(never)]
    fn set_beside(&mut self, extras: Extras) {
        let owned_extras = &mut self.owned_extras;
        owned_extras.extras = extras;
        owned_extras.stack.clear();
        if let Some(stack) = extras.stack.and_then(|place| self.stacks.get(&place)) {
            owned_extras.stack.extend(stack);
        }
        owned_extras.text.clear();
        if let Some(length) = extras.text {
            let text = text_at(&self.slots, self.decoded - 1, length as usize);
            owned_extras.text.extend(text);
        }
    }

    /// Enters the next record; returns false if there is none (now).
    #[inline(never)]
    fn next_record(&mut self) -> Result<bool, Error> {
        while self.at >= self.block.len() {
            self.at = 0;
            // The old contents stay: filling with zeroes takes as long as reading some.
            let next = self.blocks.next(&mut self.block);
            if !matches!(next, Ok(true)) {
                self.block.clear();
                return next;
            }
        }
        let offset = self.at;
        let cpu = self.cpu;
        let wrong = |what| Error::Malformed { cpu, offset, what };
        let rest = &self.block[offset..];
        let record = RecordHeader::parse(rest).map_err(wrong)?;
        let record = record.ok_or_else(|| wrong("a header that is cut off"))?;
        if record.cpu != cpu {
            return Err(wrong("another CPU"));
        }
        if !record.time.is_ns {
            return Err(wrong("times of a clock that does not count ns"));
        }
        if rest.len() < record.bytes() {
            return Err(wrong("slots that are cut off"));
        }
        self.slots.clear();
        self.slots.extend(record.slots_of(rest));
        self.decoded = 0;
        self.at += record.bytes();
        self.lost = self.lost.saturating_add(record.lost);
        self.group = DecodedGroup::default();
        // Epoch and task are zero where the first slots announce them.
        self.decoder = record.decoder;
        if self.stacks_of != record.seq {
            self.stacks.clear();
            self.stacks_of = record.seq;
        }
        self.record = Some(record);
        Ok(true)
    }
}
