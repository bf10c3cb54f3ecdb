// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Call depth from entries alone: each task's stacks are played back. docs/depth.md tells what
//! follows for certain and what is a guess.
//!
//! An entry tells where its return address lies on the stack and what that is. Where the return
//! address is in a function whose own call is open, that is the caller, and what lies deeper has
//! returned. Otherwise the caller is not traced, and calls whose return addresses lay where the new
//! one is, or deeper, have returned.
//!
//! Interrupts, softirqs and NMIs have stacks of their own, and their depth begins at 0 again: they
//! are no calls of what they interrupt. What is *called* on another stack goes on below its caller.

use super::call_sites::{CallSites, CodeRole, FunctionCode};
use super::context::{ContextWord, Level, IRQS_ON, SOFTIRQ, STACK_BITS};
use super::decode::Event;
use super::frames::{Caller, Frame, Frames};
use crate::platform::{AllocError, Vec};

/// Most tasks that are remembered. Beyond that, the task that was seen longest ago is forgotten; if
/// it comes back, it begins anew.
pub const MAX_TASKS: usize = 1024;

/// The stacks that a task's entries may be on, each on top of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
enum StackLevel {
    Task,
    /// The begin and the end of an interrupt of the task, which the kernel counts as the task.
    TaskEdge,
    Softirq,
    SoftirqEdge,
    Hardirq,
    Nmi,
}

const STACKS: usize = StackLevel::Nmi as usize + 1;

/// The stack that an entry is on, and its caller there.
struct StackPosition {
    stack: StackLevel,
    caller: Caller,
}

/// The open calls of a task, and those of interrupts in it.
struct TaskFrames {
    stacks: [Frames; STACKS],
    /// The CPU that it ran on last.
    cpu: u32,
    /// The part of the window that its own stack is in, if it is known.
    slot: Option<u16>,
    /// [`Replay::gaps`] when it was last seen.
    gaps: u64,
    /// [`Replay::events`] when it was last seen.
    seen: u64,
    /// Time of its first event on its own stack.
    first: Option<u64>,
}

impl TaskFrames {
    const fn new(cpu: u32) -> Self {
        Self {
            stacks: [
                Frames::new(true),
                Frames::new(false),
                Frames::new(false),
                Frames::new(false),
                Frames::new(false),
                Frames::new(false),
            ],
            cpu,
            slot: None,
            gaps: 0,
            seen: 0,
            first: None,
        }
    }

    /// Forgets the calls on stack `first` and on those on top of it.
    fn clear_from(&mut self, first: usize) {
        for frames in self.stacks.iter_mut().skip(first) {
            frames.clear();
        }
    }

    fn forget(&mut self) {
        self.clear_from(0);
        self.first = None;
        self.slot = None;
    }

    fn frames(&mut self, stack: StackLevel) -> Option<&mut Frames> {
        self.stacks.get_mut(stack as usize)
    }

    fn find_above(
        &self,
        stack: StackLevel,
        caller: &FunctionCode,
        context: ContextWord,
    ) -> Option<(usize, u16)> {
        let frames = self.stacks.get(stack as usize)?;
        frames.find_above(caller.start, context.stack_offset())
    }

    fn is_empty(&self, stack: StackLevel) -> bool {
        self.stacks.get(stack as usize).is_none_or(Frames::is_empty)
    }

    fn find(&self, stack: StackLevel, caller: &FunctionCode) -> Option<usize> {
        self.stacks.get(stack as usize)?.find(caller.start)
    }

