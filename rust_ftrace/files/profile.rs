// SPDX-License-Identifier: GPL-2.0

//! `function_profile_enabled`, and the files in `trace_stat/`.

use core::fmt::Write;

use kernel::prelude::*;
use kernel::sync::Arc;

use super::attribute::{no_memory, Attribute};
use super::context::FileContext;
use crate::engine::clock::ClockKind;
use crate::engine::function_set::FunctionSet;
use crate::engine::lists::FunctionList;
use crate::engine::parse::parse_number;
use crate::engine::profile::histogram::{lower_end, Distribution};
use crate::engine::profile::text as lines;
use crate::engine::profile::text::Summary;
use crate::engine::profile::totals::FunctionTotals;
use crate::engine::text::Text;
use crate::engine::timeline::Timeline;
use crate::instance::profile::reading::{Histograms, ProfileRow};
use crate::instance::Instance;
use crate::sys::debugfs::{File, OpenMode, Records};

/// `function_profile_enabled`.
pub(super) struct ProfileEnabled;

impl Attribute for ProfileEnabled {
    fn show(context: &FileContext, text: &mut Text) -> Result {
        let on = context.instance.with_settings(|settings| settings.profile);
        writeln!(text, "{}", u8::from(on)).map_err(no_memory)
    }

    fn store(context: &FileContext, value: &[u8]) -> Result {
        // As in tracefs, any number but 0 means on.
        let on = parse_number(value)? != 0;
        let instance = &context.instance;
        // To say so again takes no memory.
        if instance.with_settings(|settings| settings.profile) == on {
            return Ok(());
        }
        instance.change(|settings| {
            settings.profile = on;
            Ok(())
        })
    }
}

/// `trace_stat/functionN`.
pub(super) struct ProfileFile;

impl File for ProfileFile {
    type Context = FileContext;
    type Records = ProfileLines;

    fn open(_context: &Arc<FileContext>, _mode: OpenMode) -> Result<Self> {
        Ok(Self)
    }

    fn records(&self, context: &Arc<FileContext>) -> ProfileLines {
        ProfileLines {
            context: context.clone(),
            rows: KVVec::new(),
            timeline: context.instance.machine().timeline(ClockKind::Local),
            thresh: 0,
            next: None,
        }
    }
}

/// A function a line.
pub(super) struct ProfileLines {
    context: Arc<FileContext>,
    /// As it was when reading began.
    rows: KVVec<ProfileRow>,
    timeline: Timeline,
    /// Functions whose calls take less time than this on average are not shown, in ns.
    thresh: u64,
    /// `None`: the header.
    next: Option<usize>,
}

impl ProfileLines {
    fn to_ns(&self, ticks: u64) -> u64 {
        self.timeline.duration(ticks).unwrap_or(ticks)
    }

    fn is_shown(&self, totals: &FunctionTotals) -> bool {
        self.thresh == 0 || self.to_ns(totals.average()) >= self.thresh
    }

    fn write(&self, row: &ProfileRow, text: &mut Text) -> Result {
        let to_ns = |ticks| self.to_ns(ticks);
        let write = |name: &[u8]| lines::write_row(text, name, &row.totals, to_ns);
        with_name(&self.context.instance, row, write)
    }
}

impl Records for ProfileLines {
    fn rewind(&mut self) -> Result {
        let instance = &self.context.instance;
        self.rows = instance.profiling().rows(self.context.cpu)?;
        self.timeline = instance.machine().timeline(ClockKind::Local);
        self.thresh = instance.with_settings(|settings| settings.thresh);
        self.next = None;
        Ok(())
    }

    fn next(&mut self, text: &mut Text) -> Result<bool> {
        let Some(next) = self.next else {
            self.next = Some(0);
            text.write_str(lines::HEADER).map_err(no_memory)?;
            return Ok(true);
        };
        let Some(row) = self.rows.get(next) else {
            return Ok(false);
        };
        if self.is_shown(&row.totals) {
            self.write(row, text)?;
        }
        self.next = Some(next.wrapping_add(1));
        Ok(true)
    }
}

