// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Waiting: of the time for which a task did not run in a call, the part in which it could have
//! run, and the task that woke it.
//!
//! A call whose waits are recorded has a [`Wait`] in a word of its own; see
//! [`shadow`](super::shadow).

use core::fmt::{self, Write};

use super::slot::{SlotKind, SlotWords, Task};
use super::text::Text;
use crate::platform::{AllocError, Vec};

/// Bits of the time in run queues.
const QUEUED_BITS: u32 = 40;
const MAX_QUEUED: u64 = (1 << QUEUED_BITS) - 1;
/// Bits of an ID; the kernel's `PID_MAX_LIMIT` is 2^22.
const PID_BITS: u32 = 22;
const PID_MASK: u64 = (1 << PID_BITS) - 1;
const WAKER_MASK: u64 = (1 << (PID_BITS + 2)) - 1;
/// Bits of a time in a slot, in ticks.
const SLEPT_BITS: u32 = 48;
const MAX_SLEPT: u64 = (1 << SLEPT_BITS) - 1;

/// The kinds of code that wake tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WakeContext {
    /// The waker itself.
    Task = 0,
    /// A softirq that ran on top of it.
    Softirq = 1,
    /// A hardware interrupt that ran on top of it.
    Hardirq = 2,
    /// An NMI that ran on top of it.
    Nmi = 3,
}

/// Something that woke a task: bits 0-21 are the ID of the task that ran, and bits 22-23 a
/// [`WakeContext`]. 0 stands for nothing that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waker(pub u32);

impl Waker {
    /// Returns the task with this ID in a context.
    pub const fn new(pid: u32, context: WakeContext) -> Self {
        Self((pid & PID_MASK as u32) | ((context as u32) << PID_BITS))
    }

    /// Returns what the lowest 24 bits of a word stand for.
    pub const fn of_word(word: u64) -> Self {
        Self((word & WAKER_MASK) as u32)
    }

    /// Returns whether it is known.
    pub const fn is_known(self) -> bool {
        self.0 != 0
    }

    /// Returns the ID of the task that ran.
    pub const fn pid(self) -> u32 {
        self.0 & PID_MASK as u32
    }

    /// Returns the context.
    pub const fn context(self) -> WakeContext {
        match self.0 >> PID_BITS {
            0 => WakeContext::Task,
            1 => WakeContext::Softirq,
            2 => WakeContext::Hardirq,
            _ => WakeContext::Nmi,
        }
    }
}

/// The word with the waits of a call: bits 0-39 are the time in ns for which the task could have
/// run, and did not (less than 18 minutes), and bits 40-63 are the last [`Waker`].
///
/// While the task does not run, the time of all its life is taken away from it, modulo 2^40: it is
/// added as the task goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait(pub u64);

impl Wait {
    /// Returns one wait of so many ns in a run queue.
    pub const fn new(queued: u64, waker: Waker) -> Self {
        let queued = if queued < MAX_QUEUED {
            queued
        } else {
            MAX_QUEUED
        };
        Self(queued | ((waker.0 as u64) << QUEUED_BITS))
    }

    /// Returns the time in run queues, in ns.
    pub const fn queued(self) -> u64 {
        self.0 & MAX_QUEUED
    }

    /// Returns the last waker.
    pub const fn waker(self) -> Waker {
        Waker((self.0 >> QUEUED_BITS) as u32)
    }

    /// Returns the word of a call whose task stops running when it has been in run queues for
    /// `life` ns in its life.
    pub const fn stopped(self, life: u64) -> Self {
        let queued = self.queued().wrapping_sub(life) & MAX_QUEUED;
        Self(self.0 & !MAX_QUEUED | queued)
    }

    /// Returns the word of a call whose task goes on when it has been in run queues for `life` ns
    /// in its life, as `waker` has woken it.
    pub const fn gone_on(self, life: u64, waker: Waker) -> Self {
        let queued = self.queued().wrapping_add(life) & MAX_QUEUED;
        let waker = if waker.is_known() {
            waker
        } else {
            self.waker()
        };
        Self::new(queued, waker)
    }

