// SPDX-License-Identifier: GPL-2.0

//! Tasks that wait until they are woken.
//!
//! Unlike `kernel::sync::CondVar`, waking needs no lock, so it may be done in an interrupt.
//!
//! C header: [`include/linux/wait.h`](srctree/include/linux/wait.h)

use core::marker::PhantomData;

use kernel::bindings;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full};
use kernel::types::Opaque;

/// The wake-ups that a task has seen. See [`WaitQueue::wait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeenWakeups(u64);

/// Tasks that wait, and how often they were woken.
///
/// # Examples
///
/// ```ignore
/// use kernel::prelude::*;
/// use kernel::sync::atomic::{Acquire, Atomic, Release};
///
/// use crate::sys::wait::WaitQueue;
///
/// /// Something that is done once.
/// #[pin_data]
/// struct Done {
///     #[pin]
///     queue: WaitQueue,
///     is_done: Atomic<bool>,
/// }
///
/// impl Done {
///     fn done(&self) {
///         self.is_done.store(true, Release);
///         self.queue.wake_all();
///     }
///
///     fn wait(&self) -> Result {
///         loop {
///             // Before the condition, so that no wake-up after it is missed.
///             let seen = self.queue.seen();
///             if self.is_done.load(Acquire) {
///                 return Ok(());
///             }
///             self.queue.wait(seen)?;
///         }
///     }
/// }
/// ```
///
/// # Invariants
///
/// `head` is initialised, and stays in place.
#[pin_data]
pub(crate) struct WaitQueue {
    #[pin]
    head: Opaque<bindings::wait_queue_head>,
    wakes: Atomic<u64>,
}

// SAFETY: The head has a lock of its own.
unsafe impl Sync for WaitQueue {}
// SAFETY: Neither the head nor what waits there is bound to the thread that made it.
unsafe impl Send for WaitQueue {}

impl WaitQueue {
    /// A queue without tasks.
    pub(crate) fn new() -> impl PinInit<Self> {
        // INVARIANT: The head is initialised here, and pinned with the queue.
        pin_init!(Self {
            head <- Opaque::ffi_init(|head| {
                let key = kernel::static_lock_class!();
                // SAFETY: `head` points to memory for one, which stays in place; name and key live
                // as long as the module.
                unsafe {
                    bindings::__init_waitqueue_head(head, c"rftrace".as_char_ptr(), key.as_ptr());
                }
            }),
            wakes: Atomic::new(0),
        })
    }

    /// Returns the wake-ups that there have been so far.
    pub(crate) fn seen(&self) -> SeenWakeups {
        // Acquire: what is looked for after this was there before the wake-ups that are seen; pairs
        // with `wake_all`.
        SeenWakeups(self.wakes.load(Acquire))
    }

    /// Wakes all. May be called in a hardirq, but not in code that the hook interrupts: wake by an
    /// [`IrqWork`](super::irq_work::IrqWork) from there.
    pub(crate) fn wake_all(&self) {
        // Full: before the queue is looked at below. A task puts itself there first, with the full
        // barrier of `prepare_to_wait_event()` behind it, and looks at the count then. So it is
        // found there, or it sees this.
        self.wakes.fetch_add(1, Full);
        // SAFETY: By the type's invariants the head is initialised, and stays in place.
        unsafe {
            bindings::__wake_up(
                self.head.get(),
                bindings::TASK_NORMAL,
                0,
                core::ptr::null_mut(),
            );
        }
    }

    /// Sleeps until there is a wake-up that is not in `seen`.
    ///
    /// # Errors
    ///
    /// `ERESTARTSYS` if a signal came first.
    pub(crate) fn wait(&self, seen: SeenWakeups) -> Result {
        let mut entry = bindings::wait_queue_entry::default();
        // SAFETY: The entry is memory for one, and off the queue again before it goes.
        unsafe { bindings::init_wait_entry(&mut entry, 0) };
        let state = bindings::TASK_INTERRUPTIBLE as c_int;
        let head = self.head.get();
        while self.seen() == seen {
            // SAFETY: Head and entry are initialised, and stay until `finish_wait()`. With a signal
            // pending the entry is taken off again.
            let result = unsafe { bindings::prepare_to_wait_event(head, &mut entry, state) };
            if let Err(error) = to_result(result as c_int) {
                // SAFETY: Head and entry are initialised; it also sets the task's state back.
                unsafe { bindings::finish_wait(self.head.get(), &mut entry) };
                return Err(error);
            }
            if self.seen() == seen {
                // SAFETY: The task may sleep. If it was woken since it was put on the queue, this
                // returns at once.
                unsafe { bindings::schedule() };
            }
        }
        // SAFETY: Head and entry are initialised; the entry may be off the queue already.
        unsafe { bindings::finish_wait(self.head.get(), &mut entry) };
        Ok(())
    }
}

/// Sleeps for a moment.
///
/// # Errors
///
/// `EINTR` if the task is killed.
pub(crate) fn nap() -> Result {
    // SAFETY: It has no preconditions but that the task may sleep, which its callers may.
    unsafe { bindings::schedule_timeout_killable(1) };
    // SAFETY: A task knows itself, as long as it runs.
    let current = unsafe { bindings::get_current() };
    // As `fatal_signal_pending()`.
    //
    // SAFETY: It is the running task. A task that kills it sets a bit, which is read once.
    let pending = unsafe { (&raw const (*current).pending.signal.sig[0]).read_volatile() };
    match pending & (1 << (bindings::SIGKILL - 1)) {
        0 => Ok(()),
        _ => Err(EINTR),
    }
}

/// A file that is being polled.
///
/// # Invariants
///
/// - `file` is live for `'a`.
/// - `table` is NULL, or valid for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Poll<'a> {
    file: *mut bindings::file,
    table: *mut bindings::poll_table,
    _lifetime: PhantomData<&'a bindings::poll_table>,
}

impl Poll<'_> {
    /// Wraps the arguments of a file operation.
    ///
    /// # Safety
    ///
    /// - `file` is live while the value lives.
    /// - `table` is NULL or valid while the value lives.
    pub(crate) unsafe fn new(file: *mut bindings::file, table: *mut bindings::poll_table) -> Self {
        // INVARIANT: Both are so while the value lives, by caller precondition.
        Self {
            file,
            table,
            _lifetime: PhantomData,
        }
    }

    /// Has a polling task be told when `queue` is woken.
    ///
    /// The queue must live as long as the file is open.
    pub(crate) fn watch(&self, queue: &WaitQueue) {
        // SAFETY:
        // - By the type's invariants `file` is live, and `table` NULL or valid.
        // - By its type's invariants the queue is initialised; it outlives the open file, by whose
        //   end nothing polls it any more.
        unsafe { bindings::poll_wait(self.file, queue.head.get(), self.table) };
    }
}
