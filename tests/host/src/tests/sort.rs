// SPDX-License-Identifier: GPL-2.0

//! The sort that sets are built with.

use proptest::prelude::*;

use crate::engine::sort::sort_by_key;

proptest! {
    #[test]
    fn sorting(values: Vec<(u8, u16)>) {
        let mut sorted = values.clone();
        sort_by_key(&mut sorted, |&(key, _)| key);
        prop_assert!(sorted.is_sorted_by_key(|&(key, _)| key));
        // Nothing is lost.
        let (mut left, mut right) = (values, sorted);
        left.sort();
        right.sort();
        prop_assert_eq!(left, right);
    }
}
