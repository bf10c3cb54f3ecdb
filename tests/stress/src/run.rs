// SPDX-License-Identifier: GPL-2.0

//! A run: starts tasks, counts them, and waits for their end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};
use clap::Args;
use fastrand::Rng;

use crate::ends::{children, stacks};
use crate::gate::Gate;
use crate::kinds::{self, Kind};
use crate::report::Report;
use crate::world::{self, World};

/// Number of operations after which files are looked up anew.
const STALE: u32 = 200;
/// Maximum number of lines on processes that a task reports: a pipe holds them all.
const MOST_LINES: usize = 200;
/// Time between two reports on tasks that are late, in s.
const TELL: u64 = 30;

/// A run of all kinds, or some.
#[derive(Args, Debug)]
pub struct Run {
    /// The number that all operations follow from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Time that the run takes, in s.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Kinds of operations, with commas; all, if none.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Kinds to leave out.
    #[arg(long, value_delimiter = ',')]
    without: Vec<String>,
    /// Time that tasks get to end, in s.
    #[arg(long, default_value_t = 120)]
    patience: u64,
    /// Number of times that the kernel is slower than others.
    #[arg(long, default_value_t = 1)]
    slower: u64,
}

/// One task of a run.
#[derive(Args, Debug)]
pub struct Task {
    kind: String,
    number: u32,
    seed: u64,
    seconds: u64,
    patience: u64,
}

/// All that operations need.
pub struct Hand {
    /// The machine.
    pub world: World,
    /// Random numbers of the task.
    pub random: Rng,
    /// The gate for tasks that have files of the module open.
    pub gate: Rc<Gate>,
    /// Time that a process which was killed gets to end.
    pub patience: Duration,
    /// Time spent at the gate.
    pub waited: Duration,
    /// Processes that did not end when they were killed: where they are, in lines.
    pub survivors: Vec<String>,
    /// True if the task is inside the gate.
    is_inside: bool,
    /// Names of files to which something was written.
    written: BTreeSet<String>,
    files: Vec<PathBuf>,
    /// Number of operations until files are looked up anew.
    fresh: u32,
}

impl Hand {
    /// Returns one of the module's files.
    pub fn file(&mut self) -> io::Result<PathBuf> {
        if self.fresh == 0 {
            self.files = world::files();
            self.fresh = STALE;
        }
        self.fresh -= 1;
        match self.files.len() {
            0 => Err(io::ErrorKind::NotFound.into()),
            count => Ok(self.files[self.random.usize(0..count)].clone()),
        }
    }

    /// Makes the next operation look files up anew.
    pub fn forget_files(&mut self) {
        self.fresh = 0;
    }

    /// Remembers that a file has taken what was written.
    pub fn wrote(&mut self, path: &Path) {
        self.written.extend(world::name_of(path).map(str::to_owned));
    }

    /// Returns whether another task waits for this one to leave the gate.
    pub fn is_waited_for(&self) -> bool {
        self.is_inside && self.gate.is_closing()
    }
}

impl Task {
    /// Does operations for the time of the run, and reports how many had which result.
    pub fn work(&self) -> Result<()> {
        let kind = kinds::of_name(&self.kind).context("no such kind")?;
        let end = Instant::now() + Duration::from_secs(self.seconds);
        let name = kind
            .name
            .bytes()
            .fold(0_u64, |sum, byte| sum * 31 + u64::from(byte));
        let mut hand = Hand {
            world: World::new()?,
            random: Rng::with_seed(self.seed ^ (name << 8) ^ u64::from(self.number)),
            gate: Rc::new(Gate::new()?),
            patience: Duration::from_secs(self.patience),
            waited: Duration::ZERO,
            survivors: Vec::new(),
            is_inside: false,
            written: BTreeSet::new(),
            files: Vec::new(),
            fresh: 0,
        };
        let gate = hand.gate.clone();
        let mut results: BTreeMap<String, u64> = BTreeMap::new();
        let mut worked = Duration::ZERO;
        while Instant::now() < end {
            let start = Instant::now();
            let inside = kind.opens.then(|| gate.enter()).transpose()?;
            hand.is_inside = inside.is_some();
            hand.waited += start.elapsed();
            let (start, waited) = (Instant::now(), hand.waited);
            let result = match (kind.step)(&mut hand) {
                Ok(()) => "done".to_owned(),
                Err(error) => name_of(&error),
            };
            drop(inside);
            let took = start.elapsed();
            worked += took;
            *results.entry(result).or_default() += 1;
            let pause = Duration::from_millis(hand.random.u64(0..kind.pause.max(1)));
            let kept_others = took.saturating_sub(hand.waited - waited);
            let pause = pause + kept_others * kind.rests;
            // A long one does not make the run longer.
            sleep(pause.min(end.saturating_duration_since(Instant::now())));
        }
        for (result, count) in results {
            println!("count {count} {result}");
        }
        println!("worked {}", worked.as_millis());
        println!("waited {}", hand.waited.as_millis());
        hand.written
            .iter()
            .for_each(|name| println!("wrote {name}"));
        let survivors = hand.survivors.iter().take(MOST_LINES);
        survivors.for_each(|line| println!("survivor {line}"));
        Ok(())
    }
}

