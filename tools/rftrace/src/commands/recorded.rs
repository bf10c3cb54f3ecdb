// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A recording, and the selection of its events.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, Result};

use crate::calls::{Analysis, Assembler, CallCounts};
use crate::recording::{FileBlocks, RecordingFile};
use crate::stream::{
    Error, Events, Item, LongCalls, MergedEvents, OwnedExtras, SeenEvent, Selected, Selection,
};
use crate::symbolizer::Symbolizer;
use crate::terminal::Progress;
use crate::units::Count;

/// An open recording.
pub(super) struct OpenRecording<'a> {
    path: &'a Path,
    pub(super) recording: RecordingFile,
    pub(super) symbolizer: Rc<RefCell<Symbolizer>>,
}

/// Events of a recording.
pub(super) enum Chosen {
    All(Box<MergedEvents<FileBlocks>>),
    Some(Box<Selected<MergedEvents<FileBlocks>>>),
}

impl Events for Chosen {
    fn next(&mut self) -> Result<Option<Item>, Error> {
        match self {
            Self::All(events) => events.next(),
            Self::Some(events) => events.next(),
        }
    }

    fn for_each(&mut self, each: impl FnMut(SeenEvent<'_>)) -> Result<(), Error> {
        match self {
            Self::All(events) => events.for_each(each),
            Self::Some(events) => events.for_each(each),
        }
    }

    fn owned_extras(&self) -> &OwnedExtras {
        match self {
            Self::All(events) => events.owned_extras(),
            Self::Some(events) => events.owned_extras(),
        }
    }

    fn lost_since(&self) -> Option<u64> {
        match self {
            Self::All(events) => events.lost_since(),
            Self::Some(events) => events.lost_since(),
        }
    }
}

impl<'a> OpenRecording<'a> {
    /// Opens a recording.
    pub(super) fn open(path: &'a Path) -> Result<Self> {
        let recording = open(path)?;
        let symbols = recording.symbols();
        let symbols = symbols.with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self {
            path,
            recording,
            symbolizer: Rc::new(RefCell::new(Symbolizer::new(symbols))),
        })
    }

    /// Returns the events that are asked for.
    pub(super) fn events(&self, selection: Selection) -> Result<Chosen, Error> {
        let events = self.recording.events()?;
        if selection.is_all() {
            return Ok(Chosen::All(Box::new(events)));
        }
        let long = match selection.threshold {
            Some(threshold) => LongCalls::find(&mut self.recording.events()?, threshold)?,
            None => LongCalls::default(),
        };
        let selected = Selected::new(events, selection, long, self.symbolizer.clone());
        Ok(Chosen::Some(Box::new(selected)))
    }

    /// Counts the calls that are asked for. `shown` gets the counts; where events cannot be read to
    /// the end, it gets those of the events before, and the error is returned.
    pub(super) fn analyse(
        &self,
        selection: Selection,
        analysis: Analysis,
        shown: impl FnOnce(&Analysis, &CallCounts, &Symbolizer) -> Result<()>,
    ) -> Result<()> {
        let failed = || format!("cannot read {}", self.path.display());
        let mut events = self.events(selection).with_context(failed)?;
        let mut assembler = Assembler::new(analysis, self.symbolizer.clone());
        let total = self.recording.events_count();
        let mut progress = Progress::new(false);
        let end = assembler.run(&mut events, |events| {
            progress.update(format_args!("{} of {} events", Count(events), Count(total)));
        });
        progress.finish();
        let (analysis, counts) = assembler.finish();
        shown(&analysis, &counts, &self.symbolizer.borrow())?;
        end.with_context(failed)
    }
}

/// Opens a recording.
pub(super) fn open(path: &Path) -> Result<RecordingFile> {
    RecordingFile::open(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Prints what the events of a recording do not tell: that it was broken off, and what was lost.
pub(super) fn say_end(recording: &RecordingFile, path: &Path) {
    let path = path.display();
    match (recording.end(), recording.cut_at()) {
        (None, Some(offset)) => eprintln!(
            "rftrace: {path} was broken off: it is cut off at byte {offset}; what is before is shown"
        ),
        (None, None) => eprintln!("rftrace: {path} was broken off; what was written is shown"),
        (Some(end), _) => {
            if let Some(reason) = &end.stopped {
                eprintln!("rftrace: recording was stopped: {reason}");
            }
            if end.lost() != 0 {
                eprintln!("rftrace: {} events were lost while it was recorded", end.lost());
            }
        }
    }
}