/// The functions of a profile with how long their calls took, one at a time.
struct Summaries {
    /// As it was when reading began.
    rows: KVVec<ProfileRow>,
    histograms: Histograms,
    timeline: Timeline,
    /// The times of the calls of one of them.
    sums: Option<Distribution>,
    /// Waits were counted.
    has_waits: bool,
}

impl Summaries {
    fn new(instance: &Instance) -> Self {
        Self {
            rows: KVVec::new(),
            histograms: Histograms::new(),
            timeline: instance.machine().timeline(ClockKind::Local),
            sums: None,
            has_waits: false,
        }
    }

    /// Reads the counts anew.
    fn begin(&mut self, instance: &Instance) -> Result {
        let (rows, histograms) = instance.profiling().summaries()?;
        *self = Self {
            rows,
            histograms,
            timeline: instance.machine().timeline(ClockKind::Local),
            sums: Some(Distribution::new()?),
            has_waits: instance.profiling().has_waits(),
        };
        Ok(())
    }

    fn to_ns(&self, ticks: u64) -> u64 {
        self.timeline.duration(ticks).unwrap_or(ticks)
    }

    /// Returns the counts of a function, and how long its calls took, if that is known.
    fn summary(
        &mut self,
        instance: &Instance,
        row: &ProfileRow,
    ) -> (Summary, Option<&Distribution>) {
        let Self {
            histograms, sums, ..
        } = self;
        if let Some(times) = sums {
            let known = instance.profiling().distribution(histograms, row, times);
            if !known {
                times.clear();
            }
        }
        let sums = self.sums.as_ref().filter(|sums| sums.total() != 0);
        let max = row.totals.max();
        // The bucket of the longest call ends behind that.
        let at = |sums: &Distribution, percent| {
            let end = sums.percentile(percent).unwrap_or(0);
            self.to_ns(if max == 0 { end } else { end.min(max) })
        };
        let summary = Summary {
            calls: row.totals.hits,
            total: self.to_ns(row.totals.total),
            own: self.to_ns(row.totals.own()),
            average: self.to_ns(row.totals.average_total()),
            percentiles: sums.map(|sums| lines::PERCENTILES.map(|percent| at(sums, percent))),
            max: self.to_ns(max),
            waits: self.has_waits.then(|| {
                let slept = self.to_ns(row.totals.slept);
                let asleep = slept.saturating_sub(row.totals.queued);
                let waker = instance.profiling().woken_by(row.totals.waker);
                ([asleep, row.totals.queued], waker)
            }),
        };
        (summary, sums)
    }
}

/// Calls `user` with the name of a function, or with its address.
fn with_name(
    instance: &Instance,
    row: &ProfileRow,
    user: impl FnOnce(&[u8]) -> core::fmt::Result,
) -> Result {
    let user = |name: Option<&[u8]>| {
        let result = match name {
            Some(name) => user(name),
            None => {
                let mut name = Text::new();
                lines::write_address(&mut name, row.ip).and_then(|()| user(name.as_bytes()))
            }
        };
        result.map_err(no_memory)
    };
    (instance.profiling()).with_name(instance.machine(), row, user)
}

/// `trace_stat/function`.
pub(super) struct SummaryFile;

impl File for SummaryFile {
    type Context = FileContext;
    type Records = SummaryLines;

    fn open(context: &Arc<FileContext>, mode: OpenMode) -> Result<Self> {
        if mode.writable && mode.truncate {
            context.instance.profiling().clear_counts()?;
        }
        Ok(Self)
    }

    fn records(&self, context: &Arc<FileContext>) -> SummaryLines {
        SummaryLines {
            context: context.clone(),
            functions: Summaries::new(&context.instance),
            next: None,
        }
    }

    fn write(&self, context: &FileContext, _data: &[u8]) -> Result {
        context.instance.profiling().clear_counts()
    }
}

/// A function a line, of all CPUs.
pub(super) struct SummaryLines {
    context: Arc<FileContext>,
    functions: Summaries,
    /// `None`: the header.
    next: Option<usize>,
}

