// SPDX-License-Identifier: GPL-2.0

//! The errors in what was written to files, as tracefs's `error_log` shows them.

use core::fmt::{self, Write};

use kernel::prelude::*;
use kernel::sync::{new_mutex, Mutex};

use crate::engine::text::Text;
use crate::sys::clock;

/// The number of errors that are kept, as in tracefs (TRACING_LOG_ERRS_MAX).
const KEPT: usize = 8;

/// The greatest number of bytes that are kept of a command, from its beginning.
const MAX_COMMAND: usize = 4096;

struct LoggedError {
    ns: u64,
    file: &'static str,
    reason: &'static str,
    /// The words that follow the reason.
    hint: Text,
    command: KVVec<u8>,
    at: usize,
}

/// The last errors. The lock is the last that is taken.
#[pin_data]
pub(crate) struct ErrorLog {
    #[pin]
    records: Mutex<KVec<LoggedError>>,
}

impl ErrorLog {
    /// Creates a log without errors.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            records <- new_mutex!(KVec::new()),
        })
    }

    /// Adds an error in a `command` as a whole, as [`Self::add`] does.
    pub(crate) fn log(&self, file: &'static str, reason: &'static str, command: &[u8]) {
        self.add(file, reason, command, 0);
    }

    /// Adds an error: `reason` for refusing what stands at byte `at` of `command`, written to
    /// `file`. Without memory it is not kept.
    pub(crate) fn add(&self, file: &'static str, reason: &'static str, command: &[u8], at: usize) {
        self.add_with(file, reason, Text::new(), command, at);
    }

    /// Adds an error as [`Self::add`] does, with a `hint` behind the reason, in the same line.
    pub(crate) fn add_with(
        &self,
        file: &'static str,
        reason: &'static str,
        hint: Text,
        command: &[u8],
        at: usize,
    ) {
        let mut kept = KVVec::new();
        let (line, at) = line_at(command, at);
        let line = line.get(..MAX_COMMAND).unwrap_or(line);
        if kept.extend_from_slice(line, GFP_KERNEL).is_err() {
            return;
        }
        let record = LoggedError {
            ns: clock::local_ns(),
            file,
            reason,
            hint,
            command: kept,
            at,
        };
        let mut records = self.records.lock();
        if records.len() >= KEPT {
            let _ = records.remove(0);
        }
        let _ = records.push(record, GFP_KERNEL);
    }

    /// Forgets all errors.
    pub(crate) fn clear(&self) {
        self.records.lock().clear();
    }

    /// Writes all errors, the oldest first.
    pub(crate) fn write(&self, out: &mut Text) -> fmt::Result {
        for record in self.records.lock().iter() {
            let micros = record.ns / 1000;
            let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
            write!(
                out,
                "[{seconds:5}.{micros:06}] {}: error: {}",
                record.file, record.reason
            )?;
            out.push_bytes(record.hint.as_bytes())?;
            out.push_bytes(b"\n  Command: ")?;
            out.push_bytes(&record.command)?;
            write!(out, "\n           {:width$}^\n", "", width = record.at)?;
        }
        Ok(())
    }
}

/// Returns the line of `text` that byte `at` is in, and the byte's index in that line.
fn line_at(text: &[u8], at: usize) -> (&[u8], usize) {
    let (before, after) = text.split_at_checked(at).unwrap_or((text, &[]));
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r' | 0);
    let start = before.iter().rposition(is_end).map_or(0, |end| end + 1);
    let length = after.iter().position(is_end).unwrap_or(after.len());
    let line = text.get(start..before.len() + length).unwrap_or_default();
    (line, before.len() - start)
}
