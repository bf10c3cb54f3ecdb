// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Streams of events: from the records of `per_cpu/cpuN/raw` (docs/raw-format.md) to events of all
//! CPUs in the order of time, their times in ns.
//!
//! [`CpuEvents`] decodes the records of one CPU, which come in [`Blocks`]; [`MergedEvents`] has the
//! events of all, and [`Selected`] those of them that a [`Selection`] asks for.

mod cpu;
mod merged;
#[cfg(test)]
mod properties;
mod record;
mod select;

use rftrace_engine::engine::decode::{Event, EventKind, Extras};

pub use cpu::{Blocks, CpuEvents};
pub use merged::MergedEvents;
pub use record::RecordHeader;
pub use select::{task_key, Globs, LongCalls, Selected, Selection, NOISE};

/// A reason why events cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Bytes that are no record as they must be; the offset counts from the start of their block.
    #[error("{what} in the record at byte {offset} of CPU {cpu}'s events")]
    Malformed {
        /// The CPU whose events they should be.
        cpu: u32,
        /// Offset in the block.
        offset: usize,
        /// A description of the fault.
        what: &'static str,
    },
    /// The source of blocks has failed.
    #[error("{0}")]
    Source(String),
    /// There is no memory.
    #[error("out of memory")]
    NoMemory,
}

/// An event, and the CPU that recorded it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Item {
    /// The CPU.
    pub cpu: u32,
    /// The event; its `time` and `duration` in ns.
    pub event: Event,
}

/// An event of a stream as it passes by, with all that is known of it.
#[derive(Clone, Copy, Debug)]
pub struct SeenEvent<'a> {
    /// The CPU.
    pub cpu: u32,
    /// The event; its `time` and `duration` in ns.
    pub event: &'a Event,
    /// Data beside it; it is another event's unless this one has [extras](Event::has_extras).
    pub owned_extras: &'a OwnedExtras,
    /// The result of [`Events::lost_since`].
    pub lost_since: Option<u64>,
}

impl SeenEvent<'_> {
    /// Returns when the event's call began, or ended if the event is its return, if that was before
    /// its own time.
    #[inline]
    pub fn since(&self) -> Option<u64> {
        let extras = self.event.has_extras.then_some(&self.owned_extras.extras);
        extras.and_then(|extras| extras.since)
    }
}

/// Returns the time at which an event was over: that of its return, for a whole call.
#[inline]
pub fn end_of(event: &Event) -> u64 {
    match event.what {
        EventKind::Call => event.time.saturating_add(event.duration),
        _ => event.time,
    }
}

/// Data that only some events have.
#[derive(Clone, Debug, Default)]
pub struct OwnedExtras {
    /// All that is of a fixed length; `since` is in ns, too.
    pub extras: Extras,
    /// The return addresses behind the event's `parent_ip`, if its stack was recorded.
    pub stack: Vec<u64>,
    /// Bytes of a mark that a program has written.
    pub text: Vec<u8>,
}

/// A stream of events, in the order of time.
pub trait Events {
    /// Returns the next event; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`Error`] if what comes next is not to be understood, or cannot be read.
    fn next(&mut self) -> Result<Option<Item>, Error>;

    /// Shows all events, to the end, to `each`; without a copy of each, where possible.
    ///
    /// # Errors
    ///
    /// As of [`next`](Self::next); what was before is shown.
    fn for_each(&mut self, mut each: impl FnMut(SeenEvent<'_>)) -> Result<(), Error>
    where
        Self: Sized,
    {
        while let Some(item) = self.next()? {
            each(SeenEvent {
                cpu: item.cpu,
                event: &item.event,
                owned_extras: self.owned_extras(),
                lost_since: self.lost_since(),
            });
        }
        Ok(())
    }

    /// Returns the data beside the last event; there is none unless it has
    /// [extras](Event::has_extras).
    fn owned_extras(&self) -> &OwnedExtras;

    /// Returns the time from which on events were lost, if some were, on any CPU, right before the
    /// last event or before one that is still to come: anything that a task did since may be
    /// missing. `None` if only [`Event::lost`] tells.
    fn lost_since(&self) -> Option<u64> {
        None
    }
}

impl<E: Events> Events for &mut E {
    fn next(&mut self) -> Result<Option<Item>, Error> {
        (**self).next()
    }

    fn for_each(&mut self, each: impl FnMut(SeenEvent<'_>)) -> Result<(), Error> {
        (**self).for_each(each)
    }

    fn owned_extras(&self) -> &OwnedExtras {
        (**self).owned_extras()
    }

    fn lost_since(&self) -> Option<u64> {
        (**self).lost_since()
    }
}

impl<E: Events> Events for Box<E> {
    fn next(&mut self) -> Result<Option<Item>, Error> {
        (**self).next()
    }

    fn for_each(&mut self, each: impl FnMut(SeenEvent<'_>)) -> Result<(), Error> {
        (**self).for_each(each)
    }

    fn owned_extras(&self) -> &OwnedExtras {
        (**self).owned_extras()
    }

    fn lost_since(&self) -> Option<u64> {
        (**self).lost_since()
    }
}
