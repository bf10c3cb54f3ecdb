// SPDX-License-Identifier: GPL-2.0

//! Traces kernel functions: their callers, times, CPUs and depths.
//!
//! This file only wires the parts. Data flows one way: `tracer` (the hook) -> `engine` (ring,
//! merge, replay, render) -> `files`. `sys` is what the `kernel` crate lacks, `instance` the state.

use kernel::prelude::*;
use kernel::sync::Arc;

// Inline, so that the sources are found in rust_ftrace/.
mod rust_ftrace {
    // These two are a library on the host as well, which shows what is `pub` in them.
    #[allow(unreachable_pub)]
    pub(crate) mod engine;
    pub(crate) mod files;
    pub(crate) mod instance;
    pub(crate) mod load;
    pub(crate) mod machine;
    #[allow(unreachable_pub)]
    pub(crate) mod platform;
    pub(crate) mod sys;
    pub(crate) mod tracer;
    pub(crate) mod user_instances;
}

// The engine is `crate::engine` on the host, too.
use rust_ftrace::{engine, files, instance, load, machine, platform, sys, tracer, user_instances};

use files::InstanceDirectory;
use instance::Instances;
use machine::Machine;
use sys::dead_ftrace::TextStays;
use sys::hotplug::Hotplug;
use sys::modules::Notifier;
use user_instances::UserInstances;

/// The version, as `status` shows it.
const VERSION: &str = "0.1.0";

/// The module's name, in the log and in debugfs.
const NAME: &CStr = c"rftrace";

/// The loaded module.
#[pin_data]
struct RustFtrace {
    // Field order is teardown order: first no file can ask for anything any more, then no notifier
    // calls the module, and then, if that can be, the instances unhook themselves and free their
    // buffers.
    _directory: InstanceDirectory,
    #[pin]
    _hotplug: Hotplug<Instances>,
    #[pin]
    _modules: Notifier<Instances>,
    _text: TextStays,
    _instances: Arc<Instances>,
}

impl kernel::InPlaceModule for RustFtrace {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        pin_init::pin_init_scope(|| {
            load::check_kernel()?;
            sys::lockdep::init();
            let machine = Arc::pin_init(Machine::new(load::profile_limits()), GFP_KERNEL)?;
            load::look_at_kernel(&machine);
            let instances = Arc::pin_init(Instances::new(machine)?, GFP_KERNEL)?;
            let made = Arc::pin_init(UserInstances::new(instances.clone()), GFP_KERNEL)?;
            Ok(try_pin_init!(Self {
                _hotplug <- Hotplug::new(instances.clone()),
                _modules <- Notifier::new(instances.clone()),
                // Nothing is armed before it is known what comes and goes.
                _: {
                    let result = load::apply_parameters(instances.top(), files::dump_dying);
                    // A module that is loaded stays then, so there is no use in saying that it is
                    // not.
                    if !sys::dead_ftrace::is_known() {
                        result?;
                    }
                },
                _directory: InstanceDirectory::top(NAME, &instances, made).inspect_err(load::explain)?,
                _text: TextStays,
                _instances: instances,
            }? Error))
        })
    }
}

module! {
    type: RustFtrace,
    name: "rust_ftrace",
    authors: ["The rust_ftrace developers"],
    description: "Traces kernel functions",
    license: "GPL v2",
    params: {
        buffer_size_kb: u64 {
            default: 0,
            description: "Size of each CPU's buffer in KiB",
        },
        profile_histograms: u64 {
            default: 4096,
            description: "Most functions with a histogram in a profile, on each CPU",
        },
        profile_contexts: u64 {
            default: 49152,
            description: "Most contexts of a profile",
        },
    },
}
