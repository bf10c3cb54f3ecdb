// SPDX-License-Identifier: GPL-2.0

//! Operations on the machine: CPUs that come and go, sleep, modules that are loaded and unloaded.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::files::narrow;
use crate::others::append;
use crate::run::Hand;
use crate::world::{online, World, MODULE, TRACEFS};

/// Takes a CPU away, or gives it back.
pub fn cpus(hand: &mut Hand) -> io::Result<()> {
    let cpu = hand.world.cpus[hand.random.usize(0..hand.world.cpus.len())];
    fs::write(online(cpu), [b"01"[hand.random.usize(0..2)]])
}

/// Returns a reason why no CPU can be taken away.
pub fn no_cpus(world: &World) -> Option<String> {
    world
        .cpus
        .is_empty()
        .then(|| "no CPU can be taken away".into())
}

const PM_TEST: &str = "/sys/power/pm_test";
const PM_STATE: &str = "/sys/power/state";

/// Goes to sleep up to some point, and wakes up.
pub fn suspend(hand: &mut Hand) -> io::Result<()> {
    const POINTS: [&str; 4] = ["freezer", "freezer", "devices", "processors"];
    // In s.
    fs::write("/sys/module/suspend/parameters/pm_test_delay", "1")?;
    fs::write(PM_TEST, POINTS[hand.random.usize(0..POINTS.len())])?;
    let state = fs::read_to_string(PM_STATE)?;
    let state = state
        .split_whitespace()
        .next()
        .unwrap_or("freeze")
        .to_owned();
    fs::write(PM_STATE, state)
}

/// Returns a reason why the machine cannot go to sleep.
pub fn no_suspend(_: &World) -> Option<String> {
    let is_there = Path::new(PM_TEST).exists();
    (!is_there).then(|| format!("no {PM_TEST} (CONFIG_PM_DEBUG)"))
}

fn run(words: &[&str]) -> io::Result<()> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null());
    let output = command.output()?;
    match output.status.success() {
        true => Ok(()),
        // busybox prints the reason in words.
        false => Err(io::Error::other(reason(&output.stderr))),
    }
}

/// Returns the end of the output of a program that failed.
fn reason(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let last = said.trim().rsplit(": ").next().unwrap_or_default();
    last.to_owned()
}

/// Loads a module of the kernel, or unloads it.
pub fn modules(hand: &mut Hand) -> io::Result<()> {
    const NAMES: [&str; 4] = ["cpuid", "msr", "dummy", "known_calls"];
    let name = NAMES[hand.random.usize(0..NAMES.len())];
    match hand.random.u8(0..2) {
        0 => run(&["rmmod", name]),
        _ => {
            let release = rustix::system::uname();
            let release = release.release().to_string_lossy();
            let own = format!("/lib/modules/{name}.ko");
            let file = match Path::new(&own).exists() {
                true => own,
                false => format!("/lib/modules/{release}/{name}.ko"),
            };
            run(&["insmod", &file])
        }
    }
}

/// Times that loading our module is tried again.
const RETRIES: usize = 5;

/// Unloads our module, and loads it, with parameters or without; mostly while no task has a file of
/// it open.
pub fn reload(hand: &mut Hand) -> io::Result<()> {
    let gate = hand.gate.clone();
    let _alone = match hand.random.u8(0..4) {
        0 => None,
        _ => {
            let start = Instant::now();
            let alone = gate.close()?;
            hand.waited += start.elapsed();
            Some(alone)
        }
    };
    let end = run(&["rmmod", "rust_ftrace"]);
    hand.forget_files();
    let parameters: &[&str] = match hand.random.u8(0..4) {
        0 => &["tracer=function", "filter=vfs_*", "buffer_size_kb=256"],
        1 => &["tracer=function_graph", "filter=mutex_*"],
        2 => &["tracer=no_such_tracer"],
        _ => &[],
    };
    let start = run(&[&["insmod", MODULE], parameters].concat());
    if end.is_ok() && start.is_err() {
        // A parameter was refused, or there was no memory. Others have nothing to do until it is
        // there again.
        let _is_back = (0..RETRIES).any(|_| run(&["insmod", MODULE]).is_ok());
    }
    // Mostly the module is in use, and stays loaded.
    match (end, start) {
        (Ok(()), start) => start,
        (end, _) => end,
    }
}

/// Loads the kernel's sample of a live patch, or takes it back.
pub fn live_patch(hand: &mut Hand) -> io::Result<()> {
    match hand.random.u8(0..3) {
        0 => run(&["insmod", PATCH]),
        1 => fs::write("/sys/kernel/livepatch/livepatch_sample/enabled", "0"),
        _ => run(&["rmmod", "livepatch_sample"]),
    }
}

const PATCH: &str = "/lib/modules/livepatch-sample.ko";

/// Returns a reason why there is no live patch.
pub fn no_live_patch(_: &World) -> Option<String> {
    let is_there = Path::new("/sys/kernel/livepatch").exists() && Path::new(PATCH).exists();
    (!is_there).then(|| "the kernel has no live patches, or its sample was not built".into())
}

/// Uses the kernel's own tracers on functions that ours may trace.
pub fn kernel_tracers(hand: &mut Hand) -> io::Result<()> {
    let function = hand.world.function(&mut hand.random).to_owned();
    let (name, text) = match hand.random.u8(0..6) {
        0 => ("current_tracer", "function".into()),
        1 => ("current_tracer", "function_graph".into()),
        2 | 3 => ("set_ftrace_filter", function),
        _ => ("current_tracer", "nop".to_owned()),
    };
    // All functions, by two tracers, leave little to the rest.
    let text = if text == "*" { "vfs_*".into() } else { text };
    let path = Path::new(TRACEFS).join(name);
    if name == "current_tracer" && text != "nop" {
        narrow(&path.with_file_name("set_ftrace_filter"), hand)?;
    }
    if name != "set_ftrace_filter" {
        return fs::write(path, text);
    }
    // If a word is refused, a list that it was to replace is left empty: that stands for all.
    fs::write(&path, "vfs_*")?;
    append(&path, &text)
}
