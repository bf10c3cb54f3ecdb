// SPDX-License-Identifier: GPL-2.0

//! Profile, the contexts: their tree and counts, and where the functions are that are counted.

use core::ops::Range;

use kernel::prelude::*;
use kernel::sync::Arc;

use super::{CpuCounts, Profile, Profiling};
use crate::engine::catalog::Catalog;
use crate::engine::clock::ClockKind;
use crate::engine::filter::Selector;
use crate::engine::function_set::FunctionSet;
use crate::engine::plan::ProfiledCalls;
use crate::engine::profile::context_counts::{ContextSums, CpuContexts};
use crate::engine::profile::contexts::{Contexts, Node};
use crate::engine::profile::extents::{extent_of, Extents};
use crate::engine::profile::folded::Tree;
use crate::engine::profile::waits::Waits;
use crate::machine::Machine;
use crate::platform::Vec;
use crate::sys::rcu;
use crate::sys::symbols::SymbolText;
use crate::tracer::profile::{ContextTable, Profiler};

/// The function by which an interrupt begins, before the kernel says that it is in one.
const INTERRUPT_ENTRY: &[u8] = b"irq_enter_rcu";

/// The means to tell calls whose callers were not seen from others.
pub(crate) struct Callers {
    extents: KBox<Extents>,
    /// The ftrace location of [`INTERRUPT_ENTRY`]; 0 if it cannot be traced.
    interrupt_entry: usize,
}

/// The contexts of an instance's profile, as `status` shows them.
#[derive(Default)]
pub(crate) struct ContextStats {
    /// The number of contexts.
    pub(crate) used: usize,
    /// The number that there may be.
    pub(crate) limit: usize,
    /// The number of calls that found no room.
    pub(crate) others: u64,
}

/// The contexts of a profile as they are read.
pub(crate) struct FoldedContexts {
    pub(crate) tree: Tree,
    /// The profile's number.
    serial: u64,
    /// The ftrace locations of the functions, by their numbers; 0 for those that have gone.
    ips: KVVec<usize>,
}

impl FoldedContexts {
    /// Creates that of nothing.
    pub(crate) const fn new() -> Self {
        Self {
            tree: Tree::empty(),
            serial: 0,
            ips: KVVec::new(),
        }
    }

    /// Returns the ftrace location of the function with this number; 0 if it has gone.
    pub(crate) fn ip(&self, number: usize) -> usize {
        self.ips.get(number).copied().unwrap_or(0)
    }
}

impl CpuCounts {
    /// Returns the counts for the contexts of `tree`; new ones if there are none.
    pub(super) fn contexts_of(
        &self,
        tree: &Option<Arc<Contexts>>,
    ) -> Result<Option<Arc<ContextTable>>> {
        let Some(tree) = tree else {
            return Ok(None);
        };
        match &self.contexts {
            Some(contexts) => Ok(Some(contexts.clone())),
            None => Ok(Some(Arc::new(CpuContexts::new(tree.clone())?, GFP_KERNEL)?)),
        }
    }
}

impl CpuCounts {
    /// Returns the waits by the nodes of `tree`, new ones if there are none; none without a tree.
    pub(super) fn waits_of(&self, tree: Option<&Arc<Contexts>>) -> Result<Option<Arc<Waits>>> {
        match (tree, &self.waits) {
            (None, waits) => Ok(waits.clone()),
            (Some(_), Some(waits)) => Ok(Some(waits.clone())),
            (Some(tree), None) => Ok(Some(Arc::new(Waits::new(tree.nodes())?, GFP_KERNEL)?)),
        }
    }
}

impl Profile {
    /// Returns the tree of contexts, and makes it if `counted` is the first to want one.
    pub(super) fn tree_for(&self, counted: &ProfiledCalls) -> Result<Option<Arc<Contexts>>> {
        match &self.tree {
            None if counted.contexts => {
                let tree = Contexts::new(self.limits.contexts)?;
                Ok(Some(Arc::new(tree, GFP_KERNEL)?))
            }
            tree => Ok(tree.clone()),
        }
    }

    /// Gives the profiler other extents, and returns those before, which hooks may still look at
    /// until every CPU has left the code that it runs with preemption off.
    #[must_use]
    fn replace_extents(
        &mut self,
        new: KBox<Extents>,
        profiler: &Profiler,
    ) -> Option<KBox<Extents>> {
        let old = self.extents.replace(new);
        // SAFETY: What takes them away waits until every CPU has left the code that it ran with
        // preemption off; at the end the instance unhooks the profiler before they go.
        unsafe { profiler.set_extents(self.extents.as_deref()) };
        old
    }

    /// Returns the bytes of memory that contexts take, without the counts of CPUs.
    pub(super) fn context_bytes(&self) -> usize {
        let tree = self.tree.as_ref().map_or(0, |tree| tree.bytes());
        let extents = self.extents.as_ref().map_or(0, |extents| extents.bytes());
        let base = size_of_val(&*self.context_base);
        tree.wrapping_add(extents).wrapping_add(base)
    }

    /// All that was ever counted for a node.
    fn context_sums(&self, node: usize) -> ContextSums {
        let mut sums = ContextSums::default();
        for cpu in &self.cpus {
            if let Some(contexts) = &cpu.contexts {
                sums = sums.plus(contexts.sums(node));
            }
            if let Some(waits) = &cpu.waits {
                let [slept, queued] = waits.sums(node);
                let waits = ContextSums {
                    slept,
                    queued,
                    ..ContextSums::default()
                };
                sums = sums.plus(waits);
            }
        }
        sums
    }

