// SPDX-License-Identifier: GPL-2.0

//! Names and types of arguments, by a description made here.

use proptest::prelude::*;

use crate::engine::btf::{name_and_module, Btf};
use crate::engine::errno::ResultKind;

/// A description in the making.
#[derive(Default)]
struct Maker {
    types: Vec<u8>,
    strings: Vec<u8>,
    count: u32,
    /// Bytes of strings of the description that it goes on from.
    before: u32,
}

const SIGNED: u32 = 1 << 24;

impl Maker {
    fn new() -> Self {
        Self {
            strings: vec![0],
            ..Self::default()
        }
    }

    /// Begins a description that goes on from this one.
    fn after(&self) -> Self {
        Self {
            count: self.count,
            before: self.before + self.strings.len() as u32,
            ..Self::default()
        }
    }

    fn name(&mut self, name: &str) -> u32 {
        let at = self.strings.len();
        self.strings.extend(name.as_bytes());
        self.strings.push(0);
        self.before + at as u32
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
    kernel().bytes()
}

fn kernel() -> Maker {
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
    maker
}

/// The types of a module: of its own, of the kernel's, and both.
fn module() -> Maker {
    let mut maker = kernel().after();
    let (int, size) = (1, 2);
    let tiny = maker.add("u8", 1, 0, 1, &[0]);
    let constant = maker.add("", 10, 0, tiny, &[]);
    let values = [maker.name("OFF"), 0, maker.name("ON"), 1];
    let state = maker.add("state", 6, 2, 4, &values);
    let theirs = maker.add("", 2, 0, size, &[]);
    maker.function(
        "probe",
        &[
            ("index", int),
            ("byte", constant),
            ("state", state),
            ("sizes", theirs),
        ],
    );
    // The kernel has a function of this name, too, whose name is kept there.
    let prototype = maker.add("", 13, 1, 0, &[0, tiny]);
    let shared = text_offset(&kernel(), "by_value");
    let at = maker.types.len();
    maker.add("", 12, 0, prototype, &[]);
    maker.types[at..at + 4].copy_from_slice(&shared.to_le_bytes());
    maker
}

/// Returns the offset of a name in the strings.
fn text_offset(maker: &Maker, name: &str) -> u32 {
    let wanted = [&[0], name.as_bytes(), &[0]].concat();
    let mut windows = maker.strings.windows(wanted.len());
    windows.position(|bytes| bytes == wanted).expect("a name") as u32 + 1
}

/// Returns the arguments of a module's function, or what became of its types.
fn shown_of_module(
    name: &str,
    base: &Maker,
    module: Vec<u8>,
) -> Result<Option<String>, &'static str> {
    let base = Btf::new(base.bytes()).unwrap().ok_or("no base")?;
    let module = Btf::split(module, &base).unwrap().ok_or("refused")?;
    let types = module.after(&base).ok_or("another base")?;
    let mut text = String::new();
    let known = types.write_args(&mut text, name.as_bytes(), &[u64::MAX, 2, 1, 0x1000, 5, 6]);
    Ok(known.unwrap().then_some(text))
}

