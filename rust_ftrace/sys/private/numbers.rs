// SPDX-License-Identifier: GPL-2.0

//! The number that fprobe has among the users of fgraph.
//!
//! fgraph gives each of its users one of 16 numbers, the one that was not used for longest, and
//! notes with every call which numbers are told of its return; 0 is always among them, whichever
//! user watches it (`function_graph_enter_regs()`). So fprobe can be told of returns of calls that
//! it knows nothing of: of any if its number is 0, and of those that a user that had its number
//! before has left open. It warns of that (`fprobe_return()`), which a kernel may be set to die of.
//! See docs/upstream/fprobe-return-warning.md.
//!
//! fprobe asks for a number when the first probe is registered, and gives it back with the last
//! one. So before that we put the numbers that will not do at the end of fgraph's list of those
//! that are free, under the lock that guards it.
//!
//! If fgraph cannot register fprobe, for want of memory, it keeps the flag that says that it has,
//! and the function that it has called at switches of tasks: from then on it refuses fprobe, and
//! any first user, for ever. So we take both away, under the same lock. See
//! docs/upstream/fprobe-dead-without-memory.md.
//!
//! (To answer for fgraph while fprobe has a bad number, by a kprobe at `fgraph_retrieve_data()`,
//! kills the kernel: where all functions are traced, the kprobe is hit in the kprobe's own work,
//! and that is forgiven only once.)
//!
//! Lock order: `ftrace_lock` is the kernel's and inside all of ours, as registering a hook takes
//! it. Under it a tracepoint is changed, as fgraph does; that takes the tracepoints' lock and waits
//! for RCU and CPUs.
//!
//! C header: [`include/linux/ftrace.h`](srctree/include/linux/ftrace.h)

use kernel::bindings;
use kernel::prelude::*;

use super::part::PrivatePart;
use super::shadow_stacks;
use crate::engine::fgraph;
use crate::sys::{faults, lockdep, tracepoint};

pub(in crate::rust_ftrace::sys) use crate::engine::fgraph::NUMBERS;

/// The flag of a user of fgraph that is registered.
const REGISTERED: c_ulong = bindings::FTRACE_OPS_FL_GRAPH as c_ulong;

/// Knowledge of fprobe's number. A task that registers fprobes has it exclusively.
pub(crate) struct FprobeNumber {
    /// `None` if the kernel does not list symbols of data.
    known: Option<FprobeVariables>,
}

/// The variables of kernel/trace/ that hold it.
///
/// # Invariants
///
/// The pointers lead to the kernel's variables that are said below, which stay.
pub(crate) struct FprobeVariables {
    /// The `fgraph_ops` that fgraph knows fprobe by.
    fprobe: *mut bindings::fgraph_ops,
    lock: *mut bindings::mutex,
    /// The list of free numbers, and at which place of it the next one is; under `lock`.
    table: *mut [c_int; NUMBERS as usize],
    next: *const c_int,
    /// A bit for each number that is in use; under `lock`.
    used: *const c_ulong,
    /// The users of fgraph by number; under `lock`.
    users: *const [*mut bindings::fgraph_ops; NUMBERS as usize],
    /// The function that `sched_switch` calls while there is a user, which is registered and
    /// unregistered under `lock`; null if it is not known.
    switched: *mut c_void,
}

// SAFETY: What it points to is the kernel's and stays, and is used under its lock.
unsafe impl Send for FprobeVariables {}
// SAFETY: What it points to is the kernel's and stays, and is changed under its lock only.
unsafe impl Sync for FprobeVariables {}

impl FprobeVariables {
    /// Things at the addresses of `fprobe_graph_ops`, `ftrace_lock`, `fgraph_lru_table`,
    /// `fgraph_lru_next`, `fgraph_array_bitmask` and `fgraph_array`; and the function at
    /// `switched`, `ftrace_graph_probe_sched_switch()`, or 0 if that is not known.
    ///
    /// # Safety
    ///
    /// These are their addresses.
    pub(super) unsafe fn at(
        [fprobe, lock, table, next, used, users]: [u64; 6],
        switched: u64,
    ) -> Self {
        // INVARIANT: They do, by caller precondition, and variables of the kernel's own stay.
        Self {
            fprobe: fprobe as *mut _,
            lock: lock as *mut _,
            table: table as *mut _,
            next: next as *const _,
            used: used as *const _,
            users: users as *const _,
            switched: switched as *mut _,
        }
    }

    /// The flags that fprobe has as a user of ftrace.
    fn flags(&self) -> *mut c_ulong {
        // SAFETY: By the type's invariants it is an `fgraph_ops`, which stays.
        unsafe { &raw mut (*self.fprobe).ops.flags }
    }

    /// Returns whether fprobe has a number.
    fn is_registered(&self) -> bool {
        // SAFETY: It points to a live, aligned word, which others may write meanwhile: a volatile
        // load does not tear.
        (unsafe { self.flags().read_volatile() }) & REGISTERED != 0
    }

