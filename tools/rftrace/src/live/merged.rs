// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Events of an instance while they are recorded, in the order of time.

use std::io;
use std::mem;

use rftrace_engine::engine::decode::Event;

use super::drain::RawFile;
use super::{Error, OwnInstance};
use crate::stream::{self, end_of, Blocks, CpuEvents, Events, Item, OwnedExtras};

/// Minimum number of bytes that a pass takes out of a CPU's buffer before others have their turn.
const PASS_BYTES: usize = 4 << 20;

/// Records that were taken out of a CPU's buffer.
#[derive(Debug)]
struct TakenRecords {
    file: RawFile,
    records: Vec<u8>,
}

impl Blocks for TakenRecords {
    fn next(&mut self, block: &mut Vec<u8>) -> Result<bool, stream::Error> {
        mem::swap(block, &mut self.records);
        self.records.clear();
        Ok(!block.is_empty())
    }
}

struct LiveCpu {
    events: CpuEvents<TakenRecords>,
    /// The next event, if there is one.
    next: Option<Event>,
    /// Time at which the event before it was over.
    last: u64,
}

/// Events of all CPUs.
///
/// They are taken out in passes. What was recorded before a pass is taken out by it; so an event
/// that is not later than any of the pass before comes before all that are still to be taken out,
/// and can be given out.
pub struct LiveEvents {
    cpus: Vec<LiveCpu>,
    /// Time of the last event that was taken out.
    newest: u64,
    /// Time up to which events are given out.
    until: u64,
    owned_extras: OwnedExtras,
    lost_since: Option<u64>,
    events: u64,
    lost: u64,
}

impl LiveEvents {
    /// Opens the events of `instance`.
    ///
    /// # Errors
    ///
    /// [`Error::Open`] if a file cannot be opened.
    pub fn new(instance: &OwnInstance) -> Result<Self, Error> {
        let open = |cpu| {
            let taken = TakenRecords {
                file: RawFile::open(instance, cpu)?,
                records: Vec::new(),
            };
            Ok(LiveCpu {
                events: CpuEvents::new(cpu, taken),
                next: None,
                last: 0,
            })
        };
        let cpus = instance.cpus()?.into_iter().map(open);
        Ok(Self {
            cpus: cpus.collect::<Result<_, Error>>()?,
            newest: 0,
            until: 0,
            owned_extras: OwnedExtras::default(),
            lost_since: None,
            events: 0,
            lost: 0,
        })
    }

    /// Returns the files to wait for.
    pub fn files(&mut self) -> impl Iterator<Item = &RawFile> {
        self.cpus.iter_mut().map(|cpu| &cpu.events.blocks().file)
    }

    /// Returns the number of events that were taken out, and of losses between them.
    pub fn counts(&self) -> (u64, u64) {
        (self.events, self.lost)
    }

    /// Takes out the events that there are; returns false if there were none.
    ///
    /// # Errors
    ///
    /// Errors of reading.
    pub fn pass(&mut self) -> io::Result<bool> {
        let (before, mut until, mut any) = (self.newest, u64::MAX, false);
        for cpu in &mut self.cpus {
            let taken = cpu.events.blocks();
            let is_more = taken.file.fill(PASS_BYTES)?;
            let (records, whole) = taken.file.whole()?;
            if whole.bytes != 0 {
                any = true;
                self.newest = self.newest.max(whole.last_time);
                // Later events of this CPU are still there.
                until = match is_more {
                    true => until.min(whole.last_time),
                    false => until,
                };
            }
            taken.records.extend_from_slice(records);
            taken.file.forget(whole.bytes);
            self.events += u64::from(whole.events);
            self.lost += whole.lost;
        }
        self.until = if any { until.min(before) } else { u64::MAX };
        Ok(any)
    }

    /// Returns the index of the CPU whose event comes next.
    fn first(&mut self) -> Result<Option<usize>, stream::Error> {
        let mut first: Option<(u64, usize)> = None;
        self.lost_since = None;
        for (index, cpu) in self.cpus.iter_mut().enumerate() {
            if cpu.next.is_none() {
                cpu.next = cpu.events.next_event()?;
            }
            let Some(event) = &cpu.next else {
                continue;
            };
            if event.lost != 0 {
                let since = self.lost_since.unwrap_or(u64::MAX);
                self.lost_since = Some(since.min(cpu.last));
            }
            if first.is_none_or(|(time, _)| event.time < time) {
                first = Some((event.time, index));
            }
        }
        Ok(first
            .filter(|(time, _)| *time <= self.until)
            .map(|(_, index)| index))
    }
}

impl Events for LiveEvents {
    fn next(&mut self) -> Result<Option<Item>, stream::Error> {
        let Some(index) = self.first()? else {
            return Ok(None);
        };
        let cpu = &mut self.cpus[index];
        let Some(event) = cpu.next.take() else {
            return Ok(None);
        };
        cpu.last = end_of(&event);
        if event.has_extras {
            self.owned_extras.clone_from(cpu.events.owned_extras());
        }
        Ok(Some(Item {
            cpu: cpu.events.cpu(),
            event,
        }))
    }

    fn owned_extras(&self) -> &OwnedExtras {
        &self.owned_extras
    }

    fn lost_since(&self) -> Option<u64> {
        self.lost_since
    }
}
