// SPDX-License-Identifier: GPL-2.0

//! Operations on the module's files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;
use rustix::pipe::{splice, SpliceFlags};

use crate::input;
use crate::run::Hand;
use crate::world::{self, DIRECTORY, INSTANCES};

/// Maximum time to wait for something to read.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

/// Names of files that start the hooking of functions; [`OFF`] has the values that end it.
const STARTERS: [&str; 2] = ["current_tracer", "function_profile_enabled"];
const OFF: [&[u8]; 2] = [b"nop", b"0"];

impl Hand {
    /// Returns the directory of an instance, or the module's own.
    fn instance(&mut self) -> PathBuf {
        let directory = PathBuf::from(DIRECTORY);
        match self.random.u8(0..2) {
            0 => directory,
            _ => directory.join("instances").join(self.instance_name()),
        }
    }

    fn instance_name(&mut self) -> &'static str {
        INSTANCES[self.random.usize(0..INSTANCES.len())]
    }

    /// Returns one of the files of an instance that have these names.
    fn one_of(&mut self, names: &[&'static str]) -> (&'static str, PathBuf) {
        let name = names[self.random.usize(0..names.len())];
        (name, self.instance().join(name))
    }

    fn open(&mut self, path: &Path, options: &mut OpenOptions) -> io::Result<File> {
        let file = options
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(path);
        if file.is_err() {
            // An instance is gone, or the module.
            self.forget_files();
        }
        file
    }

    fn put(&mut self, path: &Path, data: &[u8]) -> io::Result<()> {
        let is_all = || data.iter().all(|byte| b" \n*".contains(byte));
        if !self.world.takes_all && path.ends_with("filter") && is_all() {
            return Err(io::Error::other("all functions are left out"));
        }
        if STARTERS.iter().any(|name| path.ends_with(name)) && !OFF.contains(&data) {
            narrow(&path.with_file_name("filter"), self)?;
        }
        let mut options = OpenOptions::new();
        match self.random.u8(0..3) {
            0 => options.append(true),
            1 => options.write(true).truncate(true),
            _ => options.write(true),
        };
        self.put_by(path, &mut options, data)
    }

    fn put_by(&mut self, path: &Path, options: &mut OpenOptions, data: &[u8]) -> io::Result<()> {
        self.open(path, options)?.write_all(data)?;
        self.wrote(path);
        Ok(())
    }
}

/// Writes a function to a list that is empty, which mostly stands for all functions.
pub fn narrow(list: &Path, hand: &mut Hand) -> io::Result<()> {
    let is_empty = fs::read_to_string(list)?
        .lines()
        .all(|line| line.starts_with('#'));
    let is_for_all = hand.random.u32(0..world::ALL_IN) == 0 && hand.world.takes_all;
    if is_empty && !is_for_all {
        // A pattern need not match on every machine, and one that does not leaves the list empty.
        let written = fs::write(list, hand.world.function(&mut hand.random));
        if written.is_err() {
            let _ = fs::write(list, "vfs_*");
        }
    }
    Ok(())
}

/// Writes valid input.
pub fn write(hand: &mut Hand) -> io::Result<()> {
    let path = hand.file()?;
    let data = input::valid(&path, &hand.world, &mut hand.random);
    hand.put(&path, &data)
}

/// Writes invalid input.
pub fn garble(hand: &mut Hand) -> io::Result<()> {
    let path = hand.file()?;
    let data = input::invalid(&hand.world, &mut hand.random);
    hand.put(&path, &data)
}

/// Sets the tracer and its functions, the most common settings.
pub fn trace(hand: &mut Hand) -> io::Result<()> {
    const NAMES: [&str; 10] = [
        "current_tracer",
        "current_tracer",
        "filter",
        "notrace",
        "graph_function",
        "tracing_on",
        "options/profile-contexts",
        "options/profile-wait",
        "options/funcgraph-wait",
        // Its counts begin from zero.
        "trace_stat/function",
    ];
    let (name, path) = hand.one_of(&NAMES);
    let data = match name {
        "trace_stat/function" => Vec::new(),
        _ if name == "tracing_on" || name.starts_with("options/") => {
            vec![b"01"[hand.random.usize(0..2)]]
        }
        _ => input::valid(&path, &hand.world, &mut hand.random),
    };
    hand.put(&path, &data)
}

