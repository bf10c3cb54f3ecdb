// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Perfetto, the trace: calls as track events, on a track for each thread below its process, and
//! those of interrupts on tracks of the CPUs.

mod packets;

use std::collections::hash_map::Entry;
use std::io::{self, Write};

use anyhow::Result;
use rftrace_engine::engine::decode::{Event, EventKind};
use rftrace_engine::engine::extras::ARGS;
use rftrace_engine::engine::slot::Task;
use rustc_hash::FxHashMap;

use self::packets::{Name, Packets, TrackEventType, Value};
use super::tracks::{Track, TrackStep, Tracks};
use super::About;
use crate::stream::{Events, Item, OwnedExtras};
use crate::symbolizer::FunctionId;

/// The largest number of an error: the kernel's MAX_ERRNO.
const MAX_ERROR: i64 = 4095;

/// Tracks of a CPU.
#[derive(Clone, Copy, Debug)]
struct CpuTracks {
    uuid: u64,
    interrupts: Option<u64>,
    idle: Option<u64>,
    lost: Option<u64>,
    /// Time of the last event on the CPU.
    last: u64,
    /// Losses that events told of.
    told: u64,
}

/// A trace in the making.
struct TraceWriter<'a, W> {
    about: &'a About<'a>,
    packets: Packets<W>,
    /// Number of tracks, which is the number of the last one; they are counted from 1.
    uuids: u64,
    cpus: FxHashMap<u32, CpuTracks>,
    /// Tracks of threads with their tasks, by the tasks' keys.
    threads: FxHashMap<u64, (u64, Task)>,
    /// Tracks of processes, by process ID.
    processes: FxHashMap<i32, u64>,
    arguments: String,
}

/// Writes all of `events` to `out`.
///
/// # Errors
///
/// If the events cannot be had, or `out` cannot be written.
pub fn write(out: impl Write, about: &About<'_>, events: &mut impl Events) -> Result<()> {
    let mut trace = TraceWriter {
        about,
        packets: Packets::new(out),
        uuids: 0,
        cpus: FxHashMap::default(),
        threads: FxHashMap::default(),
        processes: FxHashMap::default(),
        arguments: String::new(),
    };
    trace.begin()?;
    let mut tracks = Tracks::new(about);
    let mut steps = Vec::new();
    let none = OwnedExtras::default();
    while let Some(item) = events.next()? {
        let owned_extras = match item.event.has_extras {
            true => events.owned_extras(),
            false => &none,
        };
        trace.lost(&item)?;
        match item.event.what {
            EventKind::Function | EventKind::Marker | EventKind::RawMarker => {
                let track = trace.track(tracks.of(&item), &item)?;
                trace.instant(track, &item.event, owned_extras)?;
            }
            EventKind::Entry | EventKind::Call | EventKind::Return => {
                tracks.follow(&item, owned_extras.extras.since, &mut steps);
                for step in &steps {
                    trace.step(*step, &item, owned_extras)?;
                }
            }
        }
    }
    trace.end()?;
    Ok(trace.packets.finish()?)
}

