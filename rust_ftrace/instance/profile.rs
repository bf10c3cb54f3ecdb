// SPDX-License-Identifier: GPL-2.0

//! Profile, the counts: the tables of an instance's CPUs, and the sums and names that are kept.

use core::ops::Range;

use kernel::cpu::{nr_cpu_ids, CpuId};
use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

use super::too_deep::{Growth, TooDeep, Watcher};
use crate::engine::catalog::{Catalog, Function};
use crate::engine::clock::ClockKind;
use crate::engine::function_set::FunctionSet;
use crate::engine::profile::{numbered, FunctionNumbers, FunctionTotals, ProfileTable};
use crate::engine::sort::sort_by_key;
use crate::machine::Machine;
use crate::platform::Vec;
use crate::sys::{cpu, lockdep, rcu};
use crate::tracer::profile::{CpuTable, Profiler};

/// The counts of a CPU, both those being made and those that are kept.
struct CpuCounts {
    live: Option<KBox<CpuTable>>,
    /// A table that was replaced, to which the CPU may still write.
    old: Option<KBox<CpuTable>>,
    /// The sums of earlier tables, by a function's number.
    past: Vec<FunctionTotals>,
}

impl CpuCounts {
    fn totals(&self, number: usize) -> FunctionTotals {
        let past = self.past.get(number).copied().unwrap_or_default();
        let tables = [&self.live, &self.old].into_iter().flatten();
        tables.fold(past, |sum, table| sum.plus(table.totals(number)))
    }

    /// Keeps only the sums of a table that was replaced, once nothing writes to it any more.
    fn sum_up_old(&mut self) {
        if let Some(table) = self.old.take() {
            for (number, past) in self.past.iter_mut().enumerate() {
                *past = past.plus(table.totals(number));
            }
        }
    }
}

/// A function of the profile.
#[derive(Clone, Copy)]
pub(crate) struct ProfileRow {
    /// The number of the function.
    number: usize,
    /// The ftrace location of the function; 0 if it has gone.
    pub(crate) ip: usize,
    pub(crate) totals: FunctionTotals,
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
}

impl Profile {
    /// Creates a profile in which nothing was counted.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn new() -> Result<Self> {
        let mut cpus = KVec::new();
        for _ in 0..nr_cpu_ids() {
            let counts = CpuCounts {
                live: None,
                old: None,
                past: Vec::new(),
            };
            cpus.push(counts, GFP_KERNEL)?;
        }
        Ok(Self {
            places: None,
            cpus,
            gone: KVec::new(),
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
            tables.fold(past, |sum, table| sum.wrapping_add(table.bytes()))
        };
        let tables = self.cpus.iter().map(of_cpu).fold(0, usize::wrapping_add);
        let of_gone = |gone: &GoneFunction| {
            size_of::<GoneFunction>()
                .wrapping_add(gone.name.capacity())
                .wrapping_add(gone.module.capacity())
        };
        let gone = self.gone.iter().map(of_gone).fold(0, usize::wrapping_add);
        let places = self.places.as_ref().map_or(0, |places| places.bytes());
        tables.wrapping_add(places).wrapping_add(gone)
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
        cpus.all(|cpu| cpu.totals(number) == FunctionTotals::default())
    }

    /// Takes the tables away from `profiler`, by which nothing is hooked.
    fn withdraw(&self, profiler: &Profiler) {
        for cpu in cpu::possible() {
            // SAFETY:
            // - There is no table that is to stay valid.
            // - None is given for another CPU.
            unsafe { profiler.set_table(cpu, None) };
        }
    }

    /// Forgets all counts. Nothing may be counting, nor begin to before there are new tables.
    fn clear(&mut self, profiler: &Profiler) {
        self.withdraw(profiler);
        for counts in &mut self.cpus {
            counts.live = None;
            counts.old = None;
            counts.past = Vec::new();
        }
        self.gone = KVec::new();
        self.places = None;
    }

