// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Manual pages: `rftrace(1)`, and one for each verb.

use std::io::Result;

use clap::Command;
use clap_mangen::Man;
use roff::{bold, roman, Roff};

/// Exit codes: see `exit.rs` of the command.
const EXIT_STATUS: [(&str, &str); 6] = [
    ("0", "All is well."),
    ("1", "An error, or a check that found something."),
    ("2", "Wrong use."),
    ("125", "A program was not run."),
    ("126", "A program cannot be executed."),
    ("127", "There is no such program."),
];

/// Text behind the exit codes.
const PROGRAMS: &str =
    "Verbs that run a program end as it does, with 128 and the signal's number if one ended it.";

/// Variables of the environment.
const ENVIRONMENT: [(&str, &str); 3] = [
    ("NO_COLOR", "No colour, unless --color says otherwise."),
    (
        "RFTRACE_PAGER, PAGER",
        "The program that shows long text on a terminal; less, if there is none. None, if it is empty.",
    ),
    ("LESS", "Options of less; FRX, if there are none."),
];

/// Returns the pages, with their paths below `PREFIX/share`.
pub(crate) fn pages() -> Result<Vec<(String, Vec<u8>)>> {
    let mut command = rftrace_cli::cli::command()
        .disable_help_subcommand(true)
        .help_template("");
    command.build();
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let verbs = shown.cloned().map(|verb| {
        let name = format!("rftrace-{}", verb.get_name());
        verb.display_name(name)
    });
    let mut pages = vec![page(command.clone())?];
    for verb in verbs {
        pages.push(page(verb)?);
    }
    Ok(pages)
}

fn page(command: Command) -> Result<(String, Vec<u8>)> {
    let name = command.get_display_name().unwrap_or("rftrace").to_owned();
    let after = command.get_after_help().map(ToString::to_string);
    let after = after.unwrap_or_default();
    let (text, examples) = match after.split_once("Examples:\n") {
        Some((text, examples)) => (text, examples),
        None => (&after[..], ""),
    };
    let has_verbs = command.has_subcommands();
    let man = Man::new(command)
        .title(&name)
        .section("1")
        .manual("rust_ftrace");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if !text.trim().is_empty() {
        let text = text.trim().replace('\n', " ");
        Roff::new()
            .control("PP", [])
            .text([roman(text)])
            .to_writer(&mut page)?;
    }
    man.render_options_section(&mut page)?;
    if has_verbs {
        man.render_subcommands_section(&mut page)?;
    }
    list("ENVIRONMENT", &ENVIRONMENT).to_writer(&mut page)?;
    let mut exit_status = list("EXIT STATUS", &EXIT_STATUS);
    exit_status.control("PP", []).text([roman(PROGRAMS)]);
    exit_status.to_writer(&mut page)?;
    if !examples.is_empty() {
        let mut roff = Roff::new();
        roff.control("SH", ["EXAMPLES"]).control("nf", []);
        for line in examples.lines() {
            roff.text([roman(line.trim())]);
        }
        roff.control("fi", []).to_writer(&mut page)?;
    }
    Ok((format!("man/man1/{name}.1"), page))
}

/// Returns a section that explains words.
fn list(title: &str, words: &[(&str, &str)]) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [title]);
    for (word, meaning) in words {
        roff.control("TP", [])
            .text([bold(*word)])
            .text([roman(*meaning)]);
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_has_a_page_with_examples() {
        let pages = pages().unwrap();
        let command = rftrace_cli::cli::command();
        let shown = || command.get_subcommands().filter(|verb| !verb.is_hide_set());
        for verb in shown() {
            let path = format!("man/man1/rftrace-{}.1", verb.get_name());
            let (_, page) = pages.iter().find(|(found, _)| *found == path).unwrap();
            let page = String::from_utf8(page.clone()).unwrap();
            for wanted in [
                "SH NAME",
                "SH SYNOPSIS",
                "SH OPTIONS",
                "SH EXAMPLES",
                "SH \"EXIT STATUS\"",
            ] {
                assert!(page.contains(wanted), "{path}: {wanted}\n{page}");
            }
            assert!(
                page.contains(&format!("rftrace {}", verb.get_name())),
                "{page}"
            );
        }
        assert_eq!(pages[0].0, "man/man1/rftrace.1");
        assert_eq!(pages.len(), 1 + shown().count());
    }
}
