// SPDX-License-Identifier: GPL-2.0

//! Extras of entries, recorded when they are asked for: arguments, and stacks of all functions or
//! of some.
//!
//! Unwinding ends in functions that are traced themselves. While a stack is unwound, entries of the
//! same context are left out, and counted. Each context of a CPU has room for a stack of its own;
//! the hints that tell where stacks are in the ring are shared, and may be wrong (see
//! [`engine::extras`](crate::engine::extras)).

use core::ops::Range;

use kernel::alloc::AllocError;
use kernel::prelude::*;

use super::flags::{impl_flag, FlagSet, SharedFlags};
use super::probes::{Lookup, ProbesPointer};
use super::recursion::{Recursion, Within};
use crate::engine::extras::{StackRoom, StackSlots};
use crate::engine::ring::Call;
use crate::platform::{AtomicPtr, Ordering, Table, Word};
use crate::sys::context::PreemptOff;
use crate::sys::ftrace::Registers;
use crate::sys::percpu::PerCpu;
use crate::sys::{cpu, unwind};

/// The number of contexts that can be unwinding at the same time: task, softirq, interrupt, NMI.
const LEVELS: usize = 4;
/// The number of hints of a CPU, a power of two.
const HINTS: usize = 256;

/// Extras that all entries get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum EntryExtra {
    /// The stack.
    Stack = 1 << 0,
    /// The arguments.
    Args = 1 << 1,
}

impl_flag!(EntryExtra);

/// Extras that one entry gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The stack.
    pub(crate) stack: bool,
    /// The arguments.
    pub(crate) args: bool,
}

/// The room that a CPU needs for stacks.
struct StackMemory {
    rooms: Table<StackRoom, LEVELS>,
    hints: Table<Word, HINTS>,
}

impl StackMemory {
    fn new() -> Result<Self, AllocError> {
        Ok(Self {
            rooms: Table::new(StackRoom::new)?,
            hints: Table::new(|| Word::new(0))?,
        })
    }
}

/// The memory of a CPU for stacks, and the contexts that use it.
///
/// # Invariants
///
/// `memory` is null, or came from a box that `self` owns, and does not change any more.
#[repr(align(64))]
struct CpuStacks {
    /// Contexts that are unwinding, and the count of entries left out because unwinding made them.
    unwinding: Recursion,
    memory: AtomicPtr<StackMemory>,
}

impl CpuStacks {
    fn memory(&self) -> Option<&StackMemory> {
        // SAFETY: By the type's invariants the pointer is null, or came from a box, which was
        // filled before it was stored, and lives as long as `self`.
        unsafe { self.memory.load(Ordering::Acquire).as_ref() }
    }
}

impl Drop for CpuStacks {
    fn drop(&mut self) {
        let memory = *self.memory.get_mut();
        if !memory.is_null() {
            // SAFETY: By the type's invariants the pointer came from a box, as it is not null. It
            // goes only here, and references to it do not outlive `self`.
            drop(unsafe { KBox::from_raw(memory) });
        }
    }
}

/// The settings of the extras of entries, and the memory that these need.
pub(crate) struct EntryExtras {
    all: SharedFlags<EntryExtra>,
    /// The functions whose stacks are wanted.
    probes: ProbesPointer,
    /// The begin and the end of the kernel's own text.
    text: [Word; 2],
    cpus: PerCpu<CpuStacks>,
}

