// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Parts that the verbs that trace have in common: their beginning, and their reports at the end.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use rustc_hash::FxHashMap;

use crate::advice::advice;
use crate::cli::tracing::Tracing;
use crate::closure::closure;
use crate::exit::{Exit, OrExit};
use crate::functions::KernelFunctions;
use crate::kernel::{Kernel, KernelSymbols, Symbol};
use crate::live::{Directory, LiveEvents, Session, TracePlan};
use crate::recording::{CpuTotals, RecordingEnd};
use crate::stream::{Globs, Selection};
use crate::symbolizer::Symbolizer;
use crate::units::Count;

/// Calls a second, and percent of a CPU, at which recording stops if nothing is said.
const MAX_RATE: Count = Count(2_000_000);
const MAX_CPU: u32 = 100;

/// Number of functions that are named when there were too many calls.
const NAMED: usize = 5;

/// A reason for which tracing has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EndReason {
    /// The command has ended.
    Ended(Exit),
    /// The user has asked for the end.
    Asked,
    /// The time is over.
    Time,
    /// The file has its size.
    Size,
    /// The module has ended tracing, for this reason.
    Stopped(String),
    /// Tracing cannot go on, for this reason.
    Failed(String),
}

impl EndReason {
    /// Returns the code to end with.
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Ended(exit) => *exit,
            Self::Asked | Self::Time | Self::Size => Exit::SUCCESS,
            Self::Stopped(_) | Self::Failed(_) => Exit::FAILURE,
        }
    }
}

/// Tracing that is about to begin.
pub(super) struct PreparedTracing {
    pub(super) plan: TracePlan,
    pub(super) session: Session,
    pub(super) symbols: KernelSymbols,
}

/// Sets up the session that `tracing` asks for.
pub(super) fn begin(tracing: &Tracing, buffer_kb: Option<u64>) -> Result<PreparedTracing> {
    let directory = super::directory(&tracing.module).or_exit(Exit::COULD_NOT_RUN)?;
    begin_in(&directory, tracing, buffer_kb)
}

/// Sets up the session that `tracing` asks for, in the module's `directory`.
pub(super) fn begin_in(
    directory: &Directory,
    tracing: &Tracing,
    buffer_kb: Option<u64>,
) -> Result<PreparedTracing> {
    let mut plan = plan(tracing).or_exit(Exit::COULD_NOT_RUN)?;
    if let Some(buffer_kb) = buffer_kb {
        plan.buffer_kb = buffer_kb;
    }
    begin_with(directory, plan).or_exit(Exit::COULD_NOT_RUN)
}

fn begin_with(directory: &Directory, plan: TracePlan) -> Result<PreparedTracing> {
    let path = "/proc/kallsyms";
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    Ok(PreparedTracing {
        session: Session::new(directory, &plan)?,
        symbols: KernelSymbols::of_text(&text)?,
        plan,
    })
}

/// Returns the functions that `roots` can reach, by the text of the running kernel.
fn closure_of(roots: &Globs) -> Result<Vec<String>> {
    let functions = KernelFunctions::new(Kernel::running()?)?;
    let words: Vec<&str> = roots.iter().collect();
    let closure = closure(&functions, &words);
    if let Some(root) = closure.missing.first() {
        bail!("this kernel has no function {root}: rftrace why {root} tells more");
    }
    if let Some(root) = closure.not_traceable.first() {
        bail!("ftrace cannot trace {root}: rftrace why {root} tells why");
    }
    let sites: usize = closure.indirect.iter().map(|(_, sites)| sites).sum();
    let named = closure.indirect.iter().take(NAMED);
    let named: Vec<String> = named
        .map(|(name, sites)| format!("{name} ({sites})"))
        .collect();
    eprintln!(
        "rftrace: hooks the {} functions that {} can reach; not what {sites} calls through pointers in {} functions \
         lead to: {}{}",
        closure.traceable,
        words.join(", "),
        closure.indirect.len(),
        named.join(", "),
        match closure.indirect.len().saturating_sub(NAMED) {
            0 => String::new(),
            others => format!(" and {others} others"),
        }
    );
    Ok(closure.functions)
}

