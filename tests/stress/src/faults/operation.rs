// SPDX-License-Identifier: GPL-2.0

//! Faults, the operations: all that can be done to each file, to directories of instances, and to
//! modules.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::Result;
use fastrand::Rng;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;
use rustix::pipe::{splice, SpliceFlags};
use rustix::system::{delete_module, finit_module};

use super::scene::{Scene, Stage};
use super::state::name_of;
use crate::input;
use crate::world::{self, DIRECTORY, INSTANCES};

/// Maximum number of bytes that are read.
const MOST: u64 = 48 << 10;
/// Number of inputs that are tried for a file, until there is enough of each form.
const TRIES: u64 = 120;
/// A module to load, which filters of the scenes name.
pub const OTHER: &str = "cpuid";

/// An operation.
pub struct Operation {
    name: String,
    step: Step,
}

/// An action of an operation.
enum Step {
    Read(PathBuf),
    Poll(PathBuf),
    Splice(PathBuf),
    Write(PathBuf, Vec<u8>, bool),
    Make(PathBuf),
    Remove(PathBuf),
    Load(&'static str, &'static [&'static str]),
    Unload,
    LoadOther,
    UnloadOther,
}

/// Parameters to load the module with.
const PARAMETERS: &[&[&str]] = &[
    &[],
    &["filter=__*_sys_getppid,__*_sys_acct", "buffer_size_kb=64"],
    &[
        "filter=__*_sys_getppid",
        "tracer=function_graph",
        "buffer_size_kb=64",
    ],
];

/// Returns all operations of a scene, among them those that the scene does not allow.
pub fn all(stage: &mut Stage, scene: &Scene, some: bool) -> Result<Vec<Operation>> {
    let mut all = Vec::new();
    let mut add = |name: String, step| all.push(Operation { name, step });
    if !scene.is_loaded {
        let tried = if some { &PARAMETERS[2..] } else { PARAMETERS };
        for parameters in tried {
            let name = format!("insmod {}", parameters.join(" "));
            add(
                name.trim().to_owned(),
                Step::Load(stage.module(), parameters),
            );
        }
        return Ok(all);
    }
    let mut random = Rng::with_seed(1);
    for path in world::files() {
        let name = name_of(&path);
        if name.starts_with("instances/") || some && is_like_others(&name) {
            continue;
        }
        let mode = fs::metadata(&path)?.permissions().mode();
        if mode & 0o400 != 0 {
            add(format!("read {name}"), Step::Read(path.clone()));
            add(format!("poll {name}"), Step::Poll(path.clone()));
            add(format!("splice {name}"), Step::Splice(path.clone()));
        }
        if mode & 0o200 != 0 {
            let inputs = inputs(&path, stage, some, &mut random);
            for (number, (form, data)) in inputs.into_iter().enumerate() {
                let step = |cut| Step::Write(path.clone(), data.clone(), cut);
                add(format!("write {name} {form}"), step(true));
                if number == 1 || !some {
                    add(format!("append {name} {form}"), step(false));
                }
            }
        }
    }
    let directory = Path::new(DIRECTORY).join("instances").join(INSTANCES[0]);
    add("mkdir".into(), Step::Make(directory.clone()));
    add("rmdir".into(), Step::Remove(directory));
    if other().exists() {
        add("load a module".into(), Step::LoadOther);
        add("unload a module".into(), Step::UnloadOther);
    }
    add("rmmod".into(), Step::Unload);
    Ok(all)
}

/// Returns whether a file is one of several that are alike, and not the first.
fn is_like_others(name: &str) -> bool {
    let is_option = name
        .strip_prefix("options/")
        .is_some_and(|rest| !rest.starts_with("func"));
    let is_of_cpu = name
        .strip_prefix("per_cpu/cpu")
        .is_some_and(|rest| !rest.starts_with('0'));
    let is_stat = name
        .strip_prefix("trace_stat/function")
        .is_some_and(|rest| rest != "0");
    is_option || is_of_cpu || is_stat || name.starts_with("events/")
}

/// Returns valid input for a file, some of each form, by the form's name.
fn inputs(path: &Path, stage: &Stage, some: bool, random: &mut Rng) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut forms: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..TRIES {
        let mut data = input::valid(path, stage.world(), random);
        // As by echo: an error of a word without an end would be lost, as it comes when the file is
        // closed.
        data.push(b'\n');
        if !seen.insert(data.clone()) {
            continue;
        }
        let form = form(&data);
        let is_function = data.starts_with(b"__");
        let is_word = form.starts_with(|c: char| c.is_ascii_alphabetic()) && !is_function;
        // Names that a file offers each mean something else; numbers, and lists of functions, do
        // not.
        let most = match (some, form.as_str()) {
            (true, _) if is_word => 4,
            (false, _) if is_word => 12,
            (true, _) => 1,
            (false, _) => 2,
        };
        let count = forms.entry(form.clone()).or_default();
        let is_name = is_word && data.len() < 40 && !data.trim_ascii_end().contains(&b' ');
        if *count >= most || is_word && !is_name && *count >= 1 {
            continue;
        }
        *count += 1;
        let name = match (is_name, *count) {
            (true, _) => String::from_utf8_lossy(data.trim_ascii_end()).into_owned(),
            (false, 1) => form,
            (false, count) => format!("{form} ({count})"),
        };
        found.insert(name, data);
    }
    found
}

/// Returns the form of input: the kinds of its words, of `name`, `9` and what is between.
fn form(data: &[u8]) -> String {
    let text = String::from_utf8_lossy(data);
    let part = |part: &str| {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let (sign, name) = part.split_at(part.len() - part.trim_start_matches('!').len());
        match (is_number, name.is_empty()) {
            (true, _) => "9".to_owned(),
            (_, true) => sign.to_owned(),
            (_, false) => format!("{sign}name"),
        }
    };
    let kind = |word: &str| word.split(':').map(part).collect::<Vec<_>>().join(":");
    let kinds: BTreeSet<String> = text.split_whitespace().map(kind).collect();
    match kinds.is_empty() {
        true => "nothing".into(),
        false => kinds.into_iter().collect::<Vec<_>>().join(" "),
    }
}

/// Returns the file of the other module.
fn other() -> PathBuf {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy().into_owned();
    Path::new("/lib/modules")
        .join(release)
        .join(format!("{OTHER}.ko"))
}

fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    options.custom_flags(flags).open(path)
}

