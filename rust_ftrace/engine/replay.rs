// SPDX-License-Identifier: GPL-2.0

//! Call depth from entries alone: each task's stack is played back from the stack offsets.
//!
//! An entry at the same stack address as an earlier one, or above it, means that the earlier call
//! has returned: its return address lay where the new one is. What is left below are the callers.
//! Softirqs, hardirqs and NMIs are levels of their own, whose depth begins at 0 again.
//!
//! That alone is not enough where a kernel lets every system call begin at another, random height
//! (CONFIG_RANDOMIZE_KSTACK_OFFSET): the next one may lie deeper than what the last one left. So
//! all calls of a task have returned, too, when the [entry tag](super::context::Context::entry_tag) changes, or when
//! the outermost call's call site is met again.
//!
//! Only traced functions are known. Where a filter hides the functions between, a call that has
//! returned can still seem open until one of these signs comes.

use super::context::{is_deeper, Level};
use super::reader::Event;
use crate::shim::{AllocError, Vec};

/// An open call.
struct Frame {
    /// Where its return address lies.
    offset: u16,
    /// See [`Context::entry_tag`](super::context::Context::entry_tag).
    entry_tag: u8,
    parent_ip: u64,
}

/// The open calls of one stack, outermost first.
struct Frames(Vec<Frame>);

impl Frames {
    const fn new() -> Self {
        Self(Vec::new())
    }

    /// Enters the call of `event`; its depth, 0 for the outermost.
    fn enter(&mut self, event: &Event) -> Result<usize, AllocError> {
        let frame = Frame {
            offset: event.context.stack_offset(),
            entry_tag: event.context.entry_tag(),
            parent_ip: event.parent_ip,
        };
        let begins_anew = self.0.first().is_some_and(|outermost| {
            outermost.entry_tag != frame.entry_tag || outermost.parent_ip == frame.parent_ip
        });
        if begins_anew {
            self.0.clear();
        }
        let returned = |open: &Frame| !is_deeper(frame.offset, open.offset);
        while self.0.last().is_some_and(returned) {
            self.0.pop();
        }
        let depth = self.0.len();
        self.0.push(frame)?;
        Ok(depth)
    }
}

struct TaskFrames {
    key: u64,
    frames: Frames,
}

struct CpuFrames {
    cpu: u32,
    /// Softirq, hardirq, NMI.
    levels: [Frames; 3],
}

/// The stacks of all tasks and CPUs, as far as the events tell.
pub(crate) struct Replay {
    tasks: Vec<TaskFrames>,
    cpus: Vec<CpuFrames>,
}

impl Replay {
    /// Nothing is known.
    pub(crate) const fn new() -> Self {
        Self {
            tasks: Vec::new(),
            cpus: Vec::new(),
        }
    }

    /// Plays `event` of `cpu` and returns its depth on its own level, 0 for the outermost.
    ///
    /// Events must come in the order of time.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory for another frame.
    pub(crate) fn enter(&mut self, cpu: u32, event: &Event) -> Result<usize, AllocError> {
        let level = event.context.level();
        let levels = self.levels(cpu)?;
        // What ran above this level has ended.
        for frames in levels.iter_mut().skip(level as usize) {
            frames.0.clear();
        }
        match (level as usize)
            .checked_sub(1)
            .and_then(|index| levels.get_mut(index))
        {
            Some(frames) => frames.enter(event),
            None => self.task(cpu, event.task.pid())?.enter(event),
        }
    }

    fn levels(&mut self, cpu: u32) -> Result<&mut [Frames; 3], AllocError> {
        let index = match self.cpus.binary_search_by_key(&cpu, |cpu| cpu.cpu) {
            Ok(index) => index,
            Err(index) => {
                let levels = [Frames::new(), Frames::new(), Frames::new()];
                self.cpus.insert(index, CpuFrames { cpu, levels })?;
                index
            }
        };
        self.cpus
            .get_mut(index)
            .map(|cpu| &mut cpu.levels)
            .ok_or(AllocError)
    }

    fn task(&mut self, cpu: u32, pid: i32) -> Result<&mut Frames, AllocError> {
        // Every CPU has an idle task of its own, all with pid 0.
        let key = match pid {
            0 => (1 << 32) | u64::from(cpu),
            pid => u64::from(pid as u32),
        };
        let index = match self.tasks.binary_search_by_key(&key, |task| task.key) {
            Ok(index) => index,
            Err(index) => {
                let frames = Frames::new();
                self.tasks.insert(index, TaskFrames { key, frames })?;
                index
            }
        };
        self.tasks
            .get_mut(index)
            .map(|task| &mut task.frames)
            .ok_or(AllocError)
    }
}

// `skip(level)` above leaves out exactly the levels up to the event's own.
const _: () = assert!(Level::Task as usize == 0 && Level::Nmi as usize == 3);
