// SPDX-License-Identifier: GPL-2.0

//! Faults on purpose, for tests: what allocates or registers asks here first, and is told once that
//! it cannot.
//!
//! The kernel's own fault injection knows neither per-CPU memory nor registrations. Only a module
//! that is built for that (`FAULTS=1 scripts/build`) has this; in others [`here`] is nothing at
//! all. Its parameter `fail_nth` says which of the questions from then on is answered so; it is 0
//! once that was done, and the log says where. `not_as_known` says which parts of the kernel's
//! insides are to be taken for unknown: a bit for each, as `private/part.rs` numbers them.
//!
//! C header: [`include/linux/moduleparam.h`](srctree/include/linux/moduleparam.h)

#[cfg(not(rust_ftrace_faults))]
use kernel::prelude::*;

/// Says that there is no memory, if that is what `fail_nth` wants at `place`.
///
/// # Errors
///
/// `ENOMEM` then.
#[cfg(not(rust_ftrace_faults))]
#[inline(always)]
pub(super) fn here(_place: &'static str) -> Result {
    Ok(())
}

/// The parts of the kernel, a bit for each, that are not as known, for tests: those of the
/// parameter `not_as_known`.
#[cfg(not(rust_ftrace_faults))]
#[inline(always)]
pub(super) fn not_as_known() -> u32 {
    0
}

#[cfg(rust_ftrace_faults)]
pub(super) use injected::{here, not_as_known};

#[cfg(rust_ftrace_faults)]
mod injected {
    use kernel::prelude::*;
    use kernel::sync::atomic::{Atomic, Relaxed};

    use crate::sys::param::section_text;
    use crate::sys::this_module;

    /// The question that is to be answered so, from 1 on; 0 for none.
    static LEFT: Atomic<u32> = Atomic::new(0);

    /// As [`here`](super::here) is without.
    pub(in crate::rust_ftrace::sys) fn here(place: &'static str) -> Result {
        let mut left = LEFT.load(Relaxed);
        // 0 stays 0.
        while let Some(less) = left.checked_sub(1) {
            match LEFT.cmpxchg(left, less, Relaxed) {
                Ok(1) => {
                    pr_info!("fault at {place}\n");
                    return Err(ENOMEM);
                }
                Ok(_) => return Ok(()),
                Err(other) => left = other,
            }
        }
        Ok(())
    }

    static NOT_AS_KNOWN: Atomic<u32> = Atomic::new(0);

    /// As [`not_as_known`](super::not_as_known) is without.
    pub(in crate::rust_ftrace::sys) fn not_as_known() -> u32 {
        NOT_AS_KNOWN.load(Relaxed)
    }

    #[link_section = ".modinfo"]
    #[used(compiler)]
    static PARAM_TYPE: [u8; 23] = section_text("parmtype=fail_nth:uint\0");

    #[link_section = "__param"]
    #[used(compiler)]
    static PARAM: kernel::module_param::KernelParam =
        kernel::module_param::KernelParam::new(kernel::bindings::kernel_param {
            name: kernel::str::as_char_ptr_in_const_context(c"fail_nth"),
            mod_: this_module(),
            ops: &raw const kernel::bindings::param_ops_uint,
            perm: 0o600,
            level: -1,
            flags: 0,
            __bindgen_anon_1: kernel::bindings::kernel_param__bindgen_ty_1 {
                arg: LEFT.as_ptr().cast(),
            },
        });

    #[link_section = ".modinfo"]
    #[used(compiler)]
    static KNOWN_TYPE: [u8; 27] = section_text("parmtype=not_as_known:uint\0");

    #[link_section = "__param"]
    #[used(compiler)]
    static KNOWN: kernel::module_param::KernelParam =
        kernel::module_param::KernelParam::new(kernel::bindings::kernel_param {
            name: kernel::str::as_char_ptr_in_const_context(c"not_as_known"),
            mod_: this_module(),
            ops: &raw const kernel::bindings::param_ops_uint,
            perm: 0,
            level: -1,
            flags: 0,
            __bindgen_anon_1: kernel::bindings::kernel_param__bindgen_ty_1 {
                arg: NOT_AS_KNOWN.as_ptr().cast(),
            },
        });
}
