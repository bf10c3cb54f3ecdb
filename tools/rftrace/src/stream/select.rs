// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Streams, the selection: the events that are asked for, as if only they had been recorded.

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use rftrace_engine::engine::decode::{Event, EventKind};
use rftrace_engine::engine::glob;

use super::{end_of, Error, Events, Item, OwnedExtras};
use crate::symbolizer::Symbolizer;

/// Functions that are called everywhere and say little: `@noise`.
pub const NOISE: &[&str] = &[
    "__rcu_read_*",
    "rcu_read_*",
    "__rcu_*",
    "rcu_note_context_switch",
    "_raw_*lock*",
    "_raw_*unlock*",
    "__raw_spin_*",
    "mutex_lock*",
    "mutex_unlock*",
    "mutex_trylock",
    "__mutex_*",
    "down_read*",
    "up_read",
    "down_write*",
    "up_write",
    "preempt_count_*",
    "__cond_resched",
    "__local_bh_*",
    "__might_*",
    "debug_*",
    "update_cfs_*",
    "native_*",
    "sched_clock*",
    "ktime_get*",
];

/// A list of names and patterns; `@noise` stands for [`NOISE`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Globs(Vec<String>);

impl Globs {
    /// Returns the list of words as they are typed.
    pub fn new(words: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut globs = Vec::new();
        for word in words {
            match word.into() {
                word if word == "@noise" => globs.extend(NOISE.iter().map(|&glob| glob.into())),
                word => globs.push(word),
            }
        }
        Self(globs)
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the patterns.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns whether one of them is, or matches, the name of a function; `name [module]` is
    /// matched without its module.
    pub fn matches(&self, name: &str) -> bool {
        let name = name.split_once(' ').map_or(name, |(name, _)| name);
        let matches = |glob: &String| glob::matches(glob.as_bytes(), name.as_bytes());
        self.0.iter().any(matches)
    }
}

/// A selection of events; by default, of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only calls of these functions and below (`-g`).
    pub roots: Globs,
    /// Only these functions (`-l`).
    pub functions: Globs,
    /// Not these functions (`-n`).
    pub not_functions: Globs,
    /// Only tasks, or threads of processes, with these numbers (`-P`).
    pub pids: Vec<i32>,
    /// Only so many levels (`-D`).
    pub depth: Option<u16>,
    /// Only calls that take so many ns, and the calls around them (`--thresh`).
    pub threshold: Option<u64>,
}

impl Selection {
    /// Returns whether nothing is left out.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }
}

/// Returns the key of a task in tables: each CPU has an idle task of its own, all with pid 0.
pub fn task_key(cpu: u32, event: &Event) -> u64 {
    match event.task.pid() {
        0 => (1 << 32) | u64::from(cpu),
        pid => u64::from(pid as u32),
    }
}

/// Entries of calls whose duration reaches a threshold: bit N is that of the Nth
/// [`EventKind::Entry`].
#[derive(Clone, Debug, Default)]
pub struct LongCalls(Vec<u64>);

impl LongCalls {
    /// Finds them in all events. A call that never ends is as long as the events go on.
    ///
    /// # Errors
    ///
    /// [`Error`] if they are not to be had.
    pub fn find(events: &mut impl Events, threshold: u64) -> Result<Self, Error> {
        let mut long = Self::default();
        let mut tasks: FxHashMap<u64, Vec<(u64, u64)>> = FxHashMap::default();
        let (mut count, mut last) = (0_u64, 0);
        while let Some(item) = events.next()? {
            let event = &item.event;
            last = end_of(event).max(last);
            let depth = usize::from(event.depth);
            if matches!(
                event.what,
                EventKind::Function | EventKind::Marker | EventKind::RawMarker
            ) {
                continue;
            }
            let open = tasks.entry(task_key(item.cpu, event)).or_default();
            // Depths that are missing have no number.
            open.resize(depth.max(open.len()), (u64::MAX, 0));
            match event.what {
                EventKind::Entry => {
                    open.truncate(depth);
                    let since = event.has_extras.then(|| events.owned_extras().extras.since);
                    open.push((count, since.flatten().unwrap_or(event.time)));
                    count += 1;
                    long.0.resize(count.div_ceil(64) as usize, 0);
                }
                EventKind::Return => {
                    if let Some((number, _)) = open.get(depth) {
                        if event.duration >= threshold {
                            long.set(*number);
                        }
                    }
                    open.truncate(depth);
                }
                _ => open.truncate(depth),
            }
        }
        for (number, begin) in tasks.into_values().flatten() {
            if last.saturating_sub(begin) >= threshold {
                long.set(number);
            }
        }
        Ok(long)
    }

    fn set(&mut self, number: u64) {
        if let Some(word) = self.0.get_mut((number / 64) as usize) {
            *word |= 1 << (number % 64);
        }
    }

    fn has(&self, number: u64) -> bool {
        let word = self.0.get((number / 64) as usize);
        word.is_some_and(|word| (word >> (number % 64)) & 1 != 0)
    }
}

/// The verdict of a selection on a function.
#[derive(Clone, Copy, Debug)]
struct FunctionVerdict {
    is_root: bool,
    is_shown: bool,
}

/// A call that is open.
#[derive(Clone, Copy)]
struct SelectedCall {
    is_shown: bool,
    /// True if its entry was seen.
    is_known: bool,
    in_root: bool,
    /// The depth at which it is shown, or would be.
    depth: u16,
}

impl SelectedCall {
    /// Returns the depth of calls in it.
    fn below(self) -> u16 {
        self.depth.saturating_add(u16::from(self.is_shown))
    }
}