/// Returns the plan that `tracing` asks for.
pub(super) fn plan(tracing: &Tracing) -> Result<TracePlan> {
    let selection = tracing.selection.selection();
    let hooked = match tracing.closure {
        true => Some(closure_of(&selection.roots)?),
        false => None,
    };
    Ok(TracePlan {
        tracer: tracing.tracer.name().into(),
        selection,
        args: tracing.args,
        ret: tracing.ret,
        wait: tracing.wait,
        errnos: tracing.errno.as_ref().map(|names| match names.as_str() {
            "any" => "1".into(),
            names => names.into(),
        }),
        // An interrupt is nothing that a root can reach, though it calls some of the same
        // functions.
        no_irqs: tracing.no_irqs || tracing.closure,
        hooked,
        command: tracing.command.clone(),
        all: tracing.all,
        cgroups: tracing.cgroups.clone(),
        buffer_kb: tracing.buffer_size.0.div_ceil(1024).max(1),
        clock: "local".into(),
        budget: (!tracing.force).then(|| {
            let rate = tracing.max_rate.unwrap_or(MAX_RATE);
            let percent = tracing.max_cpu.unwrap_or(MAX_CPU);
            format!("calls {} cpu {percent}", rate.0)
        }),
        counting: None,
    })
}

/// Returns the time at which tracing ends.
pub(super) fn deadline(tracing: &Tracing) -> Option<std::time::Instant> {
    let duration: Option<Duration> = tracing.duration.map(|time| time.duration());
    duration.and_then(|duration| std::time::Instant::now().checked_add(duration))
}

/// Returns types of the kernel's functions, for their arguments.
pub(super) fn btf() -> Option<Vec<u8>> {
    fs::read("/sys/kernel/btf/vmlinux").ok()
}

/// Returns lines of `/proc/kallsyms` for the symbols of code.
pub(super) fn lines_of(symbols: &[Symbol]) -> String {
    let mut lines = String::new();
    for symbol in symbols.iter().filter(|symbol| symbol.is_code) {
        let Symbol {
            address,
            name,
            module,
            ..
        } = symbol;
        // Writing to a string does not fail.
        let _ = match module {
            Some(module) => writeln!(lines, "{address:x} t {name}\t[{module}]"),
            None => writeln!(lines, "{address:x} t {name}"),
        };
    }
    lines
}

/// Counts calls of functions.
#[derive(Debug, Default)]
pub(super) struct Hits(FxHashMap<u64, u64>);

impl Hits {
    /// Counts a call of the function at `ip`.
    #[inline]
    pub(super) fn count(&mut self, ip: u64) {
        *self.0.entry(ip).or_default() += 1;
    }

    /// Returns the functions that most calls were of.
    fn most(&self, symbolizer: &mut Symbolizer) -> Vec<(String, u64)> {
        let mut by_name: FxHashMap<_, u64> = FxHashMap::default();
        for (ip, count) in &self.0 {
            *by_name.entry(symbolizer.function(*ip)).or_default() += count;
        }
        let mut all: Vec<_> = by_name.into_iter().collect();
        all.sort_by_key(|(function, count)| (std::cmp::Reverse(*count), *function));
        all.truncate(NAMED);
        let name = |(function, count)| (symbolizer.name(function).to_owned(), count);
        all.into_iter().map(name).collect()
    }

    /// Returns text that names the functions that made the calls, and ways to avoid them.
    pub(super) fn advice(&self, symbolizer: &mut Symbolizer) -> String {
        let total: u64 = self.0.values().sum();
        let most = self.most(symbolizer);
        let mut text = String::from("most calls were of ");
        for (index, (name, count)) in most.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            let percent = *count as f64 * 100.0 / total.max(1) as f64;
            let _ = write!(text, "{comma}{name} ({percent:.0} %)");
        }
        let first = most.first().map_or("GLOB", |(name, _)| name);
        let _ = write!(
            text,
            "\nrftrace: try: -n {first}, a narrower -l or -g, or --force"
        );
        text
    }
}

/// A session that has ended, whose events were examined as they came.
pub(super) struct Ended {
    end: RecordingEnd,
    events: u64,
    reason: EndReason,
    hits: Hits,
}

impl Ended {
    /// Ends `session`, whose events were `events`, for that reason.
    pub(super) fn new(
        session: &Session,
        events: &LiveEvents,
        reason: EndReason,
        hits: Hits,
    ) -> Result<Self> {
        Ok(Self {
            end: session.end()?,
            events: events.counts().0,
            reason,
            hits,
        })
    }

