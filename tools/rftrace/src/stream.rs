// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Streams of events: from what `per_cpu/cpuN/raw` gives (docs/raw-format.md) to events of all CPUs in the order of
//! time, their times in ns.
//!
//! [`CpuEvents`] decodes the records of one CPU, which come in [`Blocks`]; [`Merged`] has the events of all, and
//! [`Selected`] those of them that a [`Selection`] asks for.

mod cpu;
mod merged;
#[cfg(test)]
mod properties;
mod record;
mod select;

use rftrace_engine::engine::decode::{Event, Extras, What};

pub use cpu::{Blocks, CpuEvents};
pub use merged::Merged;
pub use record::Record;
pub use select::{task_key, Globs, LongCalls, Selected, Selection, NOISE};

/// A reason why events cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Bytes that are no record as they must be; the offset counts from the start of their block.
    #[error("{what} in the record at byte {offset} of CPU {cpu}'s events")]
    Malformed {
        /// The CPU whose events they should be.
        cpu: u32,
        /// Where in the block.
        offset: usize,
        /// A fault.
        what: &'static str,
    },
    /// The source of blocks has failed.
    #[error("{0}")]
    Source(String),
    /// There is no memory.
    #[error("out of memory")]
    NoMemory,
}

/// An event, and where it was recorded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Item {
    /// The CPU.
    pub cpu: u32,
    /// The event; its `time` and `duration` in ns.
    pub event: Event,
}

/// An event of a stream as it passes by, with all that is said of it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The CPU.
    pub cpu: u32,
    /// The event; its `time` and `duration` in ns.
    pub event: &'a Event,
    /// Data beside it; it is another event's unless this one has [extras](Event::has_extras).
    pub beside: &'a Beside,
    /// The time that [`Events::lost_since`] says.
    pub lost_since: Option<u64>,
}

impl Seen<'_> {
    /// When its call began, if that was before its own time.
    #[inline]
    pub fn since(&self) -> Option<u64> {
        let extras = self.event.has_extras.then_some(&self.beside.extras);
        extras.and_then(|extras| extras.since)
    }
}

/// The time at which an event was over: that of its return, for a whole call.
#[inline]
pub fn end_of(event: &Event) -> u64 {
    match event.what {
        What::Call => event.time.saturating_add(event.duration),
        _ => event.time,
    }
}

/// Data that only some events have.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// All that is of a fixed length. (`since` in ns, too)
    pub extras: Extras,
    /// The return addresses behind the event's `parent_ip`, if its stack was recorded.
    pub stack: Vec<u64>,
    /// Bytes that a program has written, of a mark.
    pub text: Vec<u8>,
}

/// A stream of events, in the order of time.
pub trait Events {
    /// The next event; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`Error`] if what comes next is not to be understood, or cannot be read.
    fn next(&mut self) -> Result<Option<Item>, Error>;

    /// Shows all events, to the end, to `each`. (without a copy of each, where that can be had)
    ///
    /// # Errors
    ///
    /// As of [`next`](Self::next); what was before is shown.
    fn for_each(&mut self, mut each: impl FnMut(Seen<'_>)) -> Result<(), Error>
    where
        Self: Sized,
    {
        while let Some(item) = self.next()? {
            each(Seen {
                cpu: item.cpu,
                event: &item.event,
                beside: self.beside(),
                lost_since: self.lost_since(),
            });
        }
        Ok(())
    }

    /// Data beside the last event; there is none unless it has [extras](Event::has_extras).
    fn beside(&self) -> &Beside;

    /// The time from which on events were lost, if some were, on any CPU, right before the last event or before one that is
    /// still to come: whatever a task did since may have been there. `None` if only [`Event::lost`] tells.
    fn lost_since(&self) -> Option<u64> {
        None
    }
}

impl<E: Events> Events for &mut E {
    fn next(&mut self) -> Result<Option<Item>, Error> {
        (**self).next()
    }

    fn for_each(&mut self, each: impl FnMut(Seen<'_>)) -> Result<(), Error> {
        (**self).for_each(each)
    }

    fn beside(&self) -> &Beside {
        (**self).beside()
    }

    fn lost_since(&self) -> Option<u64> {
        (**self).lost_since()
    }
}

impl<E: Events> Events for Box<E> {
    fn next(&mut self) -> Result<Option<Item>, Error> {
        (**self).next()
    }

    fn for_each(&mut self, each: impl FnMut(Seen<'_>)) -> Result<(), Error> {
        (**self).for_each(each)
    }

    fn beside(&self) -> &Beside {
        (**self).beside()
    }

    fn lost_since(&self) -> Option<u64> {
        (**self).lost_since()
    }
}
