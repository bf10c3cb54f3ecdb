// SPDX-License-Identifier: GPL-2.0

//! The report of a run: the results of all tasks, and whether there were enough of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::kinds::{self, Kind};

/// Shortest run of which the number of operations is judged, in s.
const JUDGED: u64 = 120;
/// The run that minima are for, in s.
const USUAL: u64 = 180;
/// Part of the control files that such a run writes at least, in percent.
const WRITTEN: usize = 50;
/// Such a part on a slow kernel, in percent.
const WRITTEN_SLOWLY: usize = 25;
/// Maximum number of files that are named.
const NAMED: usize = 12;

/// The results of the tasks of a kind.
#[derive(Default)]
struct Results {
    counts: BTreeMap<String, u64>,
    /// Time in operations, and at the gate, in ms.
    worked: u64,
    waited: u64,
}

/// The results of all tasks.
#[derive(Default)]
pub struct Report {
    kinds: BTreeMap<&'static str, Results>,
    written: BTreeSet<String>,
    survivors: Vec<String>,
}

impl Report {
    /// Adds a line that a task of a kind has printed.
    pub fn add(&mut self, kind: &Kind, line: &str) {
        let of_kind = self.kinds.entry(kind.name).or_default();
        let Some((what, rest)) = line.split_once(' ') else {
            return;
        };
        match what {
            "count" => {
                let (count, result) = rest.split_once(' ').unwrap_or((rest, ""));
                let count: u64 = count.parse().unwrap_or(0);
                *of_kind.counts.entry(result.to_owned()).or_default() += count;
            }
            "worked" => of_kind.worked += rest.parse().unwrap_or(0),
            "waited" => of_kind.waited += rest.parse().unwrap_or(0),
            "wrote" => {
                self.written.insert(rest.to_owned());
            }
            "survivor" => self.survivors.push(format!("{}: {rest}", kind.name)),
            _ => {}
        }
    }

    fn operations(&self, name: &str) -> u64 {
        let of_kind = self.kinds.get(name);
        of_kind.map_or(0, |results| results.counts.values().sum())
    }

    /// Prints the operations of each kind, and their results.
    pub fn say(&self) {
        let mut all = 0;
        for kind in kinds::ALL {
            let sum = self.operations(kind.name);
            all += sum;
            let Some(of_kind) = self.kinds.get(kind.name).filter(|_| sum != 0) else {
                continue;
            };
            let results = of_kind.counts.iter();
            let results: Vec<_> = results
                .map(|(result, count)| format!("{result} {count}"))
                .collect();
            let at_gate = match of_kind.waited {
                0..1000 => String::new(),
                ms => format!(", {} s at the gate", ms / 1000),
            };
            println!(
                "# {}: {sum} operations in {} s{at_gate}: {}",
                kind.name,
                of_kind.worked / 1000,
                results.join(", ")
            );
        }
        println!("# {all} operations in all");
    }

    /// Returns what is wrong: processes that cannot be killed, and kinds of those that were
    /// `asked` and files of which little was done in so many seconds, on a kernel so many times
    /// slower than others.
    pub fn wrong(
        &self,
        asked: &[&Kind],
        control_files: &BTreeSet<String>,
        seconds: u64,
        slower: u64,
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        if !self.survivors.is_empty() {
            wrong.push("processes have survived SIGKILL:".to_owned());
            wrong.extend(self.survivors.iter().map(|line| format!("  {line}")));
        }
        let is_judged = seconds >= JUDGED;
        for kind in asked {
            // Once at least, however slow the kernel is.
            let least = (kind.least * seconds / USUAL / slower.max(1)).max(kind.least.min(1));
            let sum = self.operations(kind.name);
            if is_judged && sum < least {
                let name = kind.name;
                wrong.push(format!("{name}: {sum} operations, of at least {least}"));
            }
        }
        if asked.iter().any(|kind| kind.name == "write") {
            let never: Vec<_> = control_files.difference(&self.written).collect();
            let (all, written) = (control_files.len(), control_files.len() - never.len());
            println!("# {written} of {all} control files were written");
            let names: Vec<_> = never.iter().take(NAMED).map(|name| name.as_str()).collect();
            if !names.is_empty() {
                println!("# never written, or refused each time: {}", names.join(" "));
            }
            let least = match slower {
                0..=1 => WRITTEN,
                _ => WRITTEN_SLOWLY,
            };
            if is_judged && written * 100 < all * least {
                wrong.push(format!(
                    "only {written} of {all} control files were written"
                ));
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(lines: &[(&str, &str)], files: &[&str], seconds: u64, slower: u64) -> Vec<String> {
        let mut report = Report::default();
        let mut asked = Vec::new();
        for (name, line) in lines {
            let kind = kinds::of_name(name).unwrap();
            report.add(kind, line);
            asked.push(kind);
        }
        let files = files.iter().map(|name| (*name).to_owned()).collect();
        report.wrong(&asked, &files, seconds, slower)
    }

    #[test]
    fn a_kind_that_starves_is_wrong() {
        let least = kinds::of_name("write").unwrap().least;
        let few = format!("count {} done", least - 1);
        let enough = format!("count {} Invalid argument", least);
        assert_eq!(wrong(&[("write", &few)], &[], 180, 1).len(), 1);
        assert_eq!(wrong(&[("write", "worked 7")], &[], 180, 1).len(), 1);
        assert_eq!(wrong(&[("write", &enough)], &[], 180, 1).len(), 0);
        // Few are enough of a slow kernel, or a short run.
        assert_eq!(wrong(&[("write", &few)], &[], 180, 10).len(), 0);
        assert_eq!(wrong(&[("write", &few)], &[], 60, 1).len(), 0);
    }

    #[test]
    fn files_that_are_never_written_are_wrong() {
        let lines = [("write", "count 999999 done"), ("write", "wrote a")];
        assert_eq!(wrong(&lines, &["a"], 180, 1).len(), 0);
        assert_eq!(wrong(&lines, &["a", "b", "c"], 180, 1).len(), 1);
        assert_eq!(wrong(&lines, &["a", "b", "c"], 180, 10).len(), 0);
        assert_eq!(wrong(&lines, &["a", "b", "c", "d", "e"], 180, 10).len(), 1);
        // Nothing writes.
        assert_eq!(
            wrong(&[("files", "count 999999 done")], &["a"], 180, 1).len(),
            0
        );
    }

    #[test]
    fn a_process_that_survives_is_wrong() {
        let lines = [("rftrace", "survivor 7 rftrace in x")];
        let wrong = wrong(&lines, &[], 20, 1);
        assert_eq!(wrong[1], "  rftrace: 7 rftrace in x");
    }
}
