// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Judges by debug information what `rftrace why` says of functions that are never entered: how
//! many of the functions that it says they are part of are right.
//!
//! `judge_why VMLINUX`, the vmlinux of Debian's `linux-image-RELEASE-dbg`; with `-v` it names what
//! is wrong.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use rftrace_cli::functions::KernelFunctions;
use rftrace_cli::kernel::{DebugInformation, Kernel};
use rftrace_cli::why::Answer;

/// Returns a name as the source has it.
fn stem(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (is_verbose, file) = match &arguments[..] {
        [file] => (false, file),
        [flag, file] if flag == "-v" => (true, file),
        _ => anyhow::bail!("usage: judge_why [-v] VMLINUX"),
    };
    let file = Path::new(file);
    let information = DebugInformation::of_file(file)?;
    let information = information.ok_or_else(|| anyhow::anyhow!("no debug information"))?;
    let functions = KernelFunctions::new(Kernel::of_file(file)?)?;
    let symbols = &functions.kernel.symbols;
    let unreachable: Vec<u64> = functions.unreachable().collect();
    let names: BTreeSet<String> = unreachable
        .iter()
        .map(|function| stem(&symbols.name(*function)).to_owned())
        .collect();
    // By address of a function, the functions that it is part of.
    let mut truth: HashMap<u64, BTreeSet<u64>> = HashMap::new();
    for inlined in information.inlined(&|name| names.contains(name))? {
        for own in inlined.own {
            truth.entry(own).or_default().insert(inlined.into);
        }
    }
    let nowhere = BTreeSet::new();
    let (mut right, mut wrong, mut silent) = (0, 0, 0);
    let (mut gone, mut gone_silent) = (0, 0);
    let (mut parts_right, mut parts) = (0, 0);
    for function in &unreachable {
        let name = symbols.name(*function);
        let truth = truth.get(function).unwrap_or(&nowhere);
        if truth.is_empty() {
            gone += 1;
        }
        for why in functions
            .why(&name)
            .iter()
            .filter(|why| why.address == *function)
        {
            let Answer::NeverEntered { inlined_into, .. } = &why.answer else {
                continue;
            };
            if inlined_into.is_empty() {
                silent += 1;
                gone_silent += usize::from(truth.is_empty());
                continue;
            }
            let is_right = |name: &str| {
                let mut places = symbols.places(name).iter();
                places.any(|place| truth.contains(place))
            };
            let first = is_right(&inlined_into[0].name);
            match first {
                true => right += 1,
                false => wrong += 1,
            }
            parts += inlined_into.len();
            parts_right += inlined_into
                .iter()
                .filter(|part| is_right(&part.name))
                .count();
            if is_verbose && !first {
                let truth: Vec<String> = truth.iter().map(|place| symbols.name(*place)).collect();
                println!("{name}: {inlined_into:?}, but {truth:?}");
            }
        }
    }
    let said = right + wrong;
    println!(
        "{} functions are never entered; {gone} of them are part of no other",
        unreachable.len()
    );
    println!("{said} are said to be part of others, {silent} not ({gone_silent} of these rightly)");
    println!(
        "first function named: {right} of {said} right, {:.1} %",
        100.0 * f64::from(right) / f64::from(said)
    );
    println!(
        "all functions named: {parts_right} of {parts} right, {:.1} %",
        100.0 * parts_right as f64 / parts as f64
    );
    Ok(())
}
