// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Recording, the settings: chunks with the settings and the results of a recording, as JSON, so
//! that later versions can add more.

use serde::{Deserialize, Serialize};

/// A moment by the trace clock and by the wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockPair {
    /// The trace clock, in ns.
    pub trace_ns: u64,
    /// `CLOCK_REALTIME`, in ns since 1970.
    pub realtime_ns: u64,
    /// `CLOCK_BOOTTIME`, in ns.
    pub boottime_ns: u64,
}

impl ClockPair {
    /// Returns the wall-clock time of a time of the trace clock, in ns since 1970.
    pub fn realtime(&self, trace_ns: u64) -> u64 {
        self.realtime_ns
            .wrapping_add(trace_ns.wrapping_sub(self.trace_ns))
    }

    /// Returns the time since boot of a time of the trace clock, in ns.
    pub fn boottime(&self, trace_ns: u64) -> u64 {
        self.boottime_ns
            .wrapping_add(trace_ns.wrapping_sub(self.trace_ns))
    }
}

/// The settings with which a recording was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordingSettings {
    /// Version of the command that wrote it.
    pub rftrace: String,
    /// `uname -r`.
    pub release: String,
    /// `uname -v`.
    pub version: String,
    /// `uname -m`.
    pub machine: String,
    /// `uname -n`.
    pub host: String,
    /// The tracer: `function_graph` or `function`.
    pub tracer: String,
    /// CPUs that events were taken from.
    pub cpus: Vec<u32>,
    /// The trace clock.
    pub clock: String,
    /// A moment at the start.
    pub start: ClockPair,
    /// The command that was run, if one was.
    pub command: Vec<String>,
    /// The command line of rftrace.
    pub arguments: Vec<String>,
    /// Files of the tracing directory that were written, each with what was written to it, in that
    /// order.
    pub files: Vec<(String, String)>,
    /// Addresses of `__irqentry_text_start` and `__irqentry_text_end`: the code by which interrupts
    /// are entered.
    pub irq_text: (u64, u64),
}

/// Counts of a CPU's buffer, as `per_cpu/cpuN/stats` has them at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuTotals {
    /// The CPU.
    pub cpu: u32,
    /// Events that were recorded.
    pub written: u64,
    /// Events that were taken out: those in the file.
    pub read: u64,
    /// Events that were overwritten before they were taken out.
    pub overwritten: u64,
    /// Events that were lost because they came while a writer was interrupted.
    pub commit_overrun: u64,
    /// Events that were lost because the buffer was full.
    pub dropped: u64,
}

impl CpuTotals {
    /// Returns the number of events that are not in the file.
    pub fn lost(&self) -> u64 {
        let lost = self.overwritten.saturating_add(self.commit_overrun);
        lost.saturating_add(self.dropped)
    }
}

/// The end of a recording; a file that was broken off has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordingEnd {
    /// A moment at the end.
    pub end: ClockPair,
    /// Counts of each CPU.
    pub cpus: Vec<CpuTotals>,
    /// Losses that belong to no CPU, with their names in `status`.
    pub lost: Vec<(String, u64)>,
    /// Bytes of events, before they were compressed.
    pub bytes: u64,
    /// Time of recording, in ns.
    pub took_ns: u64,
    /// CPU time of the recorder, user and system, in ns.
    pub recorder_cpu_ns: u64,
    /// Wait status of the command that was run: its exit code, or 128 and its signal.
    pub status: Option<i32>,
    /// The reason for which recording was stopped before its time, if it was.
    pub stopped: Option<String>,
}

impl RecordingEnd {
    /// Returns the number of all events that are not in the file.
    pub fn lost(&self) -> u64 {
        let cpus = self.cpus.iter().map(CpuTotals::lost);
        let others = self.lost.iter().map(|(_, count)| *count);
        cpus.chain(others).fold(0, u64::saturating_add)
    }
}
