// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The static call graph: the functions that each function calls or jumps to, by the kernel's text.
//!
//! Calls through pointers are not in it; only their number is.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

use crate::kernel::{Alternative, KernelSymbols, KernelText};

/// An instruction that calls a function, or jumps to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// Address of the instruction.
    pub ip: u64,
    /// Function that it is in.
    pub function: u64,
    /// True for a jump, false for a call.
    pub is_jump: bool,
    /// True in code that runs at boot only.
    pub is_init: bool,
}

/// A function's side of the graph.
#[derive(Debug, Default)]
pub struct FunctionNode {
    /// Instructions elsewhere that enter the function.
    pub callers: Vec<Site>,
    /// Functions that the function enters.
    pub callees: BTreeSet<u64>,
    /// Number of its instructions that call or jump through pointers.
    pub indirect: usize,
}

/// A graph of calls. Functions are named by their addresses.
#[derive(Debug, Default)]
pub struct CallGraph {
    nodes: HashMap<u64, FunctionNode>,
    /// Parts that the compiler put elsewhere, with the functions that they belong to.
    cold: BTreeMap<u64, u64>,
    thunks: HashSet<u64>,
    returns: HashSet<u64>,
    /// Number of instructions that were decoded, invalid ones included.
    pub instructions: u64,
    /// Number of bytes that are no instructions.
    pub invalid: u64,
}

/// Code of a function.
struct MachineCode<'a> {
    bytes: &'a [u8],
    address: u64,
    function: u64,
    is_init: bool,
}

/// Returns where a call at an address leads through a pointer at another, where that is certain.
type Fixed<'a> = dyn Fn(u64, u64) -> Option<u64> + 'a;

/// Length of `endbr64`, behind which a direct call may enter.
pub(crate) const ENDBR: u64 = 4;

/// Start of the names of retpolines: a call of one is a call through a pointer.
const THUNKS: &str = "__x86_indirect_";

/// End of the names of the thunks that functions may return by.
const RETURNS: &str = "_return_thunk";

/// Start of the names of the trampolines of static calls (include/linux/static_call.h).
const STATIC_CALLS: &str = "__SCT__";

impl CallGraph {
    /// Builds the graph of `texts`, and of code that may replace parts of them.
    ///
    /// `pointer` reads one from memory: boot makes a call of the function that it leads to out of a
    /// call through it that may be replaced (`pv_ops`).
    pub fn new(
        symbols: &KernelSymbols,
        texts: &[KernelText],
        alternatives: &[Alternative],
        pointer: impl Fn(u64) -> Option<u64>,
    ) -> Self {
        let places: HashSet<u64> = alternatives.iter().map(|code| code.place).collect();
        let fixed = |ip, from| places.contains(&ip).then(|| pointer(from))?;
        let mut graph = Self {
            cold: cold_parts(symbols),
            thunks: named(symbols, |name| name.starts_with(THUNKS)),
            returns: named(symbols, |name| name.ends_with(RETURNS)),
            ..Self::default()
        };
        for text in texts {
            graph.add(symbols, text, &fixed);
        }
        for alternative in alternatives {
            let place = alternative.place;
            let text = texts.iter().find(|text| text.addresses().contains(&place));
            if let (Some(text), Some(function)) = (text, graph.function_at(symbols, place)) {
                let code = MachineCode {
                    bytes: &alternative.code,
                    address: alternative.address,
                    function,
                    is_init: text.is_init,
                };
                let indirect = graph.node(function).map_or(0, |node| node.indirect);
                graph.add_code(symbols, &code, &|_, _| None);
                // Another way to make a call that has been counted.
                if let Some(node) = graph.nodes.get_mut(&function).filter(|_| indirect > 0) {
                    node.indirect = indirect;
                }
            }
        }
        graph.end_static_calls(symbols);
        graph
    }

