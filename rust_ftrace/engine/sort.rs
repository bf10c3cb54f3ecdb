// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Sorting in place. The sort of `core` can panic (on an inconsistent order), which code of a
//! module should not be able to.

/// Sorts by a key, in `O(n log n)`, by a heap; equal keys may change places.
pub fn sort_by_key<T, K: Ord>(values: &mut [T], key: impl Fn(&T) -> K) {
    for start in (0..values.len() / 2).rev() {
        sift_down(values, start, &key);
    }
    for end in (1..values.len()).rev() {
        values.swap(0, end);
        if let Some(heap) = values.get_mut(..end) {
            sift_down(heap, 0, &key);
        }
    }
}

/// Lets the value at `index` sink to its place in a heap whose largest value comes first.
fn sift_down<T, K: Ord>(heap: &mut [T], mut index: usize, key: &impl Fn(&T) -> K) {
    let less = |heap: &[T], a: usize, b: usize| match (heap.get(a), heap.get(b)) {
        (Some(a), Some(b)) => key(a) < key(b),
        _ => false,
    };
    loop {
        let left = 2 * index + 1;
        let child = if less(heap, left, left + 1) {
            left + 1
        } else {
            left
        };
        if !less(heap, index, child) {
            break;
        }
        heap.swap(index, child);
        index = child;
    }
}
