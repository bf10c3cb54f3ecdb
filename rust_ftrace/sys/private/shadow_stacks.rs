// SPDX-License-Identifier: GPL-2.0

//! The shadow stacks of tasks: what fgraph keeps of the calls that are open.
//!
//! C headers: [`include/linux/ftrace.h`](srctree/include/linux/ftrace.h),
//! [`include/linux/sched/signal.h`](srctree/include/linux/sched/signal.h)

use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::rcu;

use super::part::PrivatePart;
use super::tasks;
use crate::engine::fgraph;
use crate::engine::shadow::Shadow;
use crate::platform::Word;
use crate::sys::clock;
use crate::sys::context::PreemptOff;

/// Words of a shadow stack, `SHADOW_STACK_OFFSET` of kernel/trace/fgraph.c.
const STACK_WORDS: usize = 4096 / 8;

/// Words in which fgraph keeps a call's return address.
const FRAME_WORDS: usize = size_of::<bindings::ftrace_ret_stack>() / 8;

/// Most times that a stack is read that changes meanwhile.
const TRIES: usize = 16;

/// Looks whether the kernel says for how long tasks were in run queues.
///
/// # Errors
///
/// `EOPNOTSUPP` if not.
pub(crate) fn need_queues() -> Result {
    match cfg!(CONFIG_SCHED_INFO) {
        true => Ok(()),
        false => Err(EOPNOTSUPP),
    }
}

/// The words of a task's shadow stack that are in use, and the address of the first.
///
/// # Invariants
///
/// `task` is valid for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct ShadowStack<'a> {
    words: &'a [Word],
    base: u64,
    task: *const bindings::task_struct,
}

impl<'a> ShadowStack<'a> {
    /// Returns the ID of its task.
    pub(crate) fn pid(self) -> u32 {
        // SAFETY: By the type's invariants the task is valid, and its ID does not change.
        let pid: bindings::pid_t = unsafe { (*self.task).pid };
        // CAST: IDs are not negative.
        pid as u32
    }

    /// Returns for how many ns its task has been in run queues in its life, without the time since
    /// it was last queued; 0 where the kernel does not say. To be called on the CPU that switches
    /// from it, or to it.
    pub(crate) fn queued_before(self) -> u64 {
        #[cfg(CONFIG_SCHED_INFO)]
        {
            // SAFETY: By the type's invariants the task is valid.
            let field = unsafe { &raw const (*self.task).sched_info.run_delay };
            // SAFETY: `field` points to a live, aligned word, which the scheduler writes under the
            // lock that it holds while it switches tasks.
            unsafe { field.read_volatile() }
        }
        #[cfg(not(CONFIG_SCHED_INFO))]
        0
    }

    /// Returns the same with the time since it was last queued. To be called on the CPU that
    /// switches to it.
    pub(crate) fn queued(self, token: PreemptOff<'_>) -> u64 {
        let before = self.queued_before();
        #[cfg(CONFIG_SCHED_INFO)]
        {
            // SAFETY: By the type's invariants the task is valid.
            let field = unsafe { &raw const (*self.task).sched_info.last_queued };
            // SAFETY: `field` points to a live, aligned word, which the scheduler writes under the
            // lock that it holds while it switches tasks.
            let since = unsafe { field.read_volatile() };
            match since {
                0 => before,
                // By the clock of run queues, which another CPU's may be a little ahead of.
                _ => before.wrapping_add(clock::perf_ns(token).saturating_sub(since)),
            }
        }
        #[cfg(not(CONFIG_SCHED_INFO))]
        before
    }

    /// That of `task`, which may use it meanwhile.
    ///
    /// # Safety
    ///
    /// `task` is valid for `'a`.
    pub(crate) unsafe fn of(task: *const bindings::task_struct) -> Self {
        // SAFETY: The task is valid, by caller precondition.
        let field: *const *mut c_ulong = unsafe { &raw const (*task).ret_stack };
        // SAFETY: `field` points to a live, aligned pointer, which fgraph writes once: a volatile
        // load does not tear.
        let base = unsafe { field.read_volatile() }.cast_const().cast::<Word>();
        // SAFETY: The task is valid, by caller precondition.
        let field: *const c_int = unsafe { &raw const (*task).curr_ret_stack };
        // SAFETY: `field` points to a live, aligned int, which the task may write meanwhile: a
        // volatile load does not tear.
        let used = unsafe { field.read_volatile() };
        let used = usize::try_from(used).unwrap_or(0).min(STACK_WORDS);
        if base.is_null() {
            // INVARIANT: The task is valid for `'a`, by caller precondition.
            return Self {
                words: &[],
                base: 0,
                task,
            };
        }
        // INVARIANT: The task is valid for `'a`, by caller precondition.
        Self {
            // SAFETY: `base` is not null, and points to the task's shadow stack:
            // - It has STACK_WORDS words, of which `used` are no more, aligned, and zeroed when it
            //   was made.
            // - It stays as long as the task is valid, and so for `'a`.
            // - The task may write it meanwhile, and a `Word` may change.
            words: unsafe { core::slice::from_raw_parts(base, used) },
            base: base as u64,
            task,
        }
    }

