// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Functions that have another one's code in them, where there is no debug information to tell: a
//! guess.
//!
//! A function that the compiler has made part of another one has left its instructions there,
//! mostly in their order: the same calls, data, offsets in structures, and numbers; registers and
//! places on the stack differ. So the two are aligned (as Smith and Waterman align proteins),
//! instructions that few functions around have count more, and gaps cost. Only functions that lie
//! near come into question, as the compiler sees one source file at a time.
//!
//! A function that nothing uses often has a twin, which does nearly the same: about as long, or
//! never entered, too. docs/why.md has how often this is right.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

use crate::call_graph::ENDBR;
use crate::functions::KernelFunctions;
use crate::reach::Reach;
use crate::static_graph::is_plumbing;

/// Number of functions before and behind that are looked at.
const AROUND: usize = 300;

/// Maximum distance of a container, in bytes: source files have less code.
const FURTHEST: u64 = 64 << 10;

/// The minimum that has to be found of a function in another one.
struct Least {
    /// Share of the function's code.
    share: f64,
    /// Weight of the function's code: what every other function has, too, says nothing.
    weight: f64,
}

/// The minimum in an ordinary function.
const LEAST: Least = Least {
    share: 0.9,
    weight: 15.0,
};

/// The minimum in a system call's entry that calls all that the function calls: it is no twin.
const LEAST_IN_SYSCALL: Least = Least {
    share: 0.5,
    weight: 10.0,
};

/// Minimum length of the other function, in lengths of the function, at which it is no twin.
const LEAST_RATIO: usize = 2;

/// Cost of an instruction that the other function lacks.
const GAP: f64 = 0.2;

/// Weight of an instruction that all functions have.
const COMMON: f64 = 0.1;

/// Starts of the names of entries of system calls.
const SYSCALLS: [&str; 3] = ["__x64_", "__ia32_", "__se_"];

/// A function that has another one's code in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Container {
    /// Address of the container.
    pub function: u64,
    /// Share of the function's code that was found, 0 to 1.
    pub share: f64,
}

/// Returns the functions that the one at `address` is certainly enough a part of, most likely
/// first; often none.
pub fn containers(functions: &KernelFunctions, address: u64) -> Vec<Container> {
    let symbols = &functions.kernel.symbols;
    // Each entry of a system call is one of several twins, and no part of another.
    if is_syscall(functions, address) {
        return Vec::new();
    }
    let around = around(functions, address);
    let mut count: HashMap<u64, usize> = HashMap::new();
    for token in around
        .values()
        .flat_map(|tokens| tokens.iter().collect::<HashSet<_>>())
    {
        *count.entry(*token).or_default() += 1;
    }
    let Some(own) = around.get(&address).filter(|own| !own.is_empty()) else {
        return Vec::new();
    };
    let weight = |token: &u64| (around.len() as f64 / count[token] as f64).ln() + COMMON;
    let own: Vec<(u64, f64)> = own.iter().map(|token| (*token, weight(token))).collect();
    let all: f64 = own.iter().map(|(_, weight)| weight).sum();
    let stem = |function| symbols.name(function).split('.').next().map(str::to_owned);
    let is_other = |function: &u64| *function != address && stem(*function) != stem(address);
    let is_wanted = |function: &u64, length: usize, share: f64| {
        let is_near = function.abs_diff(address) < FURTHEST;
        let is_entered = functions.reachable.reach(*function) == Some(Reach::Always);
        let (least, is_no_twin) = match is_syscall(functions, *function) {
            true => (
                LEAST_IN_SYSCALL,
                calls_as_much(functions, *function, address),
            ),
            false => (LEAST, length >= LEAST_RATIO * own.len()),
        };
        let is_certain = is_no_twin && share >= least.share && all >= least.weight;
        is_near && is_entered && is_certain
    };
    let others = around.iter().filter(|(function, _)| is_other(function));
    let others: Vec<(u64, usize, f64)> = others
        .map(|(function, tokens)| (*function, tokens.len(), aligned(&own, tokens) / all))
        .collect();
    // Where a twin has more of it, the rest is no proof.
    let best = others
        .iter()
        .map(|(_, _, share)| *share)
        .fold(0.0, f64::max);
    let mut found: Vec<Container> = others
        .into_iter()
        .filter(|(function, length, share)| is_wanted(function, *length, *share))
        .map(|(function, _, share)| Container { function, share })
        .collect();
    if !found.iter().any(|container| container.share >= best) {
        return Vec::new();
    }
    found.sort_by(|one, other| {
        let nearer = (one.function.abs_diff(address)).cmp(&other.function.abs_diff(address));
        other.share.total_cmp(&one.share).then(nearer)
    });
    found
}

fn is_syscall(functions: &KernelFunctions, function: u64) -> bool {
    let name = functions.kernel.symbols.name(function);
    SYSCALLS.iter().any(|begin| name.starts_with(begin))
}

/// Returns whether the one at `container` calls all that the one at `address` calls, and that calls
/// something.
fn calls_as_much(functions: &KernelFunctions, container: u64, address: u64) -> bool {
    let callees = |function| functions.graph.node(function).map(|node| &node.callees);
    let (Some(theirs), Some(own)) = (callees(container), callees(address)) else {
        return false;
    };
    let is_said = |callee: &&u64| !is_plumbing(&functions.kernel.symbols, **callee);
    own.iter().any(|callee| is_said(&callee))
        && own
            .iter()
            .filter(is_said)
            .all(|callee| theirs.contains(callee))
}