impl<W: Write> TraceWriter<'_, W> {
    fn begin(&mut self) -> io::Result<()> {
        let settings = self.about.settings;
        if settings.start.realtime_ns != 0 {
            let start = settings.start;
            self.packets.clocks(start.boottime_ns, start.realtime_ns)?;
        }
        let system = [&settings.version, &settings.release, &settings.machine];
        self.packets.system(system[0], system[1], system[2])?;
        let none: Vec<[u64; 5]> = self
            .stats()
            .iter()
            .map(|cpu| [cpu[0], 0, 0, 0, 0])
            .collect();
        self.packets.stats(false, &none)
    }

    /// Writes the losses that no event tells of, and all losses as numbers.
    fn end(&mut self) -> io::Result<()> {
        let settings = self.about.settings;
        let Some(end) = self.about.end else {
            return Ok(());
        };
        let time = settings.start.boottime(end.end.trace_ns);
        for totals in &end.cpus {
            let told = self.cpus.get(&totals.cpu).map_or(0, |cpu| cpu.told);
            let untold = self.about.untold(totals.cpu, told);
            if untold != 0 {
                self.lost_until(totals.cpu, untold, time)?;
            }
        }
        let mut uuid = None;
        for (name, count) in self.about.other_losses() {
            let track = match uuid {
                Some(uuid) => uuid,
                None => self.new_track(None, "not recorded")?,
            };
            uuid = Some(track);
            let name = format!("{name}: {count}");
            let annotations = [("count", Value::Number(count as i64))];
            let symbolizer = self.about.symbolizer.borrow();
            self.packets.event(
                &symbolizer,
                TrackEventType::Instant,
                track,
                time,
                Name::Text(&name),
                &annotations,
            )?;
        }
        self.packets.stats(true, &self.stats())
    }

    fn stats(&self) -> Vec<[u64; 5]> {
        let cpus = self.about.end.map_or(&[][..], |end| &end.cpus);
        cpus.iter()
            .map(|cpu| {
                [
                    cpu.cpu.into(),
                    cpu.overwritten,
                    cpu.commit_overrun,
                    cpu.dropped,
                    cpu.read,
                ]
            })
            .collect()
    }

    fn time(&self, trace_ns: u64) -> u64 {
        self.about.settings.start.boottime(trace_ns)
    }

    fn new_uuid(&mut self) -> u64 {
        self.uuids += 1;
        self.uuids
    }

    fn new_track(&mut self, parent: Option<u64>, name: &str) -> io::Result<u64> {
        let uuid = self.new_uuid();
        self.packets
            .track(uuid, parent, |track| track.text(2, name))?;
        Ok(uuid)
    }

    fn cpu(&mut self, number: u32) -> io::Result<&mut CpuTracks> {
        let last = self.time(self.about.settings.start.trace_ns);
        match self.cpus.entry(number) {
            Entry::Occupied(cpu) => Ok(cpu.into_mut()),
            Entry::Vacant(place) => {
                self.uuids += 1;
                let uuid = self.uuids;
                self.packets
                    .track(uuid, None, |track| track.text(2, &format!("CPU {number}")))?;
                Ok(place.insert(CpuTracks {
                    uuid,
                    interrupts: None,
                    idle: None,
                    lost: None,
                    last,
                    told: 0,
                }))
            }
        }
    }

    /// Describes a track below that of a CPU.
    fn cpu_track(
        &mut self,
        cpu: u32,
        name: &str,
        place: impl Fn(&mut CpuTracks) -> &mut Option<u64>,
    ) -> io::Result<u64> {
        let found = self.cpu(cpu)?;
        if let Some(uuid) = *place(found) {
            return Ok(uuid);
        }
        let parent = found.uuid;
        let uuid = self.new_track(Some(parent), name)?;
        *place(self.cpu(cpu)?) = Some(uuid);
        Ok(uuid)
    }

    /// Returns the number of the track, and describes it first if that has not been done.
    fn track(&mut self, track: Track, item: &Item) -> io::Result<u64> {
        match track {
            Track::Interrupts(cpu) => self.cpu_track(cpu, "interrupts", |cpu| &mut cpu.interrupts),
            Track::Task(key) if key >> 32 != 0 => {
                let cpu = key as u32;
                self.cpu_track(cpu, &format!("swapper/{cpu} (idle)"), |cpu| &mut cpu.idle)
            }
            Track::Task(key) => self.thread(key, &item.event.task),
        }
    }

    fn thread(&mut self, key: u64, task: &Task) -> io::Result<u64> {
        let known = self.threads.get(&key).copied();
        let is_it = key == u64::from(task.pid() as u32);
        match known {
            // A call that was cut may belong to another task than the event that shows it.
            Some((uuid, known)) if known == *task || !is_it => return Ok(uuid),
            _ => {}
        }
        let tid = task.pid();
        let pid = if task.tgid() == 0 { tid } else { task.tgid() };
        let mut bytes = [0; 16];
        let name = String::from_utf8_lossy(task.name(&mut bytes)).into_owned();
        let process = match self.processes.get(&pid) {
            Some(uuid) => *uuid,
            None => self.new_uuid(),
        };
        // A process has the name of its first thread, if that was seen.
        let is_known = self.processes.insert(pid, process).is_some();
        if !is_known || tid == pid {
            self.packets.track(process, None, |track| {
                track.message(3, |process| {
                    process.uint(1, pid as u64);
                    process.text(6, &name);
                });
            })?;
        }
        let uuid = match known {
            Some((uuid, _)) => uuid,
            None => self.new_uuid(),
        };
        self.threads.insert(key, (uuid, *task));
        self.packets.track(uuid, Some(process), |track| {
            track.message(4, |thread| {
                thread.uint(1, pid as u64);
                thread.uint(2, tid as u64);
                thread.text(5, &name);
            });
        })?;
        Ok(uuid)
    }

    /// Shows the losses before an event, and keeps the time of the event as its CPU's last.
    fn lost(&mut self, item: &Item) -> io::Result<()> {
        let event = &item.event;
        let time = self.time(event.time);
        if event.lost != 0 {
            self.lost_until(item.cpu, event.lost, time)?;
        }
        let ends = match event.what {
            EventKind::Call => time.saturating_add(event.duration),
            _ => time,
        };
        let cpu = self.cpu(item.cpu)?;
        cpu.last = cpu.last.max(ends);
        cpu.told += event.lost;
        Ok(())
    }

    /// Shows that events of a CPU were lost between its last one and `time`.
    fn lost_until(&mut self, cpu: u32, count: u64, time: u64) -> io::Result<()> {
        let last = self.cpu(cpu)?.last.min(time);
        let track = self.cpu_track(cpu, "lost events", |cpu| &mut cpu.lost)?;
        self.packets.lost(cpu, time)?;
        let name = format!("{count} events lost");
        let annotations = [("count", Value::Number(count as i64))];
        let symbolizer = self.about.symbolizer.borrow();
        let mut event = |kind, time, name, annotations: &[_]| {
            self.packets
                .event(&symbolizer, kind, track, time, name, annotations)
        };
        event(TrackEventType::Begin, last, Name::Text(&name), &annotations)?;
        event(TrackEventType::End, time, Name::None, &[])
    }

    fn step(&mut self, step: TrackStep, item: &Item, owned_extras: &OwnedExtras) -> io::Result<()> {
        let event = &item.event;
        let (track, time) = match step {
            TrackStep::Begin(track, time)
            | TrackStep::End(track, time)
            | TrackStep::Cut(track, time) => (self.track(track, item)?, self.time(time)),
        };
        match step {
            TrackStep::Begin(..) => self.begin_call(track, time, event, owned_extras),
            TrackStep::End(..) => self.end_call(track, time, event, owned_extras),
            TrackStep::Cut(..) => {
                let symbolizer = self.about.symbolizer.borrow();
                let annotations = [("return", Value::Text("not recorded"))];
                self.packets.event(
                    &symbolizer,
                    TrackEventType::End,
                    track,
                    time,
                    Name::None,
                    &annotations,
                )
            }
        }
    }

    fn begin_call(
        &mut self,
        track: u64,
        time: u64,
        event: &Event,
        owned_extras: &OwnedExtras,
    ) -> io::Result<()> {
        let (function, caller) = self.functions(event);
        let args = self.arguments(function, owned_extras);
        let mut annotations = Vec::new();
        if event.what == EventKind::Return {
            annotations.push(("entry", Value::Text("not recorded")));
        }
        if event.depth == 0 || event.what == EventKind::Call {
            annotations.extend(caller.map(|caller| ("caller", Value::Function(caller))));
        }
        annotations.extend(args.split(", ").filter_map(annotation));
        let symbolizer = self.about.symbolizer.borrow();
        let name = Name::Function(function);
        let result = self.packets.event(
            &symbolizer,
            TrackEventType::Begin,
            track,
            time,
            name,
            &annotations,
        );
        drop(annotations);
        self.arguments = args;
        result
    }

    fn end_call(
        &mut self,
        track: u64,
        time: u64,
        event: &Event,
        owned_extras: &OwnedExtras,
    ) -> io::Result<()> {
        let mut annotations = Vec::new();
        annotations.extend(
            owned_extras
                .extras
                .retval
                .map(|value| ("ret", returned(value))),
        );
        let overrun = owned_extras.extras.overrun.filter(|count| *count != 0);
        annotations.extend(overrun.map(|count| ("overrun", Value::Number(count.into()))));
        if self.about.leaves_sleep_out() {
            annotations.push(("awake_ns", Value::Number(event.duration as i64)));
        }
        let symbolizer = self.about.symbolizer.borrow();
        self.packets.event(
            &symbolizer,
            TrackEventType::End,
            track,
            time,
            Name::None,
            &annotations,
        )
    }

    /// Writes a function's entry by itself, or the text of a program.
    fn instant(&mut self, track: u64, event: &Event, owned_extras: &OwnedExtras) -> io::Result<()> {
        let time = self.time(event.time);
        if event.what != EventKind::Function {
            let text = mark(event.what, &owned_extras.text);
            let symbolizer = self.about.symbolizer.borrow();
            let name = Name::Text(&text);
            return self.packets.event(
                &symbolizer,
                TrackEventType::Instant,
                track,
                time,
                name,
                &[],
            );
        }
        let (function, caller) = self.functions(event);
        let args = self.arguments(function, owned_extras);
        let mut stack = String::new();
        for address in &owned_extras.stack {
            let mut symbolizer = self.about.symbolizer.borrow_mut();
            let function = symbolizer.function(*address);
            stack.push_str(symbolizer.name(function));
            stack.push('\n');
        }
        let mut annotations = Vec::new();
        annotations.extend(caller.map(|caller| ("caller", Value::Function(caller))));
        annotations.extend(args.split(", ").filter_map(annotation));
        if !stack.is_empty() {
            annotations.push(("stack behind the caller", Value::Text(&stack)));
        }
        let symbolizer = self.about.symbolizer.borrow();
        let name = Name::Function(function);
        let result = self.packets.event(
            &symbolizer,
            TrackEventType::Instant,
            track,
            time,
            name,
            &annotations,
        );
        drop(annotations);
        self.arguments = args;
        result
    }

    /// Returns the event's function, and its caller if that is known.
    fn functions(&self, event: &Event) -> (FunctionId, Option<FunctionId>) {
        let mut symbolizer = self.about.symbolizer.borrow_mut();
        let function = symbolizer.function(event.ip);
        let caller = (event.parent_ip != 0).then(|| symbolizer.function(event.parent_ip));
        (function, caller)
    }

    /// Returns the arguments of a call as text, in memory that is to be given back.
    fn arguments(&mut self, function: FunctionId, owned_extras: &OwnedExtras) -> String {
        let mut text = std::mem::take(&mut self.arguments);
        text.clear();
        if let Some(args) = &owned_extras.extras.args {
            let args: &[u64; ARGS] = args;
            self.about.arguments(function, args, &mut text);
        }
        text
    }
}