    /// Returns the stack that an entry is on, and its caller there.
    fn place(
        &self,
        event: &Event,
        caller: &FunctionCode,
        callee: CodeRole,
        slot: u16,
        sites: &mut impl CallSites,
    ) -> StackPosition {
        if callee == CodeRole::InterruptEdge {
            // This is so whether the kernel counts them as parts of the interrupt or not.
            return StackPosition {
                stack: match event.context.has(SOFTIRQ) {
                    true => StackLevel::SoftirqEdge,
                    false => StackLevel::TaskEdge,
                },
                caller: Caller::Nothing,
            };
        }
        let level = event.context.level();
        let (own, edge) = match level {
            Level::Task => (StackLevel::Task, Some(StackLevel::TaskEdge)),
            Level::Softirq => (StackLevel::Softirq, Some(StackLevel::SoftirqEdge)),
            Level::Hardirq => (StackLevel::Hardirq, None),
            Level::Nmi => (StackLevel::Nmi, None),
        };
        let on_own = self.find_above(own, caller, event.context);
        // Interrupts are off then, and stacks are switched only then.
        if let Some(edge) = edge.filter(|_| !event.context.has(IRQS_ON)) {
            let is_foreign = level == Level::Task && self.slot.is_some_and(|own| own != slot);
            if let Some(caller) = self.caller_on_edge(edge, event, caller, |distance| {
                // Of two calls that could be the caller, it is the nearer one.
                is_foreign || on_own.is_none_or(|(_, own)| distance < own)
            }) {
                return StackPosition {
                    stack: edge,
                    caller,
                };
            }
            let by_next = level == Level::Task && caller.role == CodeRole::TaskSwitch;
            let found = match by_next {
                true => {
                    (self.stacks.get(own as usize)).and_then(|frames| frames.find_scheduling(sites))
                }
                false => self.find(own, caller),
            };
            match found {
                Some(index) if by_next || is_foreign || on_own.is_none() => {
                    return StackPosition {
                        stack: own,
                        caller: Caller::Elsewhere(index),
                    };
                }
                None if is_foreign => {
                    return StackPosition {
                        stack: edge,
                        caller: Caller::Hidden,
                    };
                }
                _ => {}
            }
        }
        StackPosition {
            stack: own,
            caller: match (on_own, caller.role, level) {
                (Some((index, _)), _, _) => Caller::Open(index),
                (None, CodeRole::TaskEntry, Level::Task) => Caller::Nothing,
                (None, CodeRole::InterruptEntry, Level::Hardirq | Level::Nmi) => Caller::Nothing,
                _ => Caller::Hidden,
            },
        }
    }

    /// Returns the caller of an entry at the edge of an interrupt, if it is one. An open call is
    /// its caller only if it `is_near`.
    fn caller_on_edge(
        &self,
        edge: StackLevel,
        event: &Event,
        caller: &FunctionCode,
        is_near: impl Fn(u16) -> bool,
    ) -> Option<Caller> {
        let found = self.find_above(edge, caller, event.context);
        match found.filter(|(_, distance)| is_near(*distance)) {
            Some((index, _)) => Some(Caller::Open(index)),
            None if caller.role != CodeRole::InterruptEdge => None,
            // The open calls are of an interrupt before this one.
            None if !self.is_empty(StackLevel::Hardirq) => Some(Caller::Nothing),
            None => Some(Caller::Hidden),
        }
    }

    /// Returns the depth of `call` on `stack`, if its caller is on a stack below that.
    fn depth_below(
        &self,
        stack: StackLevel,
        call: &Frame,
        sites: &mut impl CallSites,
    ) -> Option<usize> {
        let below = self.stacks.get(..stack as usize)?;
        let frames = below.iter().rev().find(|frames| !frames.is_empty())?;
        match frames.find(call.caller) {
            Some(index) => Some(frames.depth(index).wrapping_add(1)),
            None => frames.depth_after_jump(call, sites),
        }
    }
}

/// The place of an entry, as the replay has found it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entered {
    /// Its depth, 0 for the outermost.
    pub depth: usize,
    /// The begin of the function that called it, if the entry of that should be there and is not;
    /// else 0. Set for the first known entry of a task.
    pub missing: u64,
}

/// The stacks of all tasks, as far as the events tell.
pub struct Replay {
    /// All tasks, in no order.
    tasks: Vec<TaskFrames>,
    /// The index of each task by its key, in the order of keys.
    keys: Vec<(u64, usize)>,
    /// Bits to shift offsets by to tell stacks apart: one stack lies within one such part of the
    /// window.
    slot_shift: u32,
    /// Number of events so far.
    events: u64,
    /// Number of times that events are missing.
    gaps: u64,
    /// CPUs whose events are missing, each with the number of its last gap.
    gaps_of_cpus: Vec<(u32, u64)>,
}

impl Replay {
    /// Makes an empty replay. A task's stack has `stack_bytes`, a power of two, and is aligned to
    /// that.
    pub const fn new(stack_bytes: u32) -> Self {
        Self {
            tasks: Vec::new(),
            keys: Vec::new(),
            // Offsets are in units of 8 bytes.
            slot_shift: (stack_bytes / 8).trailing_zeros(),
            events: 0,
            gaps: 0,
            gaps_of_cpus: Vec::new(),
        }
    }

