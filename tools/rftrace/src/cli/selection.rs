// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Arguments that select events: the same letters with every verb.

use clap::Args;

use super::complete;
use crate::stream::{Globs, Selection};
use crate::units::Time;

/// A choice of events.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Which calls")]
pub struct SelectionArgs {
    /// Only calls of this function, and all that is called in them (name or pattern; may be
    /// repeated)
    #[arg(short = 'g', long = "graph-function", value_name = "ROOT", add = complete::functions())]
    pub roots: Vec<String>,
    /// Only these functions (may be repeated)
    #[arg(short = 'l', long = "function", value_name = "GLOB", add = complete::functions())]
    pub functions: Vec<String>,
    /// Not these functions (may be repeated); @noise: locks, RCU and the like, which are called
    /// everywhere
    #[arg(short = 'n', long = "no-function", value_name = "GLOB|@noise", add = complete::functions())]
    pub not_functions: Vec<String>,
    /// Only this thread, or this process with all its threads (may be repeated)
    #[arg(short = 'P', long = "pid", value_name = "PID", value_delimiter = ',', value_parser = clap::value_parser!(i32).range(0..))]
    pub pids: Vec<i32>,
    /// Only so many levels of calls
    #[arg(short = 'D', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub depth: Option<u16>,
    /// Only calls that take so long, and the calls that they are in: 100ns, 10us, 1.5ms
    #[arg(long = "thresh", value_name = "T")]
    pub threshold: Option<Time>,
}

impl SelectionArgs {
    /// Returns whether anything is chosen.
    pub fn is_any(&self) -> bool {
        let Self {
            roots,
            functions,
            not_functions,
            pids,
            depth,
            threshold,
        } = self;
        let has_names = [roots, functions, not_functions]
            .iter()
            .any(|names| !names.is_empty());
        has_names || !pids.is_empty() || depth.is_some() || threshold.is_some()
    }

    /// Returns the selection in the form that streams of events take.
    pub fn selection(&self) -> Selection {
        Selection {
            roots: Globs::new(&self.roots),
            functions: Globs::new(&self.functions),
            not_functions: Globs::new(&self.not_functions),
            pids: self.pids.clone(),
            depth: self.depth,
            threshold: self.threshold.map(|time| time.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Verb {
        #[command(flatten)]
        selecting: SelectionArgs,
    }

    fn selection(line: &str) -> Result<Selection, String> {
        let verb = Verb::try_parse_from(line.split(' '));
        let error = |error: clap::Error| error.render().to_string();
        Ok(verb.map_err(error)?.selecting.selection())
    }

    #[test]
    fn letters_make_a_selection() {
        assert_eq!(selection("rftrace"), Ok(Selection::default()));
        let is_any = |line: &str| {
            Verb::try_parse_from(line.split(' '))
                .unwrap()
                .selecting
                .is_any()
        };
        assert!(!is_any("rftrace"));
        for line in ["-g a", "-l a", "-n a", "-P 1", "-D 1", "--thresh 1us"] {
            assert!(is_any(&format!("rftrace {line}")), "{line}");
        }
        let chosen = selection(
            "rftrace -g vfs_read -g ksys_* -l ext4_* -n @noise -n kfree -P 7,9 -P 11 -D 3 --thresh 1.5ms",
        )
        .unwrap();
        assert!(chosen.roots.matches("ksys_write") && !chosen.roots.matches("kfree"));
        assert!(chosen.functions.matches("ext4_map_blocks [ext4]"));
        assert!(chosen.not_functions.matches("__rcu_read_lock"));
        assert!(
            chosen.not_functions.matches("kfree") && !chosen.not_functions.matches("kfree_rcu")
        );
        assert_eq!(chosen.pids, [7, 9, 11]);
        assert_eq!(chosen.depth, Some(3));
        assert_eq!(chosen.threshold, Some(1_500_000));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (line, named) in [
            ("rftrace -D 0", "--depth <N>"),
            ("rftrace -P -3", "-3"),
            ("rftrace --thresh 10", "--thresh <T>"),
            ("rftrace --thresh 10parsec", "--thresh <T>"),
        ] {
            let error = selection(line).unwrap_err();
            assert!(error.contains(named), "{line}: {error}");
        }
        let error = selection("rftrace --thresh 10").unwrap_err();
        assert!(error.contains("the unit is missing"), "{error}");
    }
}
