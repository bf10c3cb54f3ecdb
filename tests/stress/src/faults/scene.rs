// SPDX-License-Identifier: GPL-2.0

//! Faults, the scenes: settings in which operations are done, and the way back to them.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use rustix::thread;

use super::operation::{is_loaded, load, unload, Operation, OTHER};
use super::state::State;
use crate::input;
use crate::world::{World, DIRECTORY};

/// Settings in which operations are done.
pub struct Scene {
    /// The name of the scene.
    pub name: &'static str,
    /// True if the module is loaded.
    pub is_loaded: bool,
    /// Files, and the text that is appended to each. `A`, `B` and `C` are functions.
    written: &'static [(&'static str, &'static str)],
}

/// All scenes.
pub const ALL: &[Scene] = &[
    Scene {
        name: "idle",
        is_loaded: true,
        written: &[],
    },
    Scene {
        name: "function",
        is_loaded: true,
        written: &[
            ("filter", "A B"),
            ("filter", "C:stacktrace"),
            ("filter", "*:mod:cpuid"),
        ],
    },
    Scene {
        name: "graph",
        is_loaded: true,
        written: &[
            ("filter", "A B C"),
            ("filter", "*:mod:cpuid"),
            ("current_tracer", "function_graph"),
        ],
    },
    Scene {
        name: "profile",
        is_loaded: true,
        written: &[
            ("filter", "A B C"),
            ("options/profile-contexts", "1"),
            ("function_profile_enabled", "1"),
        ],
    },
    Scene {
        name: "unloaded",
        is_loaded: false,
        written: &[],
    },
];

/// The file of functions that are not traced.
const LEFT_OUT: &str = "notrace";
/// Patterns of that file in each scene: they leave some hundred functions, which are soon hooked.
const FEW: [&str; 9] = [
    "[a-zA-Z]*",
    "_[a-zA-Z0-9]*",
    "__[abce-rt-wyzA-Z0-9]*",
    "__d[a-np-z_]*",
    "__do_[a-rt-z]*",
    "__s[a-df-z_]*",
    "__x[a-z_]*",
    "__*_[a-fh-rt-z]*",
    "__*_sys_*_*",
];

/// System calls that are not made here; the first is made on purpose.
const QUIET: [&str; 10] = [
    "getppid",
    "setdomainname",
    "sethostname",
    "swapoff",
    "swapon",
    "setfsgid",
    "setfsuid",
    "setpriority",
    "setregid",
    "setreuid",
];
/// Patterns of such system calls.
const PATTERNS: &[&str] = &["__*_sys_set*name", "__*_sys_setfs?id", "__*_sys_swap*"];
/// The file of recorded events.
pub const RECORDED: &str = "trace";
/// Number of times that the first of them is called.
const CALLS: u32 = 5;

/// The machine in the state of a scene.
pub struct Stage {
    world: World,
    module: &'static str,
    scene: Option<&'static Scene>,
    is_verbose: bool,
    /// The state without an operation's preparation.
    base: State,
    before: State,
}

impl Stage {
    /// Returns the machine; the module is loaded from this file.
    pub fn new(module: &'static str, is_verbose: bool) -> Result<Self> {
        let is_quiet = |name: &str| {
            let names = ["__do_sys_", "__se_sys_", "__x64_sys_"];
            let call = names.iter().find_map(|begin| name.strip_prefix(begin));
            call.is_some_and(|call| QUIET.contains(&call))
        };
        let world = World::quiet(is_quiet, PATTERNS)?;
        world.functions().get(2).context("too few functions")?;
        Ok(Self {
            world,
            module,
            scene: None,
            is_verbose,
            base: State::default(),
            before: State::default(),
        })
    }

