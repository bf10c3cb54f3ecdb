// SPDX-License-Identifier: GPL-2.0

//! Call depth from entries alone: each task's stack is played back from the stack offsets.
//!
//! An entry at the same stack address as an earlier one, or above it, means that the earlier call
//! has returned: its return address lay where the new one is. What is left below are the callers.
//! Softirqs, hardirqs and NMIs are levels of their own, whose depth begins at 0 again.
//!
//! Only traced functions are known. Where a filter hides the functions between, a call that has
//! returned can still seem open until an entry at its height or above comes.

use super::context::{is_deeper, Level};
use super::reader::Event;
use crate::shim::{AllocError, Vec};

/// The open calls of one stack, outermost first, by their stack offsets.
struct Frames(Vec<u16>);

impl Frames {
    const fn new() -> Self {
        Self(Vec::new())
    }

    /// Enters a call at `offset`; its depth, 0 for the outermost.
    fn enter(&mut self, offset: u16) -> Result<usize, AllocError> {
        while self.0.last().is_some_and(|&open| !is_deeper(offset, open)) {
            self.0.pop();
        }
        let depth = self.0.len();
        self.0.push(offset)?;
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
        let offset = event.context.stack_offset();
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
            Some(frames) => frames.enter(offset),
            None => self.task(cpu, event.task.pid())?.enter(offset),
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
