// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The two ends of a call as the code tells them: the function that it is made from, and the one
//! that it is made to.
//!
//! All of that is read long after the call, and code changes (jump labels, static calls, live
//! patches, modules that come and go). So it is a hint: whoever takes it must not depend on it.

/// Tells of the code around calls.
pub trait CallSites {
    /// Returns the code that `address` belongs to.
    fn code(&mut self, address: u64) -> FunctionCode;

    /// Where the call that returns to `parent_ip` goes, if it is direct and can be read.
    fn target(&mut self, parent_ip: u64) -> Option<u64>;

    /// Returns whether the function at ftrace location `from` jumps to the one at `to`.
    fn jumps(&mut self, from: u64, to: u64) -> bool;

    /// Returns whether the function at ftrace location `from` calls or jumps to the one that begins
    /// at `to`, which is hidden though all are traced that can be. Where a filter hides others,
    /// that tells too little: false.
    fn calls(&mut self, from: u64, to: u64) -> bool;

    /// Returns whether entries of the function that begins at `start` are recorded.
    fn is_traced(&mut self, start: u64) -> bool;
}

/// The function that an address lies in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionCode {
    /// Where it begins, 0 if none is known.
    pub start: u64,
    /// Its role in the ways into the kernel.
    pub role: CodeRole,
}

/// Functions that say something of whatever they call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum CodeRole {
    /// Nothing special.
    #[default]
    Plain,
    /// A task comes into the kernel by it, or begins in it: what it calls has no callers.
    TaskEntry,
    /// An interrupt or an NMI comes in by it, which calls nothing before.
    InterruptEntry,
    /// The begin or the end of an interrupt, itself not counted as part of one by the kernel.
    InterruptEdge,
    /// It gives the CPU to another task. (It cannot be traced.)
    Scheduler,
    /// It gives the CPU to another task, and is on the stack of that task already.
    TaskSwitch,
    /// Where functions return to whose return somebody waits for (function_graph, fprobe,
    /// kretprobes): what was called from there was jumped to by such a function.
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
    /// The roles by the names of functions, from arch/x86/entry, arch/x86/kernel, kernel/softirq.c
    /// and kernel/sched/core.c.
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

/// An `endbr64` may lie between the begin of a function and its ftrace location.
const MAX_LOCATION_OFFSET: u64 = 4;
/// Calls may go to what lies before a function (call depth tracking), which is this long at most.
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

/// Where a call goes that returns to `parent_ip`, if these bytes before that are a direct one.
pub fn call_target(bytes: [u8; CALL_BYTES], parent_ip: u64) -> Option<u64> {
    const CALL: u8 = 0xe8;
    let [CALL, offset @ ..] = bytes else {
        return None;
    };
    Some(parent_ip.wrapping_add_signed(i32::from_le_bytes(offset).into()))
}

/// Returns whether `code`, which lies at `address`, has a direct call of the function at `ip`; all
/// bytes are taken for the begin of an instruction, as by [`has_jump`].
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
/// Where instructions begin is not known, so all bytes are taken for one: that four of them are the
/// right offset by chance is as good as impossible.
pub fn has_jump(code: &[u8], address: u64, ip: u64) -> bool {
    // jmp rel32, and jcc rel32.
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