    /// Returns the machine.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Returns the module's file.
    pub fn module(&self) -> &'static str {
        self.module
    }

    /// Returns the state before an operation.
    pub fn before(&self) -> &State {
        &self.before
    }

    /// Unloads the modules.
    pub fn unload(&self) -> Result<()> {
        for name in [OTHER, "rust_ftrace"] {
            if is_loaded(name) {
                unload(name).with_context(|| format!("cannot unload {name}"))?;
            }
        }
        Ok(())
    }

    /// Sets the machine up for `scene`, from anew.
    pub fn set(&mut self, scene: &'static Scene) -> Result<()> {
        self.scene = Some(scene);
        self.unload()?;
        if scene.is_loaded {
            load(Path::new(self.module), &[]).context("cannot load the module")?;
            let path = Path::new(DIRECTORY).join(LEFT_OUT);
            put(&path, &FEW.join(" "), true).context(LEFT_OUT)?;
            for (name, data) in scene.written {
                self.append(name, data)?;
            }
        }
        self.record()?;
        self.base = State::take().common(State::take());
        self.before = self.base.clone();
        Ok(())
    }

    /// Appends the text of a scene, with functions of this kernel.
    fn append(&self, name: &str, data: &str) -> Result<()> {
        let functions = self.world.functions();
        let first = functions.iter().find(|name| name.ends_with("_getppid"));
        let first = first.context("getppid cannot be traced")?;
        let mut others = functions.iter().filter(|name| *name != first);
        let data = data.replacen('A', first, 1);
        let data = data.replacen('B', others.next().map_or("", String::as_str), 1);
        let data = data.replacen('C', others.next().map_or("", String::as_str), 1);
        put(&Path::new(DIRECTORY).join(name), &data, false)
            .with_context(|| format!("{data} > {name}"))
    }

    /// Records events, always the same number, on a CPU that is always the same: an operation may
    /// be on the events of one.
    fn record(&self) -> Result<()> {
        let trace = Path::new(DIRECTORY).join(RECORDED);
        if trace.exists() {
            let all = thread::sched_getaffinity(None)?;
            let mut first = thread::CpuSet::new();
            first.set(0);
            thread::sched_setaffinity(None, &first)?;
            put(&trace, "", true)?;
            for _ in 0..CALLS {
                let _ = rustix::process::getppid();
            }
            thread::sched_setaffinity(None, &all)?;
        }
        Ok(())
    }

    /// Prepares the needs of an operation.
    pub fn prepare(&mut self, operation: &Operation) -> Result<()> {
        self.before = self.base.clone();
        if operation.needs_preparation() {
            operation.prepare()?;
            let now = State::take();
            self.before = now.common(State::take());
        }
        Ok(())
    }

    /// Goes back to the scene: by writing the old text to each file, or else from anew.
    pub fn restore(&mut self) -> Result<()> {
        let Some(scene) = self.scene else {
            return Ok(());
        };
        if is_loaded(OTHER) {
            unload(OTHER)?;
        }
        if is_loaded("rust_ftrace") != scene.is_loaded {
            return self.set(scene);
        }
        if !scene.is_loaded {
            return Ok(());
        }
        for entry in fs::read_dir(Path::new(DIRECTORY).join("instances"))? {
            fs::remove_dir(entry?.path())?;
        }
        let now = State::take();
        if self.base.differs(&now).is_empty() {
            self.before = self.base.clone();
            return Ok(());
        }
        for (path, text) in self.base.files_that_differ(&now) {
            // Text that cannot be written leaves the state different, which is seen.
            let _ = match path.ends_with(LEFT_OUT) {
                true => put(&path, &FEW.join(" "), true),
                false => say_again(&path, text),
            };
        }
        // A tracer that began with the filter would end with it.
        let tracer = Path::new(DIRECTORY).join("current_tracer");
        let name = fs::read_to_string(&tracer)?;
        put(&tracer, name.trim_end(), true)?;
        let mut now = State::take();
        let mut base = self.base.clone();
        if base.says_another(RECORDED, &now) {
            // Recorded events cannot be written.
            self.record()?;
            now = State::take();
            base.take_over(RECORDED, &now);
        }
        if !base.differs(&now).is_empty() {
            if self.is_verbose {
                println!("#   from anew, for {}", base.differs(&now));
            }
            return self.set(scene);
        }
        self.base = base;
        self.before = self.base.clone();
        Ok(())
    }
}

fn put(path: &Path, data: &str, cut: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    match cut {
        true => options.write(true).truncate(true),
        false => options.append(true),
    };
    options.open(path)?.write_all(data.as_bytes())
}

/// Writes to a file the text that it is to have.
fn say_again(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.unwrap_or_default();
    match name {
        "trace" => return Ok(()),
        "snapshot" => return put(path, "0", true),
        "error_log" => return put(path, "", true),
        "trace_options" => {
            for word in text.split_whitespace() {
                put(path, word, true)?;
            }
            return Ok(());
        }
        _ => {}
    }
    if let Some((_, rest)) = text.split_once('[') {
        if let Some((word, _)) = rest.split_once(']') {
            return put(path, word, true);
        }
    }
    // Commands are removed one by one.
    for line in input::said(path).lines() {
        if line.contains(':') && !line.contains(":mod:") && !line.starts_with('#') {
            let _ = put(path, &format!("!{line}"), false);
        }
    }
    let is_words = !text.starts_with("no ");
    let lines = text
        .lines()
        .filter(|line| is_words && !line.starts_with('#'));
    let (more, plain): (Vec<_>, Vec<_>) = lines.partition(|line| line.contains(':'));
    put(path, &plain.join("\n"), true)?;
    for line in more {
        put(path, line.trim_end_matches(":unlimited"), false)?;
    }
    Ok(())
}
