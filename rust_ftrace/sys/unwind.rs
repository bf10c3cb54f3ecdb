// SPDX-License-Identifier: GPL-2.0

//! The stack below a traced function.
//!
//! The unwinder begins with the registers that ftrace saved, not with the frames of hook and
//! trampoline, as `stack_trace_save()` would. At a function's entry it needs three of them: ip, sp
//! and bp, which are always saved; `cs`, which tells user mode from the kernel, is zero or the
//! kernel's. Whatever unwinder the kernel is built with, it finds `first` here as
//! `arch_stack_walk()` of arch/x86/kernel/stacktrace.c does with `struct pt_regs`.
//!
//! C header: `arch/x86/include/asm/unwind.h`

use core::ops::Range;

use kernel::bindings;
use kernel::prelude::*;

use super::context::{Current, PreemptOff};
use super::ffi;
use super::ftrace::Registers;
use super::lockdep;

/// The functions that unwinding calls most: with all functions traced, nine of ten calls would be
/// of these.
pub(crate) const OWN_FUNCTIONS: &[&[u8]] = &[
    b"stack_access_ok",
    b"*orc_find*",
    b"unwind_next_frame",
    b"update_stack_state",
];

/// Calls `each` with the return addresses on the stack, the innermost first, until it returns
/// false. `text` is where the kernel's own text lies; empty will do, but takes longer. Returns
/// whether it was told of all of them.
///
/// With the ORC unwinder the first is where the traced function returns to, also if a trampoline
/// was put in its place; with others it may be missing, since the function has no frame yet.
///
/// May be called in any context, NMI included. Functions of the unwinder are traced themselves.
/// Where RCU is not watching, which the unwinder needs for modules, there are none.
pub(crate) fn walk(
    token: PreemptOff<'_>,
    registers: Registers<'_>,
    text: Range<u64>,
    each: impl FnMut(u64) -> bool,
) -> bool {
    // SAFETY: `rcu_is_watching()` takes nothing, and may be called in any context.
    if !unsafe { bindings::rcu_is_watching() } {
        return false;
    }
    // The unwinder is a reader of RCU's.
    let current = token.current();
    lockdep::without(&current, || walk_from(&current, registers, text, each))
}

/// Does what [`walk`] says, where RCU is watching.
#[inline(always)]
fn walk_from(
    current: &Current<'_>,
    registers: Registers<'_>,
    text: Range<u64>,
    mut each: impl FnMut(u64) -> bool,
) -> bool {
    let mut state = ffi::unwind_state::default();
    let task = current.as_ptr().cast_mut();
    let sp = registers.sp() as *mut c_ulong;
    // SAFETY: `task` is the running one. The registers are those of a place on its stack, and are
    // not changed.
    unsafe { ffi::__unwind_start(&mut state, task.cast(), registers.as_ptr().cast(), sp) };
    loop {
        let address = match address_in(&state) {
            Some(address) if text.contains(&address) => address,
            _ => return_address(&mut state),
        };
        if address == 0 {
            // The last frame of a task that came from user mode is there.
            return address_in(&state).is_some_and(|address| address >> 63 == 0);
        }
        if !each(address) {
            return false;
        }
        // SAFETY: `state` was filled by `__unwind_start()`, and the stack is still there.
        if !unsafe { ffi::unwind_next_frame(&mut state) } {
            return !state.error;
        }
    }
}

/// Returns the address that a state is at, if it can be had without a call. It is not checked to be
/// one of code.
///
/// `unwind_get_return_address()` is this, and three functions that are traced.
#[cfg(any(CONFIG_UNWINDER_ORC, CONFIG_UNWINDER_FRAME_POINTER))]
fn address_in(state: &ffi::unwind_state) -> Option<u64> {
    let is_done = state.stack_info.type_ == ffi::stack_type_STACK_TYPE_UNKNOWN;
    (!is_done).then_some(state.ip as u64)
}

#[cfg(not(any(CONFIG_UNWINDER_ORC, CONFIG_UNWINDER_FRAME_POINTER)))]
fn address_in(_state: &ffi::unwind_state) -> Option<u64> {
    None
}

/// The return address of any state, 0 if it is behind the last address.
fn return_address(state: &mut ffi::unwind_state) -> u64 {
    // SAFETY: `state` was filled by `__unwind_start()` or `unwind_next_frame()`, as `walk` alone
    // calls this.
    let address = unsafe { ffi::unwind_get_return_address(state) };
    address as u64
}

/// True if the first address of [`walk`] is always the traced function's return address.
pub(crate) const FIRST_IS_PARENT: bool = cfg!(CONFIG_UNWINDER_ORC);