    /// Notes that events of `cpu` are missing between those that came and those to come.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn skip(&mut self, cpu: u32) -> Result<(), AllocError> {
        self.gaps = self.gaps.wrapping_add(1);
        let found = self.gaps_of_cpus.iter_mut().find(|known| known.0 == cpu);
        match found {
            Some(known) => known.1 = self.gaps,
            None => self.gaps_of_cpus.push((cpu, self.gaps))?,
        }
        Ok(())
    }

    /// The last gap of `cpu`.
    fn gap_of(&self, cpu: u32) -> u64 {
        let mut all = self.gaps_of_cpus.iter();
        all.find(|known| known.0 == cpu).map_or(0, |known| known.1)
    }

    /// Plays `event` of `cpu`. The same event may come twice in a row.
    ///
    /// Events must come in the order of time.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory for another frame.
    pub fn enter(
        &mut self,
        cpu: u32,
        event: &Event,
        sites: &mut impl CallSites,
    ) -> Result<Entered, AllocError> {
        // A call that does not return is followed by other code: only the last byte of the call is
        // sure to be in the caller.
        let mut caller = sites.code(event.parent_ip.wrapping_sub(1));
        let behind = sites.code(event.parent_ip);
        if behind.role == CodeRole::ReturnHook {
            caller = behind;
        }
        let callee = match event.context.has(IRQS_ON) {
            true => CodeRole::Plain,
            false => sites.code(event.ip).role,
        };
        let slot = event.context.stack_offset() >> self.slot_shift;
        let gaps = self.gaps;
        let gap = self.gap_of(cpu);
        let index = self.task(cpu, event.task.pid())?;
        let gap_before = self
            .tasks
            .get(index)
            .map_or(0, |task| self.gap_of(task.cpu));
        let task = self.tasks.get_mut(index).ok_or(AllocError)?;
        if gap.max(gap_before) > task.gaps {
            task.forget();
        }
        task.gaps = gaps;
        if task.cpu != cpu {
            // The task was not in an interrupt when it left.
            task.cpu = cpu;
            task.clear_from(StackLevel::TaskEdge as usize);
        }
        if event.context.level() == Level::Task && event.context.has(IRQS_ON) {
            if task.slot.is_some_and(|known| known != slot) {
                // This is another task with the same pid.
                task.forget();
            }
            task.slot = Some(slot);
        }

        let mut place = task.place(event, &caller, callee, slot, sites);
        task.clear_from(place.stack as usize + 1);
        let call = Frame::new(event, &caller);
        let mut base = 0;
        if place.stack != StackLevel::Task
            && !matches!(place.caller, Caller::Open(_) | Caller::Elsewhere(_))
        {
            if let Some(depth) = task.depth_below(place.stack, &call, sites) {
                base = depth;
                place.caller = Caller::Nothing;
            }
        }
        let frames = task.frames(place.stack).ok_or(AllocError)?;
        let depth = frames.enter(call, place.caller, base, sites)?;

        let mut missing = 0;
        if place.stack == StackLevel::Task && task.first.is_none_or(|first| first == event.time) {
            task.first = Some(event.time);
            if caller.start != 0 && sites.is_traced(caller.start) {
                missing = caller.start;
            }
        }
        Ok(Entered { depth, missing })
    }

    /// Returns the index of a task, which is made if it is not there.
    fn task(&mut self, cpu: u32, pid: i32) -> Result<usize, AllocError> {
        // Every CPU has an idle task of its own, all with pid 0.
        let key = match pid {
            0 => (1 << 32) | u64::from(cpu),
            pid => u64::from(pid as u32),
        };
        self.events = self.events.wrapping_add(1);
        let index = match self.keys.binary_search_by_key(&key, |known| known.0) {
            Ok(at) => self.keys.get(at).ok_or(AllocError)?.1,
            Err(_) => self.add(key, cpu)?,
        };
        if let Some(task) = self.tasks.get_mut(index) {
            task.seen = self.events;
        }
        Ok(index)
    }

    fn add(&mut self, key: u64, cpu: u32) -> Result<usize, AllocError> {
        let index = match self.tasks.len() {
            MAX_TASKS.. => {
                let oldest = self
                    .tasks
                    .iter()
                    .enumerate()
                    .min_by_key(|(_, task)| task.seen);
                let index = oldest.ok_or(AllocError)?.0;
                self.keys.retain(|known| known.1 != index);
                index
            }
            length => {
                self.tasks.push(TaskFrames::new(cpu))?;
                length
            }
        };
        let task = self.tasks.get_mut(index).ok_or(AllocError)?;
        task.forget();
        task.cpu = cpu;
        // Gaps before the task came do not concern it.
        task.gaps = self.gaps;
        let at = self.keys.partition_point(|known| known.0 < key);
        self.keys.insert(at, (key, index))?;
        Ok(index)
    }
}

// Offsets are differences of the window's width.
const _: () = assert!(STACK_BITS <= 16);
