// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rftrace list`.

use std::io::Write;

use anyhow::{bail, Result};
use rftrace_engine::engine::glob;

use crate::cli;
use crate::kernel::traceable;
use crate::why::Functions;

/// Prints the names of functions that can be traced.
pub(super) fn run(arguments: &cli::List, out: &mut dyn Write) -> Result<()> {
    let kernel = super::kernel(&arguments.source)?;
    let names: Vec<String> = if arguments.unreachable {
        let functions = Functions::new(kernel)?;
        if !functions.reachable.is_certain() {
            bail!("this kernel does not mark where pointers may lead (CONFIG_X86_KERNEL_IBT)");
        }
        functions
            .unreachable()
            .map(|function| functions.kernel.symbols.name(function))
            .collect()
    } else {
        traceable(&kernel)?
            .iter()
            .map(|function| kernel.symbols.name(*function))
            .collect()
    };
    let is_wanted = |name: &&String| match &arguments.glob {
        Some(glob) => glob::matches(glob.as_bytes(), name.as_bytes()),
        None => true,
    };
    let mut names = names.iter().filter(is_wanted).peekable();
    if let (None, Some(glob)) = (names.peek(), &arguments.glob) {
        bail!("no function matches {glob}");
    }
    for name in names {
        writeln!(out, "{name}")?;
    }
    Ok(())
}
