// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rftrace export`: writes a recording in another format.

use std::io::BufWriter;
use std::path::Path;

use anyhow::{Context, Result};
use rftrace_engine::engine::btf::Btf;

use super::recorded::{say_end, OpenRecording};
use crate::cli::exporting::{Export, ExportFormat, StackWeight};
use crate::cli::selection::SelectionArgs;
use crate::export::output::OutputFile;
use crate::export::stacks::{Stacks, Tops, Weight};
use crate::export::{folded, perfetto, pprof, trace_dat, About};
use crate::recording::RecordingFile;
use crate::stream::{self, Events, Item, OwnedExtras};
use crate::terminal::Progress;
use crate::units::Count;

/// Number of events between two looks at the clock.
const STEP: u64 = 1 << 16;

/// Writes a recording in the format of another program.
pub(super) fn run(arguments: &Export) -> Result<()> {
    if arguments.by.is_some() && arguments.to != ExportFormat::Folded {
        let conflict = "--by is for --to folded: the other formats have both times and calls";
        return Err(super::wrong_use(conflict));
    }
    let source = ExportSource::open(&arguments.file)?;
    let output = OutputFile::new(&arguments.output, &arguments.file)?;
    let selection = &arguments.selection;
    let about = source.about();
    output.fill(|output| match arguments.to {
        ExportFormat::Perfetto => {
            let mut events = source.events(selection)?;
            perfetto::write(BufWriter::new(output.file()), &about, &mut events)
        }
        ExportFormat::TraceDat => {
            let mut events = source.events(selection)?;
            let folder = output.folder().to_owned();
            trace_dat::write(output.file(), &folder, &about, &mut events)
        }
        ExportFormat::Folded => {
            let stacks = source.stacks(selection, Tops::Comms)?;
            let weight = weight(arguments.by.unwrap_or_default());
            folded::write(BufWriter::new(output.file()), &about, &stacks, weight)
        }
        ExportFormat::Pprof => {
            let stacks = source.stacks(selection, Tops::Threads)?;
            pprof::write(BufWriter::new(output.file()), &about, &stacks)
        }
    })?;
    say_end(source.recording(), &arguments.file);
    Ok(())
}

/// Returns the weight that is asked for.
pub(super) fn weight(by: StackWeight) -> Weight {
    match by {
        StackWeight::Time => Weight::Time,
        StackWeight::Calls => Weight::Calls,
    }
}

/// A recording, with what its events are understood by.
pub(super) struct ExportSource<'a> {
    recorded: OpenRecording<'a>,
    btf: Option<Btf<Vec<u8>>>,
}

impl<'a> ExportSource<'a> {
    /// Opens the recording at `path`.
    pub(super) fn open(path: &'a Path) -> Result<Self> {
        let recorded = OpenRecording::open(path)?;
        let btf = recorded.recording.btf();
        let btf = btf.with_context(|| format!("cannot read {}", path.display()))?;
        // Types that are not understood are taken as missing.
        let btf = btf.and_then(|bytes| Btf::new(bytes).ok().flatten());
        Ok(Self { recorded, btf })
    }

    /// Returns the recording.
    pub(super) fn recording(&self) -> &RecordingFile {
        &self.recorded.recording
    }

    /// Returns all that is known of the recording besides its events.
    pub(super) fn about(&self) -> About<'_> {
        About {
            settings: self.recording().settings(),
            end: self.recording().end(),
            symbolizer: &self.recorded.symbolizer,
            btf: self.btf.as_ref(),
        }
    }

    fn events(&self, selection: &SelectionArgs) -> Result<impl Events> {
        let events = self.recorded.events(selection.selection())?;
        Ok(CountedEvents::new(events, self.recording().events_count()))
    }

    /// Returns the calls of the recording, by the paths that led to them.
    pub(super) fn stacks(&self, selection: &SelectionArgs, tops: Tops) -> Result<Stacks> {
        let mut events = self.events(selection)?;
        Stacks::of(&mut events, tops, &self.recorded.symbolizer)
    }
}

/// Events with a line on the terminal that tells their number.
struct CountedEvents<E> {
    events: E,
    progress: Progress,
    count: u64,
    /// Number of the recording's events, selected or not.
    total: u64,
}

impl<E> CountedEvents<E> {
    fn new(events: E, total: u64) -> Self {
        Self {
            events,
            progress: Progress::new(false),
            count: 0,
            total,
        }
    }
}

impl<E: Events> Events for CountedEvents<E> {
    fn next(&mut self) -> Result<Option<Item>, stream::Error> {
        self.count += 1;
        if self.count % STEP == 0 {
            let (count, total) = (Count(self.count), Count(self.total));
            self.progress
                .update(format_args!("{count} of {total} events"));
        }
        self.events.next()
    }

    fn owned_extras(&self) -> &OwnedExtras {
        self.events.owned_extras()
    }

    fn lost_since(&self) -> Option<u64> {
        self.events.lost_since()
    }
}