/// The selected events of a stream, with depths as if there were no others.
pub struct Selected<E> {
    events: E,
    selection: Selection,
    long: LongCalls,
    symbolizer: Rc<RefCell<Symbolizer>>,
    verdicts: FxHashMap<u64, FunctionVerdict>,
    tasks: FxHashMap<u64, Vec<SelectedCall>>,
    /// Number of entries so far.
    entries: u64,
    /// Losses before events that were left out, by CPU.
    pub(super) lost: FxHashMap<u32, u64>,
    /// Time since when something was lost that was not reported yet.
    lost_since: Option<u64>,
}

impl<E: Events> Selected<E> {
    /// Returns those of `events` that `selection` accepts. `long` is only used if that has a
    /// threshold.
    pub fn new(
        events: E,
        selection: Selection,
        long: LongCalls,
        symbolizer: Rc<RefCell<Symbolizer>>,
    ) -> Self {
        Self {
            events,
            selection,
            long,
            symbolizer,
            verdicts: FxHashMap::default(),
            tasks: FxHashMap::default(),
            entries: 0,
            lost: FxHashMap::default(),
            lost_since: None,
        }
    }

    /// Keeps the losses before an event that is left out, for the next event of its CPU.
    #[cold]
    fn lose(&mut self, item: &mut Item, selects: bool, since: Option<u64>) {
        let since = since.unwrap_or(0);
        self.lost_since = Some(self.lost_since.map_or(since, |before| before.min(since)));
        let before = self.lost.remove(&item.cpu).unwrap_or(0);
        let lost = before.saturating_add(item.event.lost);
        if selects {
            item.event.lost = lost;
        } else if lost != 0 {
            self.lost.insert(item.cpu, lost);
        }
    }

    fn verdict(&mut self, ip: u64) -> FunctionVerdict {
        if let Some(verdict) = self.verdicts.get(&ip) {
            return *verdict;
        }
        let mut symbolizer = self.symbolizer.borrow_mut();
        let function = symbolizer.function(ip);
        let name = symbolizer.name(function);
        let selection = &self.selection;
        let verdict = FunctionVerdict {
            is_root: selection.roots.matches(name),
            is_shown: (selection.functions.is_empty() || selection.functions.matches(name))
                && !selection.not_functions.matches(name),
        };
        self.verdicts.insert(ip, verdict);
        verdict
    }

    /// Returns whether the event is asked for, and sets its depth to that among such events.
    fn selects(&mut self, cpu: u32, event: &mut Event) -> bool {
        let pids = &self.selection.pids;
        let is_of_task = pids.is_empty()
            || pids.contains(&event.task.pid())
            || pids.contains(&event.task.tgid());
        let number = self.entries;
        self.entries += u64::from(event.what == EventKind::Entry);
        if !is_of_task || matches!(event.what, EventKind::Marker | EventKind::RawMarker) {
            return is_of_task;
        }
        let verdict = self.verdict(event.ip);
        if event.what == EventKind::Function {
            return verdict.is_shown;
        }
        let selection = &self.selection;
        let outermost = SelectedCall {
            is_shown: false,
            is_known: false,
            in_root: selection.roots.is_empty(),
            depth: 0,
        };
        let open = self.tasks.entry(task_key(cpu, event)).or_default();
        let depth = usize::from(event.depth);
        open.truncate(depth + usize::from(event.what == EventKind::Return));
        let is_within = |depth: u16| selection.depth.is_none_or(|most| depth < most);
        while open.len() < depth {
            // A call whose entry was not recorded is there all the same; its return will tell its
            // function.
            let around = open.last().copied().unwrap_or(outermost);
            let below = around.below();
            open.push(SelectedCall {
                is_shown: around.in_root && selection.functions.is_empty() && is_within(below),
                is_known: false,
                depth: below,
                ..around
            });
        }
        if let (EventKind::Return, Some(call)) = (event.what, open.get(depth).copied()) {
            open.truncate(depth);
            event.depth = call.depth.min(u16::from(u8::MAX)) as u8;
            if call.is_known {
                return call.is_shown;
            }
            let is_long = selection
                .threshold
                .is_none_or(|least| event.duration >= least);
            let in_root = call.in_root || verdict.is_root;
            return in_root && verdict.is_shown && is_long && is_within(call.depth);
        }
        let around = open.last().copied().unwrap_or(outermost);
        let below = around.below();
        let in_root = around.in_root || verdict.is_root;
        let is_long = selection
            .threshold
            .is_none_or(|threshold| match event.what {
                EventKind::Entry => self.long.has(number),
                _ => event.duration >= threshold,
            });
        let call = SelectedCall {
            is_shown: in_root && verdict.is_shown && is_long && is_within(below),
            is_known: true,
            in_root,
            depth: below,
        };
        if event.what != EventKind::Return {
            open.push(call);
        }
        event.depth = below.min(u16::from(u8::MAX)) as u8;
        call.is_shown
    }
}

impl<E: Events> Events for Selected<E> {
    fn next(&mut self) -> Result<Option<Item>, Error> {
        if self.lost.is_empty() {
            self.lost_since = None;
        }
        while let Some(mut item) = self.events.next()? {
            let selects = self.selects(item.cpu, &mut item.event);
            let since = self.events.lost_since();
            if item.event.lost != 0 || since.is_some() || !self.lost.is_empty() {
                self.lose(&mut item, selects, since);
            }
            if selects {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    fn owned_extras(&self) -> &OwnedExtras {
        self.events.owned_extras()
    }

    fn lost_since(&self) -> Option<u64> {
        self.lost_since
    }
}
