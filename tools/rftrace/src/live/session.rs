// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A session of tracing from its beginning to its end: an instance that is set up by a plan, and
//! its results.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Child;

use rustix::time::{clock_gettime, ClockId, Timespec};

use super::counting::{self, CountingPlan};
use super::{Directory, Error, OwnInstance, WaitingChild};
use crate::kernel::KernelSymbols;
use crate::recording::{ClockPair, CpuTotals, RecordingEnd, RecordingSettings};
use crate::stream::{Selection, NOISE};

/// Losses in `status` that belong to no CPU.
const ELSEWHERE: [&str; 5] = [
    "lost without buffer",
    "lost while the clock was read",
    "lost while a snapshot was taken",
    "missed returns",
    "calls too deep",
];

/// A description of what is to be traced, and how.
#[derive(Clone, Debug)]
pub struct TracePlan {
    /// `function_graph` or `function`.
    pub tracer: String,
    /// Functions, tasks, depth and threshold.
    pub selection: Selection,
    /// True if arguments of calls are recorded.
    pub args: bool,
    /// True if return values are recorded.
    pub ret: bool,
    /// True if it is recorded what calls waited for.
    pub wait: bool,
    /// The errors whose calls alone are recorded, as `tracing_errno` has them.
    pub errnos: Option<String>,
    /// True if calls in hardware interrupts are not recorded.
    pub no_irqs: bool,
    /// Functions to hook, where they are fewer than those that `selection` names.
    pub hooked: Option<Vec<String>>,
    /// A command to run.
    pub command: Vec<OsString>,
    /// True if all tasks are traced, not only the command's.
    pub all: bool,
    /// Cgroups whose tasks are traced, whether they are the command's or not; all tasks, if there
    /// are none.
    pub cgroups: Vec<String>,
    /// Size of each CPU's buffer, in KiB.
    pub buffer_kb: u64,
    /// The trace clock.
    pub clock: String,
    /// Maximum calls a second, and percent of a CPU; `None` for no limit.
    pub budget: Option<String>,
    /// The counts that the module is to make, instead of recording events.
    pub counting: Option<CountingPlan>,
}

/// An instance that traces, or is about to.
#[derive(Debug)]
pub struct Session {
    /// The instance.
    pub instance: OwnInstance,
    child: Option<WaitingChild>,
    /// The file that switches recording, or counting, on and off.
    switch: &'static str,
    start: ClockPair,
    begun_cpu: u64,
    /// Times at which recording began and ended, in ns since boot.
    begun: u64,
    ended: u64,
}

impl Session {
    /// Sets an instance up. Nothing is recorded until [`Session::start`].
    ///
    /// # Errors
    ///
    /// [`Error`] if something is refused; nothing is left behind then.
    pub fn new(directory: &Directory, plan: &TracePlan) -> Result<Self, Error> {
        let mut instance = OwnInstance::new(directory)?;
        match &plan.counting {
            None => prepare_recording(&mut instance, plan)?,
            Some(counting) => {
                for option in counting.options() {
                    instance.write(option, "1")?;
                }
            }
        }
        let child = match &*plan.command {
            [] => None,
            command => {
                let name = command[0].to_string_lossy().into_owned();
                let failed = |error| Error::Run(name, error);
                Some(WaitingChild::new(command).map_err(failed)?)
            }
        };
        let mut session = Self {
            instance,
            child,
            switch: match plan.counting {
                None => "tracing_on",
                Some(_) => counting::SWITCH,
            },
            start: ClockPair::default(),
            begun_cpu: 0,
            begun: 0,
            ended: 0,
        };
        session.choose_tasks(plan)?;
        session.choose_functions(plan)?;
        if plan.counting.is_none() {
            session.hook(plan)?;
        }
        session.start = session.now();
        Ok(session)
    }

    /// Hooks the functions: they are recorded once that is switched on.
    fn hook(&mut self, plan: &TracePlan) -> Result<(), Error> {
        let instance = &mut self.instance;
        if let Some(budget) = plan.budget.as_ref().filter(|_| instance.has("budget")) {
            instance.write("budget", budget)?;
        }
        instance.write("current_tracer", &plan.tracer)
    }

    fn choose_tasks(&mut self, plan: &TracePlan) -> Result<(), Error> {
        let instance = &mut self.instance;
        let mut pids: Vec<i32> = plan
            .selection
            .pids
            .iter()
            .flat_map(|pid| threads(*pid))
            .collect();
        if let (Some(child), false) = (&self.child, plan.all || !plan.cgroups.is_empty()) {
            pids.push(child.pid());
        }
        if !plan.cgroups.is_empty() {
            let words: Vec<String> = plan.cgroups.iter().map(|name| cgroup_word(name)).collect();
            // Ended, as an error of a word that may go on would come when the file is closed.
            instance.write("cgroup", &format!("{}\n", words.join(" ")))?;
            if plan.counting.is_none() {
                // Which of them, or of those below, an event is of.
                instance.write("options/record-cgroup", "1")?;
            }
        }
        instance.write("options/function-fork", "1")?;
        if pids.is_empty() {
            // Leave out what the command itself does; its threads are followed, too.
            return instance.write("notrace_pid", &std::process::id().to_string());
        }
        let pids: Vec<String> = pids.iter().map(i32::to_string).collect();
        instance.write("pid", &pids.join(" "))
    }

