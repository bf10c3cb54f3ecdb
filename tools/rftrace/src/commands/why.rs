// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rftrace why`: prints why functions were, or were not, entered.

use std::io::Write;

use anyhow::Result;
use serde::Serialize;

use crate::cli;
use crate::closure::closure;
use crate::filtered::{reasons, FilterSettings};
use crate::functions::KernelFunctions;
use crate::kernel::DebugInformation;
use crate::live::Directory;
use crate::why::{Answer, Explanation};

/// Number of callers that are named; the others are only counted.
const NAMED: usize = 5;

/// Prints what there is to say of each function.
pub(super) fn run(arguments: &cli::WhyArgs, out: &mut dyn Write) -> Result<()> {
    let functions = KernelFunctions::new(super::kernel(&arguments.source)?)?;
    let names = arguments.names.iter();
    let mut whys: Vec<Explanation> = names.flat_map(|name| functions.why(name)).collect();
    let own = match &arguments.source.vmlinux {
        Some(file) => DebugInformation::of_file(file)?,
        None => None,
    };
    if let Some(debug) = own.or_else(|| DebugInformation::installed(&functions.kernel)) {
        functions.add_parts(&debug, &mut whys)?;
    }
    // A machine without the module is not asked for settings.
    let settings = match (&arguments.source.vmlinux, Directory::find()) {
        (None, Ok(directory)) => FilterSettings::of_all(directory.path()),
        _ => Vec::new(),
    };
    for why in &whys {
        let hidden = hidden(&functions, &settings, &why.name);
        if arguments.json {
            let line = WhyJson { why, hidden };
            writeln!(out, "{}", serde_json::to_string(&line)?)?;
        } else {
            write_text(why, out)?;
            for Hidden { instance, by } in hidden {
                writeln!(out, "    {instance} traces it, but {}.", by.join("; "))?;
            }
        }
    }
    Ok(())
}

/// A line of JSON about a function.
#[derive(Serialize)]
struct WhyJson<'a> {
    #[serde(flatten)]
    why: &'a Explanation,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hidden: Vec<Hidden>,
}

/// A setting that hides a function in an instance that is to trace it.
#[derive(Serialize)]
struct Hidden {
    instance: String,
    by: Vec<String>,
}

fn hidden(functions: &KernelFunctions, settings: &[FilterSettings], name: &str) -> Vec<Hidden> {
    let leads_to = |roots: &[String]| {
        let roots: Vec<&str> = roots.iter().map(String::as_str).collect();
        closure(functions, &roots)
            .functions
            .iter()
            .any(|word| word == name)
    };
    let of = |settings: &FilterSettings| {
        let by = reasons(settings, name, &leads_to)?;
        let instance = match settings.instance.as_str() {
            "" => "rust_ftrace".into(),
            instance => format!("The instance {instance}"),
        };
        (!by.is_empty()).then_some(Hidden { instance, by })
    };
    settings.iter().filter_map(of).collect()
}

fn write_text(why: &Explanation, out: &mut dyn Write) -> Result<()> {
    match why.address {
        0 => writeln!(out, "{}", why.name)?,
        address => writeln!(out, "{} ({address:#x})", why.name)?,
    }
    for sentence in sentences(why) {
        writeln!(out, "    {sentence}")?;
    }
    Ok(())
}

fn sentences(why: &Explanation) -> Vec<String> {
    let mut said = answer(why);
    if let (Answer::Entered { .. }, Some([])) = (&why.answer, why.part_of.as_deref()) {
        said.push("It is part of no other function: all of its calls are seen.".into());
    }
    if let Some(parts) = why.part_of.as_ref().filter(|parts| !parts.is_empty()) {
        let places: usize = parts.iter().map(|part| part.places).sum();
        let names: Vec<String> = parts.iter().map(|part| part.name.clone()).collect();
        let calls = if places == 1 { "call" } else { "calls" };
        said.push(format!(
            "The compiler has put it in the place of {places} {calls}: into {}.",
            some(&names)
        ));
    }
    said
}

fn answer(why: &Explanation) -> Vec<String> {
    match &why.answer {
        Answer::Missing { nearest } => {
            let no = "This kernel has no function of that name";
            let mut said = vec![match &why.part_of {
                Some(parts) if parts.is_empty() => format!("{no}, nor is one part of others."),
                Some(_) => format!("{no}: it is part of others only."),
                None => format!("{no}: it may be inlined everywhere."),
            }];
            if !nearest.is_empty() {
                said.push(format!("Near it: {}.", nearest.join(", ")));
            }
            said
        }
        Answer::NotTraceable { reason } => vec![format!("ftrace cannot trace it: {reason}.")],
        Answer::NeverEntered {
            callers,
            inlined_into,
            instead,
            perhaps_at_boot,
        } => {
            let mut said = vec![match callers.is_empty() {
                true => "Nothing can enter it: no code calls it, and no pointer leads to it.".into(),
                false => format!(
                    "Nothing can enter it: no pointer leads to it, and what calls it is never entered either ({}).",
                    some(callers)
                ),
            }];
            if *perhaps_at_boot {
                said.push(
                    "Code that ran at boot may have called it: that is gone, and there is no file of this kernel.".into(),
                );
            }
            match &why.part_of {
                Some(parts) if parts.is_empty() => said.push("It is part of no other function, either: nothing uses it.".into()),
                Some(_) => {}
                None if inlined_into.is_empty() => said.push(
                    "It may be part of other functions, or nothing uses it: that takes the kernel's debug information to tell.".into(),
                ),
                None => {
                    let parts: Vec<&str> = inlined_into.iter().map(|part| &*part.name).collect();
                    said.push(format!("By their code, the compiler has put it into {}.", parts.join(", ")));
                }
            }
            if let Some(instead) = instead {
                said.push(format!("Trace {instead} instead, which it calls."));
            }
            said
        }
        Answer::AtBoot { callers } => {
            vec![format!(
                "It runs only while the machine boots: what calls it is gone then ({}).",
                some(callers)
            )]
        }
        Answer::Entered {
            callers,
            sites,
            by_pointer,
            is_certain,
        } => {
            let mut said = Vec::new();
            if *sites > 0 {
                let places = if *sites == 1 { "place" } else { "places" };
                said.push(format!(
                    "It is called in {sites} {places}, by {}.",
                    some(callers)
                ));
            }
            match by_pointer {
                Some(true) if *sites > 0 => said.push("It can be called by pointers, too.".into()),
                Some(true) => said.push("It can be called, but only by pointers.".into()),
                Some(false) => said.push("No pointer leads to it.".into()),
                None => said.push(
                    "Pointers may lead to it: this kernel does not tell where they may lead."
                        .into(),
                ),
            }
            if *is_certain && *sites > 0 && why.part_of.is_none() {
                said.push("Some callers may have it inlined: such calls cannot be seen.".into());
            }
            said
        }
    }
}

/// Returns the first names, and the number of the others.
fn some(names: &[String]) -> String {
    let shown = names[..names.len().min(NAMED)].join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => shown,
        others => format!("{shown} and {others} others"),
    }
}
