// SPDX-License-Identifier: GPL-2.0

//! Faults, the injectors: the kernel's, or the module when it is built for it.

use std::cell::Cell;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{bail, Context, Result};
use clap::ValueEnum;
use rustix::fs::OFlags;

use super::operation::{load, unload};
use super::text_of;
use crate::world::{DIRECTORY, MODULE};

/// The source of faults.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum By {
    /// The kernel, in the task that asks.
    Task,
    /// The kernel, in the threads of the kernel that work for the task. (The module asks for
    /// nothing in an interrupt.)
    Kthread,
    /// The module: it asks a counter at each place where it allocates or registers by itself.
    Own,
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Task => "task",
            Self::Kthread => "kthread",
            Self::Own => "own",
        })
    }
}

/// Makes the n-th request fail.
pub trait Injector {
    /// Returns the module that the injector works on.
    fn module(&self) -> &'static str;

    /// Returns whether most operations make no request that it could fail.
    fn is_rare(&self) -> bool {
        false
    }

    /// Makes the n-th request from now on fail.
    fn arm(&self, number: u32) -> Result<()>;

    /// Returns the module's parameters for that, if it is to be loaded.
    fn parameters(&self, number: u32) -> Vec<String> {
        let _ = number;
        Vec::new()
    }

    /// Lets all requests succeed again. Returns the place of the one that failed, if one did; empty
    /// if that is not known.
    fn disarm(&self, has_failed: bool) -> Result<Option<String>>;
}

impl By {
    /// Sets the injector up.
    pub fn make(self) -> Result<Box<dyn Injector>> {
        Ok(match self {
            Self::Task => {
                aim()?;
                Box::new(Task)
            }
            Self::Kthread => {
                aim()?;
                Box::new(Kthread::new()?)
            }
            Self::Own => Box::new(Own(Log::open()?)),
        })
    }
}

const DEBUGFS: &str = "/sys/kernel/debug";
const FAIL_NTH: &str = "/proc/thread-self/fail-nth";
/// The kinds of the kernel's faults.
const KINDS: [&str; 3] = ["failslab", "fail_page_alloc", "fail_usercopy"];

/// Aims all faults at requests of modules: ours is the only one at work.
fn aim() -> Result<()> {
    let symbols = fs::read_to_string("/proc/kallsyms")?;
    let address = |name: &str| {
        let line = symbols
            .lines()
            .find(|line| line.split(' ').nth(2) == Some(name));
        line.and_then(|line| line.split(' ').next())
    };
    let end = address("_end").context("the kernel does not say where it ends")?;
    // The notes of kmemleak on an allocation are not the module's, and may go without memory.
    let checker = (address("__create_object"), address("kmemleak_scan"));
    for kind in KINDS {
        let set = |name: &str, value: &str| {
            let path = format!("{DEBUGFS}/{kind}/{name}");
            fs::write(&path, value).with_context(|| path)
        };
        set("probability", "0")?;
        set("verbose", "0")?;
        set("interval", "1")?;
        set("times", "-1")?;
        set("stacktrace-depth", "32")?;
        set("require-start", &format!("0x{end}"))?;
        set("require-end", "0xffffffffff000000")?;
        if let (Some(start), Some(end)) = checker {
            set("reject-start", &format!("0x{start}"))?;
            set("reject-end", &format!("0x{end}"))?;
        }
    }
    for kind in &KINDS[..2] {
        fs::write(format!("{DEBUGFS}/{kind}/ignore-gfp-wait"), "N")?;
    }
    fs::write(format!("{DEBUGFS}/fail_page_alloc/min-order"), "0")?;
    fs::write(format!("{DEBUGFS}/fail_page_alloc/ignore-gfp-highmem"), "N")?;
    Ok(())
}

struct Task;

impl Injector for Task {
    fn module(&self) -> &'static str {
        MODULE
    }

    fn arm(&self, number: u32) -> Result<()> {
        Ok(fs::write(FAIL_NTH, number.to_string())?)
    }

    fn disarm(&self, _has_failed: bool) -> Result<Option<String>> {
        let left = text_of(FAIL_NTH).context("no fail-nth")?;
        fs::write(FAIL_NTH, "0")?;
        Ok((left.trim() == "0").then(String::new))
    }
}

/// The kernel counts requests as long as one is to fail, and goes on from earlier ones. It fails
/// the first whose number is a multiple of an interval: the interval is the number itself.
#[derive(Default)]
struct Kthread {
    counted: Cell<u64>,
    /// The number of the request that is to fail.
    armed: Cell<u64>,
}

