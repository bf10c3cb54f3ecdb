// SPDX-License-Identifier: GPL-2.0

//! The hook flags of a recorder: one word that hooks look at first, and that is 0 mostly.

use crate::platform::Word;

/// The reasons for the hook not to take its shortest way. Bits of [`HookFlags`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum HookFlag {
    /// Recording is switched off.
    Off = 1 << 0,
    /// Stamps come from another clock than the time stamp counter.
    Clock = 1 << 1,
    /// Only the tasks in a list are traced.
    Pids = 1 << 2,
    /// Nothing is recorded for a moment, while something is changed.
    Pause = 1 << 3,
    /// A reader waits for the next event.
    Wake = 1 << 4,
    /// Calls are recorded with more than the usual, or some of them are not.
    Graph = 1 << 5,
    /// Entries, or some of them, are recorded with extras.
    Extras = 1 << 6,
    /// The tasks in another list are not traced.
    NotPids = 1 << 7,
    /// Not all CPUs are traced.
    Cpus = 1 << 8,
    /// Nothing is recorded until a snapshot is taken that a command has asked for.
    Snapshot = 1 << 9,
}

/// The hook flags that are set, which all CPUs read, and which are written rarely.
pub(crate) struct HookFlags(Word);

impl HookFlags {
    /// Creates a word with these flags.
    pub(super) const fn new(bits: u64) -> Self {
        Self(Word::new(bits))
    }

    /// Sets or clears a flag; false if it was so already. Hooks that are running may go on as
    /// before, until every CPU has left the code that it runs with preemption off.
    pub(super) fn change(&self, bit: HookFlag, set: bool) -> bool {
        // Full: a reader that sets `Wake` looks at the ring after that.
        let before = self.0.change_bits(bit as u64, set);
        (before & bit as u64 != 0) != set
    }

    /// Returns whether a flag is set.
    pub(super) fn has(&self, bit: HookFlag) -> bool {
        self.0.load_relaxed() & bit as u64 != 0
    }

    /// Returns all flags, by a load that the compiler may make part of a comparison.
    #[inline(always)]
    pub(super) fn load(&self) -> u64 {
        self.0.load_relaxed()
    }
}
