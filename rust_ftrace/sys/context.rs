// SPDX-License-Identifier: GPL-2.0

//! The state that the CPU is in: preemption, the running task, interrupt state. For the hook, so
//! every function is inlined and calls nothing.

use core::arch::asm;
use core::mem::offset_of;

use kernel::bindings;
use kernel::prelude::*;

use crate::engine::context as bits;
use crate::engine::pids::PID_LIMIT;
use crate::engine::slot::Task;
use crate::platform::Word;

use super::ffi;

// The layout of preempt_count(), include/linux/preempt.h.
const PREEMPT_MASK: u32 = 0xff;
const SOFTIRQ_OFFSET: u32 = 1 << 8;
const SOFTIRQ_DISABLE_MASK: u32 = 0xfe << 8;
const HARDIRQ_MASK: u32 = ffi::RUST_CONST_HARDIRQ_MASK;
const NMI_MASK: u32 = ffi::RUST_CONST_NMI_MASK;

/// `__preempt_count`, with the need-resched bit on top: 32 bits before Linux 7.3, and 64 since.
#[cfg(CONFIG_HAS_SEPARATE_PREEMPT_RESCHED_BITS)]
type Count = u64;
#[cfg(not(CONFIG_HAS_SEPARATE_PREEMPT_RESCHED_BITS))]
type Count = u32;

/// An instruction on all of it.
#[cfg(CONFIG_HAS_SEPARATE_PREEMPT_RESCHED_BITS)]
macro_rules! on_count {
    ($mnemonic:literal) => {
        concat!($mnemonic, " qword ptr gs:[rip + {count}]")
    };
    ($mnemonic:literal to) => {
        concat!($mnemonic, " {value}, qword ptr gs:[rip + {count}]")
    };
}
#[cfg(not(CONFIG_HAS_SEPARATE_PREEMPT_RESCHED_BITS))]
macro_rules! on_count {
    ($mnemonic:literal) => {
        concat!($mnemonic, " dword ptr gs:[rip + {count}]")
    };
    ($mnemonic:literal to) => {
        concat!($mnemonic, " {value:e}, dword ptr gs:[rip + {count}]")
    };
}

/// The size of a task's stack, and its alignment, in bytes: include/asm/page_64_types.h of
/// arch/x86.
pub(crate) const THREAD_SIZE: usize = kernel::page::PAGE_SIZE << THREAD_ORDER;
const THREAD_ORDER: u32 = if cfg!(CONFIG_KASAN) { 3 } else { 2 };

/// Inverted: clear if rescheduling is needed.
const PREEMPT_NEED_RESCHED: Count = 1 << (Count::BITS - 1);

const RESCHED_FLAGS: u64 =
    (1 << bindings::TIF_NEED_RESCHED) | (1 << bindings::TIF_NEED_RESCHED_LAZY);

/// `SHADOW_STACK_SIZE` of kernel/trace/fgraph.c.
pub(crate) const SHADOW_STACK_SIZE: usize = 4096;

const EFLAGS_IF: u32 = 1 << 9;
const _: () = assert!(EFLAGS_IF == bits::IRQS_ON);

/// Keeps the running code on its CPU, as `preempt_disable_notrace()` does.
///
/// # Invariants
///
/// This CPU's preempt count was raised by one, and is lowered when the guard goes.
pub(crate) struct PreemptGuard {
    /// A guard belongs to the context that made it.
    _not_send: kernel::types::NotThreadSafe,
}

impl PreemptGuard {
    /// Disables preemption.
    #[inline(always)]
    pub(crate) fn new() -> Self {
        // SAFETY: `__preempt_count` is a per-CPU variable that `gs` leads to. The addition is one
        // instruction, so it happens on one CPU; from there on the code stays on it.
        unsafe {
            asm!(
                on_count!("inc"),
                count = sym bindings::__preempt_count,
                options(nostack),
            );
        }
        // INVARIANT: Raised above.
        Self {
            _not_send: kernel::types::NotThreadSafe,
        }
    }

    /// Proof that preemption is off.
    #[inline(always)]
    pub(crate) fn token(&self) -> PreemptOff<'_> {
        // INVARIANT: The guard stays for as long, and keeps preemption off.
        PreemptOff(core::marker::PhantomData)
    }
}

/// Proof that preemption is off, by a [`PreemptGuard`]. It has no size, so passing it on costs
/// nothing.
///
/// # Invariants
///
/// Preemption is off for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct PreemptOff<'a>(core::marker::PhantomData<&'a PreemptGuard>);

