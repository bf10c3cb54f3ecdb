// SPDX-License-Identifier: GPL-2.0

//! Tests of the division of memory into blocks.

use proptest::prelude::*;

use super::{cases, rounds};
use crate::platform::blocks::Blocks;

#[derive(Clone, Debug)]
enum Step {
    Take(usize),
    GiveBack(usize),
    Reset,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..9000usize).prop_map(Step::Take),
        4 => any::<usize>().prop_map(Step::GiveBack),
        1 => Just(Step::Reset),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn blocks_lie_apart_and_inside(size in 0..70_000usize, steps in steps()) {
        let mut blocks = Blocks::new(size);
        let mut taken: Vec<(usize, usize)> = Vec::new();
        for step in steps {
            match step {
                Step::Take(bytes) => {
                    let Some(place) = blocks.take(bytes) else {
                        continue;
                    };
                    let whole = bytes.next_power_of_two().max(64);
                    prop_assert!(place + whole <= size);
                    prop_assert_eq!(place % whole.min(4096), 0);
                    for (other, length) in &taken {
                        prop_assert!(place + bytes <= *other || other + length <= place);
                    }
                    taken.push((place, bytes));
                }
                Step::GiveBack(which) => {
                    if !taken.is_empty() {
                        let (place, bytes) = taken.swap_remove(which % taken.len());
                        blocks.give_back(place, bytes);
                    }
                }
                Step::Reset => {
                    blocks.reset();
                    taken.clear();
                }
            }
        }
    }
}

#[test]
fn what_comes_back_is_given_out_again() {
    let mut blocks = Blocks::new(16 * 1024);
    for _ in 0..rounds(1000) {
        let place = blocks.take(3000).unwrap();
        let other = blocks.take(9000 / 2).unwrap();
        blocks.give_back(place, 3000);
        blocks.give_back(other, 9000 / 2);
    }
    // What is said to be enough is.
    let mut blocks = Blocks::new(Blocks::bytes_for(100) + Blocks::bytes_for(16_368));
    blocks.take(100).unwrap();
    blocks.take(16_368).unwrap();
    assert_eq!(blocks.take(5000), None);
    assert!(Blocks::are_alike(33, 64) && !Blocks::are_alike(64, 65));
}

#[test]
fn sizes_that_no_memory_has_are_refused() {
    let mut blocks = Blocks::new(usize::MAX);
    assert_eq!(blocks.take(usize::MAX), None);
    assert_eq!(blocks.take(1 << 27), None);
    blocks.give_back(0, usize::MAX);
    assert_eq!(blocks.take(0), Some(0));
}
