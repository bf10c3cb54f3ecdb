// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rftrace doctor`: prints what tracing needs of the machine.

use std::io::Write;

use anyhow::Result;

use crate::cli;
use crate::doctor::{examine, CheckResult, InspectedMachine};
use crate::exit::Exit;

/// Prints the findings, and a command where something is missing.
pub(super) fn run(arguments: &cli::Doctor, out: &mut dyn Write) -> Result<Exit> {
    let findings = examine(&InspectedMachine::this());
    for finding in &findings {
        if arguments.json {
            writeln!(out, "{}", serde_json::to_string(finding)?)?;
            continue;
        }
        writeln!(
            out,
            "{:<10} {:<8} {}",
            finding.subject,
            finding.verdict.word(),
            finding.text
        )?;
        if let Some(next) = &finding.next {
            writeln!(out, "{:<19} type: {next}", "")?;
        }
    }
    let is_bad = findings
        .iter()
        .any(|finding| finding.verdict == CheckResult::Bad);
    Ok(if is_bad { Exit::FAILURE } else { Exit::SUCCESS })
}
