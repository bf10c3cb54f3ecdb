// SPDX-License-Identifier: GPL-2.0

//! The places in memory that fprobe knows probes by.

use core::mem::ManuallyDrop;
use core::ops::Deref;

use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};

use super::probe::{CallHandler, Fprobe};
#[cfg(CONFIG_DEBUG_KMEMLEAK)]
use crate::sys::ffi;
use crate::sys::private::shadow_stacks;

/// A probe where fprobe knows it.
///
/// Calls that are open know a probe by its address, and fprobe hands what was kept of a call to the
/// probe that has that address when it returns, of whatever kind. So what lies there may not become
/// another kind of probe, of this module or another, while such a call is open: a task may sleep in
/// one for ever.
///
/// # Invariants
///
/// No call that is open knows the address but from probes with the same `T` and `D` that were here.
pub(super) struct ProbePlace<T: CallHandler<D>, D: Copy + 'static> {
    pub(super) probe: ManuallyDrop<Pin<KBox<Fprobe<T, D>>>>,
    /// A probe here has called its handler.
    pub(super) was_enabled: bool,
}

/// Places that calls know which were open when these were given up.
static LEFT_BEHIND: Atomic<usize> = Atomic::new(0);

/// Takes the number of places that were left behind since it was last asked for.
pub(super) fn take_left_behind() -> usize {
    LEFT_BEHIND.xchg(0, Relaxed)
}

impl<T: CallHandler<D>, D: Copy + 'static> ProbePlace<T, D> {
    /// A place for `probe` that no call knows.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn new(probe: Fprobe<T, D>) -> Result<Self> {
        let mut known = KVec::new();
        loop {
            let place = KBox::<Fprobe<T, D>>::new_uninit(GFP_KERNEL)?;
            // From now on the memory is this module's, so no call comes to know it but by a probe
            // here.
            if !shadow_stacks::know(place.as_ptr() as u64, false) {
                // INVARIANT: As was just seen.
                return Ok(Self {
                    probe: ManuallyDrop::new(Pin::from(KBox::write(place, probe))),
                    was_enabled: false,
                });
            }
            known.push(place, GFP_KERNEL)?;
        }
    }

    pub(super) fn probe_mut(&mut self) -> Pin<&mut Fprobe<T, D>> {
        self.probe.as_mut()
    }

    /// Returns once the handler is not called any more.
    pub(super) fn unregister(&mut self) {
        // SAFETY: `unregister` changes fields in place, and moves nothing.
        unsafe { self.probe_mut().get_unchecked_mut() }.unregister();
    }

    /// Returns whether a call may be open that knows the address.
    pub(super) fn is_known(&self) -> bool {
        self.was_enabled && shadow_stacks::know(self.address(), true)
    }

    /// Has the open calls that know the address be known by that of `other`, which is told of their
    /// returns. Returns whether there were any: see [`shadow_stacks::adopt`].
    pub(super) fn hand_over(&self, other: &Self) -> bool {
        shadow_stacks::adopt(self.address(), other.address(), size_of::<D>() / 8)
    }

    /// Frees what is not needed any more of a probe that is not registered.
    pub(super) fn forget_functions(&mut self) {
        // SAFETY: Nothing is moved but the list, which fprobe does not know.
        let probe = unsafe { self.probe_mut().get_unchecked_mut() };
        drop(core::mem::take(&mut probe.ips));
    }

    /// Puts `probe` in the place of the one that is there, and is not registered.
    pub(super) fn reuse(&mut self, probe: Fprobe<T, D>) {
        // INVARIANT: Of the same kind.
        self.probe_mut().set(probe);
    }
}

impl<T: CallHandler<D>, D: Copy + 'static> Deref for ProbePlace<T, D> {
    type Target = Fprobe<T, D>;

    fn deref(&self) -> &Fprobe<T, D> {
        &self.probe
    }
}

impl<T: CallHandler<D>, D: Copy + 'static> Drop for ProbePlace<T, D> {
    fn drop(&mut self) {
        self.unregister();
        if self.is_known() {
            self.forget_functions();
            let address: *const Fprobe<T, D> = &**self.probe;
            leave_behind(address.cast());
            return;
        }
        // SAFETY: It is dropped only here, and not used afterwards, as `self` goes.
        unsafe { ManuallyDrop::drop(&mut self.probe) };
    }
}

/// Notes that the memory at `place` is never to be freed.
fn leave_behind(place: *const c_void) {
    LEFT_BEHIND.add(1_usize, Relaxed);
    #[cfg(CONFIG_DEBUG_KMEMLEAK)]
    // SAFETY: It has no preconditions on the address, which is that of memory that was allocated
    // and is never freed.
    unsafe {
        ffi::kmemleak_not_leak(place);
    }
    let _ = place;
}
