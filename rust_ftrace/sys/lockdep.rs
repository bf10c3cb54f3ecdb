// SPDX-License-Identifier: GPL-2.0

//! Tells lockdep what it cannot see by itself: the locks that a task may not hold while it waits.
//!
//! CPU hotplug takes locks of ours while it holds the CPUs' lock for writing, and RCU, code
//! patching and page faults may wait for hotplug. So a task that waits for one of these with such a
//! lock held may wait for ever, though it takes another task at the wrong moment to show it. For
//! lockdep there is a lock that is in all of this: a task that waits takes it for a moment, and
//! each lock of hotplug's was taken with it held, once. So the first wait with one of them held is
//! a circular dependency, which is reported.
//!
//! On a kernel without lockdep nothing of this is there.
//!
//! C header: [`include/linux/lockdep.h`](srctree/include/linux/lockdep.h)

use super::context::Current;

#[cfg(CONFIG_LOCKDEP)]
mod imp {
    use kernel::bindings;
    use kernel::prelude::*;
    use kernel::types::Opaque;

    use super::Current;

    /// The lock that is only lockdep's.
    struct Map(Opaque<bindings::lockdep_map>);

    // SAFETY: Only lockdep touches it, which takes care of that.
    unsafe impl Sync for Map {}

    static WAITING: Map = Map(Opaque::zeroed());

    /// Makes the lock known. To be called once, before all else here.
    pub(crate) fn init() {
        let key = kernel::static_lock_class!();
        // SAFETY: Map, name and key live as long as the module.
        unsafe {
            bindings::lockdep_init_map_type(
                WAITING.0.get(),
                c"rftrace waits for CPUs, RCU or user memory".as_char_ptr(),
                key.as_ptr(),
                0,
                bindings::lockdep_wait_type_LD_WAIT_INV as u8,
                bindings::lockdep_wait_type_LD_WAIT_INV as u8,
                bindings::lockdep_lock_type_LD_LOCK_NORMAL as u8,
            );
        }
    }

    /// Calls `user` while lockdep follows nothing that `task` does, as `lockdep_off()` has it.
    pub(super) fn without<R>(task: &Current<'_>, user: impl FnOnce() -> R) -> R {
        /// One more of what has lockdep off: those of `LOCKDEP_RECURSION_BITS` are its own.
        const OFF: c_uint = 1 << 16;
        let task = task.as_ptr().cast_mut();
        let add = |number: c_uint| {
            // SAFETY: `task` is the running one, and the field its own; interrupts leave it as they
            // find it.
            let word = unsafe { &raw mut (*task).lockdep_recursion };
            // SAFETY: As above.
            unsafe { word.write_volatile(word.read_volatile().wrapping_add(number)) };
        };
        add(OFF);
        let result = user();
        add(OFF.wrapping_neg());
        result
    }

    pub(super) fn with_map<R>(user: impl FnOnce() -> R) -> R {
        let here = init as *const () as c_ulong;
        let none = core::ptr::null_mut();
        // SAFETY: The map was initialised when the module was loaded.
        unsafe { bindings::lock_acquire(WAITING.0.get(), 0, 0, 0, 1, none, here) };
        let result = user();
        // SAFETY: The map was acquired above, by this task, and `user` has returned.
        unsafe { bindings::lock_release(WAITING.0.get(), here) };
        result
    }
}

#[cfg(not(CONFIG_LOCKDEP))]
mod imp {
    use super::Current;

    /// Nothing is to be made known.
    pub(crate) fn init() {}

    #[inline(always)]
    pub(super) fn without<R>(_task: &Current<'_>, user: impl FnOnce() -> R) -> R {
        user()
    }

    #[inline(always)]
    pub(super) fn with_map<R>(user: impl FnOnce() -> R) -> R {
        user()
    }
}

pub(crate) use imp::init;

/// Tells lockdep that the caller is about to wait for CPUs, RCU or user memory.
#[inline(always)]
pub(crate) fn waits() {
    imp::with_map(|| {});
}

/// Has it reported when a task [waits](waits()) with a lock held that `lock` takes and lets go of:
/// CPU hotplug takes it.
#[inline(always)]
pub(crate) fn never_waits_with(lock: impl FnOnce()) {
    if cfg!(CONFIG_LOCKDEP) {
        imp::with_map(lock);
    }
}

/// Calls `user` while lockdep follows nothing that `task` does. Hooks are called, too, where the
/// kernel has not told lockdep yet that interrupts are off, or on: the first lock that is taken
/// there, that of RCU's readers included, would be reported.
#[inline(always)]
pub(crate) fn without<R>(task: &Current<'_>, user: impl FnOnce() -> R) -> R {
    imp::without(task, user)
}
