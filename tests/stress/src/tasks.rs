// SPDX-License-Identifier: GPL-2.0

//! Work that is traced: processes, threads, files, signals.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::run::Hand;
use crate::world::{World, CGROUPS, CGROUP_NAMES};

fn silent(command: &mut Command) -> &mut Command {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
}

/// Starts many processes at once, each of which starts others.
pub fn forks(hand: &mut Hand) -> io::Result<()> {
    let count = hand.random.usize(1..12);
    let start = |_| silent(Command::new("sh").args(["-c", "true & (true; true) & true"])).spawn();
    let children: Vec<_> = (0..count).map(start).collect();
    for child in children {
        child?.wait()?;
    }
    Ok(())
}

/// Starts many threads at once.
pub fn threads(hand: &mut Hand) -> io::Result<()> {
    let count = hand.random.usize(1..20);
    let reads = || fs::read_to_string("/proc/thread-self/stat").map(drop);
    let start = |_| thread::Builder::new().stack_size(64 << 10).spawn(reads);
    let all: Vec<_> = (0..count).map(start).collect();
    for one in all {
        let _ = one?.join();
    }
    Ok(())
}

/// Makes system calls without a pause, on as many CPUs as there are at once.
pub fn calls(hand: &mut Hand) -> io::Result<()> {
    let end = Instant::now() + Duration::from_millis(hand.random.u64(20..200));
    let calls = move || {
        let mut zeros = fs::File::open("/dev/zero")?;
        let mut byte = [0];
        while Instant::now() < end {
            zeros.read_exact(&mut byte)?;
        }
        io::Result::Ok(())
    };
    let all: Vec<_> = (hand.world.cpus.iter().chain([&0]))
        .map(|_| thread::spawn(calls))
        .collect();
    for one in all {
        one.join().unwrap_or(Ok(()))?;
    }
    Ok(())
}

/// Reads and writes files.
pub fn file_work(hand: &mut Hand) -> io::Result<()> {
    let path = format!("/tmp/stress.{}", std::process::id());
    let bytes = vec![7; hand.random.usize(1..50_000)];
    fs::File::create(&path)?.write_all(&bytes)?;
    let mut got = Vec::new();
    fs::File::open(&path)?.read_to_end(&mut got)?;
    fs::rename(&path, format!("{path}.old"))?;
    fs::remove_file(format!("{path}.old"))?;
    // A live patch may have replaced the function that makes its text.
    fs::read_to_string("/proc/cmdline")?;
    for entry in fs::read_dir("/proc/self")?.flatten() {
        let _ = entry.metadata();
    }
    Ok(())
}

/// Sends signals to a process that handles them.
pub fn signals(hand: &mut Hand) -> io::Result<()> {
    let count = hand.random.usize(1..40);
    let script = format!(
        "trap : USR1; (i=0; while [ $i -lt {count} ]; do kill -USR1 $$; i=$((i + 1)); done) & wait; wait"
    );
    hand.end_soon(Command::new("sh").args(["-c", &script]), 300)
}

/// Makes a cgroup, removes one, or moves a process of any kind into one; one in a few with threads
/// that may lie elsewhere.
pub fn cgroups(hand: &mut Hand) -> io::Result<()> {
    let name = CGROUP_NAMES[hand.random.usize(0..CGROUP_NAMES.len())];
    let group = Path::new(CGROUPS).join(name);
    match hand.random.u8(0..8) {
        0 => fs::remove_dir(group),
        1 | 2 => fs::create_dir(group),
        3 => fs::write(group.join("cgroup.type"), "threaded"),
        kind => {
            let file = if kind == 4 {
                "cgroup.threads"
            } else {
                "cgroup.procs"
            };
            let pid = some_task(hand)?;
            fs::write(group.join(file), pid)
        }
    }
}

/// Returns the ID of a process, in words.
fn some_task(hand: &mut Hand) -> io::Result<String> {
    let names = fs::read_dir("/proc")?.flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let tasks: Vec<String> = names
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .collect();
    Ok(tasks[hand.random.usize(0..tasks.len())].clone())
}

/// Returns a reason why there are no cgroups.
pub fn no_cgroups(_: &World) -> Option<String> {
    let is_there = Path::new(CGROUPS).join("cgroup.procs").exists();
    (!is_there).then(|| "the kernel has no cgroups".into())
}
