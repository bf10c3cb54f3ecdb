// SPDX-License-Identifier: GPL-2.0

//! Functions at whose calls something is done (`func:action[:count]` in the filter), as hooks look
//! them up.

use kernel::alloc::AllocError;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::engine::command::Action;
use crate::engine::command_list::Commanded;
use crate::platform::{AtomicI64, AtomicPtr, Ordering};
use crate::sys::context::PreemptOff;
use crate::sys::rcu;

/// The number of times that an action is still done.
pub(crate) struct ProbeCount(AtomicI64);

/// A [`ProbeCount`] that hooks and all copies of the settings share.
pub(crate) type SharedCount = Arc<ProbeCount>;

/// The count of an action that is always done.
const UNLIMITED: i64 = i64::MAX;

impl ProbeCount {
    /// Creates a count of so many times; `None` for always.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub(crate) fn new(count: Option<u64>) -> Result<SharedCount, AllocError> {
        let count = count.and_then(|count| i64::try_from(count).ok());
        let count = AtomicI64::new(count.unwrap_or(UNLIMITED));
        Arc::new(Self(count), GFP_KERNEL)
    }

    /// Returns the number of times that are left; `None` for always.
    pub(crate) fn left(&self) -> Option<i64> {
        let left = self.0.load(Ordering::Relaxed);
        (left != UNLIMITED).then_some(left)
    }
}

/// A function, the action at its calls, and the number of times that it is still done.
pub(crate) struct Probe {
    /// Its ftrace location.
    pub(crate) ip: usize,
    /// The action.
    pub(crate) action: Action,
    left: SharedCount,
    /// The function is traced only for its stack: without a stack, not at all.
    alone: bool,
}

impl Probe {
    /// Creates a probe for a command; `alone` if the function is traced only for its stack.
    pub(crate) fn new(commanded: &Commanded<SharedCount>, alone: bool) -> Self {
        Self {
            ip: commanded.ip,
            action: commanded.action,
            left: commanded.left.clone(),
            alone,
        }
    }

    /// Returns whether the action is done no more.
    pub(super) fn is_over(&self) -> bool {
        self.left.left() == Some(0)
    }

    /// Counts that the action is done; false if it is done no more.
    pub(super) fn take(&self) -> bool {
        let take = |left| match left {
            UNLIMITED => Some(UNLIMITED),
            1.. => Some(left - 1),
            _ => None,
        };
        let order = Ordering::Relaxed;
        self.left.0.fetch_update(order, order, take).is_ok()
    }

    /// Takes back the count of an action that was not done after all.
    pub(super) fn give_back(&self) {
        let give = |left: i64| (left != UNLIMITED).then_some(left.wrapping_add(1));
        let order = Ordering::Relaxed;
        let _ = self.left.0.fetch_update(order, order, give);
    }
}

/// The outcome of looking for a function's probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// The action is not wanted.
    None,
    /// The action is wanted.
    Hit,
    /// The function was traced only for its stack, and all stacks that were wanted are recorded.
    Over,
}

/// Probes sorted by function and action.
pub(crate) type Probes = KVVec<Probe>;

/// Returns the probes of `ip` among `probes`, which are sorted by it.
///
/// `partition_point` adds numbers, and would panic if the sum were too large: nothing that a hook
/// calls may do that.
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
    /// Creates an empty set of probes.
    pub(crate) const fn none() -> Self {
        Self(None)
    }

    /// Creates the set of `probes`, sorted by function and action.
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

/// The pointer by which a hook finds probes.
///
/// # Invariants
///
/// Null, or from a box of probes sorted by their keys, which lives until another was stored here
/// and every CPU has left the code that it ran with preemption off.
pub(crate) struct ProbesPointer(AtomicPtr<Probes>);

impl ProbesPointer {
    /// Creates a pointer to no probes.
    pub(crate) const fn none() -> Self {
        // INVARIANT: Null.
        Self(AtomicPtr::new(core::ptr::null_mut()))
    }

    /// Returns whether there are no probes.
    pub(crate) fn is_none(&self) -> bool {
        self.0.load(Ordering::Relaxed).is_null()
    }

    /// Returns the probes of `ip`.
    pub(super) fn of<'a>(
        &'a self,
        _token: PreemptOff<'a>,
        ip: u64,
    ) -> impl Iterator<Item = &'a Probe> {
        let probes = self.0.load(Ordering::Acquire);
        // SAFETY: By the type's invariants the pointer is null, or from a box that lives until
        // every CPU has left the code that it runs with preemption off, as this one does while the
        // token lives.
        let probes = unsafe { probes.as_ref() };
        find(probes.map_or(&[], |probes| probes.as_slice()), ip as usize)
    }

    /// Looks for a wanted stack of `ip`, and counts it; all probes must be for stacks.
    pub(crate) fn hit(&self, token: PreemptOff<'_>, ip: u64) -> Lookup {
        let Some(probe) = self.of(token, ip).next() else {
            return Lookup::None;
        };
        match (probe.take(), probe.alone) {
            (true, _) => Lookup::Hit,
            (false, true) => Lookup::Over,
            (false, false) => Lookup::None,
        }
    }

    /// Makes `probes` the ones in force from now on, and returns those before, which no hook uses
    /// any more. Needs no memory. Callers exclude each other.
    pub(crate) fn replace(&self, probes: Ready) -> Ready {
        let new = probes.0.map_or(core::ptr::null_mut(), KBox::into_raw);
        // INVARIANT: From a box; what is returned below was taken out here, and every CPU has left
        // its hook by then.
        let old = self.0.swap(new, Ordering::AcqRel);
        if old.is_null() {
            return Ready(None);
        }
        rcu::synchronize_preempt_off();
        // SAFETY: By the type's invariants the pointer is from a box, as it is not null. It was
        // taken out by the swap alone, and every CPU has left the code that may have found it
        // before.
        Ready(Some(unsafe { KBox::from_raw(old) }))
    }
}

impl Drop for ProbesPointer {
    fn drop(&mut self) {
        let probes = *self.0.get_mut();
        if !probes.is_null() {
            // SAFETY: By the type's invariants the pointer is from a box, as it is not null.
            // References to it do not outlive `self`.
            drop(unsafe { KBox::from_raw(probes) });
        }
    }
}