/// Returns the functions around the one at `address`, and that one, each as tokens.
fn around(functions: &KernelFunctions, address: u64) -> HashMap<u64, Vec<u64>> {
    let begins: Vec<u64> = functions.kernel.symbols.functions().collect();
    let Ok(own) = begins.binary_search(&address) else {
        return HashMap::new();
    };
    let from = own.saturating_sub(AROUND);
    let until = (own + AROUND).min(begins.len().saturating_sub(1));
    let mut around: HashMap<u64, Vec<u64>> = HashMap::new();
    for index in from..until {
        let begin = begins[index];
        // Parts that lie elsewhere belong to the function that they were split from.
        if functions
            .graph
            .function_at(&functions.kernel.symbols, begin)
            == Some(begin)
        {
            around.insert(begin, tokens(functions, begin, begins[index + 1]));
        }
    }
    around
}

/// Returns the weight of what `own` and `tokens` have in common, in order, less the cost of gaps.
fn aligned(own: &[(u64, f64)], tokens: &[u64]) -> f64 {
    let mut best = 0.0f64;
    // For each length of a prefix of `own`, the best that ends there.
    let mut row = vec![0.0f64; own.len() + 1];
    for token in tokens {
        let mut before = 0.0;
        for (index, (wanted, weight)) in own.iter().enumerate() {
            let matched = if token == wanted {
                before + weight
            } else {
                0.0
            };
            before = row[index + 1];
            row[index + 1] = matched.max(before - GAP).max(row[index] - GAP);
            best = best.max(row[index + 1]);
        }
    }
    best
}

/// Returns, as numbers, the instructions of a function that stay the same wherever it is put.
fn tokens(functions: &KernelFunctions, begin: u64, end: u64) -> Vec<u64> {
    let Ok(code) = functions.kernel.code(begin..end) else {
        return Vec::new();
    };
    let mut tokens = Vec::new();
    let mut decoder = Decoder::with_ip(64, &code, begin, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let token = match instruction.flow_control() {
            _ if instruction.is_invalid() => None,
            FlowControl::Call
            | FlowControl::UnconditionalBranch
            | FlowControl::ConditionalBranch => branch(functions, begin, &instruction),
            _ => plain(&instruction),
        };
        tokens.extend(token);
    }
    tokens
}

fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// Returns whether a function begins there, or its `endbr64` ends there.
fn is_begin(functions: &KernelFunctions, target: u64) -> bool {
    let begin = functions.kernel.symbols.function_at(target);
    begin.is_some_and(|begin| [0, ENDBR].contains(&(target - begin)))
}

/// Returns the token of a call or a jump: its target function, or only that it stays within.
fn branch(functions: &KernelFunctions, begin: u64, instruction: &Instruction) -> Option<u64> {
    let symbols = &functions.kernel.symbols;
    let target = instruction.near_branch_target();
    let is_call = instruction.flow_control() == FlowControl::Call;
    if is_call && !is_begin(functions, target) {
        // A function that is traced begins with a call of ftrace's trampoline.
        return None;
    }
    match functions.graph.function_at(symbols, target) {
        Some(callee) if callee == begin => {
            let mnemonic = instruction.mnemonic();
            (mnemonic != Mnemonic::Jmp).then(|| hash(mnemonic as u32))
        }
        Some(callee) => {
            let is_said = !is_plumbing(symbols, callee) && !functions.graph.is_return(callee);
            is_said.then(|| hash(("call", callee)))
        }
        None => None,
    }
}

/// Returns the token of any other instruction, but for those that save registers or only move them.
fn plain(instruction: &Instruction) -> Option<u64> {
    let mnemonic = instruction.mnemonic();
    let is_frame = matches!(
        mnemonic,
        Mnemonic::Push
            | Mnemonic::Pop
            | Mnemonic::Ret
            | Mnemonic::Nop
            | Mnemonic::Endbr64
            | Mnemonic::Int3
            | Mnemonic::Leave
    );
    if is_frame || instruction.op0_register() == Register::RSP {
        return None;
    }
    let mut says_something = !matches!(mnemonic, Mnemonic::Mov | Mnemonic::Lea);
    let mut operands = Vec::new();
    for operand in 0..instruction.op_count() {
        match instruction.op_kind(operand) {
            OpKind::Memory => {
                let is_stack = matches!(instruction.memory_base(), Register::RSP | Register::RBP);
                let segment = instruction.segment_prefix() as u64;
                operands.push(match is_stack {
                    true => (0, 0),
                    false => (1 + segment, instruction.memory_displacement64()),
                });
                says_something |= !is_stack;
            }
            OpKind::Register => {
                let size = instruction.op_register(operand).size();
                operands.push((u64::MAX, size as u64));
            }
            _ => {
                operands.push((u64::MAX - 1, instruction.immediate(operand)));
                says_something = true;
            }
        }
    }
    says_something.then(|| hash((mnemonic as u32, operands)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_in_order_counts_less_its_gaps() {
        let own = [(1, 2.0), (2, 3.0), (3, 1.0)];
        let close = |one: f64, other: f64| (one - other).abs() < 1e-9;
        assert!(close(aligned(&own, &[9, 1, 2, 3, 9]), 6.0));
        assert!(close(aligned(&own, &[1, 9, 9, 2, 3]), 6.0 - 2.0 * GAP));
        assert!(close(aligned(&own, &[2, 3, 9, 1]), 4.0));
        assert!(close(aligned(&own, &[1, 3]), 3.0 - GAP));
        assert!(close(aligned(&own, &[9, 9]), 0.0));
    }
}
