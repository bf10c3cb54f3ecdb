// SPDX-License-Identifier: GPL-2.0

//! The functions whose stacks somebody wants (`func:stacktrace[:count]` in the filter), as the hook looks
//! them up.

use core::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, Ordering};

use kernel::prelude::*;

use crate::sys::context::PreemptOff;
use crate::sys::rcu;

/// A function, and how often its stack is wanted yet.
pub(crate) struct StackProbe {
    /// Its ftrace location.
    pub(crate) ip: usize,
    /// `i64::MAX` for always.
    left: AtomicI64,
    /// It is traced only for its stack: without one, not at all.
    alone: AtomicBool,
}

/// Wanted always.
const UNLIMITED: i64 = i64::MAX;

impl StackProbe {
    /// That many stacks of `ip`; `None` for all.
    pub(crate) fn new(ip: usize, count: Option<u64>) -> Self {
        let count = count.and_then(|count| i64::try_from(count).ok());
        Self {
            ip,
            left: AtomicI64::new(count.unwrap_or(UNLIMITED)),
            alone: AtomicBool::new(false),
        }
    }

    /// How many stacks are left; `None` for all.
    pub(crate) fn left(&self) -> Option<i64> {
        let left = self.left.load(Ordering::Relaxed);
        (left != UNLIMITED).then_some(left)
    }

    /// The same, with as many left as there are now.
    pub(crate) fn duplicate(&self) -> Self {
        Self {
            ip: self.ip,
            left: AtomicI64::new(self.left.load(Ordering::Relaxed)),
            alone: AtomicBool::new(self.alone.load(Ordering::Relaxed)),
        }
    }

    /// Says whether it is traced only for its stack.
    pub(crate) fn set_alone(&self, alone: bool) {
        self.alone.store(alone, Ordering::Relaxed);
    }

    fn take(&self) -> bool {
        let take = |left| match left {
            UNLIMITED => Some(UNLIMITED),
            1.. => Some(left - 1),
            _ => None,
        };
        let order = Ordering::Relaxed;
        self.left.fetch_update(order, order, take).is_ok()
    }
}

/// What came of looking a function up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// Its stack is not wanted.
    None,
    /// It is.
    Hit,
    /// It was traced only for its stack, and all that were wanted are there.
    Over,
}

/// All probes, sorted by `ip`.
pub(crate) type Probes = KVec<StackProbe>;

/// The probe of `ip` among `probes`, sorted by it.
///
/// (`binary_search` adds numbers, and would panic if the sum were too large: nothing that a hook calls may.)
fn find(probes: &[StackProbe], ip: usize) -> Option<&StackProbe> {
    let mut rest = probes;
    loop {
        let (before, behind) = rest.split_at_checked(rest.len() / 2)?;
        let (probe, after) = behind.split_first()?;
        rest = match probe.ip.cmp(&ip) {
            core::cmp::Ordering::Less => after,
            core::cmp::Ordering::Equal => return Some(probe),
            core::cmp::Ordering::Greater => before,
        };
    }
}

/// What the hook finds them by.
///
/// # Invariants
///
/// Null, or from a box of probes sorted by `ip`, which lives until another was stored here and every CPU has left the
/// code that it ran with preemption off.
pub(crate) struct ProbesPointer(AtomicPtr<Probes>);

impl ProbesPointer {
    /// No probes.
    pub(crate) const fn none() -> Self {
        // INVARIANT: Null.
        Self(AtomicPtr::new(core::ptr::null_mut()))
    }

    /// Whether there are none.
    pub(crate) fn is_none(&self) -> bool {
        self.0.load(Ordering::Relaxed).is_null()
    }

    /// Looks `ip` up, and counts it.
    pub(crate) fn hit(&self, _token: PreemptOff<'_>, ip: u64) -> Lookup {
        let probes = self.0.load(Ordering::Acquire);
        // SAFETY: By the type's invariant, as preemption is off.
        let Some(probes) = (unsafe { probes.as_ref() }) else {
            return Lookup::None;
        };
        let Some(probe) = find(probes, ip as usize) else {
            return Lookup::None;
        };
        match (probe.take(), probe.alone.load(Ordering::Relaxed)) {
            (true, _) => Lookup::Hit,
            (false, true) => Lookup::Over,
            (false, false) => Lookup::None,
        }
    }

    /// Calls `user` with the probes. Callers of this and of [`Self::replace`] exclude each other.
    pub(crate) fn with<R>(&self, user: impl FnOnce(&[StackProbe]) -> R) -> R {
        let probes = self.0.load(Ordering::Acquire);
        // SAFETY: By the type's invariant, as nobody replaces them meanwhile.
        user(unsafe { probes.as_ref() }.map_or(&[], |probes| probes.as_slice()))
    }

    /// Makes `probes`, sorted by `ip`, the ones that count from now on.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; nothing is changed then.
    pub(crate) fn replace(&self, probes: Probes) -> Result {
        let new = match probes.is_empty() {
            true => core::ptr::null_mut(),
            false => KBox::into_raw(KBox::new(probes, GFP_KERNEL)?),
        };
        // INVARIANT: What is freed below was taken out here, and every CPU has left its hook then.
        let old = self.0.swap(new, Ordering::AcqRel);
        if !old.is_null() {
            rcu::synchronize_preempt_off();
            // SAFETY: From a box, by the type's invariant, and nobody uses it any more.
            drop(unsafe { KBox::from_raw(old) });
        }
        Ok(())
    }
}

impl Drop for ProbesPointer {
    fn drop(&mut self) {
        let probes = *self.0.get_mut();
        if !probes.is_null() {
            // SAFETY: From a box, by the type's invariant, and no reference to it is left.
            drop(unsafe { KBox::from_raw(probes) });
        }
    }
}
