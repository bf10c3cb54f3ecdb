// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Functions that can be entered at all, by the kernel's text.
//!
//! A kernel with indirect branch tracking (CONFIG_X86_KERNEL_IBT) can be entered through a pointer
//! only where an `endbr64` is. objtool lists those of functions that no pointer leads to
//! (`.ibt_endbr_seal`, validate_ibt() in tools/objtool/check.c), and boot replaces these. So a
//! function without one runs only if another one calls it, or jumps to it, by an instruction that
//! can be seen.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::call_graph::CallGraph;
use crate::kernel::{Kernel, KernelText};

/// An `endbr64`.
const ENDBR: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// A no-op that boot puts in the place of an `endbr64`: `gen_endbr_poison()` in
/// arch/x86/include/asm/ibt.h, before Linux 6.15 and since.
const POISONS: [[u8; 4]; 2] = [[0x66, 0x0f, 0x1f, 0x00], [0x0f, 0x1f, 0x40, 0xd6]];

/// The way in which a function begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// With an `endbr64`: pointers may lead there.
    Open,
    /// With what replaces it: no pointer leads there.
    Sealed,
    /// With neither: the compiler saw that all its callers call it by name, or it is written in
    /// assembler.
    Bare,
}

/// A time at which a function can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// At any time.
    Always,
    /// While the machine boots: only code that is thrown away then calls it.
    AtBoot,
    /// Never: nothing that can run calls it, and no pointer leads there.
    Never,
}

/// Functions of a kernel, with the way in which they begin, and the time at which they can run.
#[derive(Debug)]
pub struct Reachable {
    entries: HashMap<u64, EntryKind>,
    always: HashSet<u64>,
    at_boot: HashSet<u64>,
    is_certain: bool,
}

impl Reachable {
    /// Finds the functions that can run, in a kernel whose `texts` make `graph`.
    ///
    /// `traceable` are addresses of functions that ftrace can trace: of others that begin with no
    /// `endbr64` (assembler) the callers are not known. `called_by_name` are functions that are
    /// called by code that is made later (kfuncs, by BPF programs).
    pub fn new(
        kernel: &Kernel,
        graph: &CallGraph,
        texts: &[KernelText],
        traceable: &BTreeSet<u64>,
        called_by_name: &HashSet<u64>,
    ) -> Self {
        let seals = kernel.seals().unwrap_or_default();
        let mut entries = HashMap::new();
        let (mut always, mut at_boot) = (Vec::new(), Vec::new());
        for text in texts {
            for begin in kernel
                .symbols
                .functions()
                .filter(|begin| text.addresses().contains(begin))
            {
                if graph.function_at(&kernel.symbols, begin) != Some(begin) {
                    continue;
                }
                let entry = entry(text, begin, &seals);
                entries.insert(begin, entry);
                let is_root = match entry {
                    EntryKind::Open => true,
                    EntryKind::Sealed => called_by_name.contains(&begin),
                    EntryKind::Bare => {
                        called_by_name.contains(&begin) || !traceable.contains(&begin)
                    }
                };
                if text.is_init {
                    at_boot.push(begin);
                } else if is_root {
                    always.push(begin);
                }
            }
        }
        let always = closure(graph, always);
        at_boot.retain(|function| !always.contains(function));
        Self {
            is_certain: entries.values().any(|entry| *entry == EntryKind::Sealed),
            at_boot: closure(graph, at_boot),
            entries,
            always,
        }
    }

    /// Returns whether the kernel marks where pointers may lead, so that it can be told what never
    /// runs.
    pub fn is_certain(&self) -> bool {
        self.is_certain
    }

    /// Returns the way in which the function at `address` begins, if there is one.
    pub fn entry(&self, address: u64) -> Option<EntryKind> {
        self.entries.get(&address).copied()
    }

    /// Returns the time at which the function at `address` can run; `None` if that cannot be told
    /// of this kernel.
    pub fn reach(&self, address: u64) -> Option<Reach> {
        let reach = match (
            self.always.contains(&address),
            self.at_boot.contains(&address),
        ) {
            (true, _) => Reach::Always,
            (false, true) => Reach::AtBoot,
            (false, false) => Reach::Never,
        };
        (self.is_certain && self.entries.contains_key(&address)).then_some(reach)
    }
}

fn entry(text: &KernelText, begin: u64, seals: &BTreeSet<u64>) -> EntryKind {
    let offset = (begin - text.address) as usize;
    match text
        .code
        .get(offset..offset + 4)
        .and_then(|bytes| <[u8; 4]>::try_from(bytes).ok())
    {
        Some(ENDBR) if !seals.contains(&begin) => EntryKind::Open,
        Some(ENDBR) => EntryKind::Sealed,
        Some(bytes) if POISONS.contains(&bytes) => EntryKind::Sealed,
        _ => EntryKind::Bare,
    }
}

/// Returns all functions that `roots` lead to, and the roots.
fn closure(graph: &CallGraph, roots: Vec<u64>) -> HashSet<u64> {
    let mut reached: HashSet<u64> = roots.iter().copied().collect();
    let mut left = roots;
    while let Some(function) = left.pop() {
        for callee in graph.node(function).iter().flat_map(|node| &node.callees) {
            if reached.insert(*callee) {
                left.push(*callee);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::synthetic::{functions, SyntheticCode, SyntheticFunction};
    use SyntheticCode::{Call, Jump, Pointer};

    #[test]
    fn a_sealed_function_runs_if_what_calls_it_does() {
        let functions = functions(&[
            SyntheticFunction::open("open", &[Call("called"), Pointer]),
            SyntheticFunction::sealed("called", &[]),
            SyntheticFunction::sealed("alone", &[Call("with_it")]),
            SyntheticFunction::sealed("with_it", &[]),
            SyntheticFunction::sealed("early", &[Jump("earlier")]),
            SyntheticFunction::sealed("earlier", &[]),
            SyntheticFunction::sealed("init", &[Call("early"), Call("called")]).at_boot(),
        ]);
        let reach = |name| {
            let place = functions.kernel.symbols.place(name).unwrap();
            functions.reachable.reach(place).unwrap()
        };
        assert!(functions.reachable.is_certain());
        for name in ["open", "called"] {
            assert_eq!(reach(name), Reach::Always, "{name}");
        }
        for name in ["alone", "with_it"] {
            assert_eq!(reach(name), Reach::Never, "{name}");
        }
        for name in ["early", "earlier", "init"] {
            assert_eq!(reach(name), Reach::AtBoot, "{name}");
        }
    }
}
