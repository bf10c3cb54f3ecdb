// SPDX-License-Identifier: GPL-2.0

//! Targets for kernels and their descriptions: files that `rftrace` is told to read.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use rftrace_cli::kernel::{self, traceable, DebugInformation, Kernel, KernelSymbols};

use crate::engine::btf::{Btf, KnownTypes};
use crate::engine::extras::ARGS;
use crate::input::Input;

/// Address of the kernel of [`image`].
const TEXT: u64 = 0xffff_ffff_8100_0000;

/// Reads types (BTF): a whole description, or what follows a valid header; and, as those of a
/// module, what goes on from a description that is known.
pub fn types(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    let bytes = match kind & 1 {
        0 => rest.to_vec(),
        _ => {
            let Some((split, rest)) = rest.split_first_chunk() else {
                return;
            };
            btf(
                rest,
                usize::from(u16::from_le_bytes(*split)) % (rest.len() + 1),
            )
        }
    };
    let names = || bytes.split(|byte| *byte == 0).take(64);
    let engine = Btf::new(&bytes[..]).expect("memory");
    let tool = kernel::KernelTypes::new(bytes.clone(), None);
    // The command knows more kinds.
    assert!(engine.is_none() || tool.is_some());
    let write = |types: &KnownTypes<'_, &[u8]>, length: usize| {
        for name in names() {
            let mut text = String::new();
            let known = types.write_args(&mut text, name, &[1, 2, 3, u64::MAX, 5, 6]);
            let is_whole = text.starts_with('(') && text.ends_with(')');
            assert_eq!((known.ok(), text.is_empty()), (Some(is_whole), !is_whole));
            assert!(text.len() <= (ARGS + 1) * (length * 6 + 100));
        }
    };
    if let Some(btf) = engine {
        write(&btf.alone(), bytes.len());
    }
    let base_bytes = &TYPES[..];
    let base = Btf::new(base_bytes).expect("memory").expect("types");
    let split = Btf::split(&bytes[..], &base).expect("memory");
    let known = kernel::KernelTypes::new(base_bytes.to_vec(), None).map(Arc::new);
    let tool_split = kernel::KernelTypes::new(bytes.clone(), known);
    assert!(split.is_none() || tool_split.is_some());
    if let Some(btf) = split {
        let types = btf.after(&base).expect("its base");
        write(&types, base_bytes.len() + bytes.len());
        for name in names().filter_map(|name| std::str::from_utf8(name).ok()) {
            let _ = tool_split.as_ref().and_then(|btf| btf.prototype(name));
        }
    }
    if let Some(btf) = tool {
        let _ = btf.kfuncs();
        for name in names().filter_map(|name| std::str::from_utf8(name).ok()) {
            let text = btf.prototype(name).unwrap_or_default();
            assert!(text.len() < 1 << 24);
        }
    }
}

/// Returns a header, `types` bytes of types, and strings.
fn btf(rest: &[u8], types: usize) -> Vec<u8> {
    let mut bytes = vec![0x9f, 0xeb, 1, 0];
    for word in [24, 0, types, types, rest.len() - types] {
        bytes.extend((word as u32).to_le_bytes());
    }
    [&bytes, rest].concat()
}

/// Reads a kernel's file: any bytes, a kernel that is valid but for some bytes, a compressed one,
/// debug information; and its symbols as text.
pub fn kernels(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else {
        return;
    };
    match kind % 5 {
        0 => look(data),
        1 => {
            let mut file = IMAGE.clone();
            let mut input = Input(data);
            while let (Some(place), Some(value)) = (input.half(), input.half()) {
                let place = usize::from(place);
                let [low, high] = value.to_le_bytes();
                match (place.checked_sub(file.len()), file.get_mut(place)) {
                    (None, Some(byte)) if high & 1 == 0 => *byte = low,
                    (None, Some(_)) => file[place..]
                        .iter_mut()
                        .take(8)
                        .for_each(|byte| *byte = low),
                    _ => file.truncate(usize::from(value)),
                }
            }
            look(&file);
        }
        2 => {
            let mut file = vec![0; 5 * 512];
            file[0x202..0x206].copy_from_slice(b"HdrS");
            file[0x24c..0x250].copy_from_slice(&(data.len() as u32).to_le_bytes());
            file.extend(data);
            look(&file);
        }
        3 => look(&with_debug_information(data)),
        _ => {
            if let Ok(symbols) = KernelSymbols::of_text(&String::from_utf8_lossy(data)) {
                ask(&symbols);
            }
        }
    }
}

