// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Report, the summary: lines behind a table, on what it does not tell.

use std::io::{self, Write};

use serde::Serialize;

use crate::calls::{Analysis, CallCounts, NodeId};
use crate::recording::RecordingFile;
use crate::report::{label_name, Rows};
use crate::symbolizer::Symbolizer;
use crate::units::Time;

/// Returns a count with its noun.
pub(super) fn counted(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

/// Remarks on events as a whole.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Number of events.
    pub events: u64,
    /// Time from the first event to the last.
    pub time_ns: u64,
    /// Number of events that were lost, and are missing in the table.
    pub lost: u64,
    /// Number of calls whose own time is not known, for that reason, or as they began before.
    pub self_unknown: u64,
    /// Number of calls that are still open at the end.
    pub open: u64,
    /// Function of the open call that took longest so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_longest: Option<String>,
    /// Time so far of that call.
    pub open_longest_ns: u64,
    /// Number of calls whose return was not seen.
    pub missed: u64,
    /// Number of calls whose paths there was no room for.
    pub without_room: u64,
    /// Offset at which the file is cut off, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_at: Option<u64>,
    /// True if the recording was broken off: the number of events lost at its end is not known.
    pub is_broken_off: bool,
}

impl Summary {
    /// Returns the summary of an analysis that is done.
    pub fn new(analysis: &Analysis, counts: &CallCounts, symbolizer: &Symbolizer) -> Self {
        let tree = analysis.tree();
        let mut summary = Self {
            events: counts.events,
            time_ns: counts.last.saturating_sub(counts.first),
            lost: counts.lost,
            self_unknown: counts.self_unknown,
            open: counts.open,
            missed: counts.missed,
            without_room: tree.node(NodeId::OTHER).calls,
            ..Self::default()
        };
        let longest = analysis.open_longest();
        if let Some((label, time)) = longest {
            summary.open_longest = Some(label_name(label, analysis, symbolizer));
            summary.open_longest_ns = time;
        }
        summary
    }

    /// Adds what the recording tells of itself.
    pub fn of_recording(mut self, recording: &RecordingFile) -> Self {
        self.cut_at = recording.cut_at();
        match recording.end() {
            // It includes losses whose place is not known.
            Some(end) => self.lost = self.lost.max(end.lost()),
            None => self.is_broken_off = true,
        }
        self
    }

    /// Prints the lines that are not trivial.
    ///
    /// # Errors
    ///
    /// Errors of writing.
    pub fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut lines = Vec::new();
        let mut line = |count: u64, text: String| {
            if count != 0 {
                lines.push(text);
            }
        };
        let calls = |count| counted(count, "call");
        let are_lost = match self.lost {
            1 => "was lost: its call is missing",
            _ => "were lost: their calls are missing",
        };
        line(
            self.lost,
            format!("{} {are_lost}", counted(self.lost, "event")),
        );
        let why = match self.lost {
            0 => "began before the first event",
            _ => "events were lost",
        };
        let unknown = self.self_unknown;
        line(
            unknown,
            format!("self time unknown for {}: {why}", calls(unknown)),
        );
        let longest = match &self.open_longest {
            Some(name) => format!(
                "; the longest: {name}, {} so far",
                Time(self.open_longest_ns)
            ),
            None => String::new(),
        };
        line(
            self.open,
            format!("{} still open at the end{longest}", calls(self.open)),
        );
        line(
            self.missed,
            format!("{} of which the return was not seen", calls(self.missed)),
        );
        line(
            self.without_room,
            format!(
                "{} in [other]: more ways led to functions than there is room for",
                calls(self.without_room)
            ),
        );
        if let Some(offset) = self.cut_at {
            lines.push(format!("the file is cut off at byte {offset}"));
        } else if self.is_broken_off {
            lines.push("the recording was broken off: it has no end".into());
        }
        if !lines.is_empty() {
            writeln!(out)?;
        }
        lines.iter().try_for_each(|line| writeln!(out, "{line}"))
    }

    /// Prints the summary as an object, on a line.
    ///
    /// # Errors
    ///
    /// Errors of writing.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Line<'a> {
            summary: &'a Summary,
        }
        serde_json::to_writer(&mut *out, &Line { summary: self })?;
        writeln!(out)
    }

    /// Prints a table and its summary.
    ///
    /// # Errors
    ///
    /// Errors of writing.
    pub fn write_with(&self, rows: &Rows, is_json: bool, out: &mut dyn Write) -> io::Result<()> {
        if is_json {
            rows.write_json(out)?;
            return self.write_json(out);
        }
        rows.write_text(out)?;
        self.write_text(out)
    }
}
