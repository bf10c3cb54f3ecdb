// SPDX-License-Identifier: GPL-2.0

//! Memory that runs out.

use std::fs;
use std::io;
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::run::Hand;

/// Size of a piece that is allocated at once.
const PIECE: usize = 4 << 20;

/// Starts a process that takes much memory, or all that there is, for which it is killed.
pub fn pressure(hand: &mut Hand) -> io::Result<()> {
    let most = match hand.random.u8(0..6) {
        0 => usize::MAX,
        _ => hand.random.usize(16..400),
    };
    let mut eater = Command::new("/proc/self/exe");
    eater
        .args(["eater", &most.to_string()])
        .stdin(Stdio::null());
    let silent = eater.stdout(Stdio::null()).stderr(Stdio::null());
    match silent.status()?.code() {
        // It may have been killed.
        Some(0) | None => Ok(()),
        Some(code) => Err(io::Error::other(format!("exit code {code}"))),
    }
}

/// Takes so many MiB, or as many as it can until it is killed.
pub fn eat(most: usize) -> Result<()> {
    // qemu/asked-for.awk knows the process by its name.
    fs::write("/proc/self/comm", "stress-eater")?;
    // No other process is to be killed for it.
    fs::write("/proc/self/oom_score_adj", "1000")?;
    let mut all = Vec::new();
    while all.len() * (PIECE >> 20) < most {
        all.push(vec![1_u8; PIECE]);
    }
    Ok(())
}