impl EntryExtras {
    /// Creates settings by which no entry has extras.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub(crate) fn new() -> Result<Self, AllocError> {
        Ok(Self {
            all: SharedFlags::new(FlagSet::NONE),
            probes: ProbesPointer::none(),
            text: [const { Word::new(0) }; 2],
            // INVARIANT: Null.
            cpus: PerCpu::new(|_| CpuStacks {
                unwinding: Recursion::new(),
                memory: AtomicPtr::new(core::ptr::null_mut()),
            })?,
        })
    }

    /// Makes room for stacks, if that was not done; the kernel's own text lies at `text`. Callers
    /// exclude each other.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub(crate) fn make_room(&self, text: Range<u64>) -> Result<(), AllocError> {
        let [start, end] = &self.text;
        start.store_relaxed(text.start);
        end.store_relaxed(text.end);
        for cpu in cpu::possible() {
            let cpu = self.cpus.get(cpu);
            if cpu.memory().is_none() {
                let memory = KBox::new(StackMemory::new()?, GFP_KERNEL)?;
                // INVARIANT: A box, and no other caller stores one.
                cpu.memory.store(KBox::into_raw(memory), Ordering::Release);
            }
        }
        Ok(())
    }

    /// Sets whether all entries get `what` from now on. For stacks there must be
    /// [room](Self::make_room).
    pub(crate) fn set(&self, what: EntryExtra, on: bool) {
        // No order is needed: a hook that sees the bit and not yet the room takes no stack.
        self.all.change(what, on);
    }

    /// Returns whether any entry gets extras.
    pub(crate) fn is_any(&self) -> bool {
        !self.all.load().is_empty() || !self.probes.is_none()
    }

    /// Returns the functions whose stacks are wanted.
    pub(crate) fn probes(&self) -> &ProbesPointer {
        &self.probes
    }

    /// Returns the extras that an entry of `ip` gets; `None` if the entry itself is not wanted.
    pub(crate) fn wanted(&self, token: PreemptOff<'_>, ip: u64) -> Option<Wanted> {
        let all = self.all.load();
        let probed = match self.probes.hit(token, ip) {
            Lookup::None => false,
            Lookup::Hit => true,
            Lookup::Over => return None,
        };
        Some(Wanted {
            stack: probed || all.has(EntryExtra::Stack),
            args: all.has(EntryExtra::Args),
        })
    }

    /// Returns the number of entries that were left out because unwinding made them.
    pub(crate) fn left_out(&self) -> u64 {
        self.cpus.sum(|cpu| cpu.unwinding.count())
    }

    /// Returns whether this context is unwinding; if so, counts the entry that is to be left out.
    pub(crate) fn is_busy(&self, token: PreemptOff<'_>) -> bool {
        self.cpus.this(token).unwinding.is_within(token)
    }

    /// Begins to unwind, in a context that [does not do so](Self::is_busy); `None` if there is no
    /// room.
    pub(crate) fn begin<'a>(&'a self, token: PreemptOff<'a>) -> Option<Unwinding<'a>> {
        let cpu = self.cpus.this(token);
        let level = token.context_level();
        let memory = cpu.memory()?;
        let room = memory.rooms.get(level.trailing_zeros() as usize)?;
        let [start, end] = &self.text;
        Some(Unwinding {
            room,
            hints: &memory.hints,
            text: start.load_relaxed()..end.load_relaxed(),
            token,
            _within: cpu.unwinding.enter(token),
        })
    }
}

/// Unwinds a stack. While it lives, nothing else does so in this context of this CPU.
pub(crate) struct Unwinding<'a> {
    room: &'a StackRoom,
    hints: &'a Table<Word, HINTS>,
    text: Range<u64>,
    token: PreemptOff<'a>,
    _within: Within<'a>,
}

impl Unwinding<'_> {
    /// Returns the stack behind the caller of `call`, and corrects its `parent_ip`.
    pub(crate) fn stack(
        &self,
        call: &mut Call,
        registers: Registers<'_>,
    ) -> Option<StackSlots<'_>> {
        let mut stack = self.room.begin();
        let mut is_first = true;
        let _ = unwind::walk(self.token, registers, self.text.clone(), |address| {
            let parent = core::mem::take(&mut is_first)
                && (unwind::FIRST_IS_PARENT || address == call.parent_ip);
            if parent {
                call.parent_ip = address;
                return true;
            }
            stack.push(address)
        });
        let (slots, hash) = stack.end();
        let hint = self.hints.get(hash as usize & (HINTS - 1))?;
        Some(StackSlots::new(slots, hint))
    }
}
