// SPDX-License-Identifier: GPL-2.0

//! Target for a ring whose memory was overwritten from outside.

use crate::engine::consumer::Consumer;
use crate::engine::reader::Cursor;
use crate::engine::ring::{Ring, LAPS, MIN_SUBBUF_SLOTS};
use crate::engine::slot::SlotWords;
use crate::input::Input;
use crate::raw_decoder::{decode, Error};
use crate::support::{call, copy_space, raw_record, ring as new_ring, task, FixedContext, Heap};

/// A ring, its reader, and all that operations on them need.
struct Ground {
    ring: Ring<Heap>,
    consumer: Consumer<Vec<SlotWords>>,
    serial: u64,
    now: u64,
    /// True once the ring's memory was overwritten from outside.
    is_hostile: bool,
}

impl Ground {
    fn new(subbufs: usize, subbuf_slots: usize) -> Self {
        let ring = new_ring(subbufs, subbuf_slots);
        let consumer = Consumer::new(copy_space(&ring));
        Self {
            ring,
            consumer,
            serial: 0,
            now: 0,
            is_hostile: false,
        }
    }

    fn write(&mut self, wide: bool) {
        self.serial += 1;
        let (call, context) = call(self.serial, wide);
        let clock = || self.now;
        let who = FixedContext {
            context,
            task: task(self.serial as u32 / 16, 1, "init"),
            clock: &clock,
        };
        // SAFETY: This thread alone writes.
        unsafe { self.ring.write(call, who) };
    }

    /// Returns the number of events that no reader exceeds.
    fn most(&self) -> usize {
        self.ring.slots().len()
    }

    fn read(&mut self) {
        let mut cursor = Cursor::new(&self.ring, copy_space(&self.ring), 0);
        let events = std::iter::from_fn(|| cursor.next(&self.ring));
        assert!(events.take(self.most() + 1).count() <= self.most());
    }

    fn consume(&mut self, most: usize) {
        for _ in 0..most {
            let Some((index, event)) = self.consumer.peek(&self.ring) else {
                return;
            };
            assert_eq!(self.consumer.peek(&self.ring), Some((index, event)));
            assert!(self.consumer.take(index));
            assert!(!self.consumer.take(index));
        }
    }

    fn consume_chunk(&mut self, most: usize) {
        let mut slots = copy_space(&self.ring);
        let Some(chunk) = self.consumer.take_chunk(&self.ring, most, &mut slots) else {
            return;
        };
        assert!(chunk.slots.len() <= most);
        let bytes = raw_record(&chunk, 0, &slots[chunk.slots.clone()]);
        // The counts in the headers of sub-buffers need not be those of their events.
        match decode(&bytes) {
            Ok(records) => assert_eq!(records.len(), 1),
            Err(error) => assert!(self.is_hostile && error == Error::WrongCount, "{error:?}"),
        }
    }

    /// Does the next step; returns `None` at the end of the input.
    fn step(&mut self, input: &mut Input<'_>) -> Option<()> {
        match input.byte()? % 10 {
            0 | 1 => (0..input.byte()?).for_each(|_| self.write(false)),
            2 => self.write(true),
            3 => self.now = self.now.wrapping_add(input.word()?),
            4 => {
                self.is_hostile = true;
                let slots = self.ring.slots();
                let slot = &slots[usize::from(input.half()?) % slots.len()];
                slot.0.store_relaxed(input.word()?);
                slot.1.store_relaxed(input.word()?);
            }
            5 => {
                // A header, of a number that might be true: that number, or the part of its lap
                // that the head stores.
                self.is_hostile = true;
                let size = self.ring.subbuf_slots();
                let slots = self.ring.slots();
                let header = &slots[usize::from(input.byte()?) * size % slots.len()];
                let seq = self.ring.extent().newest;
                let delta = i64::from(input.byte()? as i8) as u64;
                let unit = match input.byte()? {
                    0..128 => 1,
                    shift => (self.ring.subbufs() * LAPS) << (shift & 63),
                };
                header
                    .0
                    .store_relaxed(seq.wrapping_add(delta.wrapping_mul(unit)));
            }
            6 => self.read(),
            7 => self.consume(input.byte()?.into()),
            8 => self.consume_chunk(input.half()?.into()),
            _ => {
                let extent = self.ring.extent();
                self.consumer.present(&extent);
                if input.byte()? & 1 != 0 {
                    (self.consumer).clear(&self.ring, extent.end_event, extent.newest);
                } else {
                    self.ring.set_discard(self.now & 1 != 0);
                }
            }
        }
        Some(())
    }
}

/// Runs readers of a ring whose memory holds anything.
pub fn memory(data: &[u8]) {
    let mut input = Input(data);
    let Some(geometry) = input.byte() else {
        return;
    };
    let mut ground = Ground::new(
        usize::from(geometry & 3) + 2,
        MIN_SUBBUF_SLOTS << ((geometry >> 2) & 3),
    );
    while ground.step(&mut input).is_some() {}
    ground.read();
    ground.consume(usize::MAX);
}

/// Decodes a stream that claims to be of the raw format.
pub fn raw(data: &[u8]) {
    if let Ok(records) = decode(data) {
        let events: usize = records.iter().map(|record| record.events.len()).sum();
        assert!(records.len() * 96 + events * 16 <= data.len());
    }
}
