// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Prints how many functions each root leads to: `closure VMLINUX ROOT...`.

use std::path::Path;

use rftrace_cli::closure::closure;
use rftrace_cli::functions::KernelFunctions;
use rftrace_cli::kernel::Kernel;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, roots @ ..] = &arguments[..] else {
        anyhow::bail!("usage: closure VMLINUX ROOT...");
    };
    let functions = KernelFunctions::new(Kernel::of_file(Path::new(file))?)?;
    println!("{} functions can be traced", functions.traceable.len());
    for root in roots {
        let closure = closure(&functions, &[root]);
        let sites: usize = closure.indirect.iter().map(|(_, sites)| sites).sum();
        println!(
            "{root}: {} functions ({} words, {} beside), {sites} calls through pointers in {} functions",
            closure.traceable,
            closure.functions.len(),
            closure.beside,
            closure.indirect.len(),
        );
        for (function, sites) in closure.indirect.iter().take(10) {
            println!("    {function} {sites}");
        }
    }
    Ok(())
}