impl Records for SummaryLines {
    fn rewind(&mut self) -> Result {
        self.functions.begin(&self.context.instance)?;
        self.next = None;
        Ok(())
    }

    fn next(&mut self, text: &mut Text) -> Result<bool> {
        let Some(next) = self.next else {
            self.next = Some(0);
            let header = match self.functions.has_waits {
                true => lines::WAITS_HEADER,
                false => lines::SUMMARY_HEADER,
            };
            text.write_str(header).map_err(no_memory)?;
            return Ok(true);
        };
        let Some(row) = self.functions.rows.get(next).copied() else {
            return Ok(false);
        };
        self.next = Some(next.wrapping_add(1));
        let instance = &self.context.instance;
        let (summary, _) = self.functions.summary(instance, &row);
        let thresh = instance.with_settings(|settings| settings.thresh);
        if thresh == 0 || summary.average >= thresh {
            let write = |name: &[u8]| lines::write_summary(text, name, &summary);
            with_name(instance, &row, write)?;
        }
        Ok(true)
    }
}

/// `trace_stat/function_latency`.
pub(super) struct LatencyFile;

impl File for LatencyFile {
    type Context = FileContext;
    type Records = LatencyLines;

    fn open(_context: &Arc<FileContext>, _mode: OpenMode) -> Result<Self> {
        Ok(Self)
    }

    fn records(&self, context: &Arc<FileContext>) -> LatencyLines {
        LatencyLines {
            context: context.clone(),
            functions: Summaries::new(&context.instance),
            filter: None,
            next: 0,
            now: None,
        }
    }
}

/// The histogram that lines are made of.
struct Histogram {
    summary: Summary,
    /// The first bucket that was not written.
    bucket: usize,
}

/// The histograms of the functions in `filter`.
pub(super) struct LatencyLines {
    context: Arc<FileContext>,
    functions: Summaries,
    filter: Option<FunctionSet>,
    /// The next function.
    next: usize,
    now: Option<Histogram>,
}

impl LatencyLines {
    /// Writes the next line of a histogram; none if that is all.
    fn write_next(&self, mut of: Histogram, text: &mut Text) -> Result<Option<Histogram>> {
        let Some(sums) = &self.functions.sums else {
            return Ok(None);
        };
        let to_ns = |ticks| self.functions.to_ns(ticks);
        let mut buckets = sums.buckets();
        let Some((bucket, count)) = buckets.find(|(bucket, _)| *bucket >= of.bucket) else {
            let first = sums.buckets().next();
            let min = first.map_or(0, |(bucket, _)| to_ns(lower_end(bucket)));
            lines::write_statistics(text, &of.summary, min).map_err(no_memory)?;
            return Ok(None);
        };
        lines::write_bucket(text, bucket, count, sums.total(), to_ns).map_err(no_memory)?;
        of.bucket = bucket.wrapping_add(1);
        Ok(Some(of))
    }
}

impl Records for LatencyLines {
    fn rewind(&mut self) -> Result {
        let instance = &self.context.instance;
        self.functions.begin(instance)?;
        self.filter = instance.with_settings(|settings| {
            let filter = settings.lists.get(FunctionList::Filter);
            filter.map(|filter| filter.duplicate()).transpose()
        })?;
        self.next = 0;
        self.now = None;
        Ok(())
    }

    fn next(&mut self, text: &mut Text) -> Result<bool> {
        if let Some(now) = self.now.take() {
            self.now = self.write_next(now, text)?;
            return Ok(true);
        }
        let Some(row) = self.functions.rows.get(self.next).copied() else {
            return Ok(false);
        };
        self.next = self.next.wrapping_add(1);
        let filter = self.filter.as_ref();
        if filter.is_some_and(|filter| !filter.contains(row.ip)) {
            return Ok(true);
        }
        let instance = &self.context.instance;
        let (summary, sums) = self.functions.summary(instance, &row);
        if sums.is_some() {
            let write = |name: &[u8]| lines::write_histogram_header(text, name);
            with_name(instance, &row, write)?;
            self.now = Some(Histogram { summary, bucket: 0 });
        }
        Ok(true)
    }
}
