// SPDX-License-Identifier: GPL-2.0

//! Profile, the counts as they are read: less what was counted before the last clear.

use kernel::cpu::CpuId;
use kernel::prelude::*;

use super::base::Base;
use super::{CpuCounts, Profile, Profiling};
use crate::engine::catalog::Catalog;
use crate::engine::profile::histogram::{Distribution, CHUNK};
use crate::engine::profile::sleeps::Sleeps;
use crate::engine::profile::task_names::WokenBy;
use crate::engine::profile::totals::FunctionTotals;
use crate::engine::sort::sort_by_key;
use crate::engine::waiting::Waker;
use crate::machine::Machine;
use crate::sys::context::PreemptOff;
use crate::sys::cpu;

/// A function of the profile.
#[derive(Clone, Copy)]
pub(crate) struct ProfileRow {
    /// The number of the function.
    number: usize,
    /// The ftrace location of the function; 0 if it has gone.
    pub(crate) ip: usize,
    pub(crate) totals: FunctionTotals,
}

/// A histogram of a function.
#[derive(Clone, Copy)]
struct Place {
    /// The number of the function.
    number: usize,
    cpu: usize,
    /// The place in the pool of the CPU; `None` stands for the rest.
    place: Option<usize>,
}

/// The places of the histograms of functions.
pub(crate) struct Histograms {
    /// The profile's number.
    serial: u64,
    /// Sorted by the number of the function.
    places: KVVec<Place>,
}

impl Histograms {
    /// Creates a list of none.
    pub(crate) const fn new() -> Self {
        Self {
            serial: 0,
            places: KVVec::new(),
        }
    }
}

/// The histograms of an instance's profile, as `status` shows them.
#[derive(Default)]
pub(crate) struct HistogramStats {
    /// The number that is taken, on the CPU with most of them.
    pub(crate) taken: usize,
    /// The number of functions that may have one on a CPU.
    pub(crate) limit: usize,
    /// The number of calls that are in none of their function's own.
    pub(crate) in_rest: u64,
}

impl CpuCounts {
    /// Returns what was counted on `cpu`, whose counts these are, for functions up to number
    /// `count`. The CPU copies a function's histogram and its other counts itself, with interrupts
    /// off, so that after a clear neither has calls that the other has not.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    fn all(&self, count: usize, cpu: CpuId, cpus: &cpu::ReadLock) -> Result<Base> {
        let mut base = Base::of(count, |number| self.totals(number))?;
        // A function that takes a histogram later had no calls that returned before.
        let has_any = |place: &usize| self.pool.at(*place).is_some();
        let last = (0..self.pool.places()).rev().find(has_any);
        let chunks = last.map_or(0, |last| (last / CHUNK).wrapping_add(1));
        base.make_room(chunks)?;
        for chunk in 0..chunks {
            let first = chunk.saturating_mul(CHUNK);
            let mut copy = || {
                for place in first..first.saturating_add(CHUNK) {
                    if let Some((number, counts)) = self.pool.at(place) {
                        base.copy(place, number, counts, || self.totals(number));
                    }
                }
            };
            if !cpus.call(cpu, &mut |_: PreemptOff<'_>| copy()) {
                // It is not online: nothing is counted there.
                copy();
            }
        }
        Ok(base)
    }

    /// The counts of a function since the last of so many clears.
    fn since_clear(&self, number: usize, clears: u64) -> FunctionTotals {
        self.totals(number)
            .since(self.base.of_function(number), clears)
    }
}

impl Profile {
    /// Returns a row for every function that was called on `cpu`, or on any.
    fn rows(&self, cpu: Option<CpuId>) -> Result<KVVec<ProfileRow>> {
        let mut rows = KVVec::new();
        let Some(places) = &self.places else {
            return Ok(rows);
        };
        let of = |number| move |counts: &CpuCounts| counts.since_clear(number, self.clears);
        for (number, &ip) in places.ips().iter().enumerate() {
            let totals = match cpu {
                Some(cpu) => self.of(cpu).map(of(number)),
                None => self
                    .cpus
                    .iter()
                    .map(of(number))
                    .reduce(FunctionTotals::plus),
            };
            let totals = totals.unwrap_or_default();
            if !totals.is_none() {
                rows.push(ProfileRow { number, ip, totals }, GFP_KERNEL)?;
            }
        }
        Ok(rows)
    }

    /// Returns where the histograms of functions are now.
    fn histograms(&self) -> Result<Histograms> {
        let mut places = KVVec::new();
        for (cpu, counts) in self.cpus.iter().enumerate() {
            for place in 0..counts.pool.places() {
                if let Some((number, _)) = counts.pool.at(place) {
                    let place = Some(place);
                    places.push(Place { number, cpu, place }, GFP_KERNEL)?;
                }
            }
            for table in [&counts.live, &counts.old].into_iter().flatten() {
                let table = &table.functions;
                let numbers = 0..table.places().ips().len();
                for number in numbers.filter(|number| table.is_in_rest(*number)) {
                    let place = None;
                    places.push(Place { number, cpu, place }, GFP_KERNEL)?;
                }
            }
        }
        sort_by_key(&mut places, |place| (place.number, place.cpu));
        let serial = self.serial;
        Ok(Histograms { serial, places })
    }

