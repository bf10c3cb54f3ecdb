// SPDX-License-Identifier: GPL-2.0

//! The hook flags of a recorder: one word that hooks look at first, and that is 0 mostly.

use super::flags::{impl_flag, SharedFlags};

/// The reasons for the hook not to take its shortest way.
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

impl_flag!(HookFlag);

/// The hook flags that are set. Where one is changed, hooks that are running may go on as before,
/// until every CPU has left the code that it runs with preemption off.
///
/// A change is fully ordered: a reader that sets [`HookFlag::Wake`] looks at the ring after that.
pub(crate) type HookFlags = SharedFlags<HookFlag>;
