// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Calls as slices of time on tracks, nested on each: a track for each task, and one for the
//! interrupts of each CPU.
//!
//! A call of an interrupt is recorded with the task that it interrupted. A call whose level of
//! execution (softirq, hardirq, NMI) is above that of the call around it is an interrupt's
//! outermost, and goes to its CPU's track with all that it calls.
//!
//! Where events were lost, returns are missing. A call that cannot be open any more, by what is
//! recorded next, is ended there.

use rftrace_engine::engine::context::Level;
use rftrace_engine::engine::decode::{Event, EventKind};
use rustc_hash::FxHashMap;

use super::About;
use crate::stream::{task_key, Item};

/// Maximum difference between the time of an entry and that which follows from its return, in ns,
/// as clocks are converted.
const TOLERANCE: u64 = 1_000;

/// A track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Track {
    /// The track of a task, by its [key](task_key).
    Task(u64),
    /// The track of the interrupts on a CPU.
    Interrupts(u32),
}

/// A change on a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackStep {
    /// The event's call begins at this time, in ns.
    Begin(Track, u64),
    /// The event's call ends at this time, in ns.
    End(Track, u64),
    /// The innermost call of the track has ended before, without its return being recorded.
    Cut(Track, u64),
}

/// A call that is open.
#[derive(Clone, Copy, Debug)]
struct OpenSlice {
    ip: u64,
    begin: u64,
    level: Level,
    track: Track,
    /// True if the entry was recorded.
    is_shown: bool,
}

/// Follows which calls are open on each track.
#[derive(Debug)]
pub struct Tracks {
    /// Code by which interrupts are entered.
    irq_text: std::ops::Range<u64>,
    /// True if durations include the time in which tasks slept.
    has_sleep: bool,
    /// True if softirqs are served by threads, which may be preempted: `CONFIG_PREEMPT_RT`.
    has_softirq_threads: bool,
    tasks: FxHashMap<u64, Vec<OpenSlice>>,
    /// Tasks that were interrupted where an interrupt is open, by CPU.
    interrupted: FxHashMap<u32, u64>,
}

impl Tracks {
    /// Returns tracks on which nothing is open.
    pub fn new(about: &About<'_>) -> Self {
        let settings = about.settings;
        Self {
            has_sleep: !about.leaves_sleep_out(),
            irq_text: settings.irq_text.0..settings.irq_text.1,
            has_softirq_threads: settings.version.contains("PREEMPT_RT"),
            tasks: FxHashMap::default(),
            interrupted: FxHashMap::default(),
        }
    }

    fn level(&self, event: &Event) -> Level {
        match event.context.level() {
            Level::Softirq if self.has_softirq_threads => Level::Task,
            level if self.irq_text.contains(&event.ip) => level.max(Level::Hardirq),
            level => level,
        }
    }

    /// Returns the track of an item that is not a call.
    pub fn of(&self, item: &Item) -> Track {
        match self.level(&item.event) {
            Level::Task => Track::Task(task_key(item.cpu, &item.event)),
            _ => Track::Interrupts(item.cpu),
        }
    }