impl<'a> PreemptOff<'a> {
    /// Proof that preemption is off, by other means.
    ///
    /// # Safety
    ///
    /// Preemption is off for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn assume() -> Self {
        // INVARIANT: Preemption is off for `'a`, by caller precondition.
        Self(core::marker::PhantomData)
    }

    /// The preempt count, which the guard has raised by one, with its need-resched bit.
    #[inline(always)]
    fn count(self) -> Count {
        let count: Count;
        // SAFETY: `__preempt_count` is a per-CPU variable that `gs` leads to. The load is one
        // instruction, of the CPU on which the code stays while the token is there.
        unsafe {
            asm!(
                on_count!("mov" to),
                value = out(reg) count,
                count = sym bindings::__preempt_count,
                options(nostack, readonly, preserves_flags),
            );
        }
        count
    }

    /// A bit for the kind of context: task, softirq, interrupt or NMI, as the kernel's
    /// `interrupt_context_level()` tells them apart.
    pub(crate) fn context_level(self) -> u64 {
        let count = self.count() as u32;
        let within = |mask| u32::from(count & mask != 0);
        let interrupt = NMI_MASK | HARDIRQ_MASK;
        1 << (within(NMI_MASK) + within(interrupt) + within(interrupt | SOFTIRQ_OFFSET))
    }

    /// Returns whether a hardware interrupt is being served: `in_hardirq()`.
    pub(crate) fn is_in_hardirq(self) -> bool {
        self.count() as u32 & HARDIRQ_MASK != 0
    }

    /// The CPU's number.
    pub(crate) fn cpu_number(self) -> c_int {
        let number: c_int;
        // SAFETY: `cpu_number` is a per-CPU variable that `gs` leads to. It is only read, and the
        // same as long as the token keeps the code on its CPU.
        unsafe {
            asm!(
                "mov {number:e}, dword ptr gs:[rip + {cpu}]",
                number = out(reg) number,
                cpu = sym bindings::cpu_number,
                options(nostack, pure, readonly, preserves_flags),
            );
        }
        number
    }

    /// Offset of this CPU's instances of per-CPU variables.
    pub(crate) fn cpu_offset(self) -> usize {
        let offset: usize;
        // SAFETY: `this_cpu_off` is a per-CPU variable that `gs` leads to. It is only read, and the
        // same as long as the token keeps the code on its CPU.
        unsafe {
            asm!(
                "mov {offset}, qword ptr gs:[rip + {this}]",
                offset = out(reg) offset,
                this = sym bindings::this_cpu_off,
                options(nostack, pure, readonly, preserves_flags),
            );
        }
        offset
    }

    /// The running task.
    #[inline(always)]
    pub(crate) fn current(self) -> Current<'a> {
        // INVARIANT: It is `current`.
        Current {
            task: current_task(),
            token: self,
        }
    }
}

/// `current`: the same on whatever CPU the running code asks.
#[inline(always)]
fn current_task() -> *const bindings::task_struct {
    let task: *const bindings::task_struct;
    // SAFETY: `current_task` is a per-CPU variable that `gs` leads to. It is only read, and the
    // same as long as this task runs.
    unsafe {
        asm!(
            "mov {task}, qword ptr gs:[rip + {current}]",
            task = out(reg) task,
            current = sym bindings::current_task,
            options(nostack, pure, readonly, preserves_flags),
        );
    }
    task
}

/// Loads a field of the running task, as `READ_ONCE()`; the compiler knows its type.
macro_rules! load {
    ($task:expr, $($field:ident).+) => {{
        let task: *const bindings::task_struct = $task;
        // SAFETY: `task` is `current`, which is live as long as it runs, and so while this does.
        let field = unsafe { &raw const (*task).$($field).+ };
        // SAFETY:
        // - `field` points to a live, aligned field of the type that it has in C, for which any
        //   bits are a value.
        // - Other CPUs may write it meanwhile: a volatile load of a machine word does not tear, and
        //   LKMM has it race with marked stores.
        unsafe { field.read_volatile() }
    }};
}

/// The ID of the running thread, 0 for the idle task. Preemption may be on.
#[inline(always)]
pub(crate) fn running_pid() -> u32 {
    // CAST: IDs are not negative.
    load!(current_task(), pid) as u32
}

