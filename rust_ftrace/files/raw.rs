// SPDX-License-Identifier: GPL-2.0

//! `per_cpu/cpuN/raw`: the events as they are recorded, each given out once. See
//! [`engine::raw`](crate::engine::raw) for the format.

use core::ops::Range;

use kernel::prelude::*;

use super::context::FileContext;
use super::drain::{Contents, Drain};
use crate::engine::consumer::TakenSlots;
use crate::engine::raw::{begin_record, BEGIN_BYTES};
use crate::engine::slot::SlotWords;
use crate::instance::buffer::SubbufCopy;
use crate::instance::buffers::BufferSource;

/// `raw`, of one CPU.
pub(super) type RawFile = Drain<RawRecord>;

/// A record whose events were taken out.
pub(super) struct RawRecord {
    /// The bytes before the slots, and their number.
    begin: ([u8; BEGIN_BYTES], usize),
    slots: SubbufCopy,
    /// The range in `slots` of those of the record, if there is one.
    at: Option<Range<usize>>,
}

impl Contents for RawRecord {
    const SPLICES_AS_POLLS: bool = true;

    fn new(_context: &FileContext) -> Result<Self> {
        Ok(Self {
            begin: ([0; BEGIN_BYTES], 0),
            slots: SubbufCopy::none(),
            at: None,
        })
    }

    /// The next record.
    fn fill(&mut self, context: &FileContext, sources: &[BufferSource], _wanted: usize) -> Result {
        self.at = None;
        let instance = &context.instance;
        for BufferSource { cpu, buffer } in sources {
            if self.slots.as_ref().len() != buffer.ring().subbuf_slots() - 1 {
                self.slots = SubbufCopy::new(buffer.ring())?;
            }
            let time = instance
                .recording()
                .timeline()
                .format(instance.recording().clock());
            let slots = &mut self.slots;
            let chunk: Option<TakenSlots> =
                buffer.consume(|ring, consumer| consumer.take_chunk(ring, usize::MAX, slots))?;
            if let Some(chunk) = chunk {
                let (bytes, length) = &mut self.begin;
                *length = begin_record(bytes, &chunk, cpu.as_u32(), &time).len();
                self.at = Some(chunk.slots);
                break;
            }
        }
        Ok(())
    }

    fn parts(&self) -> [&[u8]; 2] {
        let Some(at) = &self.at else {
            return [&[]; 2];
        };
        let slots = self.slots.as_ref().get(at.clone()).unwrap_or_default();
        let (bytes, length) = &self.begin;
        let begin = bytes.get(..*length).unwrap_or_default();
        [begin, SlotWords::as_bytes(slots)]
    }

    fn least_room(&self) -> usize {
        1
    }
}