    fn choose_functions(&mut self, plan: &TracePlan) -> Result<(), Error> {
        let instance = &mut self.instance;
        let selection = &plan.selection;
        for glob in selection.not_functions.iter() {
            let result = instance.append("notrace", &format!("{glob}\n"));
            // Some of the noisy functions cannot be traced in some kernels.
            if !NOISE.contains(&glob) {
                result?;
            }
        }
        let is_graph = plan.tracer == "function_graph";
        if let Some(hooked) = &plan.hooked {
            instance.append("filter", &format!("{}\n", hooked.join("\n")))?;
        } else {
            for glob in selection.functions.iter() {
                instance.append("filter", &format!("{glob}\n"))?;
            }
        }
        for root in selection.roots.iter() {
            if !is_graph {
                return Err(Error::Refused(
                    "-g takes the tracer function_graph: of others no calls are known".into(),
                ));
            }
            instance.append("graph_function", &format!("{root}\n"))?;
        }
        if let Some(depth) = selection.depth {
            instance.write("max_depth", &depth.to_string())?;
        }
        if let Some(threshold) = selection.threshold {
            let us = threshold.div_ceil(1000);
            instance.write("tracing_thresh", &us.to_string())?;
        }
        if let Some(errnos) = &plan.errnos {
            if !is_graph {
                return Err(Error::Refused(
                    "--errno takes the tracer function_graph: others do not see returns".into(),
                ));
            }
            instance.write("tracing_errno", errnos)?;
        }
        Ok(())
    }

    /// Starts recording, and lets the command run.
    ///
    /// # Errors
    ///
    /// [`Error`] if that is refused.
    pub fn start(&mut self) -> Result<Option<Child>, Error> {
        self.begun_cpu = cpu_time();
        self.instance.write(self.switch, "1")?;
        // Switching counts on hooks the functions, which takes its time.
        self.begun = clock(ClockId::Boottime);
        let child = self.child.take().map(WaitingChild::run).transpose();
        child.map_err(|error| Error::Run("the command".into(), error))
    }

    /// Ends recording; what was recorded stays.
    ///
    /// # Errors
    ///
    /// [`Error`] if that is refused.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.instance.write(self.switch, "0")?;
        self.ended = clock(ClockId::Boottime);
        Ok(())
    }

    /// Returns the time from the start to the end, in ns.
    pub fn took_ns(&self) -> u64 {
        self.ended.saturating_sub(self.begun)
    }

    /// Returns the reason for which the module has ended recording, if it has.
    pub fn stopped(&self) -> Option<String> {
        let is_on = self.instance.read(self.switch).ok()?;
        if is_on.trim() != "0" {
            return None;
        }
        let status = self.instance.read("status").unwrap_or_default();
        let reason = status
            .lines()
            .find_map(|line| line.strip_prefix("stopped: "))
            .filter(|reason| *reason != "no");
        Some(match reason {
            Some(reason) => reason.to_owned(),
            None => format!("somebody wrote 0 to {}", self.switch),
        })
    }

    /// Returns the present time, by the trace clock and others.
    fn now(&self) -> ClockPair {
        let before = clock(ClockId::Realtime);
        let trace_ns = self
            .instance
            .read("per_cpu/cpu0/stats")
            .ok()
            .and_then(|stats| now_of(&stats));
        let (realtime_ns, boottime_ns) = (clock(ClockId::Realtime), clock(ClockId::Boottime));
        ClockPair {
            trace_ns: trace_ns.unwrap_or(boottime_ns),
            realtime_ns: before.midpoint(realtime_ns),
            boottime_ns: boottime_ns - realtime_ns.saturating_sub(before) / 2,
        }
    }

    /// Returns the settings of this session, for a reader elsewhere.
    ///
    /// # Errors
    ///
    /// [`Error::Open`] if its CPUs cannot be listed.
    pub fn settings(
        &self,
        plan: &TracePlan,
        symbols: &KernelSymbols,
    ) -> Result<RecordingSettings, Error> {
        let uname = rustix::system::uname();
        let text = |name: &std::ffi::CStr| name.to_string_lossy().into_owned();
        let irq_text = ["__irqentry_text_start", "__irqentry_text_end"]
            .map(|name| symbols.first_place(name).unwrap_or(0));
        Ok(RecordingSettings {
            rftrace: env!("CARGO_PKG_VERSION").into(),
            release: text(uname.release()),
            version: text(uname.version()),
            machine: text(uname.machine()),
            host: text(uname.nodename()),
            tracer: plan.tracer.clone(),
            cpus: self.instance.cpus()?,
            clock: plan.clock.clone(),
            start: self.start,
            command: plan.command.iter().map(lossy).collect(),
            arguments: std::env::args_os()
                .skip(1)
                .map(|word| lossy(&word))
                .collect(),
            files: self.instance.written().to_vec(),
            irq_text: irq_text.into(),
        })
    }

    /// Returns the end of the recording, once all events were taken out.
    ///
    /// # Errors
    ///
    /// [`Error::Open`] if counts cannot be read.
    pub fn end(&self) -> Result<RecordingEnd, Error> {
        let totals = |cpu: u32| {
            let file = format!("per_cpu/cpu{cpu}/stats");
            let count = |key| self.instance.number(&file, key).unwrap_or(0);
            CpuTotals {
                cpu,
                written: count("written events"),
                read: count("read events"),
                overwritten: count("overrun"),
                commit_overrun: count("commit overrun"),
                dropped: count("dropped events"),
            }
        };
        let elsewhere = |key: &&str| {
            let count = self.instance.number("status", key)?;
            (count != 0).then(|| ((*key).to_owned(), count))
        };
        Ok(RecordingEnd {
            end: self.now(),
            cpus: self.instance.cpus()?.into_iter().map(totals).collect(),
            lost: ELSEWHERE.iter().filter_map(elsewhere).collect(),
            took_ns: self.took_ns(),
            recorder_cpu_ns: cpu_time().saturating_sub(self.begun_cpu),
            ..RecordingEnd::default()
        })
    }
}