    /// Gives the functions `ips` numbers: those that have one keep it, and those in `back` get it
    /// back. Gives all CPUs that are online tables for all of them. Returns whether it did:
    /// [`Profile::sum_up_old`] is to follow then, when nothing writes to the tables before.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory: nothing is changed then.
    fn extend(
        &mut self,
        ips: &FunctionSet,
        back: &[(usize, usize)],
        profiler: &Profiler,
    ) -> Result<bool> {
        let mut new = (ips.as_slice().iter().copied()).filter(|ip| !self.is_known(*ip));
        if self.places.is_some() && new.clone().next().is_none() {
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
            let table = ProfileTable::new(places.clone(), profiler.session())?;
            let table = KBox::new(table, GFP_KERNEL)?;
            if let Some(slot) = tables.get_mut(cpu.as_u32() as usize) {
                *slot = Some(table);
            }
        }
        // This makes room for the sums of CPUs that get another table, or are not online any more.
        for counts in &mut self.cpus {
            let length = counts
                .live
                .as_ref()
                .map_or(0, |table| table.places().ips().len());
            while counts.past.len() < length {
                counts.past.push(FunctionTotals::default())?;
            }
        }
        // Nothing fails from here on.
        self.gone
            .retain(|gone| places.ips().get(gone.number) == Some(&0));
        self.places = Some(places);
        for cpu in cpu::possible() {
            let number = cpu.as_u32() as usize;
            let (Some(counts), Some(slot)) = (self.cpus.get_mut(number), tables.get_mut(number))
            else {
                continue;
            };
            counts.old = core::mem::replace(&mut counts.live, slot.take());
            // SAFETY:
            // - What takes the table away keeps it until nothing counts in it; at the end the
            //   instance unhooks the profiler before the tables go.
            // - The table is given for this CPU only.
            unsafe { profiler.set_table(cpu, counts.live.as_deref()) };
        }
        Ok(true)
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
        let Some(counts) = self.of_mut(cpu).filter(|counts| counts.live.is_none()) else {
            return Ok(());
        };
        let table = KBox::new(ProfileTable::new(places, profiler.session())?, GFP_KERNEL)?;
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

    /// Returns a row for every function that was called on `cpu`, or on any.
    fn rows(&self, cpu: Option<CpuId>) -> Result<KVVec<ProfileRow>> {
        let mut rows = KVVec::new();
        let Some(places) = &self.places else {
            return Ok(rows);
        };
        for (number, &ip) in places.ips().iter().enumerate() {
            let totals = match cpu {
                Some(cpu) => self.of(cpu).map(|counts| counts.totals(number)),
                None => {
                    let all = self.cpus.iter().map(|counts| counts.totals(number));
                    all.reduce(FunctionTotals::plus)
                }
            };
            let totals = totals.unwrap_or_default();
            if totals != FunctionTotals::default() {
                rows.push(ProfileRow { number, ip, totals }, GFP_KERNEL)?;
            }
        }
        Ok(rows)
    }
}

/// The profiler of an instance, and its counts.
#[pin_data]
pub(crate) struct Profiling {
    // Field order is teardown order.
    pub(super) profiler: Profiler,
    #[pin]
    pub(super) profile: Mutex<Profile>,
}

impl Profiling {
    /// Creates the state in which nothing is counted.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn new(machine: &Machine) -> Result<impl PinInit<Self, Error>> {
        let profiler = Profiler::new(machine.is_counter(ClockKind::Local))?;
        let profile = Profile::new()?;
        let new = try_pin_init!(Self {
            profiler,
            profile <- new_mutex!(profile),
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
        let new = Profile::new()?;
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

    /// Gives `functions` numbers, and makes room for their counts.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory, and those of
    /// [`Machine::with_catalog`](crate::machine::Machine::with_catalog).
    pub(super) fn extend(&self, machine: &Machine, functions: &FunctionSet) -> Result {
        let has_gone = !self.profile.lock().gone.is_empty();
        let back = |catalog: &Catalog| self.profile.lock().back(functions, catalog);
        let back = match has_gone {
            true => machine.with_catalog(back)?,
            false => KVec::new(),
        };
        let is_extended = {
            // The lock keeps CPUs from being half online.
            let _cpus = cpu::ReadLock::new();
            (self.profile.lock()).extend(functions, &back, &self.profiler)?
        };
        if is_extended {
            // The lock of the profile must not be held: a CPU that is coming may be waiting for it.
            rcu::synchronize_preempt_off();
            self.profile.lock().sum_up_old();
        }
        Ok(())
    }

    /// Returns the counts of `cpu`, or of all, the functions with most time first.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn rows(&self, cpu: Option<CpuId>) -> Result<KVVec<ProfileRow>> {
        let mut rows = self.profile.lock().rows(cpu)?;
        sort_by_key(&mut rows, |row| (u64::MAX - row.totals.time, row.ip));
        Ok(rows)
    }

    /// Calls `user` with the name of a function of the profile; with `None` if the name is not
    /// known any more.
    ///
    /// # Errors
    ///
    /// Those of `user`, and of [`Machine::with_catalog`](crate::machine::Machine::with_catalog).
    pub(crate) fn with_name(
        &self,
        machine: &Machine,
        row: &ProfileRow,
        user: impl FnOnce(Option<&[u8]>) -> Result,
    ) -> Result {
        let mut ip = row.ip;
        if ip == 0 {
            let profile = self.profile.lock();
            if let Some(name) = profile.gone(row.number) {
                return user(Some(name));
            }
            // The function came again meanwhile.
            let places = profile.places.as_ref();
            let now = places.and_then(|places| places.ips().get(row.number));
            ip = now.copied().unwrap_or(0);
        }
        let name = |catalog: &Catalog| user(catalog.at(ip).map(|function| function.name));
        machine.with_catalog(name)
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
        if machine.with_catalog(forget).is_err() {
            pr_warn!(
                "functions of a removed module have no names in the profile, for want of memory\n"
            );
        }
    }

    /// Returns the number of functions that have a number, or had one and have gone, and the bytes
    /// of memory.
    pub(super) fn size(&self) -> (usize, usize) {
        let profile = self.profile.lock();
        let ips = profile.places.iter().flat_map(|places| places.ips());
        let there = ips.filter(|ip| **ip != 0).count();
        (there.wrapping_add(profile.gone.len()), profile.bytes())
    }

    /// Frees the memory of the counts. Nothing may be counting.
    pub(super) fn clear(&self) {
        self.profile.lock().clear(&self.profiler);
    }
}