    /// Takes away the flag that fprobe is registered, if it is not, and what fgraph has called at
    /// switches of tasks, if it has no user.
    ///
    /// # Safety
    ///
    /// `lock` is held.
    unsafe fn forget(&self) {
        let number = self
            .number()
            .and_then(|number| usize::try_from(number).ok());
        // SAFETY: By the type's invariants it is the kernel's table, which does not change while
        // the lock is held, as it is by caller precondition.
        let users = unsafe { &*self.users };
        let user = number.and_then(|number| users.get(number));
        // Before the first registration there is no user at all.
        if user.is_none_or(|user| *user == self.fprobe) || !self.is_registered() {
            return;
        }
        // SAFETY: The word is valid and aligned. fgraph changes it under the lock, which is held by
        // caller precondition, and ftrace only while fprobe is registered, which it is not.
        unsafe { *self.flags() &= !REGISTERED };
        // SAFETY: By the type's invariants it is the kernel's variable, which does not change while
        // the lock is held, as it is by caller precondition.
        if unsafe { *self.used } != 0 || self.switched.is_null() {
            return;
        }
        // SAFETY: It is the function that fgraph itself has this tracepoint call with no data, and
        // it is the kernel's own: it may be called at any time.
        unsafe { tracepoint::leave_out(c"sched_switch", self.switched, core::ptr::null_mut()) };
    }

    /// See [`FprobeNumber::forget_failure`].
    fn forget_failure(&self) {
        lockdep::waits();
        // SAFETY: By the type's invariants it is the kernel's mutex, which stays; it is not held
        // here.
        unsafe { bindings::mutex_lock(self.lock) };
        // SAFETY: `lock` was taken above, and is let go of below.
        unsafe { self.forget() };
        // SAFETY: This task has locked it above, and not let go of it yet.
        unsafe { bindings::mutex_unlock(self.lock) };
    }

    /// The number that fprobe has, while a probe is registered.
    fn number(&self) -> Option<u32> {
        // SAFETY: By the type's invariants it is an `fgraph_ops`, which stays.
        let number: *const c_int = unsafe { &raw const (*self.fprobe).idx };
        // SAFETY: A valid, aligned int. It changes only when nothing is registered.
        u32::try_from(unsafe { number.read_volatile() }).ok()
    }

    /// See [`FprobeNumber::make_ready`].
    fn make_ready(&self) -> Result {
        self.forget_failure();
        // SAFETY: By the type's invariants it is the kernel's mutex, which stays; it is not held
        // here.
        unsafe { bindings::mutex_lock(self.lock) };
        // SAFETY: `lock` was taken above, and is let go of below.
        let result = unsafe { self.choose() };
        // If fprobe has a number it needs none, unless the probe that holds it is unregistered.
        let result = if self.is_registered() { Ok(()) } else { result };
        // SAFETY: This task has locked it above, and not let go of it yet.
        unsafe { bindings::mutex_unlock(self.lock) };
        result
    }

    /// # Safety
    ///
    /// `lock` is held.
    unsafe fn choose(&self) -> Result {
        // SAFETY: By the type's invariants it is the kernel's variable, which does not change while
        // the lock is held, as it is by caller precondition.
        let used = unsafe { *self.used } as u64;
        if used.count_ones() >= NUMBERS {
            // fprobe itself would warn.
            return Err(ENOSPC);
        }
        // A free number has no user that could leave a call open, so from now on there is no other.
        let bad = shadow_stacks::lacking() | 1;
        // SAFETY: By the type's invariants it is the kernel's variable, which does not change while
        // the lock is held, as it is by caller precondition.
        let next = unsafe { *self.next };
        // SAFETY: By the type's invariants it is the kernel's table, which only the lock's holder
        // uses, as this is by caller precondition.
        let table = unsafe { &mut *self.table };
        match fgraph::avoid(table, usize::try_from(next)?, used, bad) {
            Ok(false) => Err(EBUSY),
            // No user had a number yet, so there is no call whose return a user is told of.
            Err(fgraph::Unknown) | Ok(true) => Ok(()),
        }
    }
}

impl FprobeNumber {
    /// As they were found; `None` if the kernel does not list symbols of data.
    pub(crate) const fn new(known: Option<FprobeVariables>) -> Self {
        Self { known }
    }

    /// The numbers in use; none if that turned out not to be as known.
    fn known(&self) -> Option<&FprobeVariables> {
        self.known
            .as_ref()
            .filter(|_| PrivatePart::Numbers.is_as_known())
    }

    /// Has fgraph give fprobe a number that will do when it asks for one next, if no other user
    /// asks before.
    ///
    /// # Errors
    ///
    /// - `ENOSPC` if fprobe has no number, and none is free.
    /// - `EBUSY` if none that is free will do.
    pub(in crate::rust_ftrace::sys) fn make_ready(&self) -> Result {
        faults::here("fgraph's numbers")?;
        self.known().map_or(Ok(()), FprobeVariables::make_ready)
    }

    /// Has fgraph forget that it could not register fprobe, if it could not: it would refuse it
    /// ever after, and other users too.
    pub(in crate::rust_ftrace::sys) fn forget_failure(&self) {
        if let Some(known) = self.known() {
            known.forget_failure();
        }
    }

    /// The number that fprobe has, while a probe is registered; `None` if that cannot be said.
    pub(crate) fn number(&self) -> Option<u32> {
        self.known()?.number()
    }

    /// Returns whether no call is open, nor will be, of whose return fprobe would be told as
    /// `number` without knowing of it.
    pub(in crate::rust_ftrace::sys) fn will_do(&self, number: u32) -> bool {
        let bad = shadow_stacks::lacking() | 1;
        bad.wrapping_shr(number) & 1 == 0
    }
}
