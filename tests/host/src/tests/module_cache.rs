// SPDX-License-Identifier: GPL-2.0

//! The data kept of modules, against a list.

use proptest::prelude::*;

use crate::engine::module_cache::ModuleCache;
use crate::platform::memory::with_allocations;

const MOST: usize = 100;

#[derive(Clone, Debug)]
enum Step {
    Keep(u8, Option<u32>, usize),
    Forget(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let module = 0..6_u8;
    prop_oneof![
        3 => (module.clone(), any::<Option<u32>>(), 0..150_usize)
            .prop_map(|(module, value, bytes)| Step::Keep(module, value, bytes)),
        1 => module.prop_map(Step::Forget),
    ]
}

proptest! {
    /// The last is always there; of the others those that were kept last, as far as there is room.
    #[test]
    fn as_a_list(steps in prop::collection::vec(step(), 0..40)) {
        let mut cache = ModuleCache::new(MOST);
        let mut list: Vec<(u8, Option<u32>, usize)> = Vec::new();
        let bytes_of = |list: &[(u8, Option<u32>, usize)]| -> usize {
            list.iter().map(|(_, _, bytes)| bytes).sum()
        };
        for step in steps {
            match step {
                Step::Keep(module, value, bytes) => {
                    let none = with_allocations(0, || cache.keep(&[module], value, bytes));
                    prop_assert!(none.is_err());
                    prop_assert_eq!(cache.bytes(), bytes_of(&list));
                    cache.keep(&[module], value, bytes).unwrap();
                    list.retain(|(other, _, _)| *other != module);
                    while bytes_of(&list) + bytes > MOST {
                        let first = list.iter().position(|(_, _, bytes)| *bytes != 0);
                        match first {
                            Some(first) => list.remove(first),
                            None => break,
                        };
                    }
                    list.push((module, value, bytes));
                }
                Step::Forget(module) => {
                    cache.forget(&[module]);
                    list.retain(|(other, _, _)| *other != module);
                }
            }
            for module in 0..6 {
                let wanted = list.iter().find(|(other, _, _)| *other == module);
                let wanted = wanted.map(|(_, value, _)| *value);
                prop_assert_eq!(cache.find(&[module]), wanted);
            }
            prop_assert_eq!(cache.bytes(), bytes_of(&list));
            let values = list.iter().filter(|(_, value, _)| value.is_some()).count();
            prop_assert_eq!(cache.count(), values);
        }
    }
}
