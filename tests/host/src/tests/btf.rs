// SPDX-License-Identifier: GPL-2.0

//! Names and types of arguments, by a description made here.

use proptest::prelude::*;

use crate::engine::btf::Btf;

/// A description in the making.
#[derive(Default)]
struct Maker {
    types: Vec<u8>,
    strings: Vec<u8>,
    count: u32,
}

const SIGNED: u32 = 1 << 24;

impl Maker {
    fn new() -> Self {
        Self {
            strings: vec![0],
            ..Self::default()
        }
    }

    fn name(&mut self, name: &str) -> u32 {
        let at = self.strings.len();
        self.strings.extend(name.as_bytes());
        self.strings.push(0);
        at as u32
    }

    /// Adds a type, and returns its number.
    fn add(&mut self, name: &str, kind: u32, count: u32, size: u32, rest: &[u32]) -> u32 {
        let words = [self.name(name), (kind << 24) | count, size];
        for word in words.iter().chain(rest) {
            self.types.extend(word.to_le_bytes());
        }
        self.count += 1;
        self.count
    }

    fn function(&mut self, name: &str, parameters: &[(&str, u32)]) {
        let rest: Vec<_> = parameters
            .iter()
            .flat_map(|(name, number)| [self.name(name), *number])
            .collect();
        let prototype = self.add("", 13, parameters.len() as u32, 0, &rest);
        self.add(name, 12, 0, prototype, &[]);
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        for word in [24, 0, types, types, strings] {
            bytes.extend(u32::to_le_bytes(word));
        }
        bytes.extend(&self.types);
        bytes.extend(&self.strings);
        bytes
    }
}

fn made() -> Vec<u8> {
    let mut maker = Maker::new();
    let int = maker.add("int", 1, 0, 4, &[SIGNED]);
    let size = maker.add("size_t", 1, 0, 8, &[0]);
    let pointer = maker.add("", 2, 0, int, &[]);
    let constant = maker.add("", 10, 0, pointer, &[]);
    let name = maker.add("name_t", 8, 0, constant, &[]);
    let values = [
        maker.name("NONE"),
        0,
        maker.name("SOME"),
        2,
        maker.name("MINUS"),
        u32::MAX,
    ];
    let choice = maker.add("choice", 6, 3, 4, &values);
    let pair = maker.add("pair", 4, 0, 16, &[]);
    maker.function("no_parameters", &[]);
    maker.function(
        "all_kinds",
        &[
            ("fd", int),
            ("count", size),
            ("name", name),
            ("how", choice),
        ],
    );
    maker.function("by_value", &[("first", pair), ("second", int)]);
    maker.function("many", &[("a", size); 8]);
    maker.function(
        "wide",
        &[
            ("a", int),
            ("b", size),
            ("c", size),
            ("d", size),
            ("e", size),
            ("f", pair),
        ],
    );
    maker.function("no_type", &[("what", 0)]);
    maker.bytes()
}

fn shown(name: &str, args: [u64; 6]) -> Option<String> {
    let btf = Btf::new(made()).unwrap().expect("types");
    let mut text = String::new();
    let known = btf.write_args(&mut text, name.as_bytes(), &args);
    known.unwrap().then_some(text)
}

/// Lines are those that the kernel's tracer makes of the same.
#[test]
fn arguments() {
    let args = [u64::MAX, 0x400, 0xffff_8880_0000_1000, 2, 5, 6];
    for (name, wanted) in [
        ("no_parameters", "()"),
        (
            "all_kinds",
            "(fd=-1, count=0x400, name=0xffff888000001000, how=2 [SOME])",
        ),
        (
            "by_value",
            "(first=(STRUCT)[0xffffffffffffffff:0x400], second=-131391639515136)",
        ),
        (
            "many",
            "(a=0xffffffffffffffff, a=0x400, a=0xffff888000001000, a=0x2, a=0x5, a=0x6, ...)",
        ),
        (
            "wide",
            "(a=-1, b=0x400, c=0xffff888000001000, d=0x2, e=0x5, f=(STRUCT)[0x6:...])",
        ),
        ("no_type", "(what=?0xffffffffffffffff)"),
    ] {
        assert_eq!(shown(name, args).as_deref(), Some(wanted), "{name}");
    }
    assert_eq!(shown("all", args), None);
    assert_eq!(shown("size_t", args), None);
    let odd = shown("all_kinds", [0, 0, 0, u64::MAX, 0, 0]);
    assert!(odd.unwrap().ends_with("how=-1 [MINUS])"));
    let unknown = shown("all_kinds", [0, 0, 0, 77, 0, 0]);
    assert!(unknown.unwrap().ends_with("how=77)"));
}

proptest! {
    /// A broken description is not believed, and every use of it has an end.
    #[test]
    fn any_bytes(changes: Vec<(usize, u8)>, length: usize) {
        let mut bytes = made();
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        bytes.truncate(length % (2 * bytes.len()));
        if let Some(btf) = Btf::new(bytes).unwrap() {
            for name in ["all_kinds", "by_value", "many", "wide", "no_type"] {
                let mut text = String::new();
                btf.write_args(&mut text, name.as_bytes(), &[7; 6]).unwrap();
                prop_assert!(text.len() < 20_000);
            }
        }
    }
}