/// Asks all that can be asked of a file.
fn look(bytes: &[u8]) {
    let Some((_file, path)) = open(bytes) else {
        return;
    };
    if let Ok(Some(found)) = DebugInformation::of_file(&path) {
        let _ = found.inlined(&|name| !name.starts_with('x'));
    }
    let Ok(kernel) = Kernel::of_file(&path) else {
        return;
    };
    ask(&kernel.symbols);
    let _ = (kernel.build_id(), kernel.kfuncs(), traceable(&kernel));
    let _ = (kernel.seals(), kernel.alternatives());
    for text in kernel.texts().unwrap_or_default() {
        assert!(text.addresses().count() == text.code.len());
    }
    let _ = kernel.pointer(TEXT);
}

fn ask(symbols: &KernelSymbols) {
    for symbol in symbols.all() {
        assert!(symbols
            .at(symbol.address)
            .iter()
            .any(|at| at.name == symbol.name));
        assert!(symbols.places(&symbol.name).contains(&symbol.address));
        assert!(symbols
            .after(symbol.address)
            .is_none_or(|after| after > symbol.address));
    }
    for begin in symbols.functions() {
        assert_eq!(symbols.function_at(begin), Some(begin));
    }
}

/// Returns a file without a name, and the path to it.
fn open(bytes: &[u8]) -> Option<(File, PathBuf)> {
    let mut file = tempfile::tempfile().ok()?;
    file.write_all(bytes).ok()?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Some((file, path.into()))
}

/// Returns an ELF file of one part, and sections: names, contents, and addresses.
fn elf(memory: &[u8], sections: &[(&str, &[u8], u64)]) -> Vec<u8> {
    let mut names = vec![0];
    let mut contents = memory.to_vec();
    let mut headers = vec![0; 64];
    let begin = 64 + 56;
    let mut add = |name: &str, kind: u32, bytes: &[u8], address: u64, names: &mut Vec<u8>| {
        headers.extend((names.len() as u32).to_le_bytes());
        names.extend([name.as_bytes(), &[0]].concat());
        headers.extend(kind.to_le_bytes());
        let offset = (begin + contents.len()) as u64;
        for word in [0, address, offset, bytes.len() as u64, 0, 1, 0] {
            headers.extend(word.to_le_bytes());
        }
        contents.extend(bytes);
    };
    for (name, bytes, address) in sections {
        add(name, 1, bytes, *address, &mut names);
    }
    let mut all = names.clone();
    all.extend(b".shstrtab\0");
    add(".shstrtab", 3, &all, 0, &mut names);
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    for word in [0, 64, (begin + contents.len()) as u64] {
        file.extend(word.to_le_bytes());
    }
    file.extend([0; 4]);
    let count = sections.len() as u16 + 2;
    for half in [64, 56, 1, 64, count, count - 1] {
        file.extend(half.to_le_bytes());
    }
    file.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    let length = memory.len() as u64;
    for word in [begin as u64, TEXT, TEXT, length, length, 4096] {
        file.extend(word.to_le_bytes());
    }
    [file, contents, headers].concat()
}

/// Returns a kernel with the parts of debug information, each as long as its two bytes say.
fn with_debug_information(mut data: &[u8]) -> Vec<u8> {
    let mut part = || {
        let (length, rest) = data.split_first_chunk().unwrap_or((&[0; 2], &[]));
        let length = usize::from(u16::from_le_bytes(*length)) % (rest.len() + 1);
        let (part, rest) = rest.split_at(length);
        data = rest;
        part
    };
    let names = [
        ".debug_info",
        ".debug_abbrev",
        ".debug_str",
        ".debug_rnglists",
        ".notes",
    ];
    let sections = names.map(|name| (name, part(), 0));
    elf(
        &[0x90; 16],
        &[&[(".text", &[0x90; 16][..], TEXT)], &sections[..]].concat(),
    )
}

