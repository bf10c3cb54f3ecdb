// SPDX-License-Identifier: GPL-2.0

use std::collections::HashMap;

use proptest::prelude::*;

use super::cases;
use crate::engine::name_cache::NameCache;
use crate::platform::{memory, AllocError};

fn name_of(address: u64) -> Vec<u8> {
    vec![b'a' + (address % 26) as u8; (address % 600) as usize]
}

/// Returns addresses as functions have them, 16 bytes apart, and some that hash alike.
fn addresses(count: u64) -> impl Iterator<Item = u64> {
    let functions = (0..count).map(|index| 0xffff_ffff_8100_0000 + index * 16);
    functions.chain((1..100).map(|index| index << 56))
}

fn get(names: &NameCache, address: u64) -> Option<&[u8]> {
    names.find(address).map(|found| names.text(found))
}

#[test]
fn what_was_kept_is_found() {
    const COUNT: u64 = if cfg!(miri) { 300 } else { 5000 };
    let mut names = NameCache::new();
    assert_eq!(get(&names, 1), None);
    for (kept, address) in addresses(COUNT).enumerate() {
        assert_eq!(get(&names, address), None, "{address:x}, {kept} kept");
        names.keep(address, &name_of(address)).expect("memory");
        assert_eq!(get(&names, address), Some(&*name_of(address)));
    }
    for address in addresses(COUNT) {
        assert_eq!(
            get(&names, address),
            Some(&*name_of(address)),
            "{address:x}"
        );
        assert_eq!(get(&names, address + 1), None);
    }
}

#[test]
fn no_address_0() {
    let mut names = NameCache::new();
    names.keep(1, b"one").expect("memory");
    names.keep(0, b"nothing").expect("memory");
    assert_eq!(get(&names, 0), None);
    assert_eq!(get(&names, 1), Some(&b"one"[..]));
}

/// The table stops growing, and searches still end.
#[test]
#[cfg_attr(
    miri,
    ignore = "200,000 names, which take hours; nothing of it is unsafe"
)]
fn so_many_and_no_more() {
    const MOST: u64 = (1 << 16) / 4 * 3;
    let mut names = NameCache::new();
    for address in 1..2 * MOST {
        names.keep(address, b"f").expect("memory");
    }
    for address in 1..2 * MOST {
        assert_eq!(get(&names, address).is_some(), address <= MOST, "{address}");
    }
    names.clear();
    assert_eq!(get(&names, 1), None);
    names.keep(2 * MOST, b"g").expect("memory");
    assert_eq!(get(&names, 2 * MOST), Some(&b"g"[..]));
}

#[derive(Clone, Debug)]
enum Step {
    /// Keeps an address and its name, with memory for so many allocations.
    Keep(u64, Vec<u8>, usize),
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Few, so that some come again; of the highest bits, so that some hash alike.
    let address = prop_oneof![1..400u64, (1..200u64).prop_map(|high| high << 56)];
    let name = prop::collection::vec(any::<u8>(), 0..20);
    let keep = (address, name, prop_oneof![0..3usize, Just(usize::MAX)]);
    let step = prop_oneof![
        199 => keep.prop_map(|(address, name, left)| Step::Keep(address, name, left)),
        1 => Just(Step::Clear),
    ];
    prop::collection::vec(step, 0..1000)
}

proptest! {
    #![proptest_config(cases(64))]

    /// Agrees with a `HashMap`, also where memory runs out: names that were kept stay, and nothing
    /// else is there.
    #[test]
    fn like_a_map(steps in steps()) {
        let mut names = NameCache::new();
        let mut map = HashMap::new();
        for step in steps {
            match step {
                Step::Clear => {
                    names.clear();
                    map.clear();
                }
                Step::Keep(address, name, left) => {
                    prop_assert_eq!(get(&names, address), map.get(&address).map(|name: &Vec<u8>| &**name));
                    if map.contains_key(&address) {
                        continue;
                    }
                    match memory::with_allocations(left, || names.keep(address, &name)) {
                        Ok(()) => drop(map.insert(address, name)),
                        Err(AllocError) => prop_assert!(left != usize::MAX),
                    }
                }
            }
        }
        for (address, name) in &map {
            prop_assert_eq!(get(&names, *address), Some(&**name));
        }
        for address in 1..400 {
            prop_assert_eq!(get(&names, address).is_some(), map.contains_key(&address));
        }
    }
}