    /// Puts how long calls of a function took into `sums`. Returns false if that is not known, as
    /// some are in the rest.
    fn distribution(
        &self,
        histograms: &Histograms,
        number: usize,
        sums: &mut Distribution,
    ) -> bool {
        sums.clear();
        if histograms.serial != self.serial {
            return false;
        }
        let places = &histograms.places;
        let first = places.partition_point(|place| place.number < number);
        let of_function = places.get(first..).unwrap_or_default().iter();
        for of in of_function.take_while(|place| place.number == number) {
            let Some(place) = of.place else {
                return false;
            };
            let Some(cpu) = self.cpus.get(of.cpu) else {
                continue;
            };
            if let Some((_, counts)) = cpu.pool.at(place) {
                sums.add(counts, cpu.base.of_histogram(place));
            }
        }
        true
    }

    /// Has all that was counted until now count no more for readers.
    fn set_base(&mut self, cpus: &cpu::ReadLock) -> Result {
        let count = self.places.as_ref().map_or(0, |places| places.ips().len());
        let mut bases = KVec::with_capacity(self.cpus.len(), GFP_KERNEL)?;
        for cpu in cpu::possible() {
            if let Some(counts) = self.of(cpu) {
                bases.push((cpu, counts.all(count, cpu, cpus)?), GFP_KERNEL)?;
            }
        }
        self.set_context_base()?;
        // Nothing fails from here on.
        let clears = self.clears.wrapping_add(1);
        self.clears = clears;
        for (cpu, base) in bases {
            let Some(counts) = self.of_mut(cpu) else {
                continue;
            };
            counts.base = base;
            for table in [&counts.live, &counts.old].into_iter().flatten() {
                table.functions.set_clears(clears);
            }
        }
        Ok(())
    }

    fn histogram_stats(&self) -> HistogramStats {
        let mut stats = HistogramStats {
            limit: self.limits.histograms,
            ..Default::default()
        };
        for counts in &self.cpus {
            let places = 0..counts.pool.places();
            let taken = places.filter(|place| counts.pool.at(*place).is_some());
            stats.taken = stats.taken.max(taken.count());
            for count in counts.pool.rest().into_iter().flatten() {
                stats.in_rest = stats.in_rest.wrapping_add(count.load_relaxed());
            }
        }
        stats
    }
}

impl Profiling {
    /// Returns the counts of `cpu`, or of all, the functions with most time first.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn rows(&self, cpu: Option<CpuId>) -> Result<KVVec<ProfileRow>> {
        let mut rows = self.profile.lock().rows(cpu)?;
        sort_by_key(&mut rows, |row| (u64::MAX - row.totals.time(), row.ip));
        Ok(rows)
    }

    /// Returns the counts of all CPUs, the functions with most time first, that of calls within
    /// them included, and where their histograms are.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn summaries(&self) -> Result<(KVVec<ProfileRow>, Histograms)> {
        let (mut rows, histograms) = {
            let profile = self.profile.lock();
            (profile.rows(None)?, profile.histograms()?)
        };
        sort_by_key(&mut rows, |row| (u64::MAX - row.totals.total, row.ip));
        Ok((rows, histograms))
    }

    /// Puts how long calls of a function took into `sums`. Returns false if that is not known.
    pub(crate) fn distribution(
        &self,
        histograms: &Histograms,
        row: &ProfileRow,
        sums: &mut Distribution,
    ) -> bool {
        let profile = self.profile.lock();
        profile.distribution(histograms, row.number, sums)
    }

    /// Has all counts begin from zero for readers; what is counting goes on.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; nothing is changed then.
    pub(crate) fn clear_counts(&self) -> Result {
        let cpus = cpu::ReadLock::new();
        self.profile.lock().set_base(&cpus)
    }

    /// Returns whether waits are counted, or were.
    pub(crate) fn has_waits(&self) -> bool {
        self.profile.lock().waits
    }

    /// Returns a waker of a sleep in a call, as it is told.
    pub(crate) fn woken_by(&self, waker: Waker) -> WokenBy {
        let sleeps = self.profiler.sleeps();
        sleeps.map_or(WokenBy::Unknown, |sleeps| sleeps.woken_by(waker))
    }

    /// Returns the number of sleeps whose waker was lost; `None` if waits are not counted.
    pub(crate) fn lost_wakers(&self) -> Option<u64> {
        self.profiler.sleeps().map(Sleeps::lost)
    }

    /// Returns the figures of the histograms for `status`.
    pub(crate) fn histogram_stats(&self) -> HistogramStats {
        self.profile.lock().histogram_stats()
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
}
