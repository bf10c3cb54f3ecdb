// SPDX-License-Identifier: GPL-2.0

//! Where the CPU is: preemption, the running task, interrupt state. For the hook, so every function
//! is inlined and calls nothing.

use core::arch::asm;
use core::mem::offset_of;

use kernel::bindings;

use crate::engine::context as bits;
use crate::engine::slot::Task;

// The layout of preempt_count(), include/linux/preempt.h.
const PREEMPT_MASK: u32 = 0xff;
const SOFTIRQ_OFFSET: u32 = 1 << 8;
const SOFTIRQ_DISABLE_MASK: u32 = 0xfe << 8;
const HARDIRQ_MASK: u32 = 0xf << 16;
const NMI_MASK: u32 = 0xf << 20;
const COUNT_MASK: u32 = PREEMPT_NEED_RESCHED - 1;
/// Inverted: clear if rescheduling is needed.
const PREEMPT_NEED_RESCHED: u32 = 1 << 31;

const EFLAGS_IF: u64 = 1 << 9;

/// Keeps the running code on its CPU, as `preempt_disable_notrace()` does.
///
/// # Invariants
///
/// This CPU's preempt count was raised by one, and is lowered when the guard goes.
pub(crate) struct PreemptGuard {
    /// The count before that, with its need-resched bit.
    before: u32,
    /// A guard belongs to the context that made it.
    _not_send: kernel::types::NotThreadSafe,
}

impl PreemptGuard {
    /// Disables preemption.
    #[inline(always)]
    pub(crate) fn new() -> Self {
        let after: u32;
        // SAFETY: `__preempt_count` is a per-CPU variable that `gs` leads to. The addition is one
        // instruction, so it happens on one CPU; from there on the code stays on it.
        unsafe {
            asm!(
                "inc dword ptr gs:[rip + {count}]",
                count = sym bindings::__preempt_count,
                options(nostack),
            );
        }
        // SAFETY: As above, for a load.
        unsafe {
            asm!(
                "mov {after:e}, dword ptr gs:[rip + {count}]",
                after = out(reg) after,
                count = sym bindings::__preempt_count,
                options(nostack, readonly, preserves_flags),
            );
        }
        // INVARIANT: Raised above.
        Self {
            before: after.wrapping_sub(1),
            _not_send: kernel::types::NotThreadSafe,
        }
    }

    /// The engine's context word for a function that was entered with stack pointer `sp`.
    #[inline(always)]
    pub(crate) fn context_word(&self, current: &Current<'_>, sp: u64) -> u32 {
        let mut word = bits::Context::stack_field(sp);
        word |= u32::from(irqs_off()) << bits::IRQS_OFF.trailing_zeros();
        // The two bits lie side by side in both words.
        const _: () = assert!(bindings::TIF_NEED_RESCHED_LAZY == bindings::TIF_NEED_RESCHED + 1);
        const _: () = assert!(bits::NEED_RESCHED_LAZY == bits::NEED_RESCHED << 1);
        let resched = (current.thread_flags() >> bindings::TIF_NEED_RESCHED) as u32 & 3;
        word |= resched << bits::NEED_RESCHED.trailing_zeros();
        word |= u32::from(current.migration_disabled().min(0xf)) << 4;
        word |= current.entry_word() << bits::ENTRY_TAG_SHIFT;

        let count = self.before;
        if count & !0xf == PREEMPT_NEED_RESCHED && cfg!(not(CONFIG_PREEMPT_RT)) {
            // A task, and none of the rare bits.
            return word | count & 0xf;
        }
        word |= (count & PREEMPT_MASK).min(0xf);
        if count & PREEMPT_NEED_RESCHED == 0 {
            word |= bits::PREEMPT_RESCHED;
        }
        let count = count & COUNT_MASK;
        if count & NMI_MASK != 0 {
            word |= bits::NMI;
        }
        if count & HARDIRQ_MASK != 0 {
            word |= bits::HARDIRQ;
        }
        let softirq = current.softirq_count(count);
        if softirq & SOFTIRQ_OFFSET != 0 {
            word |= bits::SOFTIRQ;
        }
        if softirq & SOFTIRQ_DISABLE_MASK != 0 {
            word |= bits::BH_OFF;
        }
        word
    }

    /// Offset of this CPU's instances of per-CPU variables.
    #[inline(always)]
    pub(crate) fn cpu_offset(&self) -> usize {
        let offset: usize;
        // SAFETY: `this_cpu_off` is a per-CPU variable that `gs` leads to; preemption is off, so
        // the CPU stays the same while the guard lives.
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
    pub(crate) fn current(&self) -> Current<'_> {
        let task: *const bindings::task_struct;
        // SAFETY: `current_task` is a per-CPU variable that `gs` leads to.
        unsafe {
            asm!(
                "mov {task}, qword ptr gs:[rip + {current}]",
                task = out(reg) task,
                current = sym bindings::current_task,
                options(nostack, pure, readonly, preserves_flags),
            );
        }
        Current {
            task: task.cast(),
            _guard: core::marker::PhantomData,
        }
    }
}