    /// Counts static calls that lead nowhere yet as calls through pointers.
    fn end_static_calls(&mut self, symbols: &KernelSymbols) {
        for call in named(symbols, |name| name.starts_with(STATIC_CALLS)) {
            let Some(node) = self.nodes.get_mut(&call) else {
                continue;
            };
            if !node.callees.is_empty() {
                continue;
            }
            for site in std::mem::take(&mut node.callers) {
                let caller = self.nodes.entry(site.function).or_default();
                caller.indirect += 1;
                caller.callees.remove(&call);
            }
        }
    }

    /// Returns the function that the code at `ip` belongs to.
    pub fn function_at(&self, symbols: &KernelSymbols, ip: u64) -> Option<u64> {
        let begin = symbols.function_at(ip)?;
        Some(self.cold.get(&begin).copied().unwrap_or(begin))
    }

    /// Returns the function's callers and callees, if it has any.
    pub fn node(&self, function: u64) -> Option<&FunctionNode> {
        self.nodes.get(&function)
    }

    /// Returns whether functions return by this one.
    pub fn is_return(&self, function: u64) -> bool {
        self.returns.contains(&function)
    }

    /// Returns the functions that have callers or callees.
    pub fn functions(&self) -> impl Iterator<Item = u64> + '_ {
        self.nodes.keys().copied()
    }

    fn add(&mut self, symbols: &KernelSymbols, text: &KernelText, fixed: &Fixed<'_>) {
        // Decoded function by function, so that data between them does no harm.
        let addresses = text.addresses();
        let mut begins: Vec<u64> = symbols
            .functions()
            .filter(|begin| addresses.contains(begin))
            .collect();
        begins.push(addresses.end);
        for pair in begins.windows(2) {
            if let Some(function) = self.function_at(symbols, pair[0]) {
                let bytes = &text.code
                    [(pair[0] - text.address) as usize..(pair[1] - text.address) as usize];
                let code = MachineCode {
                    bytes,
                    address: pair[0],
                    function,
                    is_init: text.is_init,
                };
                self.add_code(symbols, &code, fixed);
            }
        }
    }

    fn add_code(&mut self, symbols: &KernelSymbols, code: &MachineCode<'_>, fixed: &Fixed<'_>) {
        let mut decoder = Decoder::with_ip(64, code.bytes, code.address, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            self.instructions += 1;
            self.look(symbols, code, &instruction, fixed);
        }
    }

    fn look(
        &mut self,
        symbols: &KernelSymbols,
        code: &MachineCode<'_>,
        instruction: &Instruction,
        fixed: &Fixed<'_>,
    ) {
        let function = code.function;
        if instruction.is_invalid() {
            self.invalid += 1;
            return;
        }
        let is_jump = match instruction.flow_control() {
            FlowControl::Call | FlowControl::IndirectCall => false,
            FlowControl::UnconditionalBranch
            | FlowControl::ConditionalBranch
            | FlowControl::IndirectBranch => true,
            _ => return,
        };
        let target = match instruction.op0_kind() {
            OpKind::NearBranch64 => instruction.near_branch_target(),
            OpKind::Memory => {
                let pointer = fixed(instruction.ip(), instruction.memory_displacement64());
                match pointer.filter(|_| !instruction.memory_base().is_gpr()) {
                    Some(target) => target,
                    None => {
                        self.nodes.entry(function).or_default().indirect += 1;
                        return;
                    }
                }
            }
            OpKind::Register => {
                self.nodes.entry(function).or_default().indirect += 1;
                return;
            }
            _ => return,
        };
        if self.thunks.contains(&target) {
            self.nodes.entry(function).or_default().indirect += 1;
            return;
        }
        let Some(callee) = self.function_at(symbols, target) else {
            return;
        };
        if self.returns.contains(&callee) {
            return;
        }
        // A call of itself is an edge; a jump within is not.
        if is_jump && callee == function {
            return;
        }
        let begin = symbols.function_at(target).unwrap_or(target);
        if !is_jump && target != begin && target != begin + ENDBR {
            // A call of the next instruction, as in retpolines.
            return;
        }
        let site = Site {
            ip: instruction.ip(),
            function,
            is_jump,
            is_init: code.is_init,
        };
        self.nodes.entry(callee).or_default().callers.push(site);
        self.nodes
            .entry(function)
            .or_default()
            .callees
            .insert(callee);
    }
}