/// Sets up what is recorded of calls, and where to.
fn prepare_recording(instance: &mut OwnInstance, plan: &TracePlan) -> Result<(), Error> {
    instance.write("tracing_on", "0")?;
    instance.write("trace_clock", &plan.clock)?;
    instance.write("buffer_size_kb", &plan.buffer_kb.to_string())?;
    let arguments = match &*plan.tracer {
        "function_graph" => "funcgraph-args",
        _ => "func-args",
    };
    let options = [
        (plan.args, arguments),
        (plan.ret, "funcgraph-retval"),
        (plan.wait, "funcgraph-wait"),
    ];
    for (_, option) in options.iter().filter(|(is_on, _)| *is_on) {
        instance.write(&format!("options/{option}"), "1")?;
    }
    if plan.no_irqs {
        instance.write("options/funcgraph-irqs", "0")?;
    }
    Ok(())
}

fn lossy(word: &OsString) -> String {
    word.to_string_lossy().into_owned()
}

/// Returns the word for a cgroup that was named by its folder, its path in the hierarchy, or its
/// ID.
fn cgroup_word(name: &str) -> String {
    let has_control = Path::new(name).join("cgroup.controllers").exists();
    match std::fs::metadata(name) {
        // A cgroup's ID is the number of its folder's inode.
        Ok(folder) if has_control => folder.ino().to_string(),
        _ => name.to_owned(),
    }
}

/// Returns all threads of a process; the number itself if it has none.
fn threads(pid: i32) -> Vec<i32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task"));
    let entries = entries.into_iter().flatten().flatten();
    let mut threads: Vec<i32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    if threads.is_empty() {
        threads.push(pid);
    }
    threads
}

/// Returns `now ts: SECONDS.MICROSECONDS` of `stats`, in ns.
fn now_of(stats: &str) -> Option<u64> {
    let line = stats
        .lines()
        .find_map(|line| line.strip_prefix("now ts: "))?;
    let (seconds, us) = line.trim().split_once('.')?;
    let (seconds, us): (u64, u64) = (seconds.trim().parse().ok()?, us.parse().ok()?);
    Some(seconds * 1_000_000_000 + us * 1000)
}

fn clock(id: ClockId) -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(id);
    tv_sec.unsigned_abs() * 1_000_000_000 + tv_nsec.unsigned_abs()
}

/// Returns the CPU time of this process, in ns.
fn cpu_time() -> u64 {
    clock(ClockId::ProcessCPUTime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_stats_is_read() {
        let stats = "entries: 0\noldest event ts:     0.000000\nnow ts:    12.000345\n";
        assert_eq!(now_of(stats), Some(12_000_345_000));
        assert_eq!(now_of("now ts: 77\n"), None);
    }

    #[test]
    fn a_cgroup_is_named_in_three_ways() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a group");
        std::fs::create_dir(&folder).unwrap();
        let name = folder.to_str().unwrap();
        // A folder of something else.
        assert_eq!(cgroup_word(name), name);
        std::fs::write(folder.join("cgroup.controllers"), "").unwrap();
        let id = std::fs::metadata(&folder).unwrap().ino();
        assert_eq!(cgroup_word(name), id.to_string());
        assert_eq!(cgroup_word("/system.slice"), "/system.slice");
        assert_eq!(cgroup_word("1234"), "1234");
    }

    #[test]
    fn a_process_has_all_its_threads() {
        let own = std::process::id() as i32;
        assert!(threads(own).contains(&own));
        assert_eq!(threads(-5), [-5]);
    }
}
