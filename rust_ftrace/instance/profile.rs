// SPDX-License-Identifier: GPL-2.0

//! Profile, the counts: the tables of an instance's CPUs, and the sums and names that are kept.

mod base;
pub(crate) mod contexts;
pub(crate) mod reading;

use core::ops::Range;

use kernel::cpu::{nr_cpu_ids, CpuId};
use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

use self::base::Base;
use super::too_deep::{Growth, TooDeep, Watcher};
use crate::engine::catalog::{Catalog, Function};
use crate::engine::clock::ClockKind;
use crate::engine::function_set::FunctionSet;
use crate::engine::plan::ProfiledCalls;
use crate::engine::profile::context_counts::ContextSums;
use crate::engine::profile::contexts::Contexts;
use crate::engine::profile::extents::Extents;
use crate::engine::profile::histogram::{Chunk, Pool};
use crate::engine::profile::numbers::{numbered, FunctionNumbers};
use crate::engine::profile::sleeps::Sleeps;
use crate::engine::profile::table::ProfileTable;
use crate::engine::profile::totals::FunctionTotals;
use crate::engine::profile::waits::Waits;
use crate::machine::{Machine, ProfileLimits};
use crate::platform::Vec;
use crate::sys::{cpu, lockdep, rcu};
use crate::tracer::profile::{ContextTable, CpuTable, Profiler};
use crate::tracer::recorder::Recorder;

/// The counts of a CPU, both those being made and those that are kept.
struct CpuCounts {
    live: Option<KBox<CpuTable>>,
    /// A table that was replaced, to which the CPU may still write.
    old: Option<KBox<CpuTable>>,
    /// The sums of earlier tables, by a function's number.
    past: Vec<FunctionTotals>,
    /// The histograms, which the next table has too.
    pool: Pool<Arc<Chunk>>,
    /// The counts of contexts, which the next table has too.
    contexts: Option<Arc<ContextTable>>,
    /// The waits by contexts, which the next table has too.
    waits: Option<Arc<Waits>>,
    base: Base,
}

impl CpuCounts {
    const fn new() -> Self {
        Self {
            live: None,
            old: None,
            past: Vec::new(),
            pool: Pool::new(),
            contexts: None,
            waits: None,
            base: Base::new(),
        }
    }

    /// All that was ever counted for a function.
    fn totals(&self, number: usize) -> FunctionTotals {
        let past = self.past.get(number).copied().unwrap_or_default();
        let tables = [&self.live, &self.old].into_iter().flatten();
        tables.fold(past, |sum, table| sum.plus(table.functions.totals(number)))
    }

    /// Returns a table for the functions of `places` that counts in what is `kept`, and waits if
    /// these are to be counted.
    fn table(
        places: &Arc<FunctionNumbers>,
        kept: &Kept,
        clears: u64,
        waits: bool,
    ) -> Result<KBox<CpuTable>> {
        let functions = ProfileTable::new(places.clone(), kept.pool.duplicate()?, clears)?;
        let table = CpuTable {
            functions: match waits {
                true => functions.with_waits()?,
                false => functions,
            },
            contexts: kept.contexts.clone(),
            waits: kept.waits.clone(),
        };
        Ok(KBox::new(table, GFP_KERNEL)?)
    }

    /// Keeps what a new table counts in.
    fn keep(&mut self, kept: Kept) {
        (self.pool, self.contexts, self.waits) = (kept.pool, kept.contexts, kept.waits);
    }

    /// Keeps only the sums of a table that was replaced, once nothing writes to it any more.
    fn sum_up_old(&mut self) {
        if let Some(table) = self.old.take() {
            for (number, past) in self.past.iter_mut().enumerate() {
                *past = past.plus(table.functions.totals(number));
            }
        }
    }
}

/// The counts that tables of a CPU have one after the other.
struct Kept {
    pool: Pool<Arc<Chunk>>,
    contexts: Option<Arc<ContextTable>>,
    waits: Option<Arc<Waits>>,
}

/// A function that was called, and has gone.
struct GoneFunction {
    number: usize,
    name: KVec<u8>,
    /// The name of its module; empty for the kernel itself.
    module: KVec<u8>,
}

