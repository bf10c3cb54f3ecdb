// SPDX-License-Identifier: GPL-2.0

//! Sets of functions, as std has sets.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::engine::function_set::FunctionSet;

fn set(ips: &BTreeSet<usize>) -> FunctionSet {
    FunctionSet::from_sorted(ips.iter().copied()).expect("memory")
}

fn ips() -> impl Strategy<Value = BTreeSet<usize>> {
    prop::collection::btree_set(0..40usize, 0..30)
}

proptest! {
    #[test]
    fn as_std_does(a in ips(), b in ips(), start in 0..40usize, length in 0..40usize) {
        let (x, y) = (set(&a), set(&b));
        let same = |set: &FunctionSet, wanted: &BTreeSet<usize>| {
            set.as_slice().iter().eq(wanted) && set.len() == wanted.len()
        };
        prop_assert!(same(&x, &a));
        prop_assert!(same(&x.duplicate().expect("memory"), &a));
        prop_assert!(same(&x.union(&y).expect("memory"), &(&a | &b)));
        prop_assert!(same(&x.difference(&y).expect("memory"), &(&a - &b)));
        prop_assert_eq!(x.is_empty(), a.is_empty());
        prop_assert!((0..40).all(|ip| x.contains(ip) == a.contains(&ip)));
        let range = start..start + length;
        let mut rest = x;
        let any = a.iter().any(|ip| range.contains(ip));
        prop_assert_eq!(rest.remove_range(&range), any);
        prop_assert!(same(&rest, &a.iter().copied().filter(|ip| !range.contains(ip)).collect()));
    }
}

#[test]
fn disorder_is_left_out() {
    let set = FunctionSet::from_sorted([1, 3, 2, 3, 5].into_iter()).expect("memory");
    assert_eq!(set.as_slice(), [1, 3, 5]);
    assert!(FunctionSet::new().is_empty());
}
