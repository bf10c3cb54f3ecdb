// SPDX-License-Identifier: GPL-2.0

//! Processes that are told to end, and are seen to.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{kill_process, Pid, Signal};

use crate::run::Hand;

/// Time between two looks at a process.
const STEP: Duration = Duration::from_millis(10);
/// Time that a process gets to end by a signal which it can handle, before it is killed.
const GRACE: Duration = Duration::from_secs(30);
/// Such time while the gate is being closed.
const SHORT_GRACE: Duration = Duration::from_secs(2);

const SIGNALS: [(Signal, &str); 3] = [
    (Signal::KILL, "SIGKILL"),
    (Signal::INT, "SIGINT"),
    (Signal::TERM, "SIGTERM"),
];

impl Hand {
    /// Starts a command, and after some ms at most ends it by one of the signals; earlier if
    /// another task waits for this one to leave the gate.
    pub fn end_soon(&mut self, command: &mut Command, most_ms: u64) -> io::Result<()> {
        let silent = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = silent.spawn()?;
        let most = Duration::from_millis(self.random.u64(0..most_ms));
        let (signal, name) = SIGNALS[self.random.usize(0..SIGNALS.len())];
        let start = Instant::now();
        if ends(&mut child, || {
            start.elapsed() < most && !self.is_waited_for()
        })? {
            return Ok(());
        }
        if let Some(pid) = Pid::from_raw(child.id() as i32) {
            // The process may have ended meanwhile.
            let _ = kill_process(pid, signal);
        }
        self.see_end(&mut child, name)
    }

    /// Waits for a process that was told to end; one that does not is killed, which is an error.
    fn see_end(&mut self, child: &mut Child, signal: &str) -> io::Result<()> {
        let told = Instant::now();
        let is_in_time =
            || told.elapsed() < SHORT_GRACE || told.elapsed() < GRACE && !self.is_waited_for();
        if ends(child, is_in_time)? {
            return Ok(());
        }
        let is_early = told.elapsed() < GRACE;
        child.kill()?;
        let killed = Instant::now();
        if !ends(child, || killed.elapsed() < self.patience)? {
            self.survivors.extend(stacks(child.id()));
            return Err(io::Error::other("survived SIGKILL"));
        }
        Err(io::Error::other(match is_early {
            true => "killed for a reload".to_owned(),
            false => format!("slow to end by {signal}"),
        }))
    }
}

/// Waits for the end of a process while `goes_on`; returns whether it came.
fn ends(child: &mut Child, goes_on: impl Fn() -> bool) -> io::Result<bool> {
    loop {
        if child.try_wait()?.is_some() {
            return Ok(true);
        }
        if !goes_on() {
            return Ok(false);
        }
        sleep(STEP);
    }
}

/// Returns the kernel stacks of a process and its children, in lines.
pub fn stacks(pid: u32) -> Vec<String> {
    let mut lines = Vec::new();
    let of_parents = children();
    let mut pids = vec![pid.to_string()];
    while let Some(pid) = pids.pop() {
        let file =
            |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let (name, wchan, stack) = (file("comm"), file("wchan"), file("stack"));
        lines.push(format!("{pid} {} in {wchan}", name.trim()));
        lines.extend(stack.lines().map(|line| format!("  {line}")));
        pids.extend(of_parents.get(&pid).into_iter().flatten().cloned());
    }
    lines
}

/// Returns the children of each process, also where the kernel has no file for that.
pub fn children() -> BTreeMap<String, Vec<String>> {
    let mut of_parents: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for name in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
        if !name.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let stat = fs::read_to_string(format!("/proc/{name}/stat")).unwrap_or_default();
        // Behind the name, which may have anything in it, are the state and the parent.
        let behind = stat.rsplit(')').next().unwrap_or_default();
        if let Some(parent) = behind.split_whitespace().nth(1) {
            of_parents.entry(parent.to_owned()).or_default().push(name);
        }
    }
    of_parents
}

/// Makes SIGINT end the processes that are started from here: a shell that runs us in the
/// background has it ignored, and they inherit that.
#[allow(unsafe_code)]
pub fn heed_interrupts() {
    // SAFETY: The default action is no handler, so no code can run in a wrong place.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
}
