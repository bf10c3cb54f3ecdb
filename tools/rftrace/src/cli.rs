// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Verbs of the command and their arguments, as clap parses them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{
    Args, ColorChoice, Command, CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint,
};

pub mod complete;
pub mod exporting;
mod graph;
mod help;
pub mod profile;
pub mod report;
pub mod selection;
pub mod tracing;

pub use graph::GraphArgs;

/// Traces kernel functions, and tells what was seen.
#[derive(Debug, Parser)]
#[command(
    name = "rftrace",
    version,
    about,
    max_term_width = 100,
    arg_required_else_help = true
)]
pub struct Cli {
    /// The verb.
    #[command(subcommand)]
    pub verb: Verb,
    /// Colour text: always, never, or on a terminal unless NO_COLOR is set
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_default_value = true
    )]
    pub color: ColorChoice,
}

/// Returns the command, as clap knows it: manuals and completions are made of it, too.
pub fn command() -> Command {
    help::with_groups(Cli::command())
}

impl Cli {
    /// Reads the command line; prints help, or an error, and ends the command if it asks for that.
    pub fn read() -> Self {
        let matches = command().get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

/// A verb, with its arguments.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Say what is missing on this machine for tracing, and what to type
    #[command(after_help = "Ends with 1 if something is missing.\n\n\
        Examples:\n  \
        rftrace doctor\n  \
        rftrace doctor --json | jq 'select(.verdict == \"bad\")'")]
    Doctor(Doctor),
    /// Say why a function does not show up in a trace, and what to trace instead
    #[command(after_help = "Examples:\n  \
        rftrace why do_mount\n  \
        rftrace why --vmlinux /boot/vmlinuz-$(uname -r) do_mount\n  \
        rftrace why --json tcp_ack vfs_read")]
    Why(WhyArgs),
    /// List functions that can be traced
    #[command(after_help = "Examples:\n  \
        rftrace list 'tcp_*'\n  \
        rftrace list --proto path_mount\n  \
        rftrace list --unreachable")]
    List(ListArgs),
    /// Say which functions of a recording took how long
    #[command(after_help = report::EXAMPLES)]
    Report(report::Report),
    /// Run a program that knows tracefs with rust_ftrace instead of the kernel's own tracer
    #[command(
        after_help = "The program finds our directory in the place of tracefs, and nobody else does: the \
        rest of the machine keeps the kernel's tracer. Loads the module if it is not loaded. Ends as the program \
        does; with 125 if it could not be run, 126 if it cannot be executed, 127 if there is none.\n\n\
        Examples:\n  \
        rftrace exec trace-cmd record -p function_graph -g path_mount mount -t tmpfs none /mnt\n  \
        rftrace exec perf ftrace profile -T 'vfs_*' -- ls\n  \
        rftrace exec --module ./rust_ftrace.ko sh -c 'cat /sys/kernel/tracing/current_tracer'"
    )]
    Exec(Exec),
    /// Print calls as they are made, with how long they take
    #[command(after_help = "Examples:\n  \
        rftrace trace -g path_mount mount -t tmpfs none /mnt\n  \
        rftrace trace -l 'vfs_*' --thresh 1ms --duration 10s\n  \
        rftrace trace --errno ENODEV mount -t nope none /mnt\n  \
        rftrace trace -P 1234 -D 3 -n @noise")]
    Trace(tracing::TraceArgs),
    /// Record calls into a file
    #[command(after_help = "Examples:\n  \
        rftrace record -g do_sys_openat2 -o open.data ls\n  \
        rftrace record -l 'tcp_*' --duration 10s --max-size 1G\n  \
        rftrace record --overwrite 64M -a -n @noise --duration 1h")]
    Record(tracing::RecordArgs),
    /// Count and time calls, and print a table of the functions
    #[command(after_help = profile::EXAMPLES)]
    Profile(profile::ProfileArgs),
    /// Print the calls of a recording
    #[command(after_help = "Examples:\n  \
        rftrace replay\n  \
        rftrace replay open.data -g path_openat --thresh 100us\n  \
        rftrace replay --json | jq .function")]
    Replay(tracing::ReplayArgs),
    /// Say how a recording was made, and what is in it
    #[command(after_help = "Examples:\n  \
        rftrace info\n  \
        rftrace info open.data --json")]
    Info(tracing::Info),
    /// Write a recording in the format of another program: Perfetto, trace-cmd, flame graphs, pprof
    #[command(after_help = "\
        perfetto   calls on tracks of threads, for https://ui.perfetto.dev\n\
        trace.dat  events, for trace-cmd report and KernelShark\n\
        folded     stacks with weights, for flamegraph.pl, inferno, speedscope\n\
        pprof      a profile, for go tool pprof and Pyroscope\n\n\
        Examples:\n  \
        rftrace export open.data --to perfetto -o open.pftrace\n  \
        rftrace export --to trace.dat -o trace.dat\n  \
        rftrace export --to folded --by calls -g vfs_read -o read.folded\n  \
        rftrace export --to pprof -n @noise -o profile.pb.gz")]
    Export(exporting::Export),
    /// Draw where the time of a recording went, as an SVG to be opened in a browser
    #[command(after_help = "Examples:\n  \
        rftrace flamegraph -o open.svg\n  \
        rftrace flamegraph open.data -g vfs_read --by calls -o read.svg\n  \
        rftrace flamegraph /sys/kernel/debug/rftrace/trace_stat/function_folded -o now.svg\n  \
        rftrace flamegraph - -o now.svg")]
    Flamegraph(exporting::FlameGraph),
    /// Wait to be let run, and become the command
    #[command(name = crate::live::WAIT_VERB, hide = true)]
    Become {
        /// The command
        #[arg(trailing_var_arg = true)]
        command: Vec<OsString>,
    },
    /// Show the callers of a function, and what it calls
    #[command(after_help = graph::EXAMPLES)]
    Graph(GraphArgs),
}

