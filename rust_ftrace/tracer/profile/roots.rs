// SPDX-License-Identifier: GPL-2.0

//! Profile, hook side: the roots of the tree of contexts, and by what those are known whose callers
//! were not seen.

use core::ops::Range;

use kernel::alloc::AllocError;

use crate::engine::profile::contexts::CallContext;
use crate::engine::profile::extents::Extents;
use crate::platform::{AtomicPtr, AtomicU64, Ordering, Word};
use crate::sys::context::PreemptOff;
use crate::sys::percpu::PerCpu;
use crate::tracer::flags::{impl_flag, FlagSet, SharedFlags};
use crate::tracer::recursion::Recursion;

/// The functions that are counted, none.
static NO_EXTENTS: Extents = Extents::new();

/// Something that is known of all roots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum RootFlag {
    /// All that is counted is hooked, and every CPU has left what it ran with preemption off since.
    /// So all interrupts began after that, and tasks that are known to be clean are.
    Settled = 1 << 0,
    /// The roots of tasks are told apart by their names.
    ByTask = 1 << 1,
}

impl_flag!(RootFlag);

/// The roots of the tree: the calls around which none is open that was seen.
///
/// # Invariants
///
/// `extents` leads to live ones. Those that were taken away stay live until every CPU has left the
/// code that it ran with preemption off.
pub(super) struct Roots {
    /// The context of calls of clean tasks, or one below which nothing is found.
    pub(super) tasks: Word,
    pub(super) flags: SharedFlags<RootFlag>,
    /// The functions that are counted.
    extents: AtomicPtr<Extents>,
    /// The function by which an interrupt begins before the kernel says that it is in one.
    interrupt_entry: AtomicU64,
    /// The addresses of the kernel's own text.
    pub(super) text: Range<u64>,
    /// Guards against calls that unwinding makes itself.
    pub(super) unwinding: PerCpu<Recursion>,
    /// The number of times that all that is counted was hooked; 0 while that is changed.
    hooked: Word,
    hooks: Word,
    /// The value of `hooked` when the CPU was last seen to serve no interrupt.
    seen: PerCpu<Word>,
}

impl Roots {
    /// Creates the state in which nothing is known. `text` is where the kernel's own text lies.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub(super) fn new(text: Range<u64>) -> Result<Self, AllocError> {
        // INVARIANT: A static lives for ever.
        Ok(Self {
            tasks: Word::new(CallContext::NOWHERE.0),
            flags: SharedFlags::new(FlagSet::NONE),
            extents: AtomicPtr::new((&raw const NO_EXTENTS).cast_mut()),
            interrupt_entry: AtomicU64::new(0),
            text,
            unwinding: PerCpu::new(|_| Recursion::new())?,
            hooked: Word::new(0),
            hooks: Word::new(0),
            seen: PerCpu::new(|_| Word::new(0))?,
        })
    }

    /// Sets or clears a flag.
    pub(super) fn update(&self, flag: RootFlag, is_set: bool) {
        self.flags.change(flag, is_set);
        let is_known = self.flags.has(RootFlag::Settled) && !self.flags.has(RootFlag::ByTask);
        let context = match is_known {
            true => CallContext::TASKS,
            false => CallContext::NOWHERE,
        };
        self.tasks.store_relaxed(context.0);
    }

    /// Returns where the functions are that are counted.
    pub(super) fn extents<'a>(&'a self, _token: PreemptOff<'a>) -> &'a Extents {
        // SAFETY: By the type's invariants the pointer leads to extents that stay live until this
        // CPU has left the code that it runs with preemption off, as the token proves that it is.
        unsafe { &*self.extents.load(Ordering::Acquire) }
    }

    /// Has interrupts begin by the function at `ip`, 0 for none.
    pub(super) fn set_interrupt_entry(&self, ip: usize) {
        self.interrupt_entry.store(ip as u64, Ordering::Relaxed);
    }

    /// Has `extents` be those of the functions that are counted.
    ///
    /// # Safety
    ///
    /// `extents` are valid until others were given, or nothing is hooked any more, and every CPU
    /// has left the code that it ran with preemption off then.
    pub(super) unsafe fn set_extents(&self, extents: Option<&Extents>) {
        let extents: *const Extents = extents.unwrap_or(&NO_EXTENTS);
        // INVARIANT: They are valid for as long, by caller precondition.
        self.extents.store(extents.cast_mut(), Ordering::Release);
    }

    /// Notes that all that is counted is hooked, or going to change.
    pub(super) fn set_hooked(&self, hooked: bool) {
        let hooks = self.hooks.load_relaxed().wrapping_add(1);
        self.hooks.store_relaxed(hooks);
        self.hooked.store_release(if hooked { hooks } else { 0 });
    }

    /// Notes that this CPU serves no interrupt.
    pub(super) fn see_task(&self, token: PreemptOff<'_>) {
        let hooked = self.hooked.load_acquire();
        self.seen.this(token).store_relaxed(hooked);
    }

    /// Returns whether what this CPU serves may have begun before all that is counted was hooked.
    pub(super) fn may_have_begun_before(&self, token: PreemptOff<'_>) -> bool {
        let hooked = self.hooked.load_relaxed();
        let is_seen = hooked != 0 && self.seen.this(token).load_relaxed() == hooked;
        !self.flags.has(RootFlag::Settled) && !is_seen
    }

    /// Returns whether an interrupt begins by the function at `ip`.
    pub(super) fn is_interrupt_entry(&self, ip: u64) -> bool {
        self.interrupt_entry.load(Ordering::Relaxed) == ip
    }
}
