// SPDX-License-Identifier: GPL-2.0

//! The things that operations are done to.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The module's directory.
pub const DIRECTORY: &str = "/sys/kernel/debug/rftrace";
/// The directory of the kernel's own tracers.
pub const TRACEFS: &str = "/sys/kernel/tracing";
/// The module.
pub const MODULE: &str = "/rust_ftrace.ko";
/// The directory of cgroups.
pub const CGROUPS: &str = "/tmp/cgroups";
/// Names of cgroups.
pub const CGROUP_NAMES: [&str; 5] = ["one", "one/two", "one/two/three", "four", "."];
/// Names of instances.
pub const INSTANCES: [&str; 4] = ["one", "two", "three", "four"];

/// Functions that are worth more than others: they run while the machine fails a little, or while a
/// reader reads.
const FAVOURITES: &[&str] = &[
    "vfs_read",
    "vfs_write",
    "vfs_open",
    "full_proxy_read",
    "full_proxy_open_regular",
    "seq_read_iter",
    "do_exit",
    "kernel_clone",
    "cpuhp_*",
    "*_dying_cpu",
    "*_dead_cpu",
    "rcutree_*",
    "tick_*",
    "sched_cpu_*",
    "smp_*",
    "load_module",
    "free_module",
    "debugfs_*",
    "mutex_*",
    "synchronize_*",
    "path_mount",
    // The kernel's sample of a live patch replaces it.
    "cmdline_proc_show",
];
/// One of so many words stands for all functions: to arm them takes seconds, in which little else
/// is done.
pub const ALL_IN: u32 = 500;

/// The machine.
#[derive(Debug)]
pub struct World {
    functions: Vec<String>,
    /// Patterns that are worth more than others.
    favourites: &'static [&'static str],
    /// CPUs that can be taken away.
    pub cpus: Vec<u32>,
    /// True if all functions may be traced at once.
    pub takes_all: bool,
}

impl World {
    /// Returns the machine that this runs on.
    pub fn new() -> io::Result<Self> {
        let list = Path::new(TRACEFS).join("available_filter_functions");
        // The list that the tests have read, if there is one.
        let list = fs::read_to_string("/tmp/available").or_else(|_| fs::read_to_string(list))?;
        let functions = list.lines().filter_map(|line| line.split(' ').next());
        // Probes of others on it hang the kernel: docs/upstream/fprobe-table-endless.md.
        let functions = functions.filter(|name| *name != "preempt_count_sub");
        let is_there = |cpu: &u32| Path::new(&online(*cpu)).exists();
        Ok(Self {
            functions: functions.map(str::to_owned).collect(),
            favourites: FAVOURITES,
            cpus: (0..64).filter(is_there).collect(),
            // Each access is watched there: arming all takes minutes, and all wait.
            takes_all: !Path::new("/sys/kernel/debug/kcsan").exists(),
        })
    }

    /// Returns the machine with only functions that nothing else calls: those whose names
    /// `is_quiet` accepts, and patterns.
    pub fn quiet(
        is_quiet: impl Fn(&str) -> bool,
        patterns: &'static [&'static str],
    ) -> io::Result<Self> {
        let mut world = Self::new()?;
        world.functions.retain(|name| is_quiet(name));
        world.favourites = patterns;
        Ok(world)
    }

    /// Returns all functions that can be traced.
    pub fn functions(&self) -> &[String] {
        &self.functions
    }

    /// Returns a function, or a pattern.
    pub fn function(&self, random: &mut fastrand::Rng) -> &str {
        if random.u32(0..ALL_IN) == 0 && self.takes_all {
            return "*";
        }
        match random.u8(0..3) {
            0 => self.favourites[random.usize(0..self.favourites.len())],
            _ => &self.functions[random.usize(0..self.functions.len())],
        }
    }
}

/// Returns the file by which a CPU is taken away.
pub fn online(cpu: u32) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}/online")
}

/// Returns the name of a file of the module, the same in all instances.
pub fn name_of(path: &Path) -> Option<&str> {
    let name = path.strip_prefix(DIRECTORY).ok()?.to_str()?;
    match name.strip_prefix("instances/") {
        Some(name) => name.split_once('/').map(|(_, name)| name),
        None => Some(name),
    }
}

/// Returns the names of all files of the module that take input.
pub fn control_files() -> BTreeSet<String> {
    let files = files();
    let takes_input = |path: &&PathBuf| {
        fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o222 != 0)
    };
    let names = files
        .iter()
        .filter(takes_input)
        .filter_map(|path| name_of(path));
    names.map(str::to_owned).collect()
}

/// Returns all files of the module, those of its instances included.
pub fn files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![PathBuf::from(DIRECTORY)];
    while let Some(directory) = directories.pop() {
        // The directory may be gone by now.
        let Ok(entries) = fs::read_dir(&directory) else {
            continue;
        };
        for entry in entries.flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => directories.push(entry.path()),
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    // The order of a directory does not follow from the seed.
    found.sort();
    found
}