/// Loads a module, by this system call and no other: if it fails, nothing else is tried.
pub fn load(path: &Path, parameters: &[String]) -> io::Result<()> {
    let parameters = CString::new(parameters.join(" "))?;
    Ok(finit_module(File::open(path)?, &parameters, 0)?)
}

/// Unloads a module.
pub fn unload(name: &str) -> io::Result<()> {
    let name = CString::new(name)?;
    Ok(delete_module(&name, OFlags::NONBLOCK.bits() as i32)?)
}

/// Returns whether a module is loaded.
pub fn is_loaded(name: &str) -> bool {
    Path::new("/sys/module").join(name).exists()
}

impl Operation {
    /// Returns the name of the operation.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the operation changes nothing.
    pub fn is_reading(&self) -> bool {
        matches!(self.step, Step::Read(_) | Step::Poll(_) | Step::Splice(_))
    }

    /// Returns whether the operation needs something that the scene lacks, or the absence of
    /// something that it has.
    pub fn needs_preparation(&self) -> bool {
        use Step::{LoadOther, Make, Remove, UnloadOther};
        matches!(self.step, Make(_) | Remove(_) | LoadOther | UnloadOther)
    }

    /// Prepares the scene for the operation.
    pub fn prepare(&self) -> io::Result<()> {
        match &self.step {
            Step::Remove(path) if !path.exists() => fs::create_dir(path),
            Step::Make(path) if path.exists() => fs::remove_dir(path),
            Step::LoadOther if is_loaded(OTHER) => unload(OTHER),
            Step::UnloadOther if !is_loaded(OTHER) => load(&other(), &[]),
            _ => Ok(()),
        }
    }