/// The choice of the kernel that is examined.
#[derive(Args, Debug)]
pub struct KernelArgs {
    /// Look at this vmlinux or vmlinuz instead of the kernel that runs
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub vmlinux: Option<PathBuf>,
}

/// The module, for verbs that trace: they load it where it is not loaded.
#[derive(Args, Debug)]
pub struct Module {
    /// Load this rust_ftrace.ko if the module is not loaded, instead of what modprobe finds
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub module: Option<PathBuf>,
}

/// Arguments of `doctor`.
#[derive(Args, Debug)]
pub struct Doctor {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `why`.
#[derive(Args, Debug)]
pub struct WhyArgs {
    /// Functions to explain
    #[arg(required = true, value_name = "NAME", add = complete::functions())]
    pub names: Vec<String>,
    /// The kernel.
    #[command(flatten)]
    pub source: KernelArgs,
    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `list`.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// Only functions whose names match: * ? [a-z]
    #[arg(value_name = "GLOB", add = complete::functions())]
    pub glob: Option<String>,
    /// Only functions that nothing can ever enter: tracing them shows nothing
    #[arg(long)]
    pub unreachable: bool,
    /// With their C prototypes, by the kernel's BTF
    #[arg(long)]
    pub proto: bool,
    /// The kernel.
    #[command(flatten)]
    pub source: KernelArgs,
}

/// Arguments of `exec`.
#[derive(Args, Debug)]
pub struct Exec {
    /// The module.
    #[command(flatten)]
    pub module: Module,
    /// The program, with its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        value_name = "CMD",
        add = complete::command_line()
    )]
    pub command: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clap_finds_nothing_wrong() {
        command().debug_assert();
    }

    /// Returns the lines of a verb's help that are examples.
    fn examples(verb: &Command) -> Vec<String> {
        let help = verb.get_after_help().map(ToString::to_string);
        let help = help.unwrap_or_default();
        let lines = help
            .split_once("Examples:\n")
            .map_or("", |(_, lines)| lines);
        lines.lines().map(Into::into).collect()
    }

    #[test]
    fn every_verb_has_examples_and_they_are_right() {
        for verb in command()
            .get_subcommands()
            .filter(|verb| !verb.is_hide_set())
        {
            let examples = examples(verb);
            assert!(!examples.is_empty(), "{}", verb.get_name());
            for example in examples {
                assert!(
                    example.starts_with(&format!("  rftrace {}", verb.get_name())),
                    "{example}"
                );
                let typed = example.split(" | ").next().unwrap();
                let typed = typed.replace("$(uname -r)", "7.3.4");
                let words = shlex::split(&typed).unwrap();
                assert!(command().try_get_matches_from(words).is_ok(), "{example}");
            }
        }
    }

    #[test]
    fn what_a_program_gets_is_its_own() {
        let typed = [
            "rftrace", "exec", "--module", "x.ko", "perf", "--color", "-p", "--", "ls",
        ];
        let cli = Cli::try_parse_from(typed).unwrap();
        let Verb::Exec(exec) = cli.verb else {
            panic!("{cli:?}");
        };
        assert_eq!(exec.command, ["perf", "--color", "-p", "--", "ls"]);
        assert_eq!(exec.module.module, Some("x.ko".into()));
    }
}
