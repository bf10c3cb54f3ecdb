// SPDX-License-Identifier: GPL-2.0

//! The hook that stops recording as soon as the machine begins to die, so that what it then says of
//! itself does not take the place of what led there: writing to a console calls thousands of
//! functions.

use super::hook_flags::HookFlag;
use super::recorder::Recorder;
use crate::platform::{AtomicPtr, Ordering};
use crate::sys::ftrace::{EntryHandler, FunctionEntry};

/// Stops recording when it is called.
///
/// # Invariants
///
/// `recorder` is null, or valid until the hook that calls this was removed.
pub(crate) struct StopsAtDeath {
    recorder: AtomicPtr<Recorder>,
}

impl StopsAtDeath {
    /// Creates a handler that stops nothing.
    pub(crate) const fn new() -> Self {
        // INVARIANT: Null.
        Self {
            recorder: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// Has it stop what `recorder` does.
    ///
    /// # Safety
    ///
    /// The recorder is valid until the hook that calls this was removed.
    pub(crate) unsafe fn stop(&self, recorder: &Recorder) {
        let recorder: *const Recorder = recorder;
        // INVARIANT: It is valid until the hook that calls this was removed, by caller
        // precondition.
        self.recorder.store(recorder.cast_mut(), Ordering::Release);
    }
}

impl EntryHandler for StopsAtDeath {
    fn entered(&self, _entry: FunctionEntry<'_>) {
        // SAFETY: By the type's invariants the recorder is null, or valid until the hook that calls
        // this was removed, which waits for the call.
        if let Some(recorder) = unsafe { self.recorder.load(Ordering::Acquire).as_ref() } {
            recorder.set_flag(HookFlag::Off, true);
        }
    }
}