    /// Does the part of the operation that changes something even if the rest fails: opens and
    /// closes the file, or has a module come and go. Returns false if there is none.
    pub fn begin_only(&self) -> io::Result<bool> {
        match &self.step {
            Step::Write(path, _, true) => {
                open(path, OpenOptions::new().write(true).truncate(true))?;
            }
            Step::Write(path, _, false) if path.ends_with("free_buffer") => {
                open(path, OpenOptions::new().append(true))?;
            }
            // If only its init fails, it was there, and filters that waited for it wait no more.
            Step::LoadOther => {
                load(&other(), &[])?;
                unload(OTHER)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns whether an output is right, where `right` is that without a fault. A poll that has
    /// no memory says that there is something to read: the reader will be told.
    pub fn says(&self, right: &[u8], text: &[u8]) -> bool {
        let is_poll = matches!(self.step, Step::Poll(_));
        text == right || is_poll && text == format!("{:?}", PollFlags::IN).as_bytes()
    }

    /// Returns whether an error names the fault: there is no memory, or a copy from or to user
    /// space failed.
    pub fn is_clean(&self, error: &io::Error) -> bool {
        use rustix::io::Errno;
        let number = error.raw_os_error();
        let is = |errno: Errno| number == Some(errno.raw_os_error());
        // cpuid_init() has an error of its own if its device cannot be made.
        is(Errno::NOMEM)
            || is(Errno::FAULT)
            || matches!(self.step, Step::LoadOther) && is(Errno::BUSY)
    }

    /// Runs the operation, and returns its output. `parameters` are added to the module's.
    pub fn run(&self, parameters: &[String]) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        match &self.step {
            Step::Read(path) => {
                let file = open(path, OpenOptions::new().read(true))?;
                match file.take(MOST).read_to_end(&mut text) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    result => drop(result?),
                }
                without_measured(&mut text);
            }
            Step::Poll(path) => {
                let file = open(path, OpenOptions::new().read(true))?;
                let mut polled = [PollFd::new(&file, PollFlags::IN)];
                let now = Timespec {
                    tv_sec: 0,
                    tv_nsec: 0,
                };
                poll(&mut polled, Some(&now))?;
                let events = polled[0].revents();
                // poll has no other way to fail.
                if events.contains(PollFlags::ERR) {
                    return Err(rustix::io::Errno::NOMEM.into());
                }
                text = format!("{events:?}").into_bytes();
            }
            Step::Splice(path) => {
                let file = open(path, OpenOptions::new().read(true))?;
                let (from, to) = rustix::pipe::pipe()?;
                let flags = SpliceFlags::NONBLOCK;
                match splice(file.as_fd(), None, to.as_fd(), None, 8192, flags) {
                    Err(rustix::io::Errno::AGAIN) => {}
                    Ok(0) => {}
                    Ok(length) => {
                        text.resize(length, 0);
                        let length = rustix::io::read(&from, &mut text)?;
                        text.truncate(length);
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            Step::Write(path, data, cut) => {
                let mut options = OpenOptions::new();
                match cut {
                    true => options.write(true).truncate(true),
                    false => options.append(true),
                };
                open(path, &mut options)?.write_all(data)?;
            }
            Step::Make(path) => fs::create_dir(path)?,
            Step::Remove(path) => fs::remove_dir(path)?,
            Step::Load(module, own) => {
                let own = own.iter().map(|parameter| (*parameter).to_owned());
                let all: Vec<_> = own.chain(parameters.iter().cloned()).collect();
                load(Path::new(module), &all)?;
            }
            Step::Unload => unload("rust_ftrace")?,
            Step::LoadOther => load(&other(), &[])?,
            Step::UnloadOther => unload(OTHER)?,
        }
        Ok(text)
    }
}

/// Takes out of the text of `status` what is measured anew each time, and is the same by chance.
fn without_measured(text: &mut Vec<u8>) {
    const BEFORE: &[u8] = b"converted to within ";
    let found = text.windows(BEFORE.len()).position(|part| part == BEFORE);
    if let Some(at) = found.map(|at| at + BEFORE.len()) {
        let digits = text[at..].iter().take_while(|byte| byte.is_ascii_digit());
        let end = at + digits.count();
        text.drain(at..end);
    }
}