impl Drop for PreemptGuard {
    #[inline(always)]
    fn drop(&mut self) {
        #[cfg(CONFIG_PREEMPTION)]
        // SAFETY: `__preempt_count` is a per-CPU variable that `gs` leads to, of the CPU on which
        // the code stayed; by the type's invariant this undoes the addition of `new`. The thunk
        // saves all registers and may be called when the count has become zero with need-resched,
        // as `preempt_enable_notrace()` does, so only the flags are clobbered. `nostack` is not
        // given: the call needs an aligned stack.
        unsafe {
            asm!(
                on_count!("dec"),
                "jnz 2f",
                "call {schedule}",
                "2:",
                count = sym bindings::__preempt_count,
                schedule = sym bindings::preempt_schedule_notrace_thunk,
            );
        }
        #[cfg(not(CONFIG_PREEMPTION))]
        // SAFETY: `__preempt_count` is a per-CPU variable that `gs` leads to, of the CPU on which
        // the code stayed; by the type's invariant this undoes the addition of `new`.
        unsafe {
            asm!(
                on_count!("dec"),
                count = sym bindings::__preempt_count,
                options(nostack),
            );
        }
    }
}

/// The task that runs while a [`PreemptGuard`] is held.
///
/// # Invariants
///
/// `task` points to this CPU's `current`.
#[derive(Clone, Copy)]
pub(crate) struct Current<'a> {
    task: *const bindings::task_struct,
    token: PreemptOff<'a>,
}