impl GoneFunction {
    fn new(number: usize, function: &Function<'_>) -> Result<Self> {
        let (mut name, mut module) = (KVec::new(), KVec::new());
        name.extend_from_slice(function.name, GFP_KERNEL)?;
        module.extend_from_slice(function.module.unwrap_or_default(), GFP_KERNEL)?;
        Ok(Self {
            number,
            name,
            module,
        })
    }

    fn is(&self, function: &Function<'_>) -> bool {
        *self.name == *function.name && *self.module == *function.module.unwrap_or_default()
    }
}

/// The counts of a profile, kept when counting ends, until it begins anew or
/// [`Instance::free_profile`].
pub(super) struct Profile {
    /// The numbers of functions; `None` if nothing was counted.
    places: Option<Arc<FunctionNumbers>>,
    /// The counts of CPUs, by the number of the CPU.
    cpus: KVec<CpuCounts>,
    /// Functions that have gone. One that comes again gets the number that it had, so that these
    /// are as many as were ever called, however often modules come and go; the numbers of functions
    /// that were not called are free.
    gone: KVec<GoneFunction>,
    /// The number of clears since counting began.
    clears: u64,
    limits: ProfileLimits,
    /// The tree of contexts, if calls were ever counted by these.
    tree: Option<Arc<Contexts>>,
    /// Waits are counted, or were.
    waits: bool,
    /// The counts of all CPUs before a clear, by the node.
    context_base: Vec<ContextSums>,
    /// The addresses of the functions that are counted by contexts.
    extents: Option<KBox<Extents>>,
    /// Tells this profile from those before.
    serial: u64,
}