/// Changes buffers: their sizes, their contents, and which of two is live.
pub fn buffers(hand: &mut Hand) -> io::Result<()> {
    const NAMES: [&str; 6] = [
        "buffer_size_kb",
        "per_cpu/cpu1/buffer_size_kb",
        "buffer_subbuf_size_kb",
        "snapshot",
        "trace",
        "trace",
    ];
    let (name, path) = hand.one_of(&NAMES);
    let data = match name {
        "trace" => Vec::new(),
        "snapshot" => vec![b"012"[hand.random.usize(0..3)]],
        _ => input::valid(&path, &hand.world, &mut hand.random),
    };
    let mut options = OpenOptions::new();
    hand.put_by(&path, options.write(true).truncate(true), &data)
}

/// Reads a file, whole or in part, from its start or not.
pub fn read(hand: &mut Hand) -> io::Result<()> {
    let path = hand.file()?;
    let mut file = hand.open(&path, OpenOptions::new().read(true))?;
    let mut left = match hand.random.u8(0..4) {
        0 => 1 << 20,
        _ => hand.random.usize(0..20_000),
    };
    if hand.random.u8(0..8) == 0 {
        file.seek(SeekFrom::Start(hand.random.u64(0..5000)))?;
    }
    let mut bytes = vec![0; hand.random.usize(1..9000)];
    while left > 0 {
        match file.read(&mut bytes)? {
            0 => break,
            got => left = left.saturating_sub(got),
        }
    }
    Ok(())
}

/// Moves events to a pipe, once there are some.
pub fn move_events(hand: &mut Hand) -> io::Result<()> {
    const NAMES: [&str; 3] = ["raw", "trace_pipe_raw", "trace_pipe"];
    let name = NAMES[hand.random.usize(0..NAMES.len())];
    let cpu = hand.random.u8(0..2);
    let path = hand.instance().join(format!("per_cpu/cpu{cpu}/{name}"));
    let file = hand.open(&path, OpenOptions::new().read(true))?;
    let mut polled = [PollFd::new(&file, PollFlags::IN)];
    poll(&mut polled, Some(&PATIENCE))?;
    let (from, to) = rustix::pipe::pipe()?;
    let flags = SpliceFlags::NONBLOCK;
    let length = hand.random.usize(1..60_000);
    let moved = splice(file.as_fd(), None, to.as_fd(), None, length, flags)?;
    // Only a part of it.
    let mut bytes = vec![0; moved.min(hand.random.usize(1..60_000))];
    rustix::io::read(&from, &mut bytes)?;
    Ok(())
}

/// Starts a process that waits for events, and kills it.
pub fn wait(hand: &mut Hand) -> io::Result<()> {
    const NAMES: [&str; 5] = [
        "trace_pipe",
        "per_cpu/cpu0/raw",
        "per_cpu/cpu1/trace_pipe_raw",
        "per_cpu/cpu0/trace_pipe",
        "free_buffer",
    ];
    let (_, path) = hand.one_of(&NAMES);
    let mut command = Command::new("dd");
    command
        .arg(format!("if={}", path.display()))
        .arg("of=/dev/null");
    hand.end_soon(command.arg("bs=4000"), 200)
}

/// Makes an instance, or removes one.
pub fn instances(hand: &mut Hand) -> io::Result<()> {
    let path = Path::new(DIRECTORY)
        .join("instances")
        .join(hand.instance_name());
    hand.forget_files();
    match hand.random.u8(0..3) {
        0 => fs::remove_dir(path),
        _ => fs::create_dir(path),
    }
}
