// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Samples: records of made-up calls as the module would write them, for tests and benchmarks.

pub mod machine;

use rftrace_engine::engine::consumer::TakenSlots;
use rftrace_engine::engine::decode::Decoder;
use rftrace_engine::engine::raw::{begin_record, TimeFormat, BEGIN_BYTES};
use rftrace_engine::engine::slot::{
    ip_mask, is_text_address, SlotKind, SlotWords, Task, MAX_DEPTH, TIME_BITS,
};

use crate::stream::{Blocks, Error};

/// The start of the text that has the functions of samples.
pub const TEXT: u64 = 0xffff_ffff_8100_0000;

/// Returns a task of a sample.
pub fn task(pid: i32, tgid: i32, comm: &str) -> Task {
    let mut bytes = [0; 16];
    let length = comm.len().min(15);
    bytes[..length].copy_from_slice(&comm.as_bytes()[..length]);
    let (low, high) = bytes.split_at(8);
    let word = |half: &[u8]| {
        half.first_chunk()
            .map_or(0, |half| u64::from_le_bytes(*half))
    };
    Task {
        ids: u64::from(pid as u32) | (u64::from(tgid as u32) << 32),
        comm: [word(low), word(high)],
    }
}

/// A call at one of its ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edge {
    /// The time, in ns.
    pub time: u64,
    /// The task.
    pub task: Task,
    /// The function.
    pub ip: u64,
    /// Address that it was called from.
    pub parent_ip: u64,
    /// Number of recorded calls of the task that are open around it.
    pub depth: u32,
    /// The state of interrupts and preemption.
    pub context: u32,
}

/// An entry that may become a whole call.
#[derive(Clone, Copy, Debug)]
struct Pending {
    edge: Edge,
    call: u64,
}

/// Records of one CPU.
#[derive(Clone, Debug)]
pub struct CpuSample {
    cpu: u32,
    records: Vec<u8>,
    slots: Vec<SlotWords>,
    events: u64,
    all_events: u64,
    seq: u64,
    lost: u64,
    /// State at the first slot of the record.
    first: Decoder,
    /// State behind the last slot.
    last: Option<Decoder>,
    pending: Option<Pending>,
}

impl CpuSample {
    /// Returns the records of a CPU on which nothing has happened yet.
    pub fn new(cpu: u32) -> Self {
        Self {
            cpu,
            records: Vec::new(),
            slots: Vec::new(),
            events: 0,
            all_events: 0,
            seq: 1,
            lost: 0,
            first: Decoder::default(),
            last: None,
            pending: None,
        }
    }

    /// Begins a call; `call` is a number for it that no other has.
    pub fn entry(&mut self, edge: Edge, call: u64) {
        self.complete();
        self.pending = Some(Pending { edge, call });
    }

    /// Ends a call that took `duration` ns. If nothing was recorded here since its entry, the two
    /// are one event.
    pub fn end(&mut self, edge: Edge, call: u64, duration: u64) {
        match self.pending.take() {
            Some(Pending { edge, call: whole }) if whole == call => {
                self.event(SlotKind::Call, &edge, duration);
            }
            pending => {
                self.pending = pending;
                self.complete();
                self.event(SlotKind::Return, &edge, duration);
            }
        }
    }

    /// Enters a function, for the tracer that does not see returns.
    pub fn function(&mut self, edge: Edge) {
        self.complete();
        self.announce(&edge, 0);
        self.wide(&edge);
        let words = SlotWords::entry(edge.ip, edge.parent_ip, edge.context, edge.time);
        self.push_event(words);
    }

    /// Loses so many events.
    pub fn lose(&mut self, events: u64) {
        self.complete();
        self.cut();
        self.lost += events;
    }