impl Drop for PreemptGuard {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: As in `new`; by the type's invariant this undoes that addition. The thunk saves
        // all registers and may be called when the count has become zero with need-resched, as
        // `preempt_enable_notrace()` does, so only the flags are clobbered. `nostack` is not
        // given: the call needs an aligned stack.
        #[cfg(CONFIG_PREEMPTION)]
        unsafe {
            asm!(
                "dec dword ptr gs:[rip + {count}]",
                "jnz 2f",
                "call {schedule}",
                "2:",
                count = sym bindings::__preempt_count,
                schedule = sym bindings::preempt_schedule_notrace_thunk,
            );
        }
        // SAFETY: As in `new`; by the type's invariant this undoes that addition.
        #[cfg(not(CONFIG_PREEMPTION))]
        unsafe {
            asm!(
                "dec dword ptr gs:[rip + {count}]",
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
pub(crate) struct Current<'a> {
    task: *const u8,
    _guard: core::marker::PhantomData<&'a PreemptGuard>,
}

impl Current<'_> {
    /// Loads a field of the task.
    ///
    /// # Safety
    ///
    /// `offset` is that of a field of `struct task_struct` of type `T`, or of part of one.
    #[inline(always)]
    unsafe fn field<T: Copy>(&self, offset: usize) -> T {
        // SAFETY: By the type's invariant `task` is `current`, which lives as long as it runs.
        let field = unsafe { self.task.add(offset) };
        // SAFETY: The caller promises that a `T` lies there. Others may write it meanwhile, as C's
        // READ_ONCE() allows: a volatile load of a machine word does not tear.
        unsafe { field.cast::<T>().read_volatile() }
    }

    /// What the task is known by.
    #[inline(always)]
    pub(crate) fn identity(&self) -> Task {
        const IDS: usize = offset_of!(bindings::task_struct, pid);
        const COMM: usize = offset_of!(bindings::task_struct, comm);
        const _: () = assert!(offset_of!(bindings::task_struct, tgid) == IDS + 4);
        // SAFETY: pid and tgid, two ints side by side, as asserted. A `u64` there need not be
        // aligned for the CPU, and Rust is told so by the align-1 type.
        let ids = unsafe { self.field::<Unaligned>(IDS) };
        // SAFETY: The first half of comm, which has 16 bytes.
        let low = unsafe { self.field::<Unaligned>(COMM) };
        // SAFETY: The second half.
        let high = unsafe { self.field::<Unaligned>(COMM + 8) };
        Task {
            ids: ids.0,
            comm: [low.0, high.0],
        }
    }

    #[inline(always)]
    fn thread_flags(&self) -> u64 {
        const FLAGS: usize = offset_of!(bindings::task_struct, thread_info)
            + offset_of!(bindings::thread_info, flags);
        // SAFETY: `flags` is an unsigned long.
        unsafe { self.field::<u64>(FLAGS) }
    }

    /// `orig_ax` of the registers that the task entered the kernel with (`task_pt_regs()`): the
    /// number of the system call. A kernel thread has something there that does not change.
    #[inline(always)]
    fn entry_word(&self) -> u32 {
        // include/asm/page_64_types.h and thread_info.h of arch/x86.
        const ORDER: u32 = if cfg!(CONFIG_KASAN) { 3 } else { 2 };
        const THREAD_SIZE: usize = kernel::page::PAGE_SIZE << ORDER;
        const PADDING: usize = if cfg!(CONFIG_X86_FRED) { 16 } else { 0 };
        const REGS: usize = THREAD_SIZE - PADDING - core::mem::size_of::<bindings::pt_regs>();
        const ORIG_AX: usize = REGS + offset_of!(bindings::pt_regs, orig_ax);
        // SAFETY: `stack` is a pointer.
        let stack = unsafe { self.field::<*const u8>(offset_of!(bindings::task_struct, stack)) };
        // SAFETY: The stack of the running task has THREAD_SIZE bytes.
        let word = unsafe { stack.add(ORIG_AX) };
        // SAFETY: As above; the place is aligned, and its low half is a machine word as well.
        unsafe { word.cast::<u32>().read_volatile() }
    }

    #[inline(always)]
    fn migration_disabled(&self) -> u16 {
        // SAFETY: The field is an unsigned short.
        unsafe { self.field::<u16>(offset_of!(bindings::task_struct, migration_disabled)) }
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
        // SAFETY: The field is an int.
        unsafe { self.field::<u32>(offset_of!(bindings::task_struct, softirq_disable_cnt)) }
    }
}

#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Unaligned(u64);

/// Whether interrupts are disabled on this CPU.
#[inline(always)]
fn irqs_off() -> bool {
    let flags: u64;
    // SAFETY: Reads the flags by way of the stack.
    unsafe {
        asm!(
            "pushfq",
            "pop {flags}",
            flags = out(reg) flags,
            options(preserves_flags),
        );
    }
    flags & EFLAGS_IF == 0
}

/// The time stamp counter, in cycles.
#[inline(always)]
pub(crate) fn cycles() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: Every x86-64 CPU has the instruction, and the kernel may always use it. `nomem` is
    // not given, so that the compiler leaves it between the accesses of memory around it.
    unsafe {
        asm!(
            "rdtsc",
            out("eax") low,
            out("edx") high,
            options(nostack, preserves_flags),
        );
    }
    u64::from(high) << 32 | u64::from(low)
}