    /// Compares the innermost frame with a call that is known.
    ///
    /// # Errors
    ///
    /// Those of [`fgraph::compare`].
    pub(crate) fn compare(self, call: &fgraph::OwnCallFrame) -> Result<(), fgraph::Unlike> {
        fgraph::compare(self.words, self.base, FRAME_WORDS, call)
    }

    /// Returns the function and the return address of the call among whose words the one at `index`
    /// is; `None` if the stack does not tell.
    pub(crate) fn call_at(self, index: usize) -> Option<(u64, u64)> {
        fgraph::call_at(self.words, FRAME_WORDS, index)
    }

    /// The calls in it that are tagged with `secret`.
    pub(crate) fn tagged(self, secret: u64) -> Shadow<'a> {
        Shadow::new(self.words, self.base, secret)
    }
}

/// Calls `look` with the shadow stack of each task, idle tasks included, that one may change
/// meanwhile; it may ask for the stack more than once. Returns whether all tasks could be found; a
/// task that was reaped is not found any more, though it may still be running the last of its exit.
fn for_each(mut look: impl FnMut(&dyn Fn() -> ShadowStack<'static>)) -> bool {
    let _alive = rcu::read_lock();
    let mut look = |task: *const bindings::task_struct| {
        // SAFETY: The task and its stack stay as long as RCU is held, as `free_task()` comes after
        // a grace period; no reference leaves this function.
        let stack = || unsafe { ShadowStack::of(task) };
        look(&stack);
    };
    // SAFETY: `_alive` is there, so this is a reader of RCU, and `look` keeps no task.
    unsafe { tasks::for_each(&mut look) };
    tasks::for_each_idle(&mut look)
}

/// A bit for each user of fgraph that may be told of the return of a call that is open now and of
/// which it keeps nothing; none if that is not known.
pub(in crate::rust_ftrace::sys) fn lacking() -> u64 {
    if !PrivatePart::ShadowStacks.is_as_known() {
        return 0;
    }
    let mut lacking = 0;
    for_each(|stack| {
        let of_stack = |_| fgraph::lacking(stack().words, FRAME_WORDS).ok();
        lacking |= (0..TRIES).find_map(of_stack).unwrap_or(u64::MAX);
    });
    lacking
}

/// Returns whether a call may be open that knows the fprobe at `address`; `unknown` if that cannot
/// be said.
pub(in crate::rust_ftrace::sys) fn know(address: u64, unknown: bool) -> bool {
    if !PrivatePart::ShadowStacks.is_as_known() {
        return unknown;
    }
    let mut found = false;
    let complete = for_each(|stack| found = found || fgraph::knows(stack().words, address));
    found || (unknown && !complete)
}

/// Has the open calls that know the fprobe at `from`, which keeps `length` words of each, belong to
/// the one at `to`, which keeps as many: it is told of their returns. To be called once the fprobe
/// at `from` takes no more calls, and every CPU has left the code that it ran with preemption off
/// then; both stay registered until it has done so again. Returns whether any was found.
///
/// A call stays where it is if not all tasks can be found; nothing is done if it is not known how
/// fgraph keeps open calls.
pub(in crate::rust_ftrace::sys) fn adopt(from: u64, to: u64, length: usize) -> bool {
    if !PrivatePart::ShadowStacks.is_as_known() {
        return false;
    }
    let mut any = false;
    for_each(|stack| {
        for word in stack().words {
            any |= fgraph::adopt(word, from, to, length);
        }
    });
    any
}

/// Returns whether any open call is among those that `is_one` knows by the words from one on, and
/// their address; true if that cannot be said.
pub(crate) fn any_call(is_one: impl Fn(&[Word], u64) -> bool) -> bool {
    if !PrivatePart::ShadowStacks.is_as_known() {
        return true;
    }
    let mut found = false;
    let complete = for_each(|stack| {
        let ShadowStack { words, base, .. } = stack();
        found = found
            || (0..words.len()).any(|index| {
                let address = base.wrapping_add((index as u64).wrapping_mul(8));
                is_one(words.get(index..).unwrap_or_default(), address)
            });
    });
    found || !complete
}
