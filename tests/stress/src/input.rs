// SPDX-License-Identifier: GPL-2.0

//! Input for files: the present content of a file that is not known here, and words that often mean
//! something.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use fastrand::Rng;
use rustix::fs::OFlags;

use crate::world::World;

/// Maximum number of bytes of a file that are read.
const MOST: u64 = 4096;
/// Names of files that take functions.
const LISTS: [&str; 4] = ["filter", "notrace", "graph_function", "graph_notrace"];
/// Names of files that take tasks.
const TASKS: [&str; 3] = ["pid", "notrace_pid", "set_event_pid"];

/// Returns input that means something to a file.
pub fn valid(path: &Path, world: &World, random: &mut Rng) -> Vec<u8> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.unwrap_or_default();
    let is_option = path
        .parent()
        .is_some_and(|parent| parent.ends_with("options"));
    let text = match name {
        _ if is_option => random.u8(0..2).to_string(),
        _ if LISTS.contains(&name) => functions(world, random),
        _ if TASKS.contains(&name) => tasks(random),
        "current_tracer" => a_word(&path.with_file_name("available_tracers"), random),
        "trace_clock" | "trace_options" => a_word(path, random),
        "tracing_cpumask" => format!("{:x}", random.u8(1..4)),
        // The guest has little memory, and many buffers.
        "buffer_size_kb" | "buffer_total_size_kb" => random.u32(1..3000).to_string(),
        "buffer_subbuf_size_kb" => (1_u32 << random.u32(2..7)).to_string(),
        "buffer_percent" => random.u8(0..101).to_string(),
        "budget" => format!(
            "calls {} cpu {}",
            random.u32(0..5_000_000),
            random.u32(0..300)
        ),
        "cgroup" => {
            const WORDS: [&str; 8] = ["", "/", "/one", "/one/two", "/four", "!/one", "!1", "/none"];
            let mut word = || WORDS[random.usize(0..WORDS.len())];
            format!("{} {}", word(), word())
        }
        // An instance that is there, mostly.
        "dump_on_oops" => {
            const WORDS: [&str; 6] = ["0", "1", "2", "1,one", "two=2,one", "2,two,one=orig_cpu"];
            WORDS[random.usize(0..WORDS.len())].to_owned()
        }
        "trace_marker" => "a mark\n".repeat(random.usize(1..40)),
        "trace_marker_raw" => "rawrawraw".repeat(random.usize(1..40)),
        "tracing_errno" => random.choice(ERRNOS).unwrap_or("1").to_owned(),
        "max_depth" | "tracing_thresh" => random.u32(0..20).to_string(),
        _ => match random.u8(0..4) {
            0 => a_word(path, random),
            1 => said(path),
            _ => random.u8(0..4).to_string(),
        },
    };
    text.into_bytes()
}

/// Values of `tracing_errno`.
const ERRNOS: [&str; 4] = ["0", "1", "ENOENT,EAGAIN", "EINVAL"];

/// Returns input that seldom means anything.
pub fn invalid(world: &World, random: &mut Rng) -> Vec<u8> {
    let many = random.usize(1..5000);
    match random.u8(0..8) {
        0 => (0..many).map(|_| random.u8(..)).collect(),
        1 => vec![b' '; many],
        2 => vec![b'*'; many.min(300)],
        3 => random.i64(..).to_string().into_bytes(),
        4 => format!(
            "{}:no_such_command:{}",
            world.function(random),
            random.i32(..)
        )
        .into_bytes(),
        5 => format!("[{}", world.function(random)).into_bytes(),
        6 => format!("{} ", world.function(random))
            .repeat(many / 10)
            .into_bytes(),
        _ => Vec::new(),
    }
}

/// Returns words of a filter: some functions, a command, none, or those of a module.
fn functions(world: &World, random: &mut Rng) -> String {
    const COMMANDS: [&str; 6] = [
        "traceon",
        "traceoff",
        "snapshot:2",
        "stacktrace:20",
        "traceoff:1",
        "cpudump:1",
    ];
    match random.u8(0..12) {
        // No function stands for all, which is wanted seldom.
        0 if random.u8(0..5) == 0 => String::new(),
        1 => format!(
            "{}:{}",
            world.function(random),
            COMMANDS[random.usize(0..COMMANDS.len())]
        ),
        2 => format!("!{}", world.function(random)),
        3 => format!(
            "*:mod:{}",
            ["cpuid", "msr", "dummy", "rust_ftrace"][random.usize(0..4)]
        ),
        _ => {
            let count = random.usize(1..20);
            let names = (0..count).map(|_| world.function(random));
            names.collect::<Vec<_>>().join(" ")
        }
    }
}

fn tasks(random: &mut Rng) -> String {
    match random.u8(0..3) {
        0 => String::new(),
        _ => {
            let count = random.usize(1..5);
            let pids = (0..count).map(|_| random.u32(1..2000).to_string());
            pids.collect::<Vec<_>>().join(" ")
        }
    }
}

/// Returns one of the words of a file.
fn a_word(path: &Path, random: &mut Rng) -> String {
    let text = said(path);
    let words: Vec<&str> = text.split_whitespace().collect();
    let word = words.get(random.usize(0..words.len().max(1)));
    let word = word.copied().unwrap_or_default();
    word.trim_matches(['[', ']']).to_owned()
}

/// Returns the first words of a file; none if it is empty now.
pub fn said(path: &Path) -> String {
    let mut bytes = Vec::new();
    let flags = OFlags::NONBLOCK.bits() as i32;
    if let Ok(file) = OpenOptions::new().read(true).custom_flags(flags).open(path) {
        // The bytes read before an error are used.
        let _ = file.take(MOST).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
