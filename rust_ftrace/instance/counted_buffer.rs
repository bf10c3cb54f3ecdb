// SPDX-License-Identifier: GPL-2.0

//! A CPU's buffer with its counts, and with the events that earlier ones hold after a change of
//! size.

use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::buffer::Buffer;
use crate::engine::account::{Account, Counts};
use crate::tracer::recorder::CpuRing;

/// A CPU's buffer, and the account of its counts.
#[derive(Default)]
pub(super) struct CountedBuffer {
    pub(super) buffer: Option<Arc<Buffer>>,
    /// Buffers before it that still have events, the oldest first; all together are not larger than
    /// it.
    past: KVec<PastBuffer>,
    account: Account,
}

/// A buffer that was replaced, and whose events can still be read.
struct PastBuffer {
    buffer: Arc<Buffer>,
    /// The part of its counts that the account has already.
    end: Counts,
    /// Nothing writes to it any more.
    is_still: bool,
}

impl PastBuffer {
    /// Ends its reading, and returns the counts that the account does not have yet.
    fn close(&self) -> Counts {
        self.buffer.close();
        self.buffer.counts().0.minus(self.end)
    }
}

/// A buffer that was replaced, and that may still be written to.
pub(super) struct OldBuffer {
    pub(super) cpu: CpuId,
    buffer: Arc<Buffer>,
    /// The counts when it was replaced.
    end: Counts,
    /// The content was to be kept.
    is_kept: bool,
}

impl CountedBuffer {
    pub(super) fn new(buffer: Arc<Buffer>) -> Self {
        Self {
            buffer: Some(buffer),
            ..Self::default()
        }
    }

    pub(super) fn ring(&self) -> Option<&CpuRing> {
        self.buffer.as_ref().map(|buffer| buffer.ring())
    }

    /// Returns all buffers that have events, in the order in which they were written.
    pub(super) fn buffers(&self) -> impl Iterator<Item = &Arc<Buffer>> {
        let past = self.past.iter().map(|past| &past.buffer);
        Iterator::chain(past, &self.buffer)
    }

    pub(super) fn stats(&self) -> Stats {
        let mut stats = Stats {
            // These are the counts of a buffer that was taken away.
            counts: self.account.counts(Counts::default()),
            ..Stats::default()
        };
        if let Some(buffer) = &self.buffer {
            let (now, present) = buffer.counts();
            stats = Stats {
                counts: self.account.counts(now),
                present,
                bytes: buffer.ring().bytes(),
            };
        }
        for past in &self.past {
            let (now, present) = past.buffer.counts();
            stats = stats.plus(Stats {
                counts: now.minus(past.end),
                present,
                bytes: past.buffer.ring().bytes(),
            });
        }
        stats
    }

    pub(super) fn clear(&mut self) {
        for past in &self.past {
            past.close();
        }
        self.past = KVec::new();
        let buffer = self.buffer.as_ref();
        let now = buffer.map_or(Counts::default(), |buffer| buffer.clear());
        self.account.clear(now);
    }

    /// Puts `new`, if any, in the place of the buffer; the old one, if any, may still be written
    /// to. The content of the old one goes, unless it is to be kept and there is memory to note
    /// that.
    pub(super) fn replace(
        &mut self,
        cpu: CpuId,
        new: Option<Arc<Buffer>>,
        keep: bool,
    ) -> Option<OldBuffer> {
        if !keep {
            self.forget(0);
        }
        let buffer = core::mem::replace(&mut self.buffer, new)?;
        let is_kept = keep && self.past.reserve(1, GFP_KERNEL).is_ok();
        if !is_kept {
            buffer.close();
        }
        let (end, _) = buffer.counts();
        self.account.replace(end);
        if is_kept {
            let past = PastBuffer {
                buffer: buffer.clone(),
                end,
                is_still: false,
            };
            // Room was reserved.
            let _ = self.past.push(past, GFP_KERNEL);
        }
        Some(OldBuffer {
            cpu,
            buffer,
            end,
            is_kept,
        })
    }

    /// Adds the last counts of `old`, or keeps its content in no more memory than that takes.
    ///
    /// # Safety
    ///
    /// Nothing writes to it.
    pub(super) unsafe fn retire(&mut self, old: &OldBuffer) {
        if !old.is_kept {
            self.account.add_late(old.end, old.buffer.counts().0);
            return;
        }
        // SAFETY: Nothing writes to the old ring any more, by caller precondition, nor does this at
        // the same time elsewhere, as `self` is exclusive.
        unsafe { old.buffer.ring().complete_pending() };
        let is_old = |past: &PastBuffer| Arc::ptr_eq(&past.buffer, &old.buffer);
        // It is not there if it was cleared meanwhile.
        if let Some(past) = self.past.iter_mut().find(|past| is_old(past)) {
            past.is_still = true;
        }
        self.settle();
        self.fit(old.cpu);
    }

    /// Shrinks what is kept of `cpu` to the memory that it needs, and gives up the oldest until all
    /// together have no more than the buffer. Nothing may be writing to them.
    fn fit(&mut self, cpu: CpuId) {
        let mut room = self.buffer.as_ref().map_or(0, |buffer| buffer.size_kb());
        let mut count = 0;
        for past in self.past.iter_mut().rev() {
            if room == 0 {
                break;
            }
            // Without memory for a copy it stays as it is, if there is room.
            if let Ok(Some(copy)) = past.buffer.copy_of_newest(cpu, room) {
                let (end, _) = past.buffer.counts();
                self.account.add_late(past.end, end);
                past.end = copy.counts().0;
                past.buffer = copy;
            }
            let Some(rest) = room.checked_sub(past.buffer.size_kb()) else {
                break;
            };
            room = rest;
            count += 1;
        }
        self.forget(count);
    }

    /// Gives up all earlier buffers but the newest `count`.
    fn forget(&mut self, count: usize) {
        while self.past.len() > count {
            let Ok(past) = self.past.remove(0) else {
                break;
            };
            self.account.add_late(Counts::default(), past.close());
        }
    }

    /// Gives up earlier buffers that are read, and those older than what was overwritten.
    pub(super) fn settle(&mut self) {
        let has_wrapped = |ring: &CpuRing| ring.extent().oldest > 1;
        let count = match self.ring().is_some_and(has_wrapped) {
            true => 0,
            false => {
                let is_read = |past: &&PastBuffer| past.buffer.counts().1 == 0;
                self.past.len() - self.past.iter().take_while(is_read).count()
            }
        };
        // Buffers that were just replaced have to be retired first.
        if self.past.iter().all(|past| past.is_still) {
            self.forget(count);
        }
    }
}

/// The counts of a CPU's buffer at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stats {
    /// The counts since the buffer was cleared.
    pub(crate) counts: Counts,
    /// Events that can be read.
    pub(crate) present: u64,
    /// Bytes of memory.
    pub(crate) bytes: usize,
}

impl Stats {
    /// Returns the sum of the counts of two CPUs.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            counts: self.counts.plus(other.counts),
            present: self.present.wrapping_add(other.present),
            bytes: self.bytes.wrapping_add(other.bytes),
        }
    }

    /// Returns the number of events that newer ones, or a change of the buffer's size, took the
    /// place of. Written = read + present + overwritten.
    pub(crate) fn overwritten(&self) -> u64 {
        self.counts.overwritten(self.present)
    }
}