/// Returns types, and their number of bytes: an int, a function that returns it, its prototype and
/// its tag.
fn kernel_types() -> (Vec<u8>, usize) {
    let strings = b"\0call\0int\0n\0bpf_kfunc\0";
    let words = [
        6,
        1 << 24,
        4,
        0x0100_0020,
        0,
        (13 << 24) | 1,
        1,
        10,
        1,
        1,
        12 << 24,
        2,
        12,
        17 << 24,
        3,
        u32::MAX,
    ];
    let types: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    ([&types[..], strings].concat(), types.len())
}

/// Returns a kernel with two functions, and a table of each kind.
fn image() -> Vec<u8> {
    let (types, count) = kernel_types();
    let note = [
        &[4, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0][..],
        b"GNU\0",
        &[1, 2, 3, 4],
    ]
    .concat();
    let mcount = (TEXT + 4).to_le_bytes();
    // Each is relative to its own place: the first function is replaced by itself.
    let alternative = [0, 0, 0, 0, 0xfc, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1, 1];
    let parts: [(&str, &str, &[u8]); 7] = [
        ("T_stext", "T_etext", &[0x90; 32]),
        ("T_sinittext", "T_einittext", &[0x90; 16]),
        ("R__start_notes", "R__stop_notes", &note),
        ("D__start_mcount_loc", "D__stop_mcount_loc", &mcount),
        ("D__ibt_endbr_seal", "D__ibt_endbr_seal_end", &[0; 4]),
        (
            "D__alt_instructions",
            "D__alt_instructions_end",
            &alternative,
        ),
        ("R__start_BTF", "R__stop_BTF", &btf(&types, count)),
    ];
    let mut memory = Vec::new();
    let mut symbols = vec![("tcall", 0), ("tother", 16)];
    for (from, until, bytes) in parts {
        symbols.push((from, memory.len()));
        memory.extend(bytes);
        symbols.push((until, memory.len()));
    }
    table(&mut memory, symbols);
    elf(&memory, &[])
}

/// Appends the kernel's own table of symbols, as scripts/kallsyms.c writes it.
fn table(memory: &mut Vec<u8>, mut symbols: Vec<(&str, usize)>) {
    symbols.sort_by_key(|symbol| symbol.1);
    let align = |memory: &mut Vec<u8>| memory.resize(memory.len().next_multiple_of(4), 0);
    align(memory);
    memory.extend((symbols.len() as u32).to_le_bytes());
    for (name, _) in &symbols {
        memory.push(name.len() as u8);
        memory.extend(name.bytes());
    }
    align(memory);
    // One marker, where the first names begin, and as much again, as for an alignment to 8 bytes.
    memory.extend([0; 8]);
    let (mut places, begin) = (Vec::new(), memory.len());
    for token in 0..=255_u8 {
        places.push((memory.len() - begin) as u16);
        if token.is_ascii_alphanumeric() || token == b'_' {
            memory.push(token);
        }
        memory.push(0);
    }
    align(memory);
    memory.extend(places.iter().flat_map(|place| place.to_le_bytes()));
    for (_, place) in symbols {
        let offset = place.wrapping_sub(memory.len()) as i32;
        memory.extend(offset.to_le_bytes());
    }
}

/// The kernel that others are made of. It must be understood as a whole, or this target would show
/// nothing.
static IMAGE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let image = image();
    let (_file, path) = open(&image).expect("a file");
    let kernel = Kernel::of_file(&path).expect("a kernel");
    assert!(kernel.build_id().is_some());
    assert!(kernel.kfuncs().is_ok_and(|all| all == ["call"]));
    assert!(traceable(&kernel).is_ok_and(|all| all.len() == 1));
    assert!(kernel.seals().is_ok_and(|all| all.len() == 1));
    assert!(kernel.alternatives().is_ok_and(|all| all.len() == 1));
    assert!(kernel.texts().is_ok_and(|all| all.len() == 2));
    image
});

/// The description that others go on from.
static TYPES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let (types, count) = kernel_types();
    btf(&types, count)
});
