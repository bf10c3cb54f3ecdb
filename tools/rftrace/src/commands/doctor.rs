// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rftrace doctor`.

use std::io::Write;

use anyhow::Result;

use crate::cli;
use crate::doctor::{examine, Machine};

/// Prints what was looked at, and what to type where something is missing.
pub(super) fn run(arguments: &cli::Doctor, out: &mut dyn Write) -> Result<()> {
    let findings = examine(&Machine::this());
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
    Ok(())
}