impl Profile {
    /// Creates a profile in which nothing was counted, with these `limits`. Its number, `serial`,
    /// tells it from others of the instance.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    fn new(limits: ProfileLimits, serial: u64) -> Result<Self> {
        let mut cpus = KVec::new();
        for _ in 0..nr_cpu_ids() {
            cpus.push(CpuCounts::new(), GFP_KERNEL)?;
        }
        Ok(Self {
            places: None,
            cpus,
            gone: KVec::new(),
            clears: 0,
            limits,
            tree: None,
            waits: false,
            context_base: Vec::new(),
            extents: None,
            serial,
        })
    }

    fn of(&self, cpu: CpuId) -> Option<&CpuCounts> {
        self.cpus.get(cpu.as_u32() as usize)
    }

    fn of_mut(&mut self, cpu: CpuId) -> Option<&mut CpuCounts> {
        self.cpus.get_mut(cpu.as_u32() as usize)
    }

    /// Returns the bytes of memory that the profile takes.
    fn bytes(&self) -> usize {
        let of_cpu = |counts: &CpuCounts| {
            let tables = [&counts.live, &counts.old].into_iter().flatten();
            let past = size_of_val(&*counts.past);
            let own = past.wrapping_add(counts.pool.bytes());
            let own = own.wrapping_add(counts.base.bytes());
            let contexts = counts.contexts.as_ref();
            let own = own.wrapping_add(contexts.map_or(0, |contexts| contexts.bytes()));
            let waits = counts.waits.as_ref();
            let own = own.wrapping_add(waits.map_or(0, |waits| waits.bytes()));
            tables.fold(own, |sum, table| sum.wrapping_add(table.functions.bytes()))
        };
        let tables = self.cpus.iter().map(of_cpu).fold(0, usize::wrapping_add);
        let of_gone = |gone: &GoneFunction| {
            size_of::<GoneFunction>()
                .wrapping_add(gone.name.capacity())
                .wrapping_add(gone.module.capacity())
        };
        let gone = self.gone.iter().map(of_gone).fold(0, usize::wrapping_add);
        let places = self.places.as_ref().map_or(0, |places| places.bytes());
        let functions = tables.wrapping_add(places).wrapping_add(gone);
        functions.wrapping_add(self.context_bytes())
    }

    fn is_known(&self, ip: usize) -> bool {
        let places = self.places.as_ref();
        places.is_some_and(|places| places.find(ip as u64).is_some())
    }

    /// Returns the functions among `ips` that had gone and came again, by address, with the numbers
    /// that they had.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    fn back(&self, ips: &FunctionSet, catalog: &Catalog) -> Result<KVec<(usize, usize)>> {
        let mut back = KVec::new();
        for &ip in ips.as_slice().iter().filter(|ip| !self.is_known(**ip)) {
            let Some(function) = catalog.at(ip) else {
                continue;
            };
            // Several functions of a module may have the same name.
            let is_taken = |number| back.iter().any(|(_, taken)| *taken == number);
            let mut gone = self.gone.iter();
            let found = gone.find(|gone| gone.is(&function) && !is_taken(gone.number));
            let number = found.map(|gone| gone.number);
            if let Some(number) = number {
                back.push((ip, number), GFP_KERNEL)?;
            }
        }
        Ok(back)
    }

    /// Returns whether nothing was ever counted for a number that no function has.
    fn is_free(&self, number: usize) -> bool {
        let mut cpus = self.cpus.iter();
        cpus.all(|cpu| cpu.totals(number).is_none())
    }

    /// Takes the tables away from `profiler`, by which nothing is hooked.
    fn withdraw(&self, profiler: &Profiler) {
        for cpu in cpu::possible() {
            // SAFETY:
            // - There is no table that is to stay valid.
            // - None is given for another CPU.
            unsafe { profiler.set_table(cpu, None) };
        }
        profiler.unsettle(0);
        // SAFETY: There are no extents that are to stay valid.
        unsafe { profiler.set_extents(None) };
    }

    /// Forgets all counts. Nothing may be counting, nor begin to before there are new tables.
    fn clear(&mut self, profiler: &Profiler) {
        self.withdraw(profiler);
        for counts in &mut self.cpus {
            *counts = CpuCounts::new();
        }
        self.gone = KVec::new();
        self.places = None;
        self.clears = 0;
        self.tree = None;
        self.waits = false;
        self.context_base = Vec::new();
        self.extents = None;
    }

    /// Gives `functions`, those that are `counted`, numbers: those that have one keep it, and those
    /// in `back` get it back. Gives all CPUs that are online tables for all of them. Returns
    /// whether it did: [`Profile::sum_up_old`] is to follow then, when nothing writes to the tables
    /// before.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory: nothing is changed then.
    fn extend(
        &mut self,
        counted: &ProfiledCalls,
        functions: &FunctionSet,
        back: &[(usize, usize)],
        profiler: &Profiler,
    ) -> Result<bool> {
        let ips = functions.as_slice().iter().copied();
        let mut new = ips.filter(|ip| !self.is_known(*ip));
        let tree = self.tree_for(counted)?;
        let waits = self.waits || counted.waits;
        let is_old = self.places.is_some() && tree.is_some() == self.tree.is_some();
        let is_old = is_old && waits == self.waits;
        if is_old && new.clone().next().is_none() {
            return Ok(false);
        }
        let old = self.places.as_ref().map_or(&[][..], |places| places.ips());
        let numbers = numbered(old, &mut new, back, |number| self.is_free(number))?;
        let places = Arc::new(FunctionNumbers::new(numbers)?, GFP_KERNEL)?;
        let mut tables = KVec::new();
        for _ in &self.cpus {
            tables.push(None, GFP_KERNEL)?;
        }
        for cpu in cpu::online() {
            let number = cpu.as_u32() as usize;
            let (Some(slot), Some(counts)) = (tables.get_mut(number), self.cpus.get(number)) else {
                continue;
            };
            let kept = self.kept(counts, &places, &tree, waits)?;
            let table = CpuCounts::table(&places, &kept, self.clears, waits)?;
            *slot = Some((table, kept));
        }
        // This makes room for the sums of CPUs that get another table, or are not online any more.
        for counts in &mut self.cpus {
            let length = counts
                .live
                .as_ref()
                .map_or(0, |table| table.functions.places().ips().len());
            while counts.past.len() < length {
                counts.past.push(FunctionTotals::default())?;
            }
        }
        // Nothing fails from here on.
        self.gone
            .retain(|gone| places.ips().get(gone.number) == Some(&0));
        self.places = Some(places);
        self.tree = tree;
        self.waits = waits;
        for cpu in cpu::possible() {
            let number = cpu.as_u32() as usize;
            let (Some(counts), Some(slot)) = (self.cpus.get_mut(number), tables.get_mut(number))
            else {
                continue;
            };
            let (table, kept) = slot.take().unzip();
            counts.old = core::mem::replace(&mut counts.live, table);
            if let Some(kept) = kept {
                counts.keep(kept);
            }
            // SAFETY:
            // - What takes the table away keeps it until nothing counts in it; at the end the
            //   instance unhooks the profiler before the tables go.
            // - The table is given for this CPU only.
            unsafe { profiler.set_table(cpu, counts.live.as_deref()) };
        }
        Ok(true)
    }

    /// Returns what a table for the functions of `places` counts in, by the nodes of `tree`, too,
    /// and waits if these are to be counted.
    fn kept(
        &self,
        counts: &CpuCounts,
        places: &FunctionNumbers,
        tree: &Option<Arc<Contexts>>,
        waits: bool,
    ) -> Result<Kept> {
        Ok(Kept {
            pool: self.grown(&counts.pool, places)?,
            contexts: counts.contexts_of(tree)?,
            waits: counts.waits_of(tree.as_ref().filter(|_| waits))?,
        })
    }

    /// Returns the histograms of `pool`, and more if the functions of `places` may take more.
    fn grown(&self, pool: &Pool<Arc<Chunk>>, places: &FunctionNumbers) -> Result<Pool<Arc<Chunk>>> {
        let wanted = places.ips().len().min(self.limits.histograms);
        pool.grown(wanted, |limit| {
            Ok(Arc::new(Chunk::new(limit)?, GFP_KERNEL)?)
        })
    }

    /// Keeps only the sums of the tables that were replaced.
    fn sum_up_old(&mut self) {
        self.cpus.iter_mut().for_each(CpuCounts::sum_up_old);
    }

    /// Gives `cpu`, which is coming online, a table if others have one.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn make_for(&mut self, cpu: CpuId, profiler: &Profiler) -> Result {
        let Some(places) = self.places.clone() else {
            return Ok(());
        };
        let Some(counts) = self.of(cpu).filter(|counts| counts.live.is_none()) else {
            return Ok(());
        };
        let kept = self.kept(counts, &places, &self.tree, self.waits)?;
        let table = CpuCounts::table(&places, &kept, self.clears, self.waits)?;
        let Some(counts) = self.of_mut(cpu) else {
            return Ok(());
        };
        counts.keep(kept);
        let table = counts.live.insert(table);
        // SAFETY:
        // - What takes the table away keeps it until nothing counts in it; at the end the instance
        //   unhooks the profiler before the tables go.
        // - The table is given for this CPU only.
        unsafe { profiler.set_table(cpu, Some(table)) };
        Ok(())
    }

    /// Returns whether any function of the profile is at addresses `text`.
    fn has_any_of(&self, text: &[Range<usize>]) -> bool {
        let mut ips = self.places.iter().flat_map(|places| places.ips());
        ips.any(|ip| text.iter().any(|range| range.contains(ip)))
    }

    /// Forgets the functions at addresses `range`, which go; their counts stay, under their names
    /// in `catalog`.
    fn forget(&mut self, range: &Range<usize>, catalog: &Catalog) -> Result {
        let Some(places) = &self.places else {
            return Ok(());
        };
        if !self.has_any_of(core::slice::from_ref(range)) {
            return Ok(());
        }
        let mut numbers = Vec::new();
        for (number, ip) in places.ips().iter().enumerate() {
            if !range.contains(ip) {
                numbers.push(*ip)?;
                continue;
            }
            numbers.push(0)?;
            if let Some(function) = catalog.at(*ip).filter(|_| !self.is_free(number)) {
                self.gone
                    .push(GoneFunction::new(number, &function)?, GFP_KERNEL)?;
            }
        }
        // The tables find them still, until they are replaced: none of these functions is hooked
        // any more.
        self.places = Some(Arc::new(FunctionNumbers::new(numbers)?, GFP_KERNEL)?);
        Ok(())
    }

    /// Returns the name of a function that has gone.
    fn gone(&self, number: usize) -> Option<&[u8]> {
        let mut gone = self.gone.iter();
        Some(&gone.find(|gone| gone.number == number)?.name)
    }
}

