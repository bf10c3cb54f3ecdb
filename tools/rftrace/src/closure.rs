// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The functions that others lead to by calls and jumps that the kernel's text shows: `--closure`
//! hooks these instead of every function.
//!
//! Calls through pointers are not followed; functions that make such calls are named. Interrupts
//! and exceptions are no calls, and what a kernel does once it has panicked is left out.

use std::collections::{BTreeMap, BTreeSet};

use crate::functions::KernelFunctions;
use crate::selection;
use crate::static_graph::is_plumbing;

/// Functions that are in the closure without the functions that they call: nothing returns from a
/// panic, and handlers of exceptions are called by these as if one had happened (which leads to
/// signals, and from there to the whole kernel).
const ENDS: [&str; 6] = [
    "panic",
    "vpanic",
    "nmi_panic",
    "__stack_chk_fail",
    "vc_forward_exception",
    "irqentry_exit",
];

/// The functions that others lead to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closure {
    /// Functions that ftrace can trace, the roots among them, as words for `filter` (and for
    /// `set_ftrace_filter`): `NAME`, and `NAME:mod:MODULE` for those of modules. Sorted, each once.
    pub functions: Vec<String>,
    /// Number of functions among these words that ftrace can trace; more than words where several
    /// have one name.
    pub traceable: usize,
    /// Number of functions that are hooked with them, as they have the same names.
    pub beside: usize,
    /// Functions that call through pointers, which is not followed, with the number of such calls;
    /// most first.
    pub indirect: Vec<(String, usize)>,
    /// Roots that mean no function.
    pub missing: Vec<String>,
    /// Roots none of whose functions ftrace can trace.
    pub not_traceable: Vec<String>,
}

/// Returns all functions that those meant by `roots` lead to; `roots` are words, as in `filter`.
pub fn closure(functions: &KernelFunctions, roots: &[&str]) -> Closure {
    let symbols = &functions.kernel.symbols;
    let mut closure = Closure::default();
    let mut reached = BTreeSet::new();
    for root in roots {
        let meant = selection::functions(symbols, root);
        if meant.is_empty() {
            closure.missing.push((*root).into());
        } else if meant.is_disjoint(&functions.traceable) {
            closure.not_traceable.push((*root).into());
        }
        reached.extend(meant);
    }
    let mut left: Vec<u64> = reached.iter().copied().collect();
    while let Some(function) = left.pop() {
        let name = symbols.name(function);
        let Some(node) = functions.graph.node(function) else {
            continue;
        };
        if node.indirect > 0 {
            closure.indirect.push((name.clone(), node.indirect));
        }
        if ENDS.contains(&name.as_str()) {
            continue;
        }
        for callee in &node.callees {
            if !is_plumbing(symbols, *callee) && reached.insert(*callee) {
                left.push(*callee);
            }
        }
    }
    closure
        .indirect
        .sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    // By word, the number of functions that can be traced that it means, and the number of those
    // that are in here.
    let mut words: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for function in &functions.traceable {
        let (all, wanted) = words.entry(word(functions, *function)).or_default();
        *all += 1;
        *wanted += usize::from(reached.contains(function));
    }
    for (word, (all, wanted)) in words.into_iter().filter(|(_, (_, wanted))| *wanted > 0) {
        closure.functions.push(word);
        closure.traceable += wanted;
        closure.beside += all - wanted;
    }
    closure
}

/// Returns the word that means the function at `address`.
fn word(functions: &KernelFunctions, address: u64) -> String {
    let symbols = &functions.kernel.symbols;
    let name = symbols.name(address);
    let module = symbols
        .at(address)
        .iter()
        .find_map(|symbol| symbol.module.as_deref());
    match module {
        Some(module) => format!("{name}:mod:{module}"),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::synthetic::{functions, SyntheticCode, SyntheticFunction};
    use SyntheticCode::{Call, Jump, Pointer};

    fn kernel() -> KernelFunctions {
        functions(&[
            SyntheticFunction::open(
                "root",
                &[Call("helper"), Call("asm"), Call("panic"), Pointer],
            ),
            SyntheticFunction::sealed("helper", &[Jump("tail.isra.0"), Call("root")]),
            SyntheticFunction::sealed("tail.isra.0", &[Pointer, Pointer, Call("twin")]),
            SyntheticFunction::open("asm", &[Call("leaf")]).notrace(),
            SyntheticFunction::sealed("leaf", &[]),
            SyntheticFunction::sealed("twin", &[]),
            SyntheticFunction::open("twin", &[Call("other")]),
            SyntheticFunction::open("other", &[Call("root")]),
            SyntheticFunction::sealed("panic", &[Call("dump")]),
            SyntheticFunction::sealed("dump", &[Pointer]),
        ])
    }

    #[test]
    fn what_a_root_leads_to() {
        let closure = closure(&kernel(), &["root"]);
        let names = ["helper", "leaf", "panic", "root", "tail.isra.0", "twin"];
        assert_eq!(closure.functions, names);
        assert_eq!((closure.traceable, closure.beside), (6, 1));
        let indirect = [("tail.isra.0".into(), 2), ("root".into(), 1)];
        assert_eq!(closure.indirect, indirect);
        assert_eq!(closure.missing, [""; 0]);
    }

    #[test]
    fn roots_are_words_as_in_a_filter() {
        let both = closure(&kernel(), &["tail", "lea*", "nobody", "asm"]);
        assert_eq!(both.functions, ["leaf", "tail.isra.0", "twin"]);
        assert_eq!(both.missing, ["nobody"]);
        assert_eq!(both.not_traceable, ["asm"]);
    }
}