    /// Ends the record, and perhaps the sub-buffer: then the next one announces all anew.
    pub fn cut(&mut self) {
        if !self.slots.is_empty() {
            let chunk = TakenSlots {
                slots: 0..self.slots.len(),
                seq: self.seq,
                first_event: self.all_events,
                events: self.events,
                lost: std::mem::take(&mut self.lost),
                decoder: self.first,
            };
            let time = TimeFormat {
                clock: 0,
                is_ns: true,
                mult: 1,
                shift: 0,
                offset: 0,
            };
            let mut begin = [0; BEGIN_BYTES];
            let begin = begin_record(&mut begin, &chunk, self.cpu, &time);
            self.records.extend_from_slice(begin);
            self.records
                .extend_from_slice(SlotWords::as_bytes(&self.slots));
            self.all_events += self.events;
            self.slots.clear();
            self.events = 0;
            self.seq += 1;
        }
        self.first = Decoder::default();
        self.last = None;
    }

    /// Ends the record within the sub-buffer: the next one's header has what this one has
    /// announced.
    pub fn cut_within(&mut self) {
        let (last, seq) = (self.last, self.seq);
        self.cut();
        if let Some(last) = last {
            self.first = last;
            self.last = Some(last);
            self.seq = seq;
        }
    }

    /// Takes the bytes of whole records so far, and returns them with the number of their events.
    pub fn take(&mut self) -> (Vec<u8>, u32) {
        let events = std::mem::take(&mut self.all_events);
        (std::mem::take(&mut self.records), events as u32)
    }

    /// Returns roughly the number of bytes that wait to be taken.
    pub fn len(&self) -> usize {
        self.records.len() + SlotWords::as_bytes(&self.slots).len()
    }

    /// Returns whether no bytes wait.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all records, to their end.
    pub fn finish(mut self) -> (Vec<u8>, u32) {
        self.complete();
        self.cut();
        self.take()
    }

    /// Completes a pending entry, which becomes an event by itself.
    pub fn complete(&mut self) {
        if let Some(Pending { edge, .. }) = self.pending.take() {
            self.event(SlotKind::CallEntry, &edge, 0);
        }
    }

    fn event(&mut self, kind: SlotKind, edge: &Edge, duration: u64) {
        self.announce(edge, duration);
        if kind == SlotKind::CallEntry {
            self.wide(edge);
        }
        let high = match kind {
            SlotKind::CallEntry => edge.parent_ip as u32,
            _ => duration as u32,
        };
        let depth = edge.depth.min(MAX_DEPTH);
        self.push_event(SlotWords(
            SlotWords::first_of_entry(edge.ip, ip_mask(0), edge.time),
            SlotWords::second_of_call(kind, depth, edge.context, high),
        ));
    }

    fn wide(&mut self, edge: &Edge) {
        if !is_text_address(edge.parent_ip) {
            self.slots.push(SlotWords::wide_slot(edge.parent_ip));
        }
    }

    fn announce(&mut self, edge: &Edge, duration: u64) {
        let next = Decoder {
            epoch: (edge.time >> TIME_BITS) as u32,
            task: edge.task,
            container: None,
        };
        if self.last.is_none_or(|last| last.epoch != next.epoch) {
            self.slots.push(SlotWords::time_slot(edge.time));
        }
        if self.last.is_none_or(|last| last.task != next.task) {
            self.slots.extend(SlotWords::task_slots(&edge.task));
        }
        self.last = Some(next);
        if duration >> TIME_BITS != 0 {
            self.slots.push(SlotWords::long_slot(duration));
        }
    }

    fn push_event(&mut self, words: SlotWords) {
        self.slots.push(words);
        self.events += 1;
    }
}

/// Blocks that are in memory.
#[derive(Clone, Debug, Default)]
pub struct SampleMemory(pub std::collections::VecDeque<Vec<u8>>);

impl SampleMemory {
    /// Returns one block.
    pub fn of(block: Vec<u8>) -> Self {
        Self([block].into())
    }
}

impl Blocks for SampleMemory {
    fn next(&mut self, block: &mut Vec<u8>) -> Result<bool, Error> {
        match self.0.pop_front() {
            Some(next) => *block = next,
            None => return Ok(false),
        }
        Ok(true)
    }
}