impl Kthread {
    /// Has the kernel look at its own threads alone, and at those that they will start.
    fn new() -> Result<Self> {
        for process in fs::read_dir("/proc")? {
            let path = process?.path();
            // Only a thread of the kernel has no program. (One may end meanwhile.)
            if path.join("make-it-fail").exists() && fs::read_link(path.join("exe")).is_err() {
                let _ = fs::write(path.join("make-it-fail"), "1");
            }
        }
        let starter = "/proc/2/make-it-fail";
        if text_of(starter).is_none_or(|text| text.trim() != "1") {
            bail!("{starter} is not 1");
        }
        Self::set("task-filter", "Y")?;
        // With an interval of 1 nothing is counted.
        let this = Self::default();
        this.arm(2)?;
        this.disarm(false)?;
        Ok(this)
    }

    fn set(name: &str, value: impl fmt::Display) -> Result<()> {
        let path = format!("{DEBUGFS}/failslab/{name}");
        fs::write(&path, value.to_string()).with_context(|| path)
    }

    fn has_failed() -> Result<bool> {
        let left = text_of(&format!("{DEBUGFS}/failslab/times")).context("no failslab")?;
        Ok(left.trim() == "0")
    }

    /// Makes requests of our own until the one that is to fail comes: how many came before is not
    /// known otherwise.
    fn catch_up() -> Result<()> {
        let own = |value| fs::write("/proc/self/make-it-fail", value);
        let status = format!("{DIRECTORY}/status");
        own("1")?;
        while !Self::has_failed()? {
            if Path::new(&status).exists() {
                let _ = fs::read(&status);
            } else if load(Path::new(MODULE), &[]).is_ok() {
                // Not loaded, as it was.
                unload("rust_ftrace")?;
            }
        }
        Ok(own("0")?)
    }
}

impl Injector for Kthread {
    fn module(&self) -> &'static str {
        MODULE
    }

    fn is_rare(&self) -> bool {
        true
    }

    fn arm(&self, number: u32) -> Result<()> {
        self.armed.set(self.counted.get() + u64::from(number));
        Self::set("interval", self.armed.get())?;
        Self::set("times", 1)?;
        Self::set("probability", 100)
    }

    fn disarm(&self, _has_failed: bool) -> Result<Option<String>> {
        let has_failed = Self::has_failed()?;
        if !has_failed {
            Self::catch_up()?;
        }
        Self::set("probability", 0)?;
        self.counted.set(self.armed.get());
        Ok(has_failed.then(String::new))
    }
}

/// The kernel's log, from the end of the last read.
pub struct Log(File);

impl Log {
    /// Opens it at its end.
    pub fn open() -> Result<Self> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32);
        let log = Self(options.open("/dev/kmsg")?);
        log.lines(|_| ());
        Ok(log)
    }

    /// Returns whether any line has this in it, of those that were not read yet.
    pub fn has(&self, text: &str) -> bool {
        let mut has = false;
        self.lines(|line| has |= line.contains(text));
        has
    }

    /// Calls `each` with each line that was not read yet.
    fn lines(&self, mut each: impl FnMut(&str)) {
        let mut record = vec![0; 8192];
        // Each read is a line; lines that were overwritten meanwhile give one read an error.
        loop {
            match (&self.0).read(&mut record) {
                Ok(0) => break,
                Ok(length) => each(&String::from_utf8_lossy(&record[..length])),
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
                Err(_) => break,
            }
        }
    }
}

struct Own(Log);

const NTH: &str = "/sys/module/rust_ftrace/parameters/fail_nth";

impl Own {
    /// Returns the last place that the module reported, of those that were not read yet.
    fn place(&self) -> Option<String> {
        let mut place = None;
        self.0.lines(|line| {
            if let Some((_, rest)) = line.split_once("rust_ftrace: fault at ") {
                place = rest.lines().next().map(str::to_owned);
            }
        });
        place
    }
}

impl Injector for Own {
    fn module(&self) -> &'static str {
        "/rust_ftrace_faults.ko"
    }

    fn arm(&self, number: u32) -> Result<()> {
        self.place();
        // When the module is not loaded yet, the number is a parameter.
        match text_of(NTH) {
            Some(_) => Ok(fs::write(NTH, number.to_string())?),
            None => Ok(()),
        }
    }

    fn parameters(&self, number: u32) -> Vec<String> {
        vec![format!("fail_nth={number}")]
    }

    fn disarm(&self, _has_failed: bool) -> Result<Option<String>> {
        if text_of(NTH).is_some() {
            fs::write(NTH, "0")?;
        }
        Ok(self.place())
    }
}
