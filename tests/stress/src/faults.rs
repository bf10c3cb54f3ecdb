// SPDX-License-Identifier: GPL-2.0

//! Faults: makes each system call on the module's files fail at each place where it can, one after
//! the other.
//!
//! An operation is done once as it should be, and the differences that it makes are noted. Then it
//! is done again and again, and the kernel fails the first, the second, ... request of the module,
//! until there is no such request. Each time it either fails, and all is as before, or it does what
//! it should.

mod expected;
mod inject;
mod operation;
mod scene;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{bail, Context, Result};
use clap::Args;

use self::expected::Expected;
use self::inject::{Injector, Log};
use self::operation::Operation;
use self::scene::Stage;
use self::state::State;

/// Maximum number of requests of an operation that are failed.
const MOST: u32 = 20_000;
/// Said by unregister_fprobe() when it has no memory.
const NO_ARRAY: &str = "fprobe: Failed to allocate working array";
/// Number of requests up to which each is failed when not all are.
const EACH: u32 = 12;
/// That of loading the module, which takes seconds each time.
const EACH_OF_LOADING: u32 = 4;

/// Faults at each place of each operation, or some.
#[derive(Args, Debug)]
pub struct Faults {
    /// Source of faults: the kernel's `task` or `kthread`, or `own`, the module's.
    #[arg(long, default_value = "task")]
    by: inject::By,
    /// Settings in which operations are done, with commas; all, if none.
    #[arg(long, value_delimiter = ',')]
    scenes: Vec<String>,
    /// Only operations whose name has this in it, with commas.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Not all values, and not all things fail: some, the same each time.
    #[arg(long)]
    some: bool,
    /// Fraction of operations that are done: one in so many, always the same.
    #[arg(long, default_value_t = 1)]
    one_in: u32,
    /// Number of the part that is done, of so many: from 0.
    #[arg(long, default_value_t = 0)]
    part: u32,
    /// A file of deviations that are expected.
    #[arg(long)]
    expected: Option<PathBuf>,
    /// Print each fault.
    #[arg(long)]
    verbose: bool,
}

/// The choice of requests that are failed.
#[derive(Clone, Copy)]
struct Step {
    /// Not all are.
    some: bool,
    /// The operation loads the module.
    loads: bool,
}

impl Step {
    /// Returns how many requests further the next one is.
    fn after(self, number: u32) -> u32 {
        match (self.some, self.loads) {
            (true, true) if number >= EACH_OF_LOADING => number / 2,
            (true, false) if number >= EACH => number / 4,
            _ => 1,
        }
    }
}

/// The results of an operation's faults.
#[derive(Default)]
struct Outcome {
    faults: u32,
    refused: u32,
    /// Times that fprobe left functions hooked which no probe is for any more.
    kept: u32,
    /// Deviations, with the places where they came.
    wrong: BTreeMap<String, BTreeSet<String>>,
}