/// Returns the functions with such a name.
fn named(symbols: &KernelSymbols, is_wanted: impl Fn(&str) -> bool) -> HashSet<u64> {
    let is_named = |begin: &u64| (symbols.at(*begin).iter()).any(|symbol| is_wanted(&symbol.name));
    symbols.functions().filter(is_named).collect()
}

/// Returns parts named `NAME.cold`, with the address of `NAME`.
fn cold_parts(symbols: &KernelSymbols) -> BTreeMap<u64, u64> {
    let mut parts = BTreeMap::new();
    for begin in symbols.functions() {
        let name = symbols.name(begin);
        let Some(at) = name.find(".cold") else {
            continue;
        };
        // Where several functions have one name, the owner of its part is not known.
        if let Some(whole) = symbols.place(&name[..at]) {
            parts.insert(begin, whole);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Symbol;

    /// Checks calls and jumps between four functions, one with a part elsewhere, at the addresses
    /// 0x1000, ...
    #[test]
    fn calls_and_jumps_are_edges() {
        let symbol = |address, name| Symbol::new(address, b't', name, None);
        let symbols = KernelSymbols::new(vec![
            symbol(0x1000, "caller"),
            symbol(0x1010, "__pfx_callee"),
            symbol(0x1020, "callee"),
            symbol(0x1030, "jumper"),
            symbol(0x1040, "caller.cold"),
            symbol(0x1050, "pointers"),
            symbol(0x1060, "__x86_indirect_thunk_rax"),
        ]);
        let mut code = vec![0x90; 0x70];
        // call callee + 4; call of the next instruction
        code[0x00..0x05].copy_from_slice(&[0xe8, 0x1f, 0, 0, 0]);
        code[0x05..0x0a].copy_from_slice(&[0xe8, 0, 0, 0, 0]);
        // jmp caller.cold
        code[0x0a..0x0c].copy_from_slice(&[0xeb, 0x34]);
        // jmp within; jmp callee
        code[0x30..0x32].copy_from_slice(&[0xeb, 0x00]);
        code[0x32..0x34].copy_from_slice(&[0xeb, 0xec]);
        // call jumper, of the part elsewhere
        code[0x40..0x45].copy_from_slice(&[0xe8, 0xeb, 0xff, 0xff, 0xff]);
        // call [rax]; call and jmp __x86_indirect_thunk_rax
        code[0x50..0x52].copy_from_slice(&[0xff, 0x10]);
        code[0x52..0x57].copy_from_slice(&[0xe8, 0x09, 0, 0, 0]);
        code[0x57..0x59].copy_from_slice(&[0xeb, 0x07]);
        let text = KernelText {
            address: 0x1000,
            code,
            is_init: false,
        };
        let graph = CallGraph::new(&symbols, &[text], &[], |_| None);

        let callers = |function| {
            let node = graph.node(function);
            let site = |site: &Site| (site.ip, site.function, site.is_jump);
            node.map_or(Vec::new(), |node| node.callers.iter().map(site).collect())
        };
        assert_eq!(
            callers(0x1020),
            [(0x1000, 0x1000, false), (0x1032, 0x1030, true)]
        );
        assert_eq!(callers(0x1030), [(0x1040, 0x1000, false)]);
        assert_eq!(callers(0x1000), []);
        let indirect = |function| graph.node(function).map(|node| node.indirect);
        assert_eq!(indirect(0x1050), Some(3));
        assert_eq!(indirect(0x1000), Some(0));
        assert_eq!(callers(0x1060), []);
    }
}
