// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Statistics of groups of calls: those of a function, those by one caller, or those of tasks of
//! one name.

use hdrhistogram::Histogram;

use super::{CallEnd, Finished};

/// Number of digits to which percentiles of durations are right.
const DIGITS: u8 = 2;

/// Maximum number of durations of a group that wait to be counted.
const WAITING: usize = 8;

/// The statistics of all calls of a group.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Calls that have returned, or entries of functions if these are all that is known.
    pub calls: u64,
    /// Time of the calls, in ns: that of calls within others of the group is not counted twice.
    pub total: u64,
    /// The part of that time that neither recorded calls nor interrupts had, of those calls of
    /// which it is known.
    pub self_time: u64,
    /// Calls whose own time is not known.
    pub self_unknown: u64,
    /// The shortest call, in ns.
    pub min: u64,
    /// The longest call, in ns.
    pub max: u64,
    /// Calls that are still open at the end.
    pub open: u64,
    /// Time so far of the open call that took longest, in ns.
    pub open_longest: u64,
    /// Calls whose return was missed.
    pub missed: u64,
    /// Sum of all durations, in ns.
    sum: u64,
    /// Durations that wait to be counted, several at a time, as the histogram is seldom in the
    /// cache.
    waiting: [u64; WAITING],
    /// Number of the durations that wait.
    waiting_count: usize,
    /// Durations that were counted; `None` before the first ones.
    durations: Option<Box<Histogram<u64>>>,
}

impl Statistics {
    /// Adds a call; its time is in that of another call of the group unless `is_outermost`.
    #[inline]
    pub fn add(&mut self, call: &Finished, is_outermost: bool) {
        match call.end {
            CallEnd::Returned => self.returned(call, is_outermost),
            CallEnd::Open => {
                self.open += 1;
                self.open_longest = self.open_longest.max(call.duration);
            }
            CallEnd::Missed => self.missed += 1,
        }
    }

    #[inline]
    fn returned(&mut self, call: &Finished, is_outermost: bool) {
        let duration = call.duration;
        self.record(duration);
        self.calls += 1;
        self.sum = self.sum.saturating_add(duration);
        if is_outermost {
            self.total = self.total.saturating_add(duration);
        }
        match call.self_time {
            Some(self_time) => self.self_time = self.self_time.saturating_add(self_time),
            None => self.self_unknown += 1,
        }
    }

    /// Counts a duration, `calls` of which came before.
    #[inline]
    fn record(&mut self, duration: u64) {
        if self.calls == 0 {
            self.min = duration;
        }
        self.min = self.min.min(duration);
        self.max = self.max.max(duration);
        self.waiting[self.waiting_count % WAITING] = duration;
        self.waiting_count += 1;
        if self.waiting_count == WAITING {
            self.count();
        }
    }

    /// Counts the durations that wait.
    #[inline(never)]
    fn count(&mut self) {
        let waiting = std::mem::take(&mut self.waiting_count);
        if self.durations.is_none() {
            // A histogram takes kilobytes, and many functions are called a few times only.
            self.durations = Histogram::new(DIGITS).ok().map(Box::new);
        }
        if let Some(durations) = &mut self.durations {
            for duration in self.waiting.iter().take(waiting) {
                record(durations, *duration);
            }
        }
    }

    /// Returns the mean duration, in ns.
    pub fn mean(&self) -> u64 {
        self.sum.checked_div(self.calls).unwrap_or(0)
    }

    /// Returns the durations, in ns, that these parts of all calls do not exceed; right to within 1
    /// percent.
    pub fn quantiles<const N: usize>(&self, parts: [f64; N]) -> [u64; N] {
        let mut all = self.clone();
        all.count();
        parts.map(|part| match &all.durations {
            Some(durations) => durations.value_at_quantile(part).clamp(self.min, self.max),
            None => self.max,
        })
    }

    /// Counts the entry of a function.
    pub fn hit(&mut self) {
        self.calls += 1;
    }

    /// Returns whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.calls + self.open + self.missed == 0
    }

    /// Returns an estimate of the memory in use, in bytes.
    pub fn bytes(&self) -> usize {
        let durations = self.durations.as_ref();
        let counters = durations.map_or(0, |durations| durations.distinct_values());
        size_of::<Self>() + counters * size_of::<u64>()
    }
}

/// Adds a duration; the histogram grows for it.
#[inline]
fn record(durations: &mut Histogram<u64>, duration: u64) {
    if durations.record(duration).is_err() {
        durations.saturating_record(duration);
    }
}

/// The statistics of a limited number of groups, by their numbers; the first is that of all others.
#[derive(Clone, Debug)]
pub struct Groups<N> {
    all: Vec<(N, Statistics)>,
    limit: usize,
}

impl<N> Groups<N> {
    /// The group of all that there was no room for.
    pub const OTHERS: u32 = 0;

    /// Returns no groups but that of others, which has this name.
    pub fn new(limit: usize, others: N) -> Self {
        Self {
            all: vec![(others, Statistics::default())],
            limit: limit.clamp(1, u32::MAX as usize),
        }
    }

    /// Appends a group, and returns its number; that of others if there is no room.
    pub fn append(&mut self, name: N) -> u32 {
        if self.all.len() >= self.limit {
            return Self::OTHERS;
        }
        self.all.push((name, Statistics::default()));
        (self.all.len() - 1) as u32
    }

    /// Returns the statistics of a group.
    #[inline]
    pub fn of(&mut self, group: u32) -> &mut Statistics {
        &mut self.all[group as usize].1
    }

    /// Returns all groups that are not empty.
    pub fn iter(&self) -> impl Iterator<Item = &(N, Statistics)> {
        self.all.iter().filter(|(_, group)| !group.is_empty())
    }
}
