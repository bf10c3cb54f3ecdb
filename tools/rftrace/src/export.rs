// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Recordings in the formats of other programs: docs/exports.md says what each has, and how losses
//! show.

pub mod flamegraph;
pub mod folded;
pub mod output;
pub mod perfetto;
pub mod pprof;
pub mod protobuf;
pub mod stacks;
pub mod trace_dat;
pub mod tracks;

use std::cell::RefCell;
use std::fmt::Write;

use rftrace_engine::engine::btf::Btf;
use rftrace_engine::engine::extras::ARGS;

use crate::recording::{RecordingEnd, RecordingSettings};
use crate::symbolizer::{FunctionId, Symbolizer};

/// Registers of the first arguments, in the order of the calling convention.
const REGISTERS: [&str; ARGS] = ["rdi", "rsi", "rdx", "rcx", "r8", "r9"];

/// All that is known of a recording, besides its events.
pub struct About<'a> {
    /// Settings with which it was recorded.
    pub settings: &'a RecordingSettings,
    /// The end of the recording, unless it was broken off.
    pub end: Option<&'a RecordingEnd>,
    /// Names of functions.
    pub symbolizer: &'a RefCell<Symbolizer>,
    /// Types of the functions' arguments.
    pub btf: Option<&'a Btf<Vec<u8>>>,
}

impl About<'_> {
    /// Returns the value that was written last to one of the tracing directory's options.
    fn option(&self, name: &str) -> Option<&str> {
        let files = self.settings.files.iter().rev();
        let is_it = |path: &str| path.rsplit('/').next() == Some(name);
        files
            .filter(|(path, _)| is_it(path))
            .map(|(_, value)| value.trim())
            .next()
    }

    /// Returns whether durations leave out the time in which tasks slept.
    pub fn leaves_sleep_out(&self) -> bool {
        self.option("sleep-time") == Some("0")
    }

    /// Returns the losses of a CPU at its end that no event tells of: all but those that were
    /// `told`.
    pub fn untold(&self, cpu: u32, told: u64) -> u64 {
        let cpus = self.end.map_or(&[][..], |end| &end.cpus);
        let totals = cpus.iter().find(|totals| totals.cpu == cpu);
        totals.map_or(0, |totals| totals.lost().saturating_sub(told))
    }

    /// Returns the losses that belong to no CPU, with their names.
    pub fn other_losses(&self) -> impl Iterator<Item = (&str, u64)> {
        let lost = self.end.map_or(&[][..], |end| &end.lost);
        lost.iter()
            .filter(|(_, count)| *count != 0)
            .map(|(name, count)| (name.as_str(), *count))
    }

    /// Replaces `text` by the arguments of a function's call, as `name=value, ...`; by the
    /// registers if its types are not known.
    pub fn arguments(&self, function: FunctionId, args: &[u64; ARGS], text: &mut String) {
        text.clear();
        let symbolizer = self.symbolizer.borrow();
        let name = symbolizer.name(function);
        let name = name.split_once(' ').map_or(name, |(name, _)| name);
        let written = self
            .btf
            .map(|btf| btf.alone().write_args(text, name.as_bytes(), args));
        if let Some(Ok(true)) = written {
            text.pop();
            text.remove(0);
            return;
        }
        text.clear();
        for (register, value) in REGISTERS.iter().zip(args) {
            let separator = if text.is_empty() { "" } else { ", " };
            // Writing to a String does not fail.
            let _ = write!(text, "{separator}{register}={value:#x}");
        }
    }
}