/// The profiler of an instance, and its counts.
#[pin_data]
pub(crate) struct Profiling {
    // Field order is teardown order.
    pub(super) profiler: Profiler,
    #[pin]
    pub(super) profile: Mutex<Profile>,
    limits: ProfileLimits,
}

impl Profiling {
    /// Creates the state in which nothing is counted. `recorder` knows the tasks and CPUs whose
    /// calls are to be.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    ///
    /// # Safety
    ///
    /// `recorder` is valid for as long as calls are hooked for the profiler.
    pub(super) unsafe fn new(
        machine: &Machine,
        recorder: *const Recorder,
    ) -> Result<impl PinInit<Self, Error>> {
        let by_counter = machine.is_counter(ClockKind::Local);
        // SAFETY: It is valid for as long as calls are hooked, by caller precondition.
        let profiler = unsafe { Profiler::new(by_counter, recorder, machine.core_text())? };
        let limits = machine.profile_limits();
        let profile = Profile::new(limits, 0)?;
        let new = try_pin_init!(Self {
            profiler,
            profile <- new_mutex!(profile),
            limits,
        }? Error);
        Ok(new.pin_chain(|this| {
            lockdep::never_waits_with(|| drop(this.profile.lock()));
            Ok(())
        }))
    }

    /// Begins to count from zero, and returns the counts before, for [`Self::put_back`].
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory, and those of [`TooDeep::begin`]; nothing is changed then.
    pub(super) fn begin(&self, too_deep: &TooDeep) -> Result<(Profile, Growth)> {
        let serial = self.profile.lock().serial.wrapping_add(1);
        let new = Profile::new(self.limits, serial)?;
        let growth = too_deep.forget_profile();
        if let Err(error) = too_deep.begin(Watcher::Profile) {
            too_deep.put_back_profile(growth);
            return Err(error);
        }
        self.profiler.new_session();
        let mut profile = self.profile.lock();
        profile.withdraw(&self.profiler);
        Ok((core::mem::replace(&mut *profile, new), growth))
    }

