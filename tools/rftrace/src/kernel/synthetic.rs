// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A kernel made for a test: an ELF file in memory whose functions call each other as the test
//! says.

use std::sync::OnceLock;

use super::{Kernel, KernelMemory, KernelSymbols, Symbol};
use crate::functions::KernelFunctions;

/// Address at which the text begins.
pub(crate) const TEXT: u64 = 0xffff_ffff_8100_0000;

/// Distance from one function to the next, in bytes.
const APART: usize = 0x100;

/// An instruction of a function.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SyntheticCode {
    /// `call NAME`.
    Call(&'static str),
    /// `jmp NAME`.
    Jump(&'static str),
    /// `call *%rax`.
    Pointer,
}

/// A function of the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SyntheticFunction<'a> {
    name: &'a str,
    is_sealed: bool,
    is_init: bool,
    is_traceable: bool,
    code: &'a [SyntheticCode],
}

impl<'a> SyntheticFunction<'a> {
    /// Returns a function that pointers may lead to.
    pub(crate) fn open(name: &'a str, code: &'a [SyntheticCode]) -> Self {
        Self {
            name,
            is_sealed: false,
            is_init: false,
            is_traceable: true,
            code,
        }
    }

    /// Returns a function that no pointer leads to.
    pub(crate) fn sealed(name: &'a str, code: &'a [SyntheticCode]) -> Self {
        Self {
            is_sealed: true,
            ..Self::open(name, code)
        }
    }

    /// Puts the function into init text.
    pub(crate) fn at_boot(self) -> Self {
        Self {
            is_init: true,
            ..self
        }
    }

    /// Removes the call of ftrace from the function.
    pub(crate) fn notrace(self) -> Self {
        Self {
            is_traceable: false,
            ..self
        }
    }
}

/// Returns all that is known of a kernel of these functions.
pub(crate) fn functions(of: &[SyntheticFunction<'_>]) -> KernelFunctions {
    KernelFunctions::new(kernel(of)).unwrap()
}

/// Returns a kernel of these functions; those of init text lie behind the others, and tables behind
/// all.
pub(crate) fn kernel(of: &[SyntheticFunction<'_>]) -> Kernel {
    let (mut all, init): (Vec<&SyntheticFunction<'_>>, Vec<_>) =
        of.iter().partition(|function| !function.is_init);
    // A place for the mark alone that text begins with.
    let begin = SyntheticFunction::open("begin", &[]).notrace();
    all.insert(0, &begin);
    let mark = |name, index: usize| Symbol::new(TEXT + (APART * index) as u64, b'T', name, None);
    let mut symbols = vec![
        mark("_stext", 0),
        mark("_etext", all.len()),
        mark("_sinittext", all.len()),
        mark("_einittext", of.len() + 1),
    ];
    all.extend(init);
    let place = |index: usize| TEXT + (APART * index) as u64;
    let named = |name: &str| {
        let index = all.iter().position(|function| function.name == name);
        place(index.unwrap_or_else(|| panic!("no function {name}")))
    };
    let mut memory = Vec::new();
    let (mut sites, mut seals) = (Vec::new(), Vec::new());
    for (index, function) in all.iter().enumerate() {
        symbols.push(Symbol::new(place(index), b't', function.name, None));
        memory.extend([0xf3, 0x0f, 0x1e, 0xfa]);
        if function.is_sealed {
            seals.push(place(index));
        }
        if function.is_traceable {
            sites.push(place(index) + 4);
        }
        for code in function.code {
            let (opcode, target) = match code {
                SyntheticCode::Call(name) => (0xe8, name),
                SyntheticCode::Jump(name) => (0xe9, name),
                SyntheticCode::Pointer => {
                    memory.extend([0xff, 0xd0]);
                    continue;
                }
            };
            memory.push(opcode);
            let end = TEXT + memory.len() as u64 + 4;
            memory.extend((named(target).wrapping_sub(end) as i32).to_le_bytes());
        }
        // Filled with int3, as linkers do.
        assert!(memory.len() < APART * (index + 1));
        memory.resize(APART * (index + 1), 0xcc);
    }
    let sites: Vec<u8> = sites
        .iter()
        .flat_map(|site: &u64| site.to_le_bytes())
        .collect();
    let begin = TEXT + (memory.len() + sites.len()) as u64;
    // Each is relative to its own place.
    let seal = |(index, seal): (usize, &u64)| seal.wrapping_sub(begin + 4 * index as u64) as i32;
    let seals = seals
        .iter()
        .enumerate()
        .flat_map(|pair| seal(pair).to_le_bytes())
        .collect();
    for (from, until, bytes) in [
        ("__start_mcount_loc", "__stop_mcount_loc", sites),
        ("__ibt_endbr_seal", "__ibt_endbr_seal_end", seals),
        ("__alt_instructions", "__alt_instructions_end", Vec::new()),
    ] {
        symbols.push(Symbol::new(TEXT + memory.len() as u64, b'D', from, None));
        memory.extend(bytes);
        symbols.push(Symbol::new(TEXT + memory.len() as u64, b'D', until, None));
    }
    memory.extend([0; 8]);
    Kernel {
        symbols: KernelSymbols::new(symbols),
        memory: OnceLock::from(KernelMemory::of_vmlinux(elf(&memory)).unwrap()),
        is_running: false,
    }
}

/// Returns an ELF file of one part, which lies at [`TEXT`].
fn elf(memory: &[u8]) -> Vec<u8> {
    const HEADER: usize = 64;
    const PROGRAM_HEADER: usize = 56;
    let begin = (HEADER + PROGRAM_HEADER) as u64;
    // 64 bits, little endian; a program for x86-64
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    file.extend(
        [0, HEADER as u64, 0]
            .iter()
            .flat_map(|word| word.to_le_bytes()),
    );
    file.extend([0u8; 4]);
    let halves = [HEADER, PROGRAM_HEADER, 1, 64, 0, 0];
    file.extend(halves.iter().flat_map(|half| (*half as u16).to_le_bytes()));
    // PT_LOAD, which may be run
    file.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    let length = memory.len() as u64;
    let words = [begin, TEXT, TEXT, length, length, 4096];
    file.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    file.extend(memory);
    file
}