    /// Follows a call's event: replaces `steps` by what it changes, in this order. `since` is when
    /// its call began, or ended if the event is its return, if that was recorded beside it.
    pub fn follow(&mut self, item: &Item, since: Option<u64>, steps: &mut Vec<TrackStep>) {
        steps.clear();
        let event = &item.event;
        let key = task_key(item.cpu, event);
        let time = since.unwrap_or(event.time).min(event.time);
        self.leave_interrupts(item, key, steps);
        let level = self.level(event);
        let open = self.tasks.entry(key).or_default();
        let depth = usize::from(event.depth);
        let began = match event.what {
            EventKind::Return => time.saturating_sub(event.duration),
            _ => time,
        };
        let is_return = event.what == EventKind::Return;
        // Another call of the function may have begun meanwhile, where its entry was lost.
        let latest = began.saturating_sub(if self.has_sleep { TOLERANCE } else { u64::MAX });
        let is_it = |call: &OpenSlice| call.ip == event.ip && call.is_shown && call.begin >= latest;
        let is_matched = is_return && open.get(depth).is_some_and(is_it);
        let kept = depth + usize::from(is_matched);
        while open.len() > kept {
            cut(
                open,
                began,
                if is_return { time } else { event.time },
                steps,
            );
        }
        if is_matched {
            if let Some(call) = open.pop() {
                steps.push(TrackStep::End(call.track, time));
                let is_left = open.last().is_none_or(|around| around.track != call.track);
                if let (Track::Interrupts(cpu), true) = (call.track, is_left) {
                    self.interrupted.remove(&cpu);
                }
            }
            return;
        }
        let outermost = OpenSlice {
            ip: 0,
            begin: began,
            level: Level::Task,
            track: Track::Task(key),
            is_shown: false,
        };
        while open.len() < depth {
            let around = open.last().copied().unwrap_or(outermost);
            open.push(OpenSlice {
                is_shown: false,
                ..around
            });
        }
        let around = open.last().copied().unwrap_or(outermost);
        let track = match level > around.level {
            true => Track::Interrupts(item.cpu),
            false => around.track,
        };
        steps.push(TrackStep::Begin(track, began));
        match event.what {
            EventKind::Call => {
                steps.push(TrackStep::End(track, time.saturating_add(event.duration)))
            }
            EventKind::Return => steps.push(TrackStep::End(track, time)),
            _ => {
                open.push(OpenSlice {
                    ip: event.ip,
                    begin: began,
                    level,
                    track,
                    is_shown: true,
                });
                if let Track::Interrupts(cpu) = track {
                    self.interrupted.insert(cpu, key);
                }
            }
        }
    }

    /// Ends interrupts that cannot be open any more: their CPU does something else, or their task
    /// is on another CPU.
    fn leave_interrupts(&mut self, item: &Item, key: u64, steps: &mut Vec<TrackStep>) {
        let is_left = |(cpu, owner): (&u32, &u64)| (*cpu == item.cpu) != (*owner == key);
        while let Some((&cpu, &owner)) = self.interrupted.iter().find(|at| is_left(*at)) {
            self.interrupted.remove(&cpu);
            let Some(open) = self.tasks.get_mut(&owner) else {
                continue;
            };
            let is_of_it = |call: &OpenSlice| call.track == Track::Interrupts(cpu);
            let first = open.iter().position(is_of_it).unwrap_or(open.len());
            while open.len() > first {
                cut(open, item.event.time, item.event.time, steps);
            }
        }
    }
}

