// SPDX-License-Identifier: GPL-2.0

//! The functions at whose calls something is done (`func:action[:count]` in the filter), as hooks look
//! them up.

use core::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, Ordering};

use kernel::prelude::*;

use crate::engine::command::Action;
use crate::sys::context::PreemptOff;
use crate::sys::rcu;

/// A function, what is done when it is called, and how often yet.
pub(crate) struct Probe {
    /// Its ftrace location.
    pub(crate) ip: usize,
    /// The act.
    pub(crate) action: Action,
    /// `i64::MAX` for always.
    left: AtomicI64,
    /// It is traced only for its stack: without one, not at all.
    alone: AtomicBool,
}

/// Wanted always.
const UNLIMITED: i64 = i64::MAX;

impl Probe {
    /// `action` at so many calls of `ip`; `None` for all.
    pub(crate) fn new(ip: usize, action: Action, count: Option<u64>) -> Self {
        let count = count.and_then(|count| i64::try_from(count).ok());
        Self {
            ip,
            action,
            left: AtomicI64::new(count.unwrap_or(UNLIMITED)),
            alone: AtomicBool::new(false),
        }
    }

    /// Times that it is still done; `None` for always.
    pub(crate) fn left(&self) -> Option<i64> {
        let left = self.left.load(Ordering::Relaxed);
        (left != UNLIMITED).then_some(left)
    }

    /// A copy, with as many times left as there are now.
    pub(crate) fn duplicate(&self) -> Self {
        Self {
            ip: self.ip,
            action: self.action,
            left: AtomicI64::new(self.left.load(Ordering::Relaxed)),
            alone: AtomicBool::new(self.alone.load(Ordering::Relaxed)),
        }
    }

    /// The key that probes are sorted by.
    pub(crate) const fn key(&self) -> (usize, Action) {
        (self.ip, self.action)
    }

    /// Says whether it is traced only for its stack.
    pub(crate) fn set_alone(&self, alone: bool) {
        self.alone.store(alone, Ordering::Relaxed);
    }

    /// Returns whether it is not done any more.
    pub(super) fn is_over(&self) -> bool {
        self.left() == Some(0)
    }

    /// Counts that it is done; false if it is done no more.
    pub(super) fn take(&self) -> bool {
        let take = |left| match left {
            UNLIMITED => Some(UNLIMITED),
            1.. => Some(left - 1),
            _ => None,
        };
        let order = Ordering::Relaxed;
        self.left.fetch_update(order, order, take).is_ok()
    }

    /// It was not done after all.
    pub(super) fn give_back(&self) {
        let give = |left: i64| (left != UNLIMITED).then_some(left.wrapping_add(1));
        let order = Ordering::Relaxed;
        let _ = self.left.fetch_update(order, order, give);
    }
}

/// The outcome of looking for a function's probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// It is not wanted.
    None,
    /// It is.
    Hit,
    /// It was traced only for its stack, and all that were wanted are there.
    Over,
}

/// All probes, sorted by [`Probe::key`].
pub(crate) type Probes = KVVec<Probe>;

/// The probes of `ip` among `probes`, sorted by it.
///
/// (`partition_point` adds numbers, and would panic if the sum were too large: nothing that a hook calls may.)
fn find(probes: &[Probe], ip: usize) -> impl Iterator<Item = &Probe> {
    let mut before = 0usize;
    let mut rest = probes;
    while let Some((lower, upper)) = rest.split_at_checked(rest.len() / 2) {
        let Some((probe, after)) = upper.split_first() else {
            break;
        };
        rest = if probe.ip < ip {
            before = before.wrapping_add(lower.len()).wrapping_add(1);
            after
        } else {
            lower
        };
    }
    let found = probes.get(before..).unwrap_or_default();
    found.iter().take_while(move |probe| probe.ip == ip)
}

/// Probes where a hook can find them; `None` if there are none.
pub(crate) struct Ready(Option<KBox<Probes>>);

impl Ready {
    /// Of `probes`, sorted by their keys.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn new(probes: Probes) -> Result<Self> {
        Ok(Self(match probes.is_empty() {
            true => None,
            false => Some(KBox::new(probes, GFP_KERNEL)?),
        }))
    }
}

/// The pointer that a hook finds them by.
///
/// # Invariants
///
/// Null, or from a box of probes sorted by their keys, which lives until another was stored here and every CPU has left
/// the code that it ran with preemption off.
pub(crate) struct ProbesPointer(AtomicPtr<Probes>);

impl ProbesPointer {
    /// No probes.
    pub(crate) const fn none() -> Self {
        // INVARIANT: Null.
        Self(AtomicPtr::new(core::ptr::null_mut()))
    }

    /// Returns whether there are none.
    pub(crate) fn is_none(&self) -> bool {
        self.0.load(Ordering::Relaxed).is_null()
    }

    /// The probes of `ip`.
    pub(super) fn of<'a>(
        &'a self,
        _token: PreemptOff<'a>,
        ip: u64,
    ) -> impl Iterator<Item = &'a Probe> {
        let probes = self.0.load(Ordering::Acquire);
        // SAFETY: By the type's invariant, as preemption is off.
        let probes = unsafe { probes.as_ref() };
        find(probes.map_or(&[], |probes| probes.as_slice()), ip as usize)
    }

    /// Looks for a stack of `ip` that is wanted, and counts it; all probes are for stacks.
    pub(crate) fn hit(&self, token: PreemptOff<'_>, ip: u64) -> Lookup {
        let Some(probe) = self.of(token, ip).next() else {
            return Lookup::None;
        };
        match (probe.take(), probe.alone.load(Ordering::Relaxed)) {
            (true, _) => Lookup::Hit,
            (false, true) => Lookup::Over,
            (false, false) => Lookup::None,
        }
    }

    /// Calls `user` with the probes. Callers of this and of [`Self::replace`] exclude each other.
    pub(crate) fn with<R>(&self, user: impl FnOnce(&[Probe]) -> R) -> R {
        let probes = self.0.load(Ordering::Acquire);
        // SAFETY: By the type's invariant, as nobody replaces them meanwhile.
        user(unsafe { probes.as_ref() }.map_or(&[], |probes| probes.as_slice()))
    }

    /// Makes other probes the ones that count from now on.
    pub(crate) fn replace(&self, probes: Ready) {
        let new = probes.0.map_or(core::ptr::null_mut(), KBox::into_raw);
        // INVARIANT: What is freed below was taken out here, and every CPU has left its hook then.
        let old = self.0.swap(new, Ordering::AcqRel);
        if !old.is_null() {
            rcu::synchronize_preempt_off();
            // SAFETY: From a box, by the type's invariant, and nobody uses it any more.
            drop(unsafe { KBox::from_raw(old) });
        }
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