impl Current<'_> {
    /// Its `struct task_struct`.
    pub(crate) fn as_ptr(&self) -> *const bindings::task_struct {
        self.task
    }

    /// The engine's context word for a function that was entered with stack pointer `sp`.
    #[inline(always)]
    pub(crate) fn context_word(&self, sp: u64) -> u32 {
        self.with_state::<1>(bits::ContextWord::place(sp, self.entry_word()))
    }

    /// Bits 0-15 of it, where preemption was disabled `RAISED` times since the function was
    /// entered.
    #[inline(always)]
    pub(crate) fn state_word<const RAISED: u32>(&self) -> u32 {
        self.with_state::<RAISED>(0)
    }

    #[inline(always)]
    fn with_state<const RAISED: u32>(&self, word: u32) -> u32 {
        // The count of a task that has not disabled preemption, beside those of tracing.
        let plain = PREEMPT_NEED_RESCHED | RAISED as Count;
        let word = word | (eflags() & EFLAGS_IF);
        let count = self.token.count();
        if count != plain
            || self.thread_flags() & RESCHED_FLAGS != 0
            || self.migration_disabled() != 0
            || self.softirq_count(0) != 0
        {
            return self.with_rare_state(word, count.wrapping_sub(RAISED as Count));
        }
        word
    }

    /// Adds all of the context word that is 0 for a task which nothing special is known of.
    #[inline(always)]
    fn with_rare_state(&self, mut word: u32, count: Count) -> u32 {
        cold_path();
        let needs_resched = count & PREEMPT_NEED_RESCHED == 0;
        let count = count as u32;
        word |= (count & PREEMPT_MASK).min(bits::MAX_DEPTH);
        word = in_turn(word);
        word |= u32::from(self.migration_disabled()).min(bits::MAX_DEPTH) << bits::MIGRATE_SHIFT;
        word = in_turn(word);
        let mut set = |condition, bit| {
            word |= if condition { bit } else { 0 };
            word = in_turn(word);
        };
        const RESCHED: u64 = 1 << bindings::TIF_NEED_RESCHED;
        const RESCHED_LAZY: u64 = 1 << bindings::TIF_NEED_RESCHED_LAZY;
        set(self.thread_flags() & RESCHED != 0, bits::NEED_RESCHED);
        set(
            self.thread_flags() & RESCHED_LAZY != 0,
            bits::NEED_RESCHED_LAZY,
        );
        set(needs_resched, bits::PREEMPT_RESCHED);
        set(count & NMI_MASK != 0, bits::NMI);
        set(count & HARDIRQ_MASK != 0, bits::HARDIRQ);
        let softirq = self.softirq_count(count);
        set(softirq & SOFTIRQ_OFFSET != 0, bits::SOFTIRQ);
        set(softirq & SOFTIRQ_DISABLE_MASK != 0, bits::BH_OFF);
        word
    }

    /// The interrupts that it is in, as the preempt count has them: 0 in none, see [`level`].
    #[inline(always)]
    pub(crate) fn interrupts(&self) -> u32 {
        let count = self.token.count() as u32;
        let softirq = self.softirq_count(count) & SOFTIRQ_OFFSET;
        softirq | (count & (HARDIRQ_MASK | NMI_MASK))
    }

    /// The thread's ID, 0 for the idle task.
    #[inline(always)]
    pub(crate) fn pid(&self) -> u32 {
        // CAST: IDs are not negative.
        let pid = load!(self.task, pid) as u32;
        // `alloc_pid()` gives none that is PID_MAX_LIMIT or larger.
        pid & (PID_LIMIT - 1)
    }

    /// pid in the lower half, tgid in the upper.
    #[inline(always)]
    fn ids(&self) -> u64 {
        const _: () = {
            let pid = offset_of!(bindings::task_struct, pid);
            assert!(offset_of!(bindings::task_struct, tgid) == pid + 4);
        };
        // SAFETY: By the type's invariant `task` is `current`, which is live as long as it runs.
        let pid: *const bindings::pid_t = unsafe { &raw const (*self.task).pid };
        // SAFETY:
        // - `pid`, and `tgid` right behind it as asserted, are live: two ints, as the compiler
        //   checked of the first.
        // - Neither is changed but by the task itself, as it runs another program.
        unsafe { pid.cast::<Unaligned>().read_volatile() }.0
    }

    /// Half of comm.
    #[inline(always)]
    fn comm<const HALF: usize>(&self) -> u64 {
        const { assert!(HALF < 2) };
        // SAFETY: By the type's invariant `task` is `current`, which is live as long as it runs.
        let comm: *const [c_char; 16] = unsafe { &raw const (*self.task).comm };
        // SAFETY: `comm` has two halves of 8 bytes, so that each is within it.
        let half = unsafe { comm.cast::<Unaligned>().add(HALF) };
        // SAFETY:
        // - `half` points to 8 live bytes, which need not be aligned.
        // - Others may write it meanwhile: a volatile load of a machine word does not tear but
        //   where it crosses a cache line, and then a name is mixed of two, as in C.
        unsafe { half.read_volatile() }.0
    }

    /// The task as events name it.
    #[inline(always)]
    pub(crate) fn identity(&self) -> Task {
        Task {
            ids: self.ids(),
            comm: [self.comm::<0>(), self.comm::<1>()],
        }
    }

    /// Returns whether `word(0)`, `word(1)` and `word(2)` are its [`identity`](Self::identity).
    #[inline(always)]
    pub(crate) fn is_known_as(&self, word: impl Fn(usize) -> u64) -> bool {
        self.ids() == word(0) && self.comm::<0>() == word(1) && self.comm::<1>() == word(2)
    }

    #[inline(always)]
    fn thread_flags(&self) -> u64 {
        load!(self.task, thread_info.flags) as u64
    }

    /// `orig_ax` of the registers that the task entered the kernel with (`task_pt_regs()`): the
    /// number of the system call. A kernel thread has something there that does not change.
    #[inline(always)]
    fn entry_word(&self) -> u32 {
        // include/asm/thread_info.h of arch/x86.
        const PADDING: usize = if cfg!(CONFIG_X86_FRED) { 16 } else { 0 };
        const REGS: usize = THREAD_SIZE - PADDING - core::mem::size_of::<bindings::pt_regs>();
        let stack: *mut c_void = load!(self.task, stack);
        // SAFETY: The stack of the running task has THREAD_SIZE bytes, and is there as long as it
        // runs.
        let regs = unsafe { stack.byte_add(REGS) }.cast::<bindings::pt_regs>();
        // SAFETY: `regs` points into the stack, with room for a `struct pt_regs` behind it.
        let orig_ax: *const c_ulong = unsafe { &raw const (*regs).orig_ax };
        // SAFETY: A live, aligned word, of which the lower half comes first in memory. Only the
        // task writes there, at its entry.
        unsafe { orig_ax.cast::<u32>().read_volatile() }
    }

    /// The number of calls of the task, beside this one, that fgraph watches: the depth of this
    /// one, while fgraph calls us for it.
    #[inline(always)]
    pub(crate) fn call_depth(&self) -> u32 {
        let depth = load!(self.task, curr_ret_depth) as u32;
        // A frame has four words at least, so there is no room for more calls.
        depth & ((SHADOW_STACK_SIZE / 32) as u32 - 1)
    }

    /// The words of its shadow stack below `end`, and the address of the first: fgraph's frames of
    /// the calls that are open. Nothing if `end` does not lie in it.
    pub(crate) fn shadow_below(&self, end: *const u64) -> (&[Word], u64) {
        let base: *const c_ulong = load!(self.task, ret_stack);
        let bytes = (end as usize).wrapping_sub(base as usize);
        if base.is_null() || bytes >= SHADOW_STACK_SIZE {
            return (&[], 0);
        }
        // SAFETY:
        // - `base` is not null, and points to the SHADOW_STACK_SIZE bytes of the running task's
        //   shadow stack, which are zeroed when it is made; `bytes` of them are less.
        // - It is aligned: a slab's memory.
        // - It stays as long as the task lives, and so longer than `self`.
        // - Its words are changed only by the task and what interrupts it, and a `Word` may change.
        let words = unsafe { core::slice::from_raw_parts(base.cast::<Word>(), bytes / 8) };
        (words, base as u64)
    }

    /// Words of its shadow stack that begin `distance` words below some others, and their address;
    /// `None` if they do not lie in it.
    #[inline(always)]
    pub(crate) fn shadow_words<const N: usize>(
        &self,
        others: &[Word; N],
        distance: usize,
    ) -> Option<(&[Word; N], u64)> {
        let base: *const c_ulong = load!(self.task, ret_stack);
        let begin = others.as_ptr().wrapping_sub(distance);
        let bytes = (begin as usize).wrapping_sub(base as usize);
        // No word is as near to null, so that it is no base then.
        if bytes > SHADOW_STACK_SIZE - N * 8 {
            return None;
        }
        // SAFETY:
        // - `base` points to the SHADOW_STACK_SIZE bytes of the running task's shadow stack, which
        //   are zeroed when it is made; N words from `bytes` on lie within them.
        // - They are aligned, as `others` are, from which they are words away.
        // - They stay as long as the task lives, and so longer than `self`.
        // - They are changed only by the task and what interrupts it, and a `Word` may change.
        let words = unsafe { &*begin.cast::<[Word; N]>() };
        Some((words, begin as u64))
    }

    /// The number of calls of the task that were too deep to be watched.
    #[inline(always)]
    pub(crate) fn call_overrun(&self) -> u32 {
        load!(self.task, trace_overrun.counter) as u32
    }

    #[inline(always)]
    fn migration_disabled(&self) -> u16 {
        load!(self.task, migration_disabled)
    }

    /// The count of softirqs, out of preempt_count `count`.
    #[cfg(not(CONFIG_PREEMPT_RT))]
    #[inline(always)]
    fn softirq_count(&self, count: u32) -> u32 {
        count
    }

    /// The count of softirqs, which PREEMPT_RT keeps in the task.
    #[cfg(CONFIG_PREEMPT_RT)]
    #[inline(always)]
    fn softirq_count(&self, _count: u32) -> u32 {
        load!(self.task, softirq_disable_cnt) as u32
    }
}

