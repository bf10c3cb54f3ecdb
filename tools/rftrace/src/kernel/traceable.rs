// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Functions that ftrace can trace.

use std::collections::BTreeSet;
use std::path::Path;

use rftrace_engine::engine::catalog::is_before_idt;

use super::{Error, Kernel, KernelSymbols};

/// Directories that have `available_filter_functions` and `..._addrs`: rust_ftrace's own, and
/// tracefs.
pub(crate) const TRACING_DIRECTORIES: [&str; 3] = [
    "/sys/kernel/debug/rftrace",
    "/sys/kernel/tracing",
    "/sys/kernel/debug/tracing",
];

/// Offsets of the call of ftrace in a function: at its start, or behind its `endbr64`.
const OFFSETS: [u64; 2] = [0, 4];

/// Returns the addresses of the functions of `kernel` that ftrace can trace, but for those that the
/// module leaves out.
pub fn traceable(kernel: &Kernel) -> Result<BTreeSet<u64>, Error> {
    let sites = if kernel.is_running() {
        listed()?
    } else {
        kernel.mcount_sites()?
    };
    let has_site = |begin: &u64| {
        OFFSETS
            .iter()
            .any(|offset| sites.contains(&begin.wrapping_add(*offset)))
    };
    let symbols = &kernel.symbols;
    let is_traced = |begin: &u64| has_site(begin) && !is_left_out(symbols, *begin);
    Ok(symbols.functions().filter(is_traced).collect())
}

/// Returns whether ftrace could trace the function at `address`, and the module does not.
pub(crate) fn is_left_out(symbols: &KernelSymbols, address: u64) -> bool {
    let mut there = symbols.at(address).iter();
    there.any(|symbol| symbol.module.is_none() && is_before_idt(symbol.name.as_bytes()))
}

/// Returns the addresses that the running kernel lists.
fn listed() -> Result<BTreeSet<u64>, Error> {
    let file =
        |directory: &&'static str| Path::new(directory).join("available_filter_functions_addrs");
    let Some(file) = TRACING_DIRECTORIES
        .iter()
        .map(file)
        .find(|file| file.exists())
    else {
        return Err(Error::NoTracefs);
    };
    let text = std::fs::read_to_string(&file).map_err(|error| Error::Read(file.clone(), error))?;
    let address = |line: &str| u64::from_str_radix(line.split_ascii_whitespace().next()?, 16).ok();
    Ok(text.lines().filter_map(address).collect())
}
