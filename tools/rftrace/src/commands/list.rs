// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rftrace list`: prints functions that can be traced.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use anyhow::{bail, Context, Result};
use rftrace_engine::engine::glob;

use crate::cli;
use crate::functions::KernelFunctions;
use crate::kernel::{traceable, Kernel, KernelTypes};

/// Prints the names of functions that can be traced.
pub(super) fn run(arguments: &cli::ListArgs, out: &mut dyn Write) -> Result<()> {
    let mut kernel = super::kernel(&arguments.source)?;
    let functions: Vec<u64> = if arguments.unreachable {
        let functions = KernelFunctions::new(kernel)?;
        if !functions.reachable.is_certain() {
            bail!("this kernel does not mark where pointers may lead (CONFIG_X86_KERNEL_IBT)");
        }
        let unreachable = functions.unreachable().collect();
        kernel = functions.kernel;
        unreachable
    } else {
        traceable(&kernel)?.into_iter().collect()
    };
    let is_wanted = |name: &str| match &arguments.glob {
        Some(glob) => glob::matches(glob.as_bytes(), name.as_bytes()),
        None => true,
    };
    let names = functions
        .iter()
        .map(|function| (*function, kernel.symbols.name(*function)));
    let mut names = names.filter(|(_, name)| is_wanted(name)).peekable();
    if let (None, Some(glob)) = (names.peek(), &arguments.glob) {
        bail!("no function matches {glob}");
    }
    let mut prototypes = match arguments.proto {
        true => Some(Prototypes::new(&kernel)?),
        false => None,
    };
    for (function, name) in names {
        match &mut prototypes {
            None => writeln!(out, "{name}")?,
            Some(prototypes) => match prototypes.of(function, &name)? {
                Some(prototype) => writeln!(out, "{prototype}")?,
                None => writeln!(out, "{name}  [no prototype in BTF]")?,
            },
        }
    }
    Ok(())
}

/// Prototypes of a kernel's functions, and of its modules'.
struct Prototypes<'a> {
    kernel: &'a Kernel,
    base: Arc<KernelTypes>,
    modules: HashMap<&'a str, Option<KernelTypes>>,
}

impl<'a> Prototypes<'a> {
    fn new(kernel: &'a Kernel) -> Result<Self> {
        let base = kernel.btf()?;
        Ok(Self {
            kernel,
            base: base
                .context("this kernel does not describe its types (CONFIG_DEBUG_INFO_BTF)")?,
            modules: HashMap::new(),
        })
    }

    fn of(&mut self, function: u64, name: &str) -> Result<Option<String>> {
        let symbols = self.kernel.symbols.at(function);
        let Some(module) = symbols.iter().find_map(|symbol| symbol.module.as_deref()) else {
            return Ok(self.base.prototype(name));
        };
        if !self.modules.contains_key(module) {
            let btf = self.kernel.module_btf(module, &self.base)?;
            self.modules.insert(module, btf);
        }
        let btf = self.modules.get(module).and_then(Option::as_ref);
        Ok(btf.and_then(|btf| btf.prototype(name)))
    }
}
