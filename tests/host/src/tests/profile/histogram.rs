// SPDX-License-Identifier: GPL-2.0

//! The profile's histograms, pools of them, and clears.

use std::collections::HashMap;
use std::rc::Rc;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{call, grown, leave, places, totals_of, CpuTable, TEXT};
use crate::engine::profile::histogram::{
    bucket_of, lower_end, upper_end, Distribution, Pool, BUCKETS,
};
use crate::engine::profile::totals::FunctionTotals;
use crate::tests::{cases, interrupted, points};

/// Returns how long the calls of a function took, by all of its histograms.
fn times_of<'a>(tables: impl IntoIterator<Item = &'a Rc<PoolOf>>, number: usize) -> Distribution {
    let mut sums = Distribution::new().unwrap();
    for pool in tables {
        pool.add_to(number, &mut sums);
    }
    sums
}

/// The histograms of a table of a CPU, and what they had before a clear.
struct PoolOf {
    pool: Pool<Rc<super::Chunk>>,
    base: HashMap<usize, Vec<u64>>,
}

impl PoolOf {
    fn new(pool: Pool<Rc<super::Chunk>>) -> Rc<Self> {
        let base = HashMap::new();
        Rc::new(Self { pool, base })
    }

    /// Takes what was counted until now for the base.
    fn cleared(&self) -> Rc<Self> {
        let of = |place: usize| {
            let (_, counts) = self.pool.at(place)?;
            Some((
                place,
                counts.iter().map(|count| count.load_relaxed()).collect(),
            ))
        };
        Rc::new(Self {
            pool: self.pool.duplicate().unwrap(),
            base: (0..self.pool.places()).filter_map(of).collect(),
        })
    }

    fn add_to(&self, number: usize, sums: &mut Distribution) {
        for place in 0..self.pool.places() {
            if let Some((_, counts)) = self.pool.at(place).filter(|(of, _)| *of == number) {
                let base = self.base.get(&place).map_or(&[][..], |base| base);
                sums.add(counts, base);
            }
        }
    }
}

/// Makes a table for so many functions, with room for histograms of `histograms` of them.
fn table(functions: usize, histograms: usize) -> (CpuTable, Rc<PoolOf>) {
    let pool = grown(&Pool::new(), histograms);
    let of = PoolOf::new(pool.duplicate().unwrap());
    let places = places((0..functions).map(|number| TEXT + number * 16));
    (CpuTable::new(places, pool, 0).unwrap(), of)
}

fn counted(sums: &Distribution) -> Vec<(usize, u64)> {
    sums.buckets().collect()
}

fn buckets_of(times: &[u64]) -> Vec<(usize, u64)> {
    let mut all = [0; BUCKETS];
    for time in times {
        all[bucket_of(*time)] += 1;
    }
    let all = all.into_iter().enumerate();
    all.filter(|(_, count)| *count != 0).collect()
}

/// Every value is in one bucket, and the buckets follow each other.
#[test]
fn buckets_follow_each_other() {
    assert_eq!((lower_end(0), upper_end(BUCKETS - 1)), (0, u64::MAX));
    for bucket in 0..BUCKETS {
        assert_eq!(bucket_of(lower_end(bucket)), bucket);
        assert_eq!(bucket_of(upper_end(bucket)), bucket);
        if bucket + 1 < BUCKETS {
            assert_eq!(lower_end(bucket + 1), upper_end(bucket) + 1);
        }
    }
    // An octave is a cache line.
    assert!((16..BUCKETS).all(|bucket| {
        let octave = |bucket: usize| lower_end(bucket).ilog2();
        octave(bucket) == octave(bucket / 8 * 8)
    }));
}

/// Times of all sizes.
fn times() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0u32..64).prop_map(|(value, shift)| value >> shift)
}

