// SPDX-License-Identifier: GPL-2.0

//! Faults, the state: all that faults must not change, which is the texts of the module's files and
//! the kernel's hooks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::text_of;
use crate::input;
use crate::world::{self, DIRECTORY, TRACEFS};

/// Texts by name: of files, named by their path in the module's directory, and of the kernel.
#[derive(Clone, Default)]
pub struct State {
    said: BTreeMap<String, String>,
    /// Names of the texts that differ each time.
    restless: Vec<String>,
}

/// The kernel's list of functions that are hooked.
const HOOKS: &str = "the kernel's hooks";

/// Directories whose files are no settings: others have the same content, or calls change it.
const NO_SETTINGS: [&str; 3] = ["options/", "per_cpu/", "trace_stat/"];

/// Returns the module's files that hold settings: those that can be read and written, whose content
/// no other file has, and calls do not change, but for what is recorded.
fn settings() -> Vec<PathBuf> {
    let is_setting = |path: &PathBuf| {
        let name = name_of(path);
        let mode = fs::metadata(path).map_or(0, |data| data.permissions().mode());
        let is_other = NO_SETTINGS.iter().any(|begin| name.starts_with(begin));
        mode & 0o600 == 0o600 && !is_other && !name.starts_with("instances/")
    };
    world::files().into_iter().filter(is_setting).collect()
}

/// Returns whether `status` says that functions are not hooked for want of memory.
pub fn is_behind() -> bool {
    let status = text_of(&format!("{DIRECTORY}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("not armed: "));
    line.is_some_and(|what| what != "none")
}

/// Writes a setting as it is, after which the hooks are up to date.
pub fn catch_up() -> io::Result<()> {
    let path = format!("{DIRECTORY}/options/sleep-time");
    fs::write(&path, text_of(&path).unwrap_or_default())
}

/// Returns the name of a file below the module's directory.
pub fn name_of(path: &Path) -> String {
    let name = path.strip_prefix(DIRECTORY).unwrap_or(path);
    name.display().to_string()
}

/// Removes what is called from the kernel's line on a function: addresses of trampolines, which are
/// made anew, or the list function, by which ftrace calls hooks if it has no memory for one.
fn hooked(line: &str) -> String {
    let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
    let rest = rest.split("\ttramp").next().unwrap_or_default();
    let rest = rest.split("->").next().unwrap_or_default();
    format!(
        "{name} {}",
        rest.split_whitespace().collect::<Vec<_>>().join(" ")
    )
}

impl State {
    /// Returns the present state.
    pub fn take() -> Self {
        let mut said = BTreeMap::new();
        for path in settings() {
            said.insert(name_of(&path), input::said(&path));
        }
        let hooks = text_of(&format!("{TRACEFS}/enabled_functions")).unwrap_or_default();
        let mut hooks: Vec<_> = hooks.lines().map(hooked).collect();
        hooks.sort();
        said.insert(HOOKS.into(), hooks.join("\n"));
        said.insert("instances".into(), names(&format!("{DIRECTORY}/instances")));
        let modules = text_of("/proc/modules").unwrap_or_default();
        let modules = modules.lines().filter_map(|line| line.split(' ').next());
        said.insert("modules".into(), modules.collect::<Vec<_>>().join(" "));
        Self {
            said,
            restless: Vec::new(),
        }
    }

    /// Keeps only texts that `other` has, too.
    pub fn common(mut self, other: Self) -> Self {
        let mut restless = Vec::new();
        self.said.retain(|name, text| {
            let is_same = other.said.get(name) == Some(text);
            if !is_same {
                restless.push(name.clone());
            }
            is_same
        });
        self.restless = restless;
        self
    }

    /// Returns the names of texts that differ in `other`, with commas; and of those that are only
    /// there.
    pub fn differs(&self, other: &Self) -> String {
        let differ = self.said.iter();
        let differ = differ.filter(|(name, text)| other.said.get(*name) != Some(*text));
        let names = differ.map(|(name, _)| name.as_str());
        let more = other.said.keys();
        let more =
            more.filter(|name| !self.said.contains_key(*name) && !self.restless.contains(name));
        let names = names.chain(more.map(String::as_str));
        names.collect::<Vec<_>>().join(", ")
    }

    /// Returns whether `other` differs by functions that are hooked there and not here, and by
    /// nothing else.
    pub fn has_more_hooks(&self, other: &Self) -> bool {
        let lines = |state: &Self| -> BTreeSet<String> {
            let hooks = state.said.get(HOOKS).map_or("", String::as_str);
            hooks.lines().map(str::to_owned).collect()
        };
        self.differs(other) == HOOKS && lines(self).is_subset(&lines(other))
    }

    /// Returns the lines that only one of both has, with `-` before those of this one, and `+`
    /// before others.
    pub fn lines_that_differ(&self, other: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        let differ = self.said.iter();
        for (name, text) in differ.filter(|(name, text)| other.said.get(*name) != Some(*text)) {
            let now = other.said.get(name).map_or("", String::as_str);
            let gone = text
                .lines()
                .filter(|line| !now.lines().any(|new| new == *line));
            lines.extend(gone.map(|line| format!("{name}: -{line}")));
            let new = now
                .lines()
                .filter(|line| !text.lines().any(|old| old == *line));
            lines.extend(new.map(|line| format!("{name}: +{line}")));
        }
        lines
    }

    /// Returns files that have another text in `other`, and the text that they have here.
    pub fn files_that_differ<'a>(&'a self, other: &Self) -> Vec<(PathBuf, &'a str)> {
        let differ = self.said.iter();
        let differ = differ.filter(|(name, text)| other.said.get(*name) != Some(*text));
        let files = differ.map(|(name, text)| (Path::new(DIRECTORY).join(name), text.as_str()));
        files.filter(|(path, _)| path.exists()).collect()
    }

    /// Removes the text of `name`.
    pub fn forget(&mut self, name: &str) {
        if self.said.remove(name).is_some() {
            self.restless.push(name.to_owned());
        }
    }

    /// Returns whether `name` has a text, and another one in `other`.
    pub fn says_another(&self, name: &str, other: &Self) -> bool {
        let text = self.said.get(name);
        text.is_some() && text != other.said.get(name)
    }

    /// Takes the text of `name` from `other`, if it has one.
    pub fn take_over(&mut self, name: &str, other: &Self) {
        if let (Some(text), Some(new)) = (self.said.get_mut(name), other.said.get(name)) {
            new.clone_into(text);
        }
    }

    /// Returns the number of texts that are compared.
    pub fn compared(&self) -> usize {
        self.said.len()
    }

    /// Returns the names of the texts that are not compared.
    pub fn restless(&self) -> String {
        match self.restless.is_empty() {
            true => "none".into(),
            false => self.restless.join(", "),
        }
    }
}

fn names(directory: &str) -> String {
    let Ok(entries) = fs::read_dir(directory) else {
        return String::new();
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    let mut names: Vec<_> = names
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    names.sort();
    names.join(" ")
}