/// Returns an error in words, without its number.
fn name_of(error: &io::Error) -> String {
    let words = error.to_string();
    let (words, _) = words.split_once(" (os error").unwrap_or((&words, ""));
    words.to_owned()
}

impl Run {
    /// Runs the tasks, and reports their operations.
    pub fn start(&self) -> Result<()> {
        for name in self.only.iter().chain(&self.without) {
            ensure!(
                kinds::of_name(name).is_some(),
                "no kind of operations is named {name}"
            );
        }
        let world = World::new()?;
        println!("# seed {}, {} s", self.seed, self.seconds);
        if !world.takes_all {
            println!("# all functions at once: left out: with KCSAN that takes minutes");
        }
        let control_files = world::control_files();
        let mut asked = Vec::new();
        let mut tasks = Vec::new();
        for kind in kinds::ALL {
            let is_asked = self.only.is_empty() || self.only.iter().any(|name| name == kind.name);
            if !is_asked || self.without.iter().any(|name| name == kind.name) {
                continue;
            }
            match (kind.lacks)(&world) {
                Some(reason) => println!("# {}: left out: {reason}", kind.name),
                None => {
                    asked.push(kind);
                    for number in 0..kind.tasks {
                        tasks.push((kind, self.task(kind, number)?));
                    }
                }
            }
        }
        let left = wait_for(&mut tasks, self.seconds, self.patience)?;
        let mut report = Report::default();
        let mut failed = 0;
        for (kind, task) in &mut tasks {
            if !task.wait()?.success() {
                println!("# {} has ended with an error", kind.name);
                failed += 1;
            }
            let said = task.stdout.take().map(io::read_to_string).transpose()?;
            for line in said.unwrap_or_default().lines() {
                report.add(kind, line);
            }
        }
        report.say();
        let wrong = report.wrong(&asked, &control_files, self.seconds, self.slower);
        wrong.iter().for_each(|line| println!("# wrong: {line}"));
        if left + failed != 0 {
            bail!("{left} tasks do not end, {failed} have failed");
        }
        ensure!(wrong.is_empty(), "{}", wrong[0]);
        Ok(())
    }

    fn task(&self, kind: &Kind, number: u32) -> Result<Child> {
        let mut command = Command::new("/proc/self/exe");
        let words = [
            number.to_string(),
            self.seed.to_string(),
            self.seconds.to_string(),
            self.patience.to_string(),
        ];
        command.args(["task", kind.name]).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        Ok(command.spawn()?)
    }
}

/// Waits until all tasks have ended, `patience` s after their `seconds` at most, and reports from
/// time to time those that have not. Returns how many never do; they are what is left of `tasks`.
fn wait_for(tasks: &mut Vec<(&Kind, Child)>, seconds: u64, patience: u64) -> Result<usize> {
    let start = Instant::now();
    let mut told = 0;
    loop {
        let mut working = Vec::new();
        for (index, (_, task)) in tasks.iter_mut().enumerate() {
            if task.try_wait()?.is_none() {
                working.push(index);
            }
        }
        if working.is_empty() {
            return Ok(0);
        }
        let late = start.elapsed().as_secs().saturating_sub(seconds);
        if late / TELL > told {
            told = late / TELL;
            println!("# still at work after {late} s more:");
            let of_parents = children();
            for index in &working {
                let (kind, task) = &tasks[*index];
                println!("#   {}: {}", kind.name, place(task.id(), &of_parents));
            }
        }
        if late >= patience {
            for index in working.iter().rev() {
                let (kind, task) = tasks.remove(*index);
                println!("# {} does not end:", kind.name);
                let lines = stacks(task.id());
                lines.iter().for_each(|line| println!("#   {line}"));
            }
            return Ok(working.len());
        }
        sleep(Duration::from_millis(50));
    }
}

/// Returns the innermost calls that a process is in, or its child, if it has one.
fn place(pid: u32, of_parents: &BTreeMap<String, Vec<String>>) -> String {
    let mut pid = &pid.to_string();
    while let Some(child) = of_parents.get(pid).and_then(|children| children.first()) {
        pid = child;
    }
    let stack = fs::read_to_string(format!("/proc/{pid}/stack")).unwrap_or_default();
    let calls = stack
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1));
    let calls: Vec<_> = calls.take(4).collect();
    match calls.is_empty() {
        true => "running".to_owned(),
        false => calls.join(" "),
    }
}