impl Faults {
    /// Runs the operations, and reports what was not as it should be.
    pub fn run(&self) -> Result<()> {
        let start = Instant::now();
        if self.part >= self.one_in.max(1) {
            bail!("there is no part {} of {}", self.part, self.one_in);
        }
        let mut expected = Expected::read(self.expected.as_deref())?;
        let injector = self.by.make()?;
        let (mut operations, mut faults, mut refused, mut kept) = (0, 0, 0, 0);
        let mut unexpected = 0;
        let mut stage = Stage::new(injector.module(), self.verbose)?;
        for scene in scene::ALL {
            if !self.scenes.is_empty() && !self.scenes.iter().any(|name| name == scene.name) {
                continue;
            }
            let begin = Instant::now();
            stage
                .set(scene)
                .with_context(|| format!("scene {}", scene.name))?;
            println!(
                "# {}: {} files are compared; these say something else each time: {}",
                scene.name,
                stage.before().compared(),
                stage.before().restless()
            );
            let (was_operations, was_faults) = (operations, faults);
            let mut left_out = Vec::new();
            let all = operation::all(&mut stage, scene, self.some)?;
            // To look for input is to open files, and closing one of them frees buffers.
            stage.restore()?;
            for operation in all {
                let name = format!("{} {} {}", self.by, scene.name, operation.name());
                if !self.only.is_empty() && !self.only.iter().any(|part| name.contains(part)) {
                    continue;
                }
                // Loading the module is another operation each time.
                if scene.is_loaded && number_of(&name) % self.one_in.max(1) != self.part {
                    continue;
                }
                let begin = Instant::now();
                let step = Step {
                    some: self.some,
                    loads: !scene.is_loaded,
                };
                let outcome = self
                    .sweep(&mut stage, &*injector, &operation, step)
                    .with_context(|| name.clone())?;
                let Some(outcome) = outcome else {
                    left_out.push(operation.name().to_string());
                    continue;
                };
                if self.verbose || begin.elapsed().as_secs() >= 10 {
                    let (faults, refused) = (outcome.faults, outcome.refused);
                    println!(
                        "# {name}: {faults} faults, {refused} refused, {} ms",
                        begin.elapsed().as_millis()
                    );
                }
                operations += 1;
                faults += outcome.faults;
                refused += outcome.refused;
                kept += outcome.kept;
                expected.done(&name);
                for (what, places) in outcome.wrong {
                    let places: Vec<_> = places.into_iter().collect();
                    if expected.has(&name, &what) {
                        continue;
                    }
                    println!("{name}: {what} # at {}", places.join(" "));
                    unexpected += 1;
                }
            }
            println!(
                "# {}: {} operations, {} faults, {} s",
                scene.name,
                operations - was_operations,
                faults - was_faults,
                begin.elapsed().as_secs()
            );
            if !left_out.is_empty() {
                let names = left_out.join(", ");
                println!("# {}: not done, as it fails anyhow: {names}", scene.name);
            }
        }
        stage.unload()?;
        println!(
            "# {operations} operations, {faults} faults: {refused} refused, {} did without \
             ({kept} times fprobe left functions hooked), {} s",
            faults - refused,
            start.elapsed().as_secs()
        );
        let gone =
            expected.gone(self.one_in == 1 && self.only.is_empty() && self.scenes.is_empty());
        for entry in &gone {
            println!("expected, and does not happen any more: {entry}");
        }
        if unexpected + gone.len() != 0 {
            bail!(
                "{unexpected} deviations, {} expected ones are gone",
                gone.len()
            );
        }
        // Of what is rare a part may have none.
        if faults == 0 && !(injector.is_rare() && self.one_in > 1) {
            bail!("there was no fault");
        }
        Ok(())
    }

    /// Prints the lines that differ, if each fault is printed.
    fn show(&self, before: &State, now: &State) {
        if self.verbose {
            for line in before.lines_that_differ(now).iter().take(12) {
                println!("#   {line}");
            }
        }
    }

    /// Returns whether things are as they are when an operation was only begun: a file that is
    /// opened with O_TRUNC is emptied, as in tracefs, whatever is closed of free_buffer frees, and
    /// a module whose init fails was loaded.
    fn is_begun(&self, stage: &mut Stage, operation: &Operation, now: &State) -> Result<bool> {
        stage.restore()?;
        if !operation.begin_only()? {
            return Ok(false);
        }
        let mut begun = State::take();
        begun.forget(scene::RECORDED);
        Ok(begun.differs(now).is_empty())
    }

