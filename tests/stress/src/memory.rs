// SPDX-License-Identifier: GPL-2.0

//! Memory that runs out.

use std::fs;
use std::io;
use std::process::{Child, Command, Stdio};

use anyhow::Result;

use crate::run::Hand;

/// Size of a piece that is allocated at once.
const PIECE: usize = 4 << 20;

/// Size of what the second eater takes, in MiB.
const SECOND: usize = 32;

/// Starts a process that takes much memory, or all that there is, for which it is killed.
///
/// Where it is slow to die, the kernel kills another one soon: there is a second, which takes a
/// little, for that.
pub fn pressure(hand: &mut Hand) -> io::Result<()> {
    let most = match hand.random.u8(0..6) {
        0 => usize::MAX,
        _ => hand.random.usize(16..400),
    };
    let second = eater(SECOND, Stdio::piped())?;
    let first = eater(most, Stdio::null())?;
    // The second one's input ends when it is waited for.
    for mut eater in [first, second] {
        match eater.wait()?.code() {
            // It may have been killed.
            Some(0) | None => {}
            Some(code) => return Err(io::Error::other(format!("exit code {code}"))),
        }
    }
    Ok(())
}

fn eater(most: usize, stdin: Stdio) -> io::Result<Child> {
    let mut eater = Command::new("/proc/self/exe");
    eater.args(["eater", &most.to_string()]).stdin(stdin);
    eater.stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

/// Takes so many MiB, or as many as it can until it is killed, and keeps them until its input ends.
pub fn eat(most: usize) -> Result<()> {
    // qemu/asked-for.awk knows the process by its name.
    fs::write("/proc/self/comm", "stress-eater")?;
    // No other process is to be killed for it.
    fs::write("/proc/self/oom_score_adj", "1000")?;
    let mut all = Vec::new();
    while all.len() * (PIECE >> 20) < most {
        all.push(vec![1_u8; PIECE]);
    }
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}
