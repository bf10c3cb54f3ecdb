// SPDX-License-Identifier: GPL-2.0

//! Loading: the checks of the kernel before, and the parameters after.

use core::borrow::Borrow;

use kernel::prelude::*;

use crate::engine::dump_on_oops::DumpMode;
use crate::engine::filter::words;
use crate::engine::lists;
use crate::engine::settings::Tracer;
use crate::instance::buffer_changes::BufferChanges;
use crate::instance::list_edit::ListEdit;
use crate::instance::{DumpAtDeath, DyingDump, Instance};
use crate::machine::{Machine, ProfileLimits};
use crate::sys::lockdown::{self, LockdownReason};
use crate::sys::param::{string_param, StringParam};
use crate::sys::private::{self, KernelFile};

string_param!(
    FILTER,
    "filter",
    "Functions to trace from the start, with commas or spaces between them"
);
string_param!(
    NOTRACE,
    "notrace",
    "Functions not to trace, with commas or spaces between them"
);
string_param!(TRACER, "tracer", "Tracer to start with");
string_param!(
    DUMP_ON_OOPS,
    "dump_on_oops",
    "1: the trace goes to the console when the machine dies; 2: that of the CPU which it dies on"
);

/// Checks that the kernel lets the module work, and says why if not.
///
/// # Errors
///
/// - `EPERM` if the kernel is locked down.
/// - `ENODEV` if debugfs or tracefs is missing.
/// - `EOPNOTSUPP` if the list of functions there is not as known; those of [`private::look_at`].
pub(crate) fn check_kernel() -> Result {
    lockdown::allows(LockdownReason::Tracefs)
        .and_then(|()| lockdown::allows(LockdownReason::Debugfs))
        .inspect_err(|_| {
            pr_err!("the kernel is locked down (see /sys/kernel/security/lockdown): not loaded\n");
        })?;
    if !lockdown::has_debugfs() {
        pr_err!("debugfs is not there (CONFIG_DEBUG_FS, or debugfs=off at boot): not loaded\n");
        return Err(ENODEV);
    }
    if !private::has(KernelFile::FilterFunctions) {
        pr_err!("tracefs is not there (CONFIG_FUNCTION_TRACER): not loaded\n");
        return Err(ENODEV);
    }
    private::look_at(KernelFile::FilterFunctions).inspect_err(|error| {
        if *error == EOPNOTSUPP {
            pr_err!("available_filter_functions_addrs of tracefs is not as known: not loaded\n");
        } else {
            pr_err!("cannot open available_filter_functions_addrs of tracefs: {error:?}\n");
        }
    })
}

/// Looks at what is private to the kernel, and notes what is not as known: that is then done
/// without.
pub(crate) fn look_at_kernel(machine: &Machine) {
    // Without memory each of them says so later, when it is needed.
    let _ = private::look_at(KernelFile::Kallsyms);
    let _ = machine.look_at_shadow_stacks();
}

/// Says why the directory could not be made.
pub(crate) fn explain(error: &Error) {
    if *error == EPERM {
        pr_err!("debugfs is switched off (debugfs= on the kernel's command line): not loaded\n");
    } else if *error == EEXIST {
        pr_err!("/sys/kernel/debug/rftrace is there already: not loaded\n");
    } else {
        pr_err!("cannot make /sys/kernel/debug/rftrace: {error:?}\n");
    }
}

/// Returns the bounds of what a profile keeps.
pub(crate) fn profile_limits() -> ProfileLimits {
    // As for the size of buffers.
    #[allow(noop_method_call)]
    let histograms: u64 = *crate::module_parameters::profile_histograms
        .value()
        .borrow();
    // As above.
    #[allow(noop_method_call)]
    let contexts: u64 = *crate::module_parameters::profile_contexts.value().borrow();
    ProfileLimits {
        histograms: usize::try_from(histograms).unwrap_or(usize::MAX),
        contexts: usize::try_from(contexts).unwrap_or(usize::MAX),
    }
}

/// Does what the module's parameters say.
///
/// # Errors
///
/// Those of the files of the same names; the log says for which.
pub(crate) fn apply_parameters(instance: &Instance, dump: DyingDump) -> Result {
    // This is a reference before Linux 7.3, which `borrow` leaves alone, and a copy since.
    #[allow(noop_method_call)]
    let size_kb: u64 = *crate::module_parameters::buffer_size_kb.value().borrow();
    if size_kb != 0 {
        let result = usize::try_from(size_kb)
            .map_err(Error::from)
            .and_then(|size_kb| BufferChanges::of(instance).resize(None, size_kb));
        result.inspect_err(|error| {
            pr_err!("parameter buffer_size_kb={size_kb} is refused: {error:?}\n");
        })?;
    }
    if let Some(value) = DUMP_ON_OOPS.get() {
        let result = DumpMode::parse(value.to_bytes())
            .map_err(|_| EINVAL)
            .and_then(|mode| DumpAtDeath::prepare(instance, mode, dump));
        let prepared = result.inspect_err(|error| {
            pr_err!("parameter dump_on_oops is refused: {error:?}\n");
        })?;
        instance.dump().commit(prepared);
    }
    apply_list(instance, lists::FunctionList::Notrace, &NOTRACE)?;
    apply_list(instance, lists::FunctionList::Filter, &FILTER)?;
    let Some(name) = TRACER.get() else {
        return Ok(());
    };
    let result = Tracer::from_name(name.to_bytes())
        .ok_or(EINVAL)
        .and_then(|tracer| instance.set_tracer(tracer));
    result.inspect_err(|error| {
        pr_err!("parameter tracer is refused: {error:?}\n");
    })
}

fn apply_list(instance: &Instance, list: lists::FunctionList, param: &StringParam) -> Result {
    let Some(value) = param.get() else {
        return Ok(());
    };
    // A shell makes spaces in a parameter hard to write.
    let mut text = KVVec::new();
    for &byte in value.to_bytes() {
        text.push(if byte == b',' { b' ' } else { byte }, GFP_KERNEL)?;
    }
    if words(&text).next().is_none() {
        return Ok(());
    }
    let edit = ListEdit {
        list,
        text: &text,
        replace: true,
    };
    edit.apply(instance).inspect_err(|error| {
        pr_err!("parameter {} is refused: {error:?}\n", list.name());
    })
}
