// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Arguments of `profile`, and which of them ask for events.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::exporting::StackWeight;
use super::report::{ReportBy, Sort, TableArgs};
use super::tracing::{TracerArg, Tracing};

/// Examples at the end of its help.
pub(super) const EXAMPLES: &str = "\
The module counts calls in the kernel: none is lost to full buffers, and each costs half of what \
recording it does. They are recorded, and counted here, with --events, and where only events tell \
what is asked for: --by caller, --by comm, -D, --thresh, --errno, --args, --ret, --no-irqs, \
-p function, --max-rate, --max-cpu.

Examples:
  rftrace profile -l 'vfs_*' --duration 10s
  rftrace profile -g path_openat -s p99 --limit 20 ls -lR /
  rftrace profile --wait -s asleep -l 'vfs_*' -P 1234 --duration 5s
  rftrace profile --histogram -l vfs_write dd if=/dev/zero of=/tmp/x count=1000
  rftrace profile --folded open.folded -g do_sys_openat2 ls -lR /
  rftrace profile --folded - -l 'ext4_*' --duration 5s | rftrace flamegraph - -o ext4.svg
  rftrace profile -P 1234 --by caller -l '*lock*' --duration 5s --json";

/// The heading of the options that are for counts in the kernel alone.
const COUNTED: &str = "Counted in the kernel";

/// Arguments of `profile`.
#[derive(Args, Debug)]
pub struct ProfileArgs {
    /// The table.
    #[command(flatten)]
    pub table: TableArgs,
    /// Print one JSON object a line; the last one is the summary
    #[arg(long)]
    pub json: bool,
    /// Record calls, and count them here, instead of letting the module count in the kernel
    #[arg(long)]
    pub events: bool,
    /// Print histograms of how long calls took, instead of the table
    #[arg(long, conflicts_with = "json", help_heading = COUNTED)]
    pub histogram: bool,
    /// Write what functions were called from to this file, as folded stacks; - for stdout, instead
    /// of the table
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = COUNTED)]
    pub folded: Option<PathBuf>,
    /// Weights of folded stacks
    #[arg(long, value_enum, value_name = "WEIGHT", default_value_t, requires = "folded", help_heading = COUNTED)]
    pub folded_by: StackWeight,
    /// Let folded stacks begin with the names of tasks
    #[arg(long, requires = "folded", help_heading = COUNTED)]
    pub folded_tasks: bool,
    /// The way in which it is traced.
    #[command(flatten)]
    pub tracing: Tracing,
}

impl ProfileArgs {
    /// Returns an option that only events can do.
    pub fn takes_events(&self) -> Option<&'static str> {
        let Tracing {
            selection, errno, ..
        } = &self.tracing;
        let tracing = &self.tracing;
        let options = [
            (self.events, "--events"),
            (self.table.by == ReportBy::Caller, "--by caller"),
            (self.table.by == ReportBy::Comm, "--by comm"),
            (tracing.tracer == TracerArg::Function, "-p function"),
            (selection.depth.is_some(), "-D"),
            (selection.threshold.is_some(), "--thresh"),
            (errno.is_some(), "--errno"),
            (tracing.args, "--args"),
            (tracing.ret, "--ret"),
            (tracing.no_irqs, "--no-irqs"),
            (tracing.max_rate.is_some(), "--max-rate"),
            (tracing.max_cpu.is_some(), "--max-cpu"),
        ];
        let mut asked = options.into_iter().filter(|(is_asked, _)| *is_asked);
        asked.next().map(|(_, option)| option)
    }

    /// Returns an option that only counts in the kernel can do.
    pub fn takes_counts(&self) -> Option<&'static str> {
        let options = [
            (self.tracing.wait, "--wait"),
            (self.histogram, "--histogram"),
            (self.folded.is_some(), "--folded"),
        ];
        let mut asked = options.into_iter().filter(|(is_asked, _)| *is_asked);
        asked.next().map(|(_, option)| option)
    }

    /// Returns whether folded stacks go to stdout.
    pub fn is_folded_to_stdout(&self) -> bool {
        self.folded.as_deref() == Some("-".as_ref())
    }

    /// Returns why these options do not go together.
    pub fn conflict(&self) -> Option<String> {
        if let (Some(events), Some(counts)) = (self.takes_events(), self.takes_counts()) {
            return Some(format!(
                "{counts} is counted in the kernel, and {events} takes events"
            ));
        }
        if self.is_folded_to_stdout() && (self.json || self.histogram) {
            return Some("--folded - leaves no room for more on stdout: name a file".into());
        }
        let sort = match self.table.sort {
            Some(Sort::Asleep) => "asleep",
            Some(Sort::Queued) => "queued",
            _ => return None,
        };
        (!self.tracing.wait).then(|| format!("-s {sort} takes --wait"))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Verb {
        #[command(flatten)]
        arguments: ProfileArgs,
    }

    fn arguments(line: &str) -> ProfileArgs {
        let words = format!("profile {line}");
        let words = words.split(' ').filter(|word| !word.is_empty());
        Verb::try_parse_from(words).unwrap().arguments
    }

    #[test]
    fn counts_are_made_in_the_kernel_unless_only_events_tell() {
        for line in [
            "",
            "-l vfs_* -n @noise -g path_mount -P 7 -s p99 --limit 3 --json",
            "-g path_mount --closure -a --force -b 1M --duration 1s ls -D 3 --events",
            "-p function_graph --cgroup /x --wait --histogram --folded x --by function",
        ] {
            let arguments = arguments(line);
            assert_eq!(
                (arguments.takes_events(), arguments.conflict()),
                (None, None),
                "{line}"
            );
        }
        for option in [
            "--events",
            "--by caller",
            "--by comm",
            "-p function",
            "-D 3",
            "--thresh 1ms",
            "--errno any",
            "--args",
            "--ret",
            "--no-irqs",
            "--max-rate 2M",
            "--max-cpu 100",
        ] {
            let named = arguments(option).takes_events().unwrap();
            assert!(option.starts_with(named), "{option}: {named}");
            assert_eq!(arguments(option).conflict(), None);
            for counts in ["--wait", "--histogram", "--folded x"] {
                let conflict = arguments(&format!("{option} {counts}")).conflict().unwrap();
                assert!(conflict.contains(named), "{conflict}");
            }
        }
    }

    #[test]
    fn what_does_not_go_together_is_said() {
        for (line, wanted) in [
            ("--folded - --json", true),
            ("--folded - --histogram", true),
            ("--folded -", false),
            ("--folded x --json", false),
            ("-s asleep", true),
            ("-s queued", true),
            ("-s queued --wait", false),
        ] {
            assert_eq!(arguments(line).conflict().is_some(), wanted, "{line}");
        }
        for line in ["--histogram --json", "--folded-tasks", "--folded-by calls"] {
            let words = format!("profile {line}");
            assert!(Verb::try_parse_from(words.split(' ')).is_err(), "{line}");
        }
    }
}