    /// The counts for a node since the last clear.
    fn context_since_clear(&self, node: usize) -> ContextSums {
        let base = self.context_base.get(node).copied();
        self.context_sums(node).since(base.unwrap_or_default())
    }

    /// Has all that was counted by contexts until now count no more for readers.
    pub(super) fn set_context_base(&mut self) -> Result {
        let Some(tree) = &self.tree else {
            return Ok(());
        };
        let mut base = Vec::new();
        base.reserve(tree.nodes())?;
        for node in 0..tree.nodes() {
            base.push(self.context_sums(node))?;
        }
        self.context_base = base;
        Ok(())
    }

    fn folded(&self, sleep_counts: bool, ticks: impl Fn(u64) -> u64) -> Result<FoldedContexts> {
        let Some((tree, places)) = self.tree.as_ref().zip(self.places.as_ref()) else {
            return Ok(FoldedContexts::new());
        };
        let tree = Tree::new(tree.keys(), |node| self.context_since_clear(node))?;
        let tree = tree.with_waits(sleep_counts, ticks)?;
        let mut ips = KVVec::new();
        ips.extend_from_slice(places.ips(), GFP_KERNEL)?;
        Ok(FoldedContexts {
            tree,
            serial: self.serial,
            ips,
        })
    }

    fn context_stats(&self) -> Option<ContextStats> {
        let tree = self.tree.as_ref()?;
        let calls = |node: Node| self.context_since_clear(node.index()).calls;
        Some(ContextStats {
            used: tree.used().min(tree.limit()),
            limit: tree.limit(),
            others: tree.others().map(calls).fold(0, u64::wrapping_add),
        })
    }
}

impl Profiling {
    /// Prepares to tell calls of `functions`, those that are counted by contexts, whose callers
    /// were not seen from others.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory, and those of
    /// [`Machine::with_catalog`](crate::machine::Machine::with_catalog).
    pub(crate) fn prepare_callers(
        &self,
        machine: &Machine,
        functions: &FunctionSet,
    ) -> Result<Callers> {
        let entry = |catalog: &Catalog| -> Result<FunctionSet> {
            let selector = Selector::parse(INTERRUPT_ENTRY).map_err(|_| EINVAL)?;
            Ok(catalog.select(&selector)?)
        };
        let entry = machine.with_catalog(entry)?;
        let mut text = SymbolText::new()?;
        let extent = |ip| extent_of(text.look_up_place(ip as u64), ip);
        let extents = Extents::of(functions.as_slice(), extent)?;
        Ok(Callers {
            extents: KBox::new(extents, GFP_KERNEL)?,
            interrupt_entry: entry.as_slice().first().copied().unwrap_or(0),
        })
    }

    /// Has the profiler know `callers`, and trust nothing that it knew of tasks, until
    /// [`Self::settle`]. Returns those before, which hooks may still look at. Needs no memory.
    #[must_use]
    pub(crate) fn unsettle(&self, callers: Callers) -> Option<KBox<Extents>> {
        self.profiler.unsettle(callers.interrupt_entry);
        self.profile
            .lock()
            .replace_extents(callers.extents, &self.profiler)
    }

    /// Has no function at addresses `text`, which go, be known by where it was.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn forget_extents(&self, text: &[Range<usize>]) -> Result {
        for range in text {
            let old = {
                let mut profile = self.profile.lock();
                let Some(extents) = &profile.extents else {
                    return Ok(());
                };
                let new = KBox::new(extents.without(range)?, GFP_KERNEL)?;
                profile.replace_extents(new, &self.profiler)
            };
            rcu::synchronize_preempt_off();
            drop(old);
        }
        Ok(())
    }

    /// Has the profiler trust what it finds out of tasks from here on, as all is hooked. `old` is
    /// what [`Self::unsettle`] returned. Needs no memory.
    pub(crate) fn settle(&self, old: Option<KBox<Extents>>) {
        self.profiler.hooked();
        rcu::synchronize_preempt_off();
        drop(old);
        let profile = self.profile.lock();
        if let Some(tree) = &profile.tree {
            self.profiler.settle(tree);
        }
    }

    /// Returns the contexts as they are now; times are with those of waits if `sleep_counts`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn folded(&self, machine: &Machine, sleep_counts: bool) -> Result<FoldedContexts> {
        let ticks = |ns| machine.ticks(ClockKind::Local, ns);
        self.profile.lock().folded(sleep_counts, ticks)
    }

    /// Returns the figures of contexts for `status`; `None` if there are none.
    pub(crate) fn context_stats(&self) -> Option<ContextStats> {
        self.profile.lock().context_stats()
    }

    /// Calls `user` with the name of the function that has this number in `contexts`; with `None`
    /// if that is not known any more.
    pub(crate) fn with_name_in<R>(
        &self,
        catalog: &Catalog,
        contexts: &FoldedContexts,
        number: usize,
        user: impl FnOnce(Option<&[u8]>) -> R,
    ) -> R {
        let ip = contexts.ip(number);
        if ip != 0 {
            return user(catalog.at(ip).map(|function| function.name));
        }
        let profile = self.profile.lock();
        let is_same = profile.serial == contexts.serial;
        user(profile.gone(number).filter(|_| is_same))
    }
}