proptest! {
    #![proptest_config(cases(300))]

    /// A bucket is no wider than an eighth of what is in it, or a tick.
    #[test]
    fn buckets_are_narrow(value in times()) {
        let bucket = bucket_of(value);
        prop_assert!(bucket < BUCKETS);
        let (lower, upper) = (lower_end(bucket), upper_end(bucket));
        prop_assert!(lower <= value && value <= upper);
        let width = u128::from(upper) + 1 - u128::from(lower);
        prop_assert!(width == 1 || width * 8 <= u128::from(lower));
    }

    /// A percentile is no less than that of the values themselves, and no more than the end of
    /// its bucket.
    #[test]
    fn percentiles_are_near(mut values in vec(times(), 1..400), percent in 1u64..100) {
        let (table, pool) = table(1, 1);
        for value in &values {
            call(&table, TEXT, *value);
        }
        values.sort_unstable();
        let rank = (values.len() * percent as usize).div_ceil(100).max(1);
        let wanted = values[rank - 1];
        let sums = times_of([&pool], 0);
        prop_assert_eq!(sums.total(), values.len() as u64);
        let got = sums.percentile(percent).unwrap();
        prop_assert!(got >= wanted);
        prop_assert_eq!(got, upper_end(bucket_of(wanted)));
    }

    /// The sums of CPUs are those of all their calls, wherever they return.
    #[test]
    fn cpus_are_added_up(calls in vec((0usize..3, 0usize..5, times()), 0..200)) {
        let cpus = [table(5, 5), table(5, 5), table(5, 5)];
        let mut wanted = vec![Vec::new(); 5];
        for (cpu, number, time) in calls {
            let known = cpus[(cpu + 1) % 3].0.enter_behind((TEXT + number * 16) as u64).unwrap();
            leave(&cpus[cpu].0, known, time, 0);
            wanted[number].push(time);
        }
        for (number, times) in wanted.iter().enumerate() {
            let sums = times_of(cpus.iter().map(|(_, pool)| pool), number);
            prop_assert_eq!(counted(&sums), buckets_of(times));
            let totals = cpus.iter().map(|(table, _)| table.totals(number));
            let totals = totals.reduce(FunctionTotals::plus).unwrap();
            prop_assert_eq!(totals, totals_of(times));
        }
    }

    /// Counts before a clear and after it are all, and a longest time is that since.
    #[test]
    fn clears_take_nothing_away(parts in vec(vec((0usize..3, times()), 0..60), 1..5)) {
        let (table, mut pool) = table(3, 3);
        let mut bases = [FunctionTotals::default(); 3];
        let mut all = vec![Vec::new(); 3];
        for (clears, calls) in parts.iter().enumerate() {
            let mut since = vec![Vec::new(); 3];
            for (number, time) in calls {
                call(&table, TEXT + number * 16, *time);
                since[*number].push(*time);
                all[*number].push(*time);
            }
            let clears = clears as u64;
            for number in 0..3 {
                let sums = times_of([&pool], number);
                prop_assert_eq!(counted(&sums), buckets_of(&since[number]));
                let now = table.totals(number);
                let got = now.since(bases[number], clears);
                let wanted = totals_of(&since[number]);
                prop_assert_eq!(FunctionTotals { longest: 0, ..got },
                    FunctionTotals { longest: 0, ..wanted });
                prop_assert_eq!(got.max(), wanted.max());
                // Both parts are all.
                let sum = FunctionTotals { longest: 0, ..got.plus(bases[number]) };
                prop_assert_eq!(sum, FunctionTotals { longest: 0, ..totals_of(&all[number]) });
            }
            bases = [0, 1, 2].map(|number| table.totals(number));
            pool = pool.cleared();
            table.set_clears(clears + 1);
        }
    }

    /// Functions that find no histogram share the rest, and the others have all of their calls.
    #[test]
    fn the_rest_takes_all_others(histograms in 0usize..40, calls in vec((0usize..40, times()), 0..200)) {
        let (table, pool) = table(40, histograms);
        let mut own = Vec::new();
        let (mut wanted, mut rest) = (vec![Vec::new(); 40], Vec::new());
        for (number, time) in calls {
            call(&table, TEXT + number * 16, time);
            if !own.contains(&number) && own.len() < histograms {
                own.push(number);
            }
            match own.contains(&number) {
                true => wanted[number].push(time),
                false => rest.push((number, time)),
            }
        }
        for (number, wanted) in wanted.iter().enumerate() {
            prop_assert_eq!(counted(&times_of([&pool], number)), buckets_of(wanted));
            let in_rest = rest.iter().any(|(of, _)| *of == number);
            prop_assert_eq!(table.is_in_rest(number), in_rest);
        }
        let in_rest: u64 = pool.pool.rest().unwrap().iter().map(|count| count.load_relaxed()).sum();
        prop_assert_eq!(in_rest, rest.len() as u64);
    }

    /// Tables that follow each other count in the same histograms, and in more as functions come.
    #[test]
    fn histograms_stay_while_functions_come(steps in vec(vec((0usize..20, times()), 0..40), 1..4)) {
        let mut pool = Pool::new();
        let mut wanted = vec![Vec::new(); 80];
        for (step, calls) in steps.iter().enumerate() {
            let functions = 20 * (step + 1);
            pool = grown(&pool, functions);
            let places = places((0..functions).map(|number| TEXT + number * 16));
            let table = CpuTable::new(places, pool.duplicate().unwrap(), 0).unwrap();
            for (number, time) in calls {
                let number = number * (step + 1);
                call(&table, TEXT + number * 16, *time);
                wanted[number].push(*time);
            }
        }
        let pool = PoolOf::new(pool);
        for (number, times) in wanted.iter().enumerate() {
            prop_assert_eq!(counted(&times_of([&pool], number)), buckets_of(times));
        }
        // Each has no more than one.
        let places = 0..pool.pool.places();
        let taken = places.filter(|place| pool.pool.at(*place).is_some()).count();
        prop_assert_eq!(taken, wanted.iter().filter(|times| !times.is_empty()).count());
    }
}