    /// Returns the waits of both, of which `later` came later.
    pub const fn and(self, later: Self) -> Self {
        let waker = match later.waker().is_known() {
            true => later.waker(),
            false => self.waker(),
        };
        Self::new(self.queued().saturating_add(later.queued()), waker)
    }
}

/// The waits in a call, as its return has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waited {
    /// The time for which the task did not run, in ticks of the clock.
    pub slept: u64,
    /// The part of it in run queues, and the last waker.
    pub wait: Wait,
}

impl SlotWords {
    /// The slot with the waits in the call that follows. Word 0: bits 32-47 of the time for which
    /// the task did not run in bits 0-15, bits 32-39 of that in run queues in bits 16-23, the lower
    /// half of the first in bits 32-63; word 1: the waker in bits 0-23, the lower half of the time
    /// in run queues in bits 32-63.
    pub const fn waited_slot(waited: Waited) -> Self {
        let slept = if waited.slept < MAX_SLEPT {
            waited.slept
        } else {
            MAX_SLEPT
        };
        let queued = waited.wait.queued();
        Self::other(
            SlotKind::Waited,
            (slept >> 32) | ((queued >> 32) << 16),
            slept as u32,
            waited.wait.waker().0 as u64 & WAKER_MASK,
            queued as u32,
        )
    }

    /// Reads the waits that a slot has.
    pub const fn waited(self) -> Waited {
        let high = self.0 & 0xff_ffff;
        let slept = ((high & 0xffff) << 32) | self.high0() as u64;
        let queued = ((high >> 16) << 32) | self.high1() as u64;
        let waker = Waker::of_word(self.small());
        let wait = Wait::new(queued, waker);
        Waited { slept, wait }
    }
}

/// The number of tasks whose names are kept.
const NAMES: usize = 1024;

/// The names of tasks that events were of, by which wakers are called.
pub struct WakerNames(Vec<Task>);

impl WakerNames {
    /// Makes a list of none.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Notes the name of a task. Of two that have the same place the last is known.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn note(&mut self, task: &Task) -> Result<(), AllocError> {
        if self.0.is_empty() {
            self.0.resize(NAMES, Task::default())?;
        }
        if let Some(place) = self.0.get_mut(task.pid() as usize % NAMES) {
            *place = *task;
        }
        Ok(())
    }

    fn of(&self, pid: u32) -> Option<&Task> {
        let task = self.0.get(pid as usize % NAMES)?;
        (task.pid() as u32 == pid).then_some(task)
    }
}

/// Appends the waits in a call, of whose time `slept` ns were not run: how long the task was asleep
/// and in run queues, and what woke it last. A time that is not known is left out.
///
/// # Errors
///
/// [`fmt::Error`] if there is no memory.
pub fn write(text: &mut Text, slept: Option<u64>, wait: Wait, names: &WakerNames) -> fmt::Result {
    let queued = wait.queued();
    if let Some(slept) = slept {
        let asleep = slept.saturating_sub(queued);
        write!(text, " asleep {}.{:03} us,", asleep / 1000, asleep % 1000)?;
    }
    write!(text, " queued {}.{:03} us", queued / 1000, queued % 1000)?;
    let waker = wait.waker();
    if !waker.is_known() {
        return Ok(());
    }
    text.write_str(", woken by ")?;
    match waker.context() {
        WakeContext::Task => {
            if let Some(task) = names.of(waker.pid()) {
                let mut bytes = [0; 16];
                for chunk in task.name(&mut bytes).utf8_chunks() {
                    text.write_str(chunk.valid())?;
                    for _ in chunk.invalid() {
                        text.write_char('?')?;
                    }
                }
                text.write_char('-')?;
            }
            write!(text, "{}", waker.pid())
        }
        WakeContext::Softirq => text.write_str("[softirq]"),
        WakeContext::Hardirq => text.write_str("[hardirq]"),
        WakeContext::Nmi => text.write_str("[nmi]"),
    }
}