/// Ends the innermost call, whose return was not recorded: before `began`, unless the call began
/// later itself.
fn cut(open: &mut Vec<OpenSlice>, began: u64, time: u64, steps: &mut Vec<TrackStep>) {
    if let Some(call) = open.pop().filter(|call| call.is_shown) {
        let end = if call.begin > began { time } else { began };
        steps.push(TrackStep::Cut(call.track, end));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::recording::RecordingSettings;
    use rftrace_engine::engine::context::{ContextWord, HARDIRQ, SOFTIRQ};
    use rftrace_engine::engine::slot::Task;

    fn item(
        cpu: u32,
        pid: u64,
        what: EventKind,
        depth: u8,
        ip: u64,
        time: u64,
        duration: u64,
    ) -> Item {
        let task = Task {
            ids: pid | (pid << 32),
            comm: [0x61, 0],
        };
        Item {
            cpu,
            event: Event {
                time,
                ip,
                task,
                what,
                depth,
                duration,
                ..Event::default()
            },
        }
    }

    fn at_level(mut item: Item, level: u32) -> Item {
        item.event.context = ContextWord(level);
        item
    }

    fn tracks(settings: &RecordingSettings) -> Tracks {
        Tracks::new(&About {
            settings,
            end: None,
            symbolizer: &RefCell::default(),
            btf: None,
        })
    }

    fn follow(tracks: &mut Tracks, item: Item) -> Vec<TrackStep> {
        let mut steps = Vec::new();
        tracks.follow(&item, None, &mut steps);
        steps
    }

    const TASK: Track = Track::Task(7);
    const IRQ: Track = Track::Interrupts(2);

    #[test]
    fn an_interrupt_goes_to_its_cpu_and_what_is_behind_it_to_the_task() {
        let mut tracks = tracks(&RecordingSettings::default());
        let mut step = |item| follow(&mut tracks, item);
        assert_eq!(
            step(item(2, 7, EventKind::Entry, 0, 1, 10, 0)),
            [TrackStep::Begin(TASK, 10)]
        );
        let irq = at_level(item(2, 7, EventKind::Entry, 1, 2, 20, 0), HARDIRQ);
        assert_eq!(step(irq), [TrackStep::Begin(IRQ, 20)]);
        // A softirq on its way out, and the calls in it.
        let soft = at_level(item(2, 7, EventKind::Entry, 2, 3, 30, 0), SOFTIRQ);
        assert_eq!(step(soft), [TrackStep::Begin(IRQ, 30)]);
        let call = at_level(item(2, 7, EventKind::Call, 3, 4, 31, 5), SOFTIRQ);
        assert_eq!(
            step(call),
            [TrackStep::Begin(IRQ, 31), TrackStep::End(IRQ, 36)]
        );
        assert_eq!(
            step(item(2, 7, EventKind::Return, 2, 3, 40, 10)),
            [TrackStep::End(IRQ, 40)]
        );
        assert_eq!(
            step(item(2, 7, EventKind::Return, 1, 2, 50, 30)),
            [TrackStep::End(IRQ, 50)]
        );
        let call = item(2, 7, EventKind::Call, 1, 5, 60, 3);
        assert_eq!(
            step(call),
            [TrackStep::Begin(TASK, 60), TrackStep::End(TASK, 63)]
        );
        assert_eq!(
            step(item(2, 7, EventKind::Return, 0, 1, 70, 60)),
            [TrackStep::End(TASK, 70)]
        );
    }

    #[test]
    fn calls_that_are_recorded_late_have_their_times() {
        let mut tracks = tracks(&RecordingSettings::default());
        let mut step = |item, since| {
            let mut steps = Vec::new();
            tracks.follow(&item, Some(since), &mut steps);
            steps
        };
        let [outer, inner, leaf] = [(0, 1), (1, 2), (2, 3)];
        let at = |what, (depth, ip), duration| item(2, 7, what, depth, ip, 100, duration);
        assert_eq!(
            step(at(EventKind::Entry, outer, 0), 10),
            [TrackStep::Begin(TASK, 10)]
        );
        assert_eq!(
            step(at(EventKind::Entry, inner, 0), 20),
            [TrackStep::Begin(TASK, 20)]
        );
        assert_eq!(
            step(at(EventKind::Call, leaf, 5), 30),
            [TrackStep::Begin(TASK, 30), TrackStep::End(TASK, 35)]
        );
        assert_eq!(
            step(at(EventKind::Return, inner, 20), 40),
            [TrackStep::End(TASK, 40)]
        );
        assert_eq!(
            step(at(EventKind::Return, outer, 85), 95),
            [TrackStep::End(TASK, 95)]
        );
    }

    #[test]
    fn softirqs_are_the_tasks_own_where_threads_serve_them() {
        let settings = RecordingSettings {
            version: "#1 SMP PREEMPT_RT Debian".into(),
            ..RecordingSettings::default()
        };
        let mut tracks = tracks(&settings);
        let call = at_level(item(2, 7, EventKind::Call, 0, 4, 31, 5), SOFTIRQ);
        assert_eq!(
            follow(&mut tracks, call),
            [TrackStep::Begin(TASK, 31), TrackStep::End(TASK, 36)]
        );
    }

    #[test]
    fn a_call_without_its_entry_begins_where_its_duration_says() {
        let mut tracks = tracks(&RecordingSettings::default());
        let mut step = |item| follow(&mut tracks, item);
        let inner = item(0, 7, EventKind::Return, 2, 5, 100, 40);
        assert_eq!(
            step(inner),
            [TrackStep::Begin(TASK, 60), TrackStep::End(TASK, 100)]
        );
        let outer = item(0, 7, EventKind::Return, 1, 4, 110, 90);
        assert_eq!(
            step(outer),
            [TrackStep::Begin(TASK, 20), TrackStep::End(TASK, 110)]
        );
    }

    #[test]
    fn calls_whose_returns_are_missing_end_before_what_shows_it() {
        let mut tracks = tracks(&RecordingSettings::default());
        let mut step = |item| follow(&mut tracks, item);
        step(item(0, 7, EventKind::Entry, 0, 1, 10, 0));
        step(item(0, 7, EventKind::Entry, 1, 2, 20, 0));
        // Another call at their depth, whose entry is missing, too.
        assert_eq!(
            step(item(0, 7, EventKind::Return, 0, 9, 100, 50)),
            [
                TrackStep::Cut(TASK, 50),
                TrackStep::Cut(TASK, 50),
                TrackStep::Begin(TASK, 50),
                TrackStep::End(TASK, 100)
            ]
        );
        step(item(0, 7, EventKind::Entry, 0, 1, 110, 0));
        step(item(0, 7, EventKind::Entry, 1, 2, 120, 0));
        // The outer one returns.
        assert_eq!(
            step(item(0, 7, EventKind::Return, 0, 1, 150, 40)),
            [TrackStep::Cut(TASK, 150), TrackStep::End(TASK, 150)]
        );
    }

    #[test]
    fn a_return_is_not_of_a_call_that_began_earlier() {
        let given = [
            item(0, 7, EventKind::Entry, 0, 1, 10_000, 0),
            item(0, 7, EventKind::Return, 0, 1, 90_000, 20_000),
        ];
        let cut = [
            TrackStep::Cut(TASK, 70_000),
            TrackStep::Begin(TASK, 70_000),
            TrackStep::End(TASK, 90_000),
        ];
        let settings = RecordingSettings::default();
        let mut with_sleep = tracks(&settings);
        follow(&mut with_sleep, given[0]);
        assert_eq!(follow(&mut with_sleep, given[1]), cut);
        // If durations include no sleep, it may be.
        let settings = RecordingSettings {
            files: vec![("options/sleep-time".into(), "0".into())],
            ..settings
        };
        let mut without_sleep = tracks(&settings);
        follow(&mut without_sleep, given[0]);
        assert_eq!(
            follow(&mut without_sleep, given[1]),
            [TrackStep::End(TASK, 90_000)]
        );
    }

    #[test]
    fn an_interrupt_is_over_when_its_cpu_does_something_else() {
        let mut tracks = tracks(&RecordingSettings::default());
        let mut step = |item| follow(&mut tracks, item);
        step(item(2, 7, EventKind::Entry, 0, 1, 10, 0));
        step(at_level(item(2, 7, EventKind::Entry, 1, 2, 20, 0), HARDIRQ));
        let other = item(2, 8, EventKind::Entry, 0, 3, 30, 0);
        assert_eq!(
            step(other),
            [
                TrackStep::Cut(IRQ, 30),
                TrackStep::Begin(Track::Task(8), 30)
            ]
        );
        // Nor when its task runs elsewhere. The task is still in its own call.
        step(at_level(item(2, 7, EventKind::Entry, 1, 2, 40, 0), HARDIRQ));
        let elsewhere = item(1, 7, EventKind::Entry, 1, 4, 50, 0);
        assert_eq!(
            step(elsewhere),
            [TrackStep::Cut(IRQ, 50), TrackStep::Begin(TASK, 50)]
        );
        assert_eq!(
            step(item(1, 7, EventKind::Return, 0, 1, 60, 50)),
            [TrackStep::Cut(TASK, 60), TrackStep::End(TASK, 60)]
        );
    }
}
