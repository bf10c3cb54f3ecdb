// SPDX-License-Identifier: GPL-2.0

//! Probes of other users, on functions that ours may trace.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::run::Hand;
use crate::world::{World, TRACEFS};

/// Number of probes of each kind.
const PROBES: u8 = 8;

/// Adds a line to a file of tracefs.
pub fn append(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new()
        .append(true)
        .open(path)?
        .write_all(text.as_bytes())
}

/// Makes, removes, or switches on or off one of some probes; `kinds` are their letters, as `file`
/// takes them.
fn probe(hand: &mut Hand, file: &str, group: &str, kinds: [&str; 2]) -> io::Result<()> {
    let file = Path::new(TRACEFS).join(file);
    let name = format!("{group}/p{}", hand.random.u8(0..PROBES));
    let enable: PathBuf = [TRACEFS, "events", &name, "enable"].iter().collect();
    match hand.random.u8(0..4) {
        0 => fs::write(enable, "1"),
        1 => fs::write(enable, "0"),
        2 => append(&file, &format!("-:{name}\n")),
        _ => {
            let [letter, end] = kinds;
            let function = hand.world.function(&mut hand.random);
            append(&file, &format!("{letter}:{name} {function}{end}\n"))
        }
    }
}

/// Probes by breakpoints, or by ftrace where that is.
pub fn kprobes(hand: &mut Hand) -> io::Result<()> {
    let letter = ["p", "r"][hand.random.usize(0..2)];
    probe(hand, "kprobe_events", "stress_k", [letter, ""])
}

/// Returns a reason why there are none.
pub fn no_kprobes(_: &World) -> Option<String> {
    no_file("kprobe_events")
}

/// Probes by fprobe, which shares what function_graph takes. All have a return: those without one
/// may be called for the return of others (docs/upstream/fprobe-return-null.md).
pub fn fprobes(hand: &mut Hand) -> io::Result<()> {
    probe(hand, "dynamic_events", "stress_f", ["f", "%return"])
}

/// Returns a reason why there are none.
pub fn no_fprobes(_: &World) -> Option<String> {
    no_file("dynamic_events")
}

fn no_file(name: &str) -> Option<String> {
    let path = Path::new(TRACEFS).join(name);
    (!path.exists()).then(|| format!("no {}", path.display()))
}
