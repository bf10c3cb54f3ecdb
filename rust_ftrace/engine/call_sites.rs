// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The two ends of a call as the code tells them: the function that it is made from, and the one
//! that it is made to.
//!
//! The code is read long after the call, and it changes (jump labels, static calls, live patches,
//! modules that come and go). So all of this is a hint, on which nothing may depend.

/// Gives access to the code around calls.
pub trait CallSites {
    /// Returns the code that `address` belongs to.
    fn code(&mut self, address: u64) -> FunctionCode;

    /// Returns the address that the call before `parent_ip` goes to, if it is direct and can be
    /// read.
    fn target(&mut self, parent_ip: u64) -> Option<u64>;

    /// Returns whether the function at ftrace location `from` jumps to the one at `to`.
    fn jumps(&mut self, from: u64, to: u64) -> bool;

    /// Returns whether the function at ftrace location `from` calls or jumps to the one that begins
    /// at `to`, which is hidden though all functions are traced that can be. Where a filter hides
    /// others, the answer would say too little, and is false.
    fn calls(&mut self, from: u64, to: u64) -> bool;

    /// Returns whether entries of the function that begins at `start` are recorded.
    fn is_traced(&mut self, start: u64) -> bool;
}

/// The function that an address lies in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionCode {
    /// Address at which it begins, 0 if none is known.
    pub start: u64,
    /// Its role in the ways into the kernel.
    pub role: CodeRole,
}

/// The role of a function, which says something of the functions that it calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum CodeRole {
    /// No special role.
    #[default]
    Plain,
    /// The function by which a task comes into the kernel, or in which it begins: what it calls has
    /// no callers.
    TaskEntry,
    /// The function by which an interrupt or an NMI comes in, which calls nothing before.
    InterruptEntry,
    /// The begin or the end of an interrupt, which the kernel does not count as part of it.
    InterruptEdge,
    /// A function that gives the CPU to another task, and cannot be traced.
    Scheduler,
    /// A function that gives the CPU to another task, and is on the stack of that task already.
    TaskSwitch,
    /// The hook that functions return to while a tracer waits for their return (function_graph,
    /// fprobe, kretprobes): a function that seems to be called from there was jumped to by one of
    /// those.
    ReturnHook,
}

impl CodeRole {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Plain,
        Self::TaskEntry,
        Self::InterruptEntry,
        Self::InterruptEdge,
        Self::Scheduler,
        Self::TaskSwitch,
        Self::ReturnHook,
    ];
}

impl CodeRole {
    /// Returns the role of the function `name`, from arch/x86/entry, arch/x86/kernel,
    /// kernel/softirq.c and kernel/sched/core.c.
    pub fn of(name: &[u8]) -> Self {
        match name {
            b"do_syscall_64"
            | b"x64_sys_call"
            | b"ia32_sys_call"
            | b"do_int80_emulation"
            | b"int80_emulation"
            | b"do_fast_syscall_32"
            | b"__do_fast_syscall_32"
            | b"do_SYSENTER_32"
            | b"fred_other"
            | b"ret_from_fork"
            | b"ret_from_fork_asm" => Self::TaskEntry,
            b"__schedule" => Self::Scheduler,
            b"__switch_to" => Self::TaskSwitch,
            b"return_to_handler" | b"arch_rethook_trampoline" | b"__kretprobe_trampoline" => {
                Self::ReturnHook
            }
            b"common_interrupt" | b"spurious_interrupt" | b"exc_nmi" => Self::InterruptEntry,
            b"irq_enter_rcu" | b"irq_exit_rcu" | b"__irq_exit_rcu" | b"irq_enter" | b"irq_exit" => {
                Self::InterruptEdge
            }
            _ if name.starts_with(b"sysvec_") || name.starts_with(b"fred_sysvec_") => {
                Self::InterruptEntry
            }
            _ => Self::Plain,
        }
    }
}

/// Greatest distance from the begin of a function to its ftrace location: an `endbr64` may lie
/// between.
const MAX_LOCATION_OFFSET: u64 = 4;
/// Greatest length of the padding before a function, which calls may go to (call depth tracking).
const MAX_PADDING: u64 = 16;

/// Returns whether `ip` is the ftrace location of the function that begins at `start`.
pub const fn is_location(ip: u64, start: u64) -> bool {
    start != 0 && ip.wrapping_sub(start) <= MAX_LOCATION_OFFSET
}

/// Returns whether a jump to `target` enters the function with ftrace location `ip`.
pub const fn enters(target: u64, ip: u64) -> bool {
    ip.wrapping_sub(target) <= MAX_LOCATION_OFFSET + MAX_PADDING
}

/// Bytes of a direct call.
pub const CALL_BYTES: usize = 5;

/// Returns the address that a call goes to which returns to `parent_ip`, if the `bytes` before that
/// are a direct call.
pub fn call_target(bytes: [u8; CALL_BYTES], parent_ip: u64) -> Option<u64> {
    const CALL: u8 = 0xe8;
    let [CALL, offset @ ..] = bytes else {
        return None;
    };
    Some(parent_ip.wrapping_add_signed(i32::from_le_bytes(offset).into()))
}

/// Returns whether `code`, which lies at `address`, has a direct call of the function at `ip`.
/// Every byte is taken for the begin of an instruction, as by [`has_jump`].
pub fn has_call(code: &[u8], address: u64, ip: u64) -> bool {
    let windows = code.windows(CALL_BYTES).zip(0u64..);
    windows
        .filter_map(|(bytes, index)| {
            let after = address.wrapping_add(index).wrapping_add(CALL_BYTES as u64);
            call_target(*bytes.first_chunk()?, after)
        })
        .any(|target| enters(target, ip))
}

/// Bytes of the longest direct jump.
pub const JUMP_BYTES: usize = 6;

/// Returns whether `code`, which lies at `address`, has a direct jump to the function with ftrace
/// location `ip`.
///
/// It is not known where instructions begin, so every byte is taken for a begin: that four bytes
/// are the right offset by chance is as good as impossible.
pub fn has_jump(code: &[u8], address: u64, ip: u64) -> bool {
    // The opcodes of `jmp rel32` and of `jcc rel32`.
    const JUMP: u8 = 0xe9;
    const TWO_BYTES: u8 = 0x0f;
    let near = |bytes: &[u8], length: u64, at: u64| {
        let Some(offset) = bytes.first_chunk() else {
            return false;
        };
        let offset = i32::from_le_bytes(*offset).into();
        let end = at.wrapping_add(length);
        enters(end.wrapping_add_signed(offset), ip)
    };
    (0..code.len()).any(|index| {
        let at = address.wrapping_add(index as u64);
        match code.get(index..) {
            Some([JUMP, rest @ ..]) => near(rest, 5, at),
            Some([TWO_BYTES, 0x80..=0x8f, rest @ ..]) => near(rest, 6, at),
            _ => false,
        }
    })
}