    /// Reports the result, and for too many calls the functions that made them; returns the code to
    /// end with.
    pub(super) fn say(self, plan: &TracePlan, symbolizer: &RefCell<Symbolizer>) -> Exit {
        let summary = summary(&self.end, self.events, &self.reason);
        eprintln!("rftrace: {summary}");
        if let EndReason::Stopped(_) = self.reason {
            let advice = self.hits.advice(&mut symbolizer.borrow_mut());
            eprintln!("rftrace: {advice}");
        }
        if self.events == 0 {
            say_why(&plan.selection);
        }
        self.reason.exit()
    }
}

/// Prints why nothing came of the functions that were named, if that can be told.
pub(super) fn say_why(selection: &Selection) {
    let words: Vec<&str> = (selection.functions.iter())
        .chain(selection.roots.iter())
        .collect();
    // A kernel that does not show its text tells nothing.
    let functions = Kernel::running().and_then(KernelFunctions::new);
    let Some(functions) = functions.ok().filter(|_| !words.is_empty()) else {
        return;
    };
    for line in advice(&functions, &words) {
        eprintln!("rftrace: {line}");
    }
}

/// Returns a text on the result.
pub(super) fn summary(end: &RecordingEnd, events: u64, reason: &EndReason) -> String {
    let mut text = format!("{events} events, ");
    let mut lost: Vec<(String, u64)> = Vec::new();
    let sum = |count: fn(&CpuTotals) -> u64| -> u64 { end.cpus.iter().map(count).sum() };
    lost.push(("overwritten".into(), sum(|cpu| cpu.overwritten)));
    lost.push(("commit overruns".into(), sum(|cpu| cpu.commit_overrun)));
    lost.push(("to full buffers".into(), sum(|cpu| cpu.dropped)));
    // Events that were taken out, or are still there, and did not come to where they should.
    let kept = sum(|cpu| cpu.written.saturating_sub(cpu.overwritten));
    lost.push(("not written".into(), kept.saturating_sub(events)));
    lost.extend(end.lost.iter().cloned());
    lost.retain(|(_, count)| *count != 0);
    match lost.iter().map(|(_, count)| count).sum() {
        0_u64 => text.push_str("none lost"),
        all => {
            let part = |(name, count): &(String, u64)| format!("{count} {name}");
            let parts: Vec<String> = lost.iter().map(part).collect();
            let _ = write!(text, "{all} lost ({})", parts.join(", "));
        }
    }
    let seconds = |ns: u64| ns as f64 / 1e9;
    let _ = write!(
        text,
        "; {:.3} s of CPU for it, in {:.3} s",
        seconds(end.recorder_cpu_ns),
        seconds(end.took_ns)
    );
    match reason {
        EndReason::Stopped(reason) => {
            let _ = write!(text, "\nrftrace: the module has stopped it: {reason}");
        }
        EndReason::Failed(reason) => {
            let _ = write!(text, "\nrftrace: it was broken off: {reason}");
        }
        EndReason::Ended(_) | EndReason::Asked | EndReason::Time | EndReason::Size => {}
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_written_is_counted() {
        let cpu = |written, overwritten, dropped| CpuTotals {
            written,
            overwritten,
            dropped,
            ..CpuTotals::default()
        };
        let end = RecordingEnd {
            cpus: vec![cpu(100, 10, 3), cpu(50, 0, 0)],
            lost: vec![("missed returns".into(), 2)],
            ..RecordingEnd::default()
        };
        let said = |events| summary(&end, events, &EndReason::Asked);
        assert!(said(140).starts_with(
            "140 events, 15 lost (10 overwritten, 3 to full buffers, 2 missed returns); "
        ));
        assert!(said(133).starts_with(
            "133 events, 22 lost (10 overwritten, 3 to full buffers, 7 not written, 2 missed"
        ));
        let end = RecordingEnd {
            cpus: vec![cpu(100, 0, 0)],
            ..RecordingEnd::default()
        };
        let said = summary(&end, 100, &EndReason::Failed("x".into()));
        assert!(said.starts_with("100 events, none lost; "), "{said}");
        assert!(said.ends_with("\nrftrace: it was broken off: x"), "{said}");
    }
}
