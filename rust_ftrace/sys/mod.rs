// SPDX-License-Identifier: GPL-2.0

//! Safe wrappers over what the `kernel` crate lacks, one thing a file.

pub(crate) mod clock;
pub(crate) mod code;
pub(crate) mod context;
pub(crate) mod cpu;
pub(crate) mod debugfs;
mod ffi;
pub(crate) mod fprobe;
pub(crate) mod ftrace;
pub(crate) mod irq_work;
pub(crate) mod kallsyms;
pub(crate) mod lockdown;
pub(crate) mod memory;
pub(crate) mod modules;
pub(crate) mod param;
pub(crate) mod percpu;
pub(crate) mod rcu;
pub(crate) mod sched_switch;
pub(crate) mod seq_reader;
pub(crate) mod stream;
pub(crate) mod symbols;
pub(crate) mod text;
pub(crate) mod unwind;
pub(crate) mod wait;
pub(crate) mod work;

/// The kernel's release. Modules are loaded only into the one that they were built for.
pub(crate) fn kernel_release() -> &'static kernel::str::CStr {
    kernel::str::CStr::from_bytes_with_nul(ffi::UTS_RELEASE).unwrap_or_default()
}
