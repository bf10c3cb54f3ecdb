// SPDX-License-Identifier: GPL-2.0

//! One CPU's ring, and the consumer that takes events out of it.

use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

use crate::engine::account::Counts;
use crate::engine::consumer::Consumer;
use crate::engine::slot::{SlotWords, SLOT_BYTES};
use crate::sys::cpu;
use crate::sys::memory::{Room, SlotMemory};
use crate::tracer::recorder::CpuRing;
use crate::tracer::ring_memory::{Observers, RingMemory};

/// Memory for a copy of a sub-buffer.
pub(crate) struct SubbufCopy(KVVec<SlotWords>);

impl SubbufCopy {
    /// Creates no memory.
    pub(crate) const fn none() -> Self {
        Self(KVVec::new())
    }

    /// Creates memory for a sub-buffer of `ring`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn new(ring: &CpuRing) -> Result<Self> {
        let slots = ring.subbuf_slots() - 1;
        Ok(Self(KVVec::from_elem(
            SlotWords::default(),
            slots,
            GFP_KERNEL,
        )?))
    }
}

impl AsRef<[SlotWords]> for SubbufCopy {
    fn as_ref(&self) -> &[SlotWords] {
        &self.0
    }
}

impl AsMut<[SlotWords]> for SubbufCopy {
    fn as_mut(&mut self) -> &mut [SlotWords] {
        &mut self.0
    }
}

/// The settings of rings, which all of an instance share.
#[derive(Clone, Copy, Default)]
pub(super) struct RingSettings {
    /// New events are dropped when the ring is full.
    pub(super) discard: bool,
    /// Tasks are recorded with their containers.
    pub(super) containers: bool,
}

impl RingSettings {
    /// Makes them those of a ring.
    pub(super) fn apply(self, ring: &CpuRing) {
        ring.set_discard(self.discard);
        ring.set_containers(self.containers);
    }
}

/// One CPU's ring, and its consumer, which all consuming readers share.
#[pin_data]
pub(crate) struct Buffer {
    ring: CpuRing,
    #[pin]
    consumer: Mutex<Consumer<SubbufCopy>>,
}

impl Buffer {
    /// Creates a buffer of `size_kb` KiB in sub-buffers of `subbuf_kb` KiB for `cpu`, on its node,
    /// in the `room` for it. The ring gets number `id`, tells
    /// `observers`, and gets these `settings`.
    ///
    /// # Errors
    ///
    /// - `ENOMEM` if there is no memory.
    /// - `EINVAL` if the sizes do not fit together.
    pub(super) fn new(
        cpu: CpuId,
        id: u32,
        observers: Observers,
        size_kb: usize,
        subbuf_kb: usize,
        settings: RingSettings,
        room: &Room,
    ) -> Result<Arc<Self>> {
        let memory = SlotMemory::new(size_kb * 1024 / SLOT_BYTES, cpu::node_of(cpu), room)?;
        let ring = CpuRing::new(
            RingMemory::new(memory, observers),
            subbuf_kb * 1024 / SLOT_BYTES,
        )
        .ok_or(EINVAL)?
        .identified(id);
        settings.apply(&ring);
        Arc::pin_init(
            try_pin_init!(Self {
                ring,
                consumer <- new_mutex!(Consumer::new(SubbufCopy::none())),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// Creates a buffer for `cpu` with a copy of the newest events that can be read here, of at
    /// most `most_kb` KiB; `None` if it would not be smaller. No event is taken out here any more
    /// then. Nothing may be writing to this buffer.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn copy_of_newest(&self, cpu: CpuId, most_kb: usize) -> Result<Option<Arc<Self>>> {
        let mut consumer = self.consumer.lock();
        let position = consumer.position();
        let subbuf_slots = self.ring.subbuf_slots();
        let most = most_kb * 1024 / SLOT_BYTES / subbuf_slots;
        let subbufs = usize::try_from(self.ring.subbufs_from(position))?.clamp(2, most.max(2));
        let length = subbufs * subbuf_slots;
        if length >= self.ring.slots().len() {
            return Ok(None);
        }
        let room = Room::new(length * SLOT_BYTES, 0)?;
        let memory = SlotMemory::new(length, cpu::node_of(cpu), &room)?;
        let Some(ring) = CpuRing::kept(RingMemory::alone(memory), &self.ring) else {
            return Ok(None);
        };
        let mut reader = Consumer::new(SubbufCopy::none());
        reader.clear(&ring, position, 1);
        let copy = Arc::pin_init(
            try_pin_init!(Self {
                ring,
                consumer <- new_mutex!(reader),
            }? Error),
            GFP_KERNEL,
        )?;
        consumer.close();
        Ok(Some(copy))
    }

    /// Returns the ring.
    pub(crate) fn ring(&self) -> &CpuRing {
        &self.ring
    }

    /// Returns the size of the memory for events, in KiB.
    pub(crate) fn size_kb(&self) -> usize {
        self.ring.slots().len() * SLOT_BYTES / 1024
    }

    /// Calls `user` with the ring and its consumer.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory for a copy of a sub-buffer.
    pub(crate) fn consume<R>(
        &self,
        user: impl FnOnce(&CpuRing, &mut Consumer<SubbufCopy>) -> R,
    ) -> Result<R> {
        let mut consumer = self.consumer.lock();
        if !consumer.has_copy() {
            consumer.set_copy(SubbufCopy::new(&self.ring)?);
        }
        let result = user(&self.ring, &mut consumer);
        self.ring.storage().note_position(consumer.position());
        Ok(result)
    }

    /// Returns the index of the first event that is neither cleared nor taken out.
    pub(crate) fn position(&self) -> u64 {
        self.consumer.lock().position()
    }

    /// Returns the counts since the buffer was made, and the number of events that can be read.
    pub(crate) fn counts(&self) -> (Counts, u64) {
        let consumer = self.consumer.lock();
        // Counts that are subtracted from others are read first, so that they are never more.
        let (markers, returns) = (self.ring.markers(), self.ring.returns());
        let extent = self.ring.extent();
        let counts = Counts {
            written: extent.end_event,
            read: consumer.read(),
            commit_overrun: self.ring.commit_overrun(),
            dropped: self.ring.dropped(),
            markers,
            returns,
        };
        (counts, consumer.present(&extent))
    }

    /// Clears the buffer: what is there now cannot be read any more. Returns its counts until now.
    pub(crate) fn clear(&self) -> Counts {
        let mut consumer = self.consumer.lock();
        let extent = self.ring.extent();
        consumer.clear(&self.ring, extent.end_event, extent.newest);
        self.ring.storage().note_position(consumer.position());
        // Counts that are subtracted from others are read last, as later counts are differences
        // from these.
        Counts {
            written: extent.end_event,
            read: consumer.read(),
            commit_overrun: self.ring.commit_overrun(),
            dropped: self.ring.dropped(),
            markers: self.ring.markers(),
            returns: self.ring.returns(),
        }
    }

    /// Has no event taken out any more, as the ring is being replaced.
    pub(crate) fn close(&self) {
        self.consumer.lock().close();
    }
}