    /// Makes all of an operation fail; returns `None` if it cannot be done in this scene.
    fn sweep(
        &self,
        stage: &mut Stage,
        injector: &dyn Injector,
        operation: &Operation,
        step: Step,
    ) -> Result<Option<Outcome>> {
        stage.prepare(operation)?;
        if injector.is_rare() {
            injector.arm(1)?;
            let result = operation.run(&injector.parameters(1));
            let place = injector.disarm(result.is_err())?;
            stage.restore()?;
            if place.is_none() {
                return Ok(result.is_ok().then(Outcome::default));
            }
            stage.prepare(operation)?;
        }
        // As it should be; twice, as its output may differ each time.
        let Ok(right) = operation.run(&[]) else {
            stage.restore()?;
            return Ok(None);
        };
        let mut after = stage.before().clone();
        after.forget(scene::RECORDED);
        if !operation.is_reading() {
            after = State::take();
            stage.restore()?;
            stage.prepare(operation)?;
        }
        let again = operation.run(&[]);
        let is_same_text = matches!(&again, Ok(again) if *again == right);
        if !operation.is_reading() {
            after = after.common(State::take());
            stage.restore()?;
            stage.prepare(operation)?;
        }
        let mut outcome = Outcome::default();
        let log = Log::open()?;
        // unregister_fprobe() has left functions hooked for which no probe is. That is seen when
        // something is hooked again, and stays (docs/upstream/fprobe-dead-without-memory.md).
        let mut leaves_some = false;
        let mut number = 1;
        while number <= MOST {
            injector.arm(number)?;
            let result = operation.run(&injector.parameters(number));
            let place = injector.disarm(result.is_err())?;
            leaves_some |= log.has(NO_ARRAY);
            let mut wrong = |what: String| {
                let place = place
                    .clone()
                    .filter(|place| !place.is_empty())
                    .unwrap_or(number.to_string());
                outcome.wrong.entry(what).or_default().insert(place);
            };
            let mut is_clean = true;
            match &result {
                Err(error) => {
                    outcome.refused += 1;
                    if place.is_none() {
                        wrong(format!("the next try fails: {}", errno(error)));
                    } else if !operation.is_clean(error) {
                        wrong(format!("fails by {}", errno(error)));
                    }
                    if !operation.is_reading() {
                        let now = State::take();
                        let differ = stage.before().differs(&now);
                        is_clean = differ.is_empty();
                        if !is_clean && !self.is_begun(stage, operation, &now)? {
                            self.show(stage.before(), &now);
                            wrong(format!("fails, and changes {differ}"));
                        }
                    }
                }
                Ok(text) => {
                    // The text may differ by now anyhow.
                    if is_same_text
                        && !operation.says(&right, text)
                        && operation.is_reading()
                        && operation.run(&[]).is_ok_and(|again| again == right)
                    {
                        show_lines(&right, text);
                        wrong("succeeds, and says something else".to_owned());
                    }
                    if !operation.is_reading() {
                        is_clean = false;
                        let mut now = State::take();
                        // A module is loaded all the same when there is no memory to hook it, and
                        // `status` says so.
                        if !after.differs(&now).is_empty() && state::is_behind() {
                            state::catch_up()?;
                            now = State::take();
                        }
                        let differ = after.differs(&now);
                        let is_kept = leaves_some && after.has_more_hooks(&now);
                        outcome.kept += u32::from(is_kept);
                        if !differ.is_empty() && !is_kept {
                            self.show(&after, &now);
                            wrong(format!("succeeds, without {differ}"));
                        }
                    }
                }
            }
            // Reading changes nothing but what is given out once; but that is not checked each
            // time.
            if operation.is_reading() && place.is_none() {
                let differ = after.differs(&State::take());
                if !differ.is_empty() {
                    wrong(format!("changes {differ}"));
                }
                is_clean = false;
            }
            if self.verbose {
                let said = result.as_ref().map_or_else(errno, |_| "done".to_owned());
                println!("#   {number} {place:?}: {said}");
            }
            if !is_clean {
                let was = stage.before().clone();
                stage.restore()?;
                if stage.before().says_another(scene::RECORDED, &was) {
                    // Recorded anew, at other times.
                    after.forget(scene::RECORDED);
                }
            }
            if place.is_none() {
                return Ok(Some(outcome));
            }
            outcome.faults += 1;
            if !is_clean || operation.needs_preparation() {
                stage.prepare(operation)?;
            }
            number += step.after(number);
        }
        bail!("there is no end of it");
    }
}

/// Returns a number that follows from a name (FNV-1a).
fn number_of(name: &str) -> u32 {
    let step = |sum: u32, byte: u8| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    name.bytes().fold(0x811c_9dc5, step) >> 8
}

/// Returns an error by the name of its number.
fn errno(error: &io::Error) -> String {
    let Some(number) = error.raw_os_error() else {
        return error.to_string();
    };
    format!("{:?}", rustix::io::Errno::from_raw_os_error(number))
}

/// Returns the text of a file, if it can be read.
fn text_of(path: &str) -> Option<String> {
    fs::read(path)
        .ok()
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Prints the lines of a text that differ from those of the right one.
fn show_lines(right: &[u8], text: &[u8]) {
    let [right, text] = [right, text].map(|text| String::from_utf8_lossy(text));
    let differ = |of: &str, other: &str, sign| {
        let is_new = |line: &&str| !other.lines().any(|line_there| line_there == *line);
        for line in of.lines().filter(is_new).take(6) {
            println!("#   {sign}{line}");
        }
    };
    differ(&right, &text, '-');
    differ(&text, &right, '+');
}