/// Returns a function's return value as an annotation: an error's number, if it can be one.
fn returned(value: u64) -> Value<'static> {
    let extended = match u32::try_from(value) {
        Ok(value) => i64::from(value as i32),
        Err(_) => value as i64,
    };
    match (-MAX_ERROR..0).contains(&extended) {
        true => Value::Number(extended),
        false => Value::Address(value),
    }
}

/// Splits an argument `name=value`.
fn annotation(argument: &str) -> Option<(&str, Value<'_>)> {
    let (name, text) = argument.split_once('=')?;
    let hex = text
        .strip_prefix("0x")
        .map(|digits| u64::from_str_radix(digits, 16));
    let value = match (hex, text.parse()) {
        (Some(Ok(address)), _) => Value::Address(address),
        (_, Ok(number)) => Value::Number(number),
        _ => Value::Text(text),
    };
    Some((name, value))
}

/// Returns the text of a mark, as a trace shows it.
fn mark(what: EventKind, bytes: &[u8]) -> String {
    if what == EventKind::RawMarker {
        let (id, data) = bytes.split_first_chunk().unwrap_or((&[0; 4], &[]));
        let mut text = format!("# {:x} buf:", u32::from_le_bytes(*id));
        for byte in data {
            text.push_str(&format!(" {byte:02x}"));
        }
        return text;
    }
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text)
        .trim_end_matches('\n')
        .to_owned()
}
