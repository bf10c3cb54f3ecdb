// SPDX-License-Identifier: GPL-2.0

//! The command rftrace, which is started, interrupted and killed.

use std::io;
use std::path::Path;
use std::process::Command;

use crate::run::Hand;
use crate::world::World;

const RFTRACE: &str = "/usr/bin/rftrace";

/// Runs the command; most of the time it is ended before its time.
pub fn rftrace(hand: &mut Hand) -> io::Result<()> {
    let function = hand.world.function(&mut hand.random).to_owned();
    let recording = format!("/tmp/stress.{}.rft", std::process::id());
    let mut command = Command::new(RFTRACE);
    match hand.random.u8(0..5) {
        0 => command.args(["trace", "-a", "-l", &function]),
        1 => command.args(["record", "-o", &recording, "-a", "-l", &function]),
        // -g alone hooks all functions.
        2 => command.args([
            "record", "-o", &recording, "-l", &function, "-g", &function, "--", "ls", "/proc",
        ]),
        3 => command.args(["profile", "-a", "-l", &function]),
        _ => command.args(["report", &recording]),
    };
    hand.end_soon(&mut command, 4000)
}

/// Returns a reason why the command cannot be run.
pub fn no_rftrace(_: &World) -> Option<String> {
    (!Path::new(RFTRACE).exists()).then(|| format!("no {RFTRACE}"))
}
