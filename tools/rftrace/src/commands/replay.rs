// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rftrace replay`: prints the events of a recording.

use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;

use anyhow::{bail, Context, Result};
use rftrace_engine::engine::options::{Options, TraceOption};
use rftrace_engine::engine::text::Text;
use rftrace_engine::engine::waiting::{WakeContext, Waker};
use serde::Serialize;

use super::recorded::{say_end, OpenRecording};
use crate::cli::tracing::{Look, ReplayArgs};
use crate::stream::Events;
use crate::symbolizer::Symbolizer;
use crate::text::{Joined, Lines, TimeColumn};

/// Size of a piece of text that is written at once, in bytes.
const TEXT_BYTES: usize = 64 << 10;

/// Returns the options of lines.
pub(super) fn options(look: &Look) -> Result<Options> {
    let mut options = Options::new();
    for word in &look.options {
        let Some((option, on)) = TraceOption::parse(word.as_bytes()) else {
            bail!("{word} is no option of lines");
        };
        options = options.with(option, on);
    }
    Ok(options)
}

/// Returns the time column of lines.
pub(super) fn time_column(look: &Look) -> TimeColumn {
    match (look.time, look.wall) {
        (_, true) => TimeColumn::Wall,
        (true, false) => TimeColumn::Trace,
        (false, false) => TimeColumn::Without,
    }
}

/// Prints the events of a recording.
pub(super) fn run(arguments: &ReplayArgs, out: &mut dyn Write) -> Result<()> {
    let options = options(&arguments.look)?;
    let recorded = OpenRecording::open(&arguments.file)?;
    let (recording, symbolizer) = (&recorded.recording, recorded.symbolizer.clone());
    let events = recorded.events(arguments.selection.selection())?;
    let mut events = Joined::new(events);
    if arguments.json {
        print_json(&mut events, &symbolizer, out)?;
    } else {
        let mut lines = Lines::new(
            recording.settings(),
            symbolizer,
            recording.btf()?,
            options,
            time_column(&arguments.look),
        );
        let mut text = Text::new();
        let lost = recording.end().map_or(0, |end| end.lost());
        let present = recording.events_count();
        lines.write_header(&mut text, Some((present, present.saturating_add(lost))))?;
        while let Some(item) = events.next().with_context(|| broken(&arguments.file))? {
            lines.write(&mut text, &item, events.owned_extras())?;
            if text.as_bytes().len() >= TEXT_BYTES {
                out.write_all(text.as_bytes())?;
                text.clear();
            }
        }
        out.write_all(text.as_bytes())?;
    }
    out.flush()?;
    say_end(recording, &arguments.file);
    Ok(())
}

fn broken(path: &std::path::Path) -> String {
    format!("{} is broken", path.display())
}

/// An event as JSON.
#[derive(Serialize)]
struct EventJson<'a> {
    cpu: u32,
    time_ns: u64,
    pid: i32,
    tgid: i32,
    comm: &'a str,
    /// The ID of its cgroup, and the IDs that it has in its own PID namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ns_pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ns_tgid: Option<u32>,
    event: &'static str,
    function: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    depth: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retval: Option<u64>,
    /// The parts of the duration for which the task was asleep, and queued for a CPU, and what woke
    /// it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    asleep_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queued_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    woken_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<[u64; rftrace_engine::engine::extras::ARGS]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stack: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "is_zero")]
    lost_before: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Returns what woke a task: the ID of another, or a kind of interrupt.
fn woken_by(waker: Waker) -> Option<String> {
    waker.is_known().then(|| match waker.context() {
        WakeContext::Task => waker.pid().to_string(),
        WakeContext::Softirq => "softirq".into(),
        WakeContext::Hardirq => "hardirq".into(),
        WakeContext::Nmi => "nmi".into(),
    })
}

fn print_json(
    events: &mut impl Events,
    symbolizer: &Rc<RefCell<Symbolizer>>,
    out: &mut dyn Write,
) -> Result<()> {
    use rftrace_engine::engine::decode::EventKind;
    use rftrace_engine::engine::slot::Container;

    let mut symbolizer = symbolizer.borrow_mut();
    while let Some(item) = events.next()? {
        let event = &item.event;
        let owned_extras = event.has_extras.then(|| events.owned_extras());
        let extras = owned_extras.map(|owned_extras| owned_extras.extras);
        let waited = extras.and_then(|extras| extras.waited);
        let mut name = [0; 16];
        let comm = String::from_utf8_lossy(event.task.name(&mut name));
        let function = symbolizer.function(event.ip);
        let caller = (event.parent_ip != 0).then(|| symbolizer.function(event.parent_ip));
        let stack = owned_extras.map_or(&[][..], |owned_extras| &owned_extras.stack);
        let stack: Vec<_> = stack.iter().map(|ip| symbolizer.function(*ip)).collect();
        let text = owned_extras.filter(|_| extras.is_some_and(|extras| extras.text.is_some()));
        let text = text.map(|owned_extras| String::from_utf8_lossy(&owned_extras.text));
        let is_call = !matches!(
            event.what,
            EventKind::Function | EventKind::Marker | EventKind::RawMarker
        );
        let json = EventJson {
            cpu: item.cpu,
            time_ns: event.time,
            pid: event.task.pid(),
            tgid: event.task.tgid(),
            comm: &comm,
            cgroup: event.container.map(|container| container.cgroup),
            ns_pid: event.container.map(Container::pid),
            ns_tgid: event.container.map(Container::tgid),
            event: match event.what {
                EventKind::Function => "function",
                EventKind::Entry => "entry",
                EventKind::Call => "call",
                EventKind::Return => "return",
                EventKind::Marker => "mark",
                EventKind::RawMarker => "raw-mark",
            },
            function: symbolizer.name(function),
            caller: caller.map(|caller| symbolizer.name(caller)),
            depth: is_call.then_some(event.depth),
            duration_ns: matches!(event.what, EventKind::Call | EventKind::Return)
                .then_some(event.duration),
            retval: extras.and_then(|extras| extras.retval),
            asleep_ns: waited.map(|waited| waited.slept.saturating_sub(waited.wait.queued())),
            queued_ns: waited.map(|waited| waited.wait.queued()),
            woken_by: waited.and_then(|waited| woken_by(waited.wait.waker())),
            args: extras.and_then(|extras| extras.args),
            stack: stack
                .iter()
                .map(|function| symbolizer.name(*function).to_owned())
                .collect(),
            text: text.as_deref(),
            lost_before: event.lost,
        };
        serde_json::to_writer(&mut *out, &json)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}
