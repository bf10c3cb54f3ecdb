// SPDX-License-Identifier: GPL-2.0

//! Safe wrappers over what the `kernel` crate lacks, one thing a file.

pub(crate) mod cgroup;
pub(crate) mod clock;
pub(crate) mod code;
pub(crate) mod context;
pub(crate) mod cpu;
pub(crate) mod dead_ftrace;
pub(crate) mod debugfs;
pub(crate) mod dying;
mod faults;
mod ffi;
pub(crate) mod forks;
pub(crate) mod fprobe;
pub(crate) mod ftrace;
pub(crate) mod hotplug;
pub(crate) mod irq_work;
pub(crate) mod kallsyms;
mod kernel_thread;
pub(crate) mod lockdep;
pub(crate) mod lockdown;
pub(crate) mod memory;
pub(crate) mod modules;
pub(crate) mod param;
pub(crate) mod percpu;
pub(crate) mod private;
pub(crate) mod random;
pub(crate) mod rcu;
pub(crate) mod sched_switch;
pub(crate) mod stream;
pub(crate) mod symbols;
pub(crate) mod too_deep;
pub(crate) mod tracepoint;
pub(crate) mod unwind;
pub(crate) mod wait;
pub(crate) mod wakeups;
pub(crate) mod work;

/// This module, as `THIS_MODULE` of the kernel's C. (The kernel crate has that in one place before
/// Linux 7.3, and in another one since.)
pub(crate) const fn this_module() -> *mut kernel::bindings::module {
    extern "C" {
        // It is a `struct module`, of which only the address is taken.
        static __this_module: u8;
    }
    (&raw const __this_module).cast_mut().cast()
}

/// The kernel's release. Modules are loaded only into the one that they were built for.
pub(crate) fn kernel_release() -> &'static kernel::str::CStr {
    kernel::str::CStr::from_bytes_with_nul(ffi::UTS_RELEASE).unwrap_or_default()
}

/// The preemption model, as `preempt_model_str()` has it.
#[cfg(CONFIG_PREEMPT_DYNAMIC)]
pub(crate) fn preemption_model() -> &'static str {
    use kernel::bindings;
    // SAFETY: Has no preconditions.
    let is_full = unsafe { bindings::preempt_model_full() };
    // SAFETY: Has no preconditions.
    let is_lazy = unsafe { bindings::preempt_model_lazy() };
    // SAFETY: Has no preconditions.
    let is_voluntary = unsafe { bindings::preempt_model_voluntary() };
    match (cfg!(CONFIG_PREEMPT_RT), is_full, is_lazy, is_voluntary) {
        (false, true, ..) => "PREEMPT(full)",
        (false, _, true, _) => "PREEMPT(lazy)",
        (false, _, _, true) => "PREEMPT(voluntary)",
        (false, ..) => "PREEMPT(none)",
        (true, true, ..) => "PREEMPT_{RT,(full)}",
        (true, _, true, _) => "PREEMPT_{RT,(lazy)}",
        (true, _, _, true) => "PREEMPT_{RT,(voluntary)}",
        (true, ..) => "PREEMPT_{RT,(none)}",
    }
}

/// The preemption model, as `preempt_model_str()` has it.
#[cfg(not(CONFIG_PREEMPT_DYNAMIC))]
pub(crate) fn preemption_model() -> &'static str {
    let is_preemptible = cfg!(CONFIG_PREEMPT_BUILD);
    match (
        is_preemptible,
        cfg!(CONFIG_PREEMPT_RT),
        cfg!(CONFIG_PREEMPT_LAZY),
    ) {
        (true, false, false) => "PREEMPT",
        (true, false, true) => "PREEMPTLAZY",
        (true, true, false) => "PREEMPT_RT",
        (true, true, true) => "PREEMPT_{RT,LAZY}",
        (false, ..) if cfg!(CONFIG_PREEMPT_VOLUNTARY_BUILD) => "VOLUNTARY",
        (false, ..) => "NONE",
    }
}