/// An interrupt, and an NMI in it, call functions for the first time at any place of a first call:
/// all calls are in the functions' histograms, as long as there are enough.
#[test]
fn interrupts_take_histograms() {
    let times = [5000, 60, 700_000];
    let mut rounds = 0;
    'points: for first in points() {
        for second in points() {
            let (table, pool) = table(2, 4);
            let table = Rc::new(table);
            let inner = table.clone();
            let all_came = Rc::new(std::cell::Cell::new(false));
            let nmi_came = all_came.clone();
            let interrupt = move |_| {
                let nmi_table = inner.clone();
                let nmi = move |_| call(&nmi_table, TEXT + 16, times[1]);
                nmi_came.set(interrupted([second], nmi, || call(&inner, TEXT, times[2])));
            };
            if !interrupted([first], interrupt, || call(&table, TEXT, times[0])) {
                break 'points;
            }
            if !all_came.get() {
                break;
            }
            rounds += 1;
            let got = counted(&times_of([&pool], 0));
            assert_eq!(got, buckets_of(&[times[0], times[2]]), "{first} {second}");
            assert_eq!(counted(&times_of([&pool], 1)), buckets_of(&times[1..2]));
            assert_eq!(table.totals(0), totals_of(&[times[0], times[2]]));
        }
    }
    assert!(cfg!(miri) || rounds > 100, "{rounds}");
}

/// Calls that last longer than 48 bits have room for are the longest still.
#[test]
fn the_longest_is_cut_off() {
    let (table, pool) = table(1, 1);
    for time in [u64::MAX, 7, 1 << 50] {
        call(&table, TEXT, time);
    }
    assert_eq!(table.totals(0).max(), (1 << 48) - 1);
    assert_eq!(
        counted(&times_of([&pool], 0)),
        buckets_of(&[u64::MAX, 7, 1 << 50])
    );
    // The clears before do not show in it, nor do too many of them.
    table.set_clears(70_000);
    call(&table, TEXT, 9);
    assert_eq!(
        table
            .totals(0)
            .since(FunctionTotals::default(), 70_000)
            .max(),
        9
    );
}

#[test]
fn nothing_has_no_percentile() {
    let sums = Distribution::new().unwrap();
    assert_eq!((sums.percentile(50), sums.total()), (None, 0));
}
