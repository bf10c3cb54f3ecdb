// SPDX-License-Identifier: GPL-2.0

//! The end of ftrace, which shuts itself down for good when it finds code that is not what it put
//! there.
//!
//! From then on nothing is unhooked any more, and no task is waited for that is on the way through
//! a hook. So everything that a hook uses stays for good, the module's text first of all: the
//! module holds a reference to itself.

use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Release};

use super::this_module;

static IS_DEAD: Atomic<bool> = Atomic::new(false);

/// The module has no reference to itself though ftrace is dead, as it was being removed when that
/// was noticed.
static GOES: Atomic<bool> = Atomic::new(false);

/// Tells if ftrace is known to be dead, so that what a hook uses is not to go.
pub(crate) fn is_known() -> bool {
    // Acquire: pairs with the exchange in `notice`.
    IS_DEAD.load(Acquire)
}

/// Looks at the result of hooking or unhooking functions, and hands it on: `ENODEV` tells that
/// ftrace is dead. The module is not removed any more then; if it is being removed already,
/// [`TextStays`] sees to it.
///
/// # Errors
///
/// That of `result`.
pub(super) fn notice<T>(result: Result<T>) -> Result<T> {
    let is_dead = matches!(&result, Err(error) if *error == ENODEV);
    if is_dead && !IS_DEAD.xchg(true, Full) {
        // SAFETY: It is this module, whose text runs.
        let stays = unsafe { bindings::try_module_get(this_module()) };
        // Release: pairs with `TextStays`.
        GOES.store(!stays, Release);
        pr_err!("ftrace has shut itself down, so that hooks stay, and the module with them\n");
    }
    result
}

/// Does not go if hooks stay that use the module's text. To be dropped when nothing asks the module
/// for anything any more, and without any lock: no task must ever wait for the one that drops it.
pub(crate) struct TextStays;

impl Drop for TextStays {
    fn drop(&mut self) {
        if GOES.load(Acquire) {
            never_return();
        }
    }
}

/// Keeps the running task for good, as what it was about to free is in use. It sleeps, and is not
/// to hold a lock.
pub(super) fn never_return() -> ! {
    pr_err!("this cannot be removed any more: {} sleeps for good\n", {
        // SAFETY: The running task, as long as it runs.
        let comm = unsafe { &(*bindings::get_current()).comm };
        // SAFETY: It ends with a zero, which is never overwritten.
        unsafe { CStr::from_char_ptr(comm.as_ptr().cast()) }
    });
    loop {
        // SAFETY: The task may sleep. Idle sleep is no load, and is not taken for a hung task.
        unsafe { bindings::schedule_timeout_idle(c_long::MAX) };
    }
}