    /// Puts back counts that had ended. Needs no memory.
    pub(super) fn put_back(&self, (profile, growth): (Profile, Growth), too_deep: &TooDeep) {
        let mut now = self.profile.lock();
        // Nothing counts in the new tables yet, nor in the old ones any more.
        now.withdraw(&self.profiler);
        let withdrawn = core::mem::replace(&mut *now, profile);
        drop(now);
        drop(withdrawn);
        too_deep.put_back_profile(growth);
    }

    /// Gives `functions`, those that are `counted`, numbers, and makes room for their counts.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory, and those of
    /// [`Machine::with_catalog`](crate::machine::Machine::with_catalog).
    pub(super) fn extend(
        &self,
        machine: &Machine,
        counted: &ProfiledCalls,
        functions: &FunctionSet,
    ) -> Result {
        let has_gone = !self.profile.lock().gone.is_empty();
        let back = |catalog: &Catalog| self.profile.lock().back(functions, catalog);
        let back = match has_gone {
            true => machine.with_catalog(back)?,
            false => KVec::new(),
        };
        let is_extended = {
            // The lock keeps CPUs from being half online.
            let _cpus = cpu::ReadLock::new();
            (self.profile.lock()).extend(counted, functions, &back, &self.profiler)?
        };
        if is_extended {
            // The lock of the profile must not be held: a CPU that is coming may be waiting for it.
            rcu::synchronize_preempt_off();
            self.profile.lock().sum_up_old();
        }
        Ok(())
    }

    /// Notes that the functions at addresses `text` go. To be called while they still have names,
    /// under which their counts stay.
    pub(super) fn forget(&self, machine: &Machine, text: &[Range<usize>]) {
        let forget = |catalog: &Catalog| {
            let mut profile = self.profile.lock();
            (text.iter()).try_for_each(|range| profile.forget(range, catalog))
        };
        if !self.profile.lock().has_any_of(text) {
            return;
        }
        let named = machine.with_catalog(forget);
        let forgotten = self.forget_extents(text);
        if named.and(forgotten).is_err() {
            pr_warn!("functions of a removed module are not as known, for want of memory\n");
        }
    }

    /// Returns the number of functions that have a number, or had one and have gone, and the bytes
    /// of memory.
    pub(super) fn size(&self) -> (usize, usize) {
        let profile = self.profile.lock();
        let ips = profile.places.iter().flat_map(|places| places.ips());
        let there = ips.filter(|ip| **ip != 0).count();
        let sleeps = self.profiler.sleeps().map_or(0, Sleeps::bytes);
        let bytes = profile.bytes().wrapping_add(sleeps);
        (there.wrapping_add(profile.gone.len()), bytes)
    }

    /// Frees the memory of the counts. Nothing may be counting.
    pub(super) fn clear(&self) {
        self.profile.lock().clear(&self.profiler);
    }
}