/// Returns the level of [`Current::interrupts`].
pub(crate) const fn level(interrupts: u32) -> bits::Level {
    if interrupts & NMI_MASK != 0 {
        bits::Level::Nmi
    } else if interrupts & HARDIRQ_MASK != 0 {
        bits::Level::Hardirq
    } else if interrupts != 0 {
        bits::Level::Softirq
    } else {
        bits::Level::Task
    }
}

/// Two ints or eight characters, as a word that need not be aligned.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Unaligned(u64);

/// The lower half of the flags register.
#[inline(always)]
fn eflags() -> u32 {
    let flags: u64;
    // SAFETY: What is pushed is popped again, so the stack is as it was (`nostack` is not given, so
    // there is no red zone to be overwritten), and the flags are only read.
    unsafe {
        asm!(
            "pushfq",
            "pop {flags}",
            flags = out(reg) flags,
            options(preserves_flags),
        );
    }
    flags as u32
}

/// Has the compiler do what comes before first: it would rather do all at once, and then needs more
/// registers than a function has that need not save any.
#[inline(always)]
fn in_turn(mut word: u32) -> u32 {
    // SAFETY: It has no instruction, only a comment, and so leaves all as it is.
    unsafe { asm!("/* {0:e} */", inout(reg) word, options(nostack, preserves_flags)) };
    word
}

/// Tells the compiler that the way here is not the usual one.
#[cold]
#[inline(always)]
fn cold_path() {}

/// The time stamp counter, in cycles.
#[inline(always)]
pub(crate) fn cycles() -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: Every x86-64 CPU has the instruction, and the kernel may always use it. `nomem` is
    // not given, so that the compiler leaves it between the accesses of memory around it.
    unsafe {
        asm!(
            "rdtsc",
            out("rax") low,
            out("rdx") high,
            options(nostack, preserves_flags),
        );
    }
    // With masks the hooks take one or two instructions more, and by `_rdtsc()` that of functions
    // takes four: the halves are put together and taken apart again, as the ring looks at the upper
    // one by itself.
    //
    // SAFETY: In 64-bit mode the instruction loads EDX and EAX, and clears the high-order 32 bits
    // of each of RAX and RDX. Both were written by it, and nothing is between it and here.
    unsafe { core::hint::assert_unchecked(low >> 32 == 0 && high >> 32 == 0) };
    high << 32 | low
}
