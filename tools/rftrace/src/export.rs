// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Recordings in the formats of other programs: docs/exports.md says what each has, and how losses show.

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

use rftrace_engine::engine::beside::ARGS;
use rftrace_engine::engine::btf::Btf;

use crate::recording::{End, Settings};
use crate::symbolizer::{FunctionId, Symbolizer};

/// Registers of the first arguments, in their order.
const REGISTERS: [&str; ARGS] = ["rdi", "rsi", "rdx", "rcx", "r8", "r9"];

/// All that is known of a recording, beside its events.
pub struct About<'a> {
    /// The way it was recorded.
    pub settings: &'a Settings,
    /// Its end, unless it was broken off.
    pub end: Option<&'a End>,
    /// Names of functions.
    pub symbolizer: &'a RefCell<Symbolizer>,
    /// Types of their arguments.
    pub btf: Option<&'a Btf<Vec<u8>>>,
}

impl About<'_> {
    /// The value that was written last to one of the tracing directory's options, if one was.
    fn option(&self, name: &str) -> Option<&str> {
        let files = self.settings.files.iter().rev();
        let is_it = |path: &str| path.rsplit('/').next() == Some(name);
        files
            .filter(|(path, _)| is_it(path))
            .map(|(_, value)| value.trim())
            .next()
    }

    /// Durations leave out the time in which tasks slept.
    pub fn leaves_sleep_out(&self) -> bool {
        self.option("sleep-time") == Some("0")
    }

    /// Losses of a CPU's events at its end, of which no event tells: all but those that were `told`.
    pub fn untold(&self, cpu: u32, told: u64) -> u64 {
        let cpus = self.end.map_or(&[][..], |end| &end.cpus);
        let totals = cpus.iter().find(|totals| totals.cpu == cpu);
        totals.map_or(0, |totals| totals.lost().saturating_sub(told))
    }

    /// Losses that are no CPU's, with their names.
    pub fn other_losses(&self) -> impl Iterator<Item = (&str, u64)> {
        let lost = self.end.map_or(&[][..], |end| &end.lost);
        lost.iter()
            .filter(|(_, count)| *count != 0)
            .map(|(name, count)| (name.as_str(), *count))
    }

    /// Replaces `text` by the arguments of a function's call, as `name=value, ...`; by the registers if its types are not
    /// known.
    pub fn arguments(&self, function: FunctionId, args: &[u64; ARGS], text: &mut String) {
        text.clear();
        let symbolizer = self.symbolizer.borrow();
        let name = symbolizer.name(function);
        let name = name.split_once(' ').map_or(name, |(name, _)| name);
        let written = self
            .btf
            .map(|btf| btf.write_args(text, name.as_bytes(), args));
        if let Some(Ok(true)) = written {
            text.pop();
            text.remove(0);
            return;
        }
        text.clear();
        for (register, value) in REGISTERS.iter().zip(args) {
            let separator = if text.is_empty() { "" } else { ", " };
            // (a String takes all that is written to it)
            let _ = write!(text, "{separator}{register}={value:#x}");
        }
    }
}
