// SPDX-License-Identifier: GPL-2.0

//! Code that tests and models share.

use rftrace_engine::engine::consumer::TakenSlots;
use rftrace_engine::engine::raw::{begin_record, TimeFormat, BEGIN_BYTES};
use rftrace_engine::engine::ring::{Call, EventContext, Ring, Slot, Storage};
use rftrace_engine::engine::slot::{Container, SlotWords, Task};
use rftrace_engine::platform::Word;

/// The memory of a ring, from the host's heap.
pub struct Heap(Vec<Slot>);

impl Heap {
    /// Room for `slots`, all zero.
    pub fn zeroed(slots: usize) -> Self {
        Self(
            (0..slots)
                .map(|_| Slot(Word::new(0), Word::new(0)))
                .collect(),
        )
    }
}

// SAFETY: The vector is never changed, and what it owns does not move with it. A box would claim
// all that it owns whenever it moves, and pointers from before would not be good any more.
unsafe impl Storage for Heap {
    fn slots(&self) -> &[Slot] {
        &self.0
    }
}

/// A ring of `subbufs` sub-buffers of `subbuf_slots` slots each.
pub fn ring(subbufs: usize, subbuf_slots: usize) -> Ring<Heap> {
    Ring::new(Heap::zeroed(subbufs * subbuf_slots), subbuf_slots).expect("a good geometry")
}

/// Returns room for a cursor to copy a sub-buffer to.
pub fn copy_space(ring: &Ring<Heap>) -> Vec<SlotWords> {
    vec![SlotWords::default(); ring.subbuf_slots() - 1]
}

/// Returns the record of the raw format that has `slots` of `chunk`, stamped with nanoseconds.
pub fn raw_record(chunk: &TakenSlots, cpu: u32, slots: &[SlotWords]) -> Vec<u8> {
    let time = TimeFormat {
        clock: 0,
        is_ns: true,
        mult: 1,
        shift: 0,
        offset: 0,
    };
    let mut begin = [0; BEGIN_BYTES];
    let mut bytes = begin_record(&mut begin, chunk, cpu, &time).to_vec();
    for words in slots {
        bytes.extend(words.0.to_le_bytes());
        bytes.extend(words.1.to_le_bytes());
    }
    bytes
}

/// The task of these IDs and that name.
pub fn task(pid: u32, tgid: u32, comm: &str) -> Task {
    let mut bytes = [0; 16];
    bytes[..comm.len()].copy_from_slice(comm.as_bytes());
    let (low, high) = bytes.split_at(8);
    Task {
        ids: u64::from(pid) | (u64::from(tgid) << 32),
        comm: [low, high].map(|half| u64::from_le_bytes(half.try_into().unwrap())),
    }
}

/// Returns the container that a task is in here.
pub fn container_of(task: &Task) -> Container {
    let ids = [task.pid(), task.tgid()].map(|id| id as u32 % 100);
    Container::new(task.ids.rotate_left(23), ids[0], ids[1])
}

/// Returns the call number `serial` and its context, all of which follow from it.
pub fn call(serial: u64, wide: bool) -> (Call, u32) {
    let text = |offset: u64| 0xffff_ffff_8000_0000 + (offset & 0x7fff_ffff);
    let parent = serial.wrapping_mul(0x9e37_79b9);
    let call = Call {
        ip: text(serial),
        parent_ip: if wide {
            0x7fff_0000_0000 + parent
        } else {
            text(parent)
        },
    };
    (call, serial.wrapping_mul(0x85eb_ca6b) as u32)
}

/// The time, context and task of a call.
#[derive(Clone, Copy)]
pub struct FixedContext<C> {
    /// The bits of the context.
    pub context: u32,
    /// The current task.
    pub task: Task,
    /// Reads the clock.
    pub clock: C,
}

impl<C: Fn() -> u64 + Copy> EventContext for FixedContext<C> {
    fn now(&self) -> u64 {
        (self.clock)()
    }

    fn context(&self) -> u32 {
        self.context
    }

    fn task(&self) -> Task {
        self.task
    }

    fn container(&self) -> Container {
        container_of(&self.task)
    }

    fn is_task(&self, word: impl Fn(usize) -> u64) -> bool {
        [self.task.ids, self.task.comm[0], self.task.comm[1]]
            .into_iter()
            .enumerate()
            .all(|(index, own)| word(index) == own)
    }
}