fn shown(name: &str, args: [u64; 6]) -> Option<String> {
    let btf = Btf::new(made()).unwrap().expect("types");
    let mut text = String::new();
    let known = btf.alone().write_args(&mut text, name.as_bytes(), &args);
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

/// Results are errors by their types, without their modifiers.
#[test]
fn results() {
    let mut maker = kernel();
    let (int, size, pointer, name, choice, pair) = (1, 2, 3, 5, 6, 7);
    let unsigned = maker.add("unsigned int", 1, 0, 4, &[0]);
    let truth = maker.add("bool", 1, 0, 1, &[4 << 24]);
    let byte = maker.add("u8", 1, 0, 1, &[0]);
    let long = maker.add("long", 1, 0, 8, &[SIGNED]);
    let ssize = maker.add("ssize_t", 8, 0, long, &[]);
    let error = maker.add("int_t", 8, 0, int, &[]);
    for (name, result) in [
        ("nothing", 0),
        ("of_int", int),
        ("of_size", size),
        ("of_pointer", pointer),
        ("of_name", name),
        ("of_choice", choice),
        ("of_pair", pair),
        ("of_unsigned", unsigned),
        ("of_truth", truth),
        ("of_byte", byte),
        ("of_ssize", ssize),
        ("of_error", error),
        ("of_unknown", 1000),
    ] {
        let prototype = maker.add("", 13, 0, result, &[]);
        maker.add(name, 12, 0, prototype, &[]);
    }
    let btf = Btf::new(maker.bytes()).unwrap().expect("types");
    for (name, kind) in [
        ("nothing", ResultKind::None),
        ("of_int", ResultKind::Int),
        ("of_size", ResultKind::Long),
        ("of_pointer", ResultKind::Long),
        ("of_name", ResultKind::Long),
        ("of_choice", ResultKind::Half),
        ("of_pair", ResultKind::None),
        ("of_unsigned", ResultKind::Half),
        ("of_truth", ResultKind::Byte),
        ("of_byte", ResultKind::Byte),
        ("of_ssize", ResultKind::Long),
        ("of_error", ResultKind::Int),
        ("of_unknown", ResultKind::None),
        ("not_there", ResultKind::Unknown),
    ] {
        assert_eq!(btf.alone().result(name.as_bytes()), kind, "{name}");
    }
}

/// Types and names of a module are its own or the kernel's, by number and offset.
#[test]
fn types_of_a_module() {
    let shown = |name| shown_of_module(name, &kernel(), module().bytes());
    let probe = "(index=-1, byte=0x2, state=1 [ON], sizes=0x1000)";
    assert_eq!(shown("probe"), Ok(Some(probe.to_owned())));
    // Its own function, and not that of the kernel; and none of the kernel's.
    assert_eq!(
        shown("by_value"),
        Ok(Some("(=0xffffffffffffffff)".to_owned()))
    );
    assert_eq!(shown("all_kinds"), Ok(None));
    // The kernel's own stay as they are.
    let btf = Btf::new(made()).unwrap().expect("types");
    let mut text = String::new();
    assert_eq!(
        btf.alone().write_args(&mut text, b"by_value", &[0; 6]),
        Ok(true)
    );
    assert!(text.starts_with("(first=(STRUCT)[0x0:0x0], second=0"));
    assert_eq!(
        btf.alone().write_args(&mut text, b"probe", &[0; 6]),
        Ok(false)
    );
}

/// A description that leads to what neither it nor the kernel's has is refused, as is one of
/// another kernel.
#[test]
fn types_of_no_module() {
    let whole = module();
    let shown = |base: &Maker, bytes| shown_of_module("probe", base, bytes);
    let last = whole.count;
    let broken = |change: &dyn Fn(&mut Maker)| {
        let mut maker = module();
        change(&mut maker);
        shown(&kernel(), maker.bytes())
    };
    let names = kernel().strings.len() as u32 + whole.strings.len() as u32;
    assert!(broken(&|maker| _ = maker.add("", 2, 0, last + 1, &[])).is_ok());
    assert_eq!(
        broken(&|maker| _ = maker.add("", 2, 0, last + 2, &[])),
        Err("refused")
    );
    assert_eq!(
        broken(&|maker| _ = maker.add("", 13, 1, last + 2, &[0, 1])),
        Err("refused")
    );
    assert_eq!(
        broken(&|maker| _ = maker.add("", 13, 1, 0, &[0, last + 2])),
        Err("refused")
    );
    assert!(broken(&|maker| _ = maker.add("", 13, 1, 0, &[names, 1])).is_ok());
    assert_eq!(
        broken(&|maker| _ = maker.add("", 13, 1, 0, &[names + 2, 1])),
        Err("refused")
    );
    assert_eq!(
        broken(&|maker| _ = maker.add("", 20, 0, 0, &[])),
        Err("refused")
    );
    assert_eq!(
        broken(&|maker| *maker.strings.last_mut().unwrap() = b'x'),
        Err("refused")
    );
    for length in 0..whole.bytes().len() {
        assert_eq!(
            shown(&kernel(), whole.bytes()[..length].to_vec()),
            Err("refused")
        );
    }
    // A kernel with fewer types, or fewer strings.
    let mut other = Maker::new();
    other.add("int", 1, 0, 4, &[SIGNED]);
    assert_eq!(shown(&other, whole.bytes()), Err("refused"));
    // Nothing goes on from what goes on from another, and each from its own alone.
    let base = Btf::new(made()).unwrap().expect("types");
    let first = Btf::split(whole.bytes(), &base).unwrap().expect("types");
    assert!(Btf::split(whole.after().bytes(), &first).unwrap().is_none());
    assert!(first
        .after(&Btf::new(other.bytes()).unwrap().unwrap())
        .is_none());
    assert!(first.after(&first).is_none());
    // Without the kernel's, its types are missing.
    let mut text = String::new();
    assert_eq!(
        first.alone().write_args(&mut text, b"probe", &[3; 6]),
        Ok(true)
    );
    assert_eq!(text, "(index=?0x3, byte=0x3, state=3, sizes=0x3)");
}

/// kallsyms has modules in brackets.
#[test]
fn names_and_modules() {
    for (symbol, name, module) in [
        ("vfs_read", "vfs_read", None),
        ("ext4_fill_super [ext4]", "ext4_fill_super", Some("ext4")),
        ("0xffffffffc0000000", "0xffffffffc0000000", None),
        ("[ext4]", "[ext4]", None),
        ("", "", None),
        ("a [b] [c]", "a", Some("b] [c")),
        ("]", "]", None),
    ] {
        let wanted = (name.as_bytes(), module.map(str::as_bytes));
        assert_eq!(name_and_module(symbol.as_bytes()), wanted, "{symbol}");
    }
}

proptest! {
    /// A broken description of a module is not believed, and every use of it has an end; whatever
    /// is wrong with the kernel's.
    #[test]
    fn any_bytes_of_a_module(
        changes: Vec<(bool, usize, u8)>,
        length: usize,
    ) {
        let (mut base, mut bytes) = (made(), module().bytes());
        for (is_base, at, byte) in changes {
            let changed = if is_base { &mut base } else { &mut bytes };
            let at = at % changed.len();
            changed[at] = byte;
        }
        bytes.truncate(length % (2 * bytes.len()));
        if let Some(base) = Btf::new(base).unwrap() {
            if let Some(btf) = Btf::split(bytes, &base).unwrap() {
                let types = btf.after(&base).expect("its base");
                for name in ["probe", "by_value", ""] {
                    let mut text = String::new();
                    types.write_args(&mut text, name.as_bytes(), &[7; 6]).unwrap();
                    prop_assert!(text.len() < 20_000);
                }
            }
        }
    }

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
                btf.alone().write_args(&mut text, name.as_bytes(), &[7; 6]).unwrap();
                prop_assert!(text.len() < 20_000);
            }
        }
    }
}
