// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The help of the command as a whole: its verbs, in groups.

use std::fmt::Write;

use clap::Command;

/// The verbs, in the order in which a user needs them, under headings; those that do not exist are
/// left out.
const GROUPS: &[(&str, &[&str])] = &[
    ("Look at this machine", &["doctor", "why", "list"]),
    ("Trace", &["trace", "record", "profile"]),
    (
        "Read recordings",
        &["replay", "report", "graph", "info", "flamegraph", "export"],
    ),
    ("Let programs that know tracefs use rust_ftrace", &["exec"]),
];

/// Width of the column of names, in columns of a terminal.
const NAMES: usize = 12;

/// Returns the command, with help that has its verbs in groups.
pub(super) fn with_groups(command: Command) -> Command {
    let styles = command.get_styles().clone();
    let (heading, name_style) = (styles.get_header(), styles.get_literal());
    let mut groups = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(groups, "{heading}{title}:{heading:#}");
        for verb in names
            .iter()
            .filter_map(|name| command.find_subcommand(name))
        {
            let about = verb.get_about().map(ToString::to_string);
            let about = about.unwrap_or_default();
            let name = verb.get_name();
            let _ = writeln!(groups, "  {name_style}{name:<NAMES$}{name_style:#}{about}");
        }
        groups.push('\n');
    }
    command.help_template(format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{groups}{heading}Options:{heading:#}\n{{options}}\n\n\
         Each has more to say, and examples: rftrace VERB --help{{after-help}}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_is_in_one_group_and_in_the_help() {
        let command = crate::cli::command();
        let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let verbs: Vec<&str> = verbs.map(Command::get_name).collect();
        let grouped = GROUPS.iter().flat_map(|(_, names)| *names).copied();
        let grouped: Vec<&str> = grouped.filter(|name| verbs.contains(name)).collect();
        for verb in &verbs {
            let places = grouped.iter().filter(|name| *name == verb);
            assert_eq!(places.count(), 1, "{verb}");
        }

        let help = crate::cli::command().render_help().to_string();
        let place = |name: &&str| help.find(&format!("\n  {name} "));
        let places: Vec<usize> = grouped.iter().filter_map(place).collect();
        assert!(places.len() == verbs.len() && places.is_sorted(), "{help}");
    }
}
