// SPDX-License-Identifier: GPL-2.0

//! The parts of the kernel's insides that are relied on, and whether they are as they are known
//! here.

use kernel::sync::atomic::{Atomic, Relaxed};

use crate::sys::faults;

/// A part of the kernel that is private to it. docs/private.md has the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum PrivatePart {
    /// The text file of tracefs that lists functions. Without it the module is not loaded.
    Functions,
    /// The text file of symbols.
    Kallsyms,
    /// The frames that fgraph keeps of calls that are open.
    ShadowStacks,
    /// The numbers of fgraph's users.
    Numbers,
    /// The table of the idle tasks of CPUs.
    IdleTasks,
    /// The range of the kernel's own text.
    Text,
    /// The range of the code that interrupts come in by.
    IrqText,
    /// The kernel's function for programs' marks.
    Marker,
    /// The operations of directories in debugfs.
    Directories,
    /// The functions by which the machine begins to die.
    Deaths,
}

/// The parts that are not as known, by their numbers.
static NOT_AS_KNOWN: [Atomic<bool>; PrivatePart::ALL.len()] = [const { Atomic::new(false) }; _];

/// The parts that were not looked at yet, by their numbers.
static UNSEEN: [Atomic<bool>; PrivatePart::ALL.len()] = {
    let mut unseen = [const { Atomic::new(false) }; _];
    unseen[PrivatePart::ShadowStacks as usize] = Atomic::new(true);
    unseen
};

impl PrivatePart {
    const ALL: [Self; 10] = [
        Self::Functions,
        Self::Kallsyms,
        Self::ShadowStacks,
        Self::Numbers,
        Self::IdleTasks,
        Self::Text,
        Self::IrqText,
        Self::Marker,
        Self::Directories,
        Self::Deaths,
    ];

    /// Its name, and what there is not without it.
    const fn text(self) -> (&'static str, &'static str) {
        match self {
            Self::Functions => ("list of functions", "nothing to be traced"),
            Self::Kallsyms => ("list of symbols", "skipped matches are not counted"),
            Self::ShadowStacks => (
                "shadow stacks",
                "no graph_function, graph_notrace, tracing_thresh, tracing_errno, sleep-time 0, graph-time 0, profile-contexts, funcgraph-wait, profile-wait",
            ),
            Self::Numbers => ("fgraph's numbers", "the kernel may warn of function_graph"),
            Self::IdleTasks => ("idle tasks", "calls too deep may be more"),
            Self::Text => ("kernel's text", "fewer depths of calls are known"),
            Self::IrqText => ("interrupts' text", "interrupts are not marked as such"),
            Self::Marker => ("tracing_mark_write", "marks have no function"),
            Self::Directories => ("directories of debugfs", "no instances"),
            Self::Deaths => (
                "functions that oopses and panics begin with",
                "recording stops later then",
            ),
        }
    }

    const fn bit(self) -> u32 {
        1 << self as u32
    }

    /// The note on it among `parts`.
    const fn of(self, parts: &[Atomic<bool>; Self::ALL.len()]) -> &Atomic<bool> {
        &parts[self as usize]
    }

    /// Notes that it is not as known.
    pub(crate) fn is_not_as_known(self) {
        // Relaxed, here and below: nothing else is published by it.
        self.of(&NOT_AS_KNOWN).store(true, Relaxed);
        self.is_seen();
    }

    /// Notes that it was looked at.
    pub(crate) fn is_seen(self) {
        self.of(&UNSEEN).store(false, Relaxed);
    }

    /// Returns whether it is still to be looked at.
    pub(crate) fn is_unseen(self) -> bool {
        self.of(&UNSEEN).load(Relaxed)
    }

    /// Returns whether it is as known, as far as was seen.
    pub(crate) fn is_as_known(self) -> bool {
        !self.of(&NOT_AS_KNOWN).load(Relaxed) && faults::not_as_known() & self.bit() == 0
    }

    /// Takes `address` for that of this part; `None` if the part is not there, or not as known.
    pub(super) fn at(self, address: Option<u64>) -> Option<u64> {
        if address.is_none() {
            self.is_not_as_known();
        }
        address.filter(|_| self.is_as_known())
    }
}

/// Writes the parts that are not as known, and what there is not without them: `nothing` if there
/// are none.
///
/// # Errors
///
/// Those of writing to `text`.
pub(crate) fn write_unlike(text: &mut dyn core::fmt::Write) -> core::fmt::Result {
    let mut none = true;
    for part in PrivatePart::ALL {
        let (name, without) = part.text();
        let said = match (part.is_as_known(), part.is_unseen()) {
            (false, _) => without,
            (true, true) => "not looked at yet",
            (true, false) => continue,
        };
        let separator = if none { "" } else { ", " };
        write!(text, "{separator}{name} ({said})")?;
        none = false;
    }
    if none {
        text.write_str("nothing")?;
    }
    Ok(())
}
