// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Settings of the module that hide a function that it traces.

use std::path::Path;

/// Settings of one instance of the module, as its files have them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterSettings {
    /// The name of the instance; empty for the one that always exists.
    pub instance: String,
    /// `current_tracer`
    pub tracer: String,
    /// Functions in `filter`; all, if there are none.
    pub filter: Vec<String>,
    /// Functions in `notrace`.
    pub notrace: Vec<String>,
    /// `tracing_on`
    pub is_on: bool,
    /// The reason for which the module has stopped recording by itself, from `status`.
    pub stopped: Option<String>,
    /// Tasks in `pid`; all, if there are none.
    pub pids: Vec<String>,
    /// Tasks in `notrace_pid`.
    pub notrace_pids: Vec<String>,
    /// Cgroups in `cgroup`; all, if there are none.
    pub cgroups: Vec<String>,
    /// CPUs that are online and that `tracing_cpumask` leaves out.
    pub cpus_left_out: Vec<u32>,
    /// Functions in `graph_function`; all, if there are none.
    pub graph_roots: Vec<String>,
    /// Functions in `graph_notrace`.
    pub graph_notrace: Vec<String>,
    /// `max_depth`; 0 for any depth.
    pub max_depth: u64,
    /// `tracing_thresh`, in us; 0 for all.
    pub thresh: u64,
    /// `tracing_errno`; empty for all calls.
    pub errnos: String,
}

impl FilterSettings {
    /// Reads the settings of all instances that can be read; `directory` is the module's.
    pub fn of_all(directory: &Path) -> Vec<Self> {
        let mut all = vec![Self::read(directory, "")];
        let instances = std::fs::read_dir(directory.join("instances"));
        let mut names: Vec<String> = instances
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        let instances = names
            .iter()
            .map(|name| Self::read(&directory.join("instances").join(name), name));
        all.extend(instances);
        all
    }

    /// Reads the settings of the instance whose files are in `path`. A file that cannot be read
    /// hides nothing.
    fn read(path: &Path, instance: &str) -> Self {
        let text = |name: &str| std::fs::read_to_string(path.join(name)).unwrap_or_default();
        let lines = |name: &str| lines(&text(name));
        let number = |name: &str| text(name).trim().parse().unwrap_or(0);
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online");
        let status = text("status");
        let stopped = status
            .lines()
            .find_map(|line| line.strip_prefix("stopped: "));
        Self {
            instance: instance.into(),
            tracer: text("current_tracer").trim().into(),
            filter: lines("filter"),
            notrace: lines("notrace"),
            is_on: text("tracing_on").trim() != "0",
            stopped: stopped.filter(|why| *why != "no").map(Into::into),
            pids: lines("pid"),
            notrace_pids: lines("notrace_pid"),
            cgroups: lines("cgroup"),
            cpus_left_out: left_out(&text("tracing_cpumask"), &online.unwrap_or_default()),
            graph_roots: lines("graph_function"),
            graph_notrace: lines("graph_notrace"),
            max_depth: number("max_depth"),
            thresh: number("tracing_thresh"),
            errnos: match text("tracing_errno").trim() {
                "0" => String::new(),
                errnos => errnos.into(),
            },
        }
    }

    /// Returns whether the instance is to trace `function`, or something of it.
    fn wants(&self, function: &str) -> bool {
        match self.filter.is_empty() {
            true => self.tracer != "nop" && !self.tracer.is_empty(),
            false => has(&self.filter, function),
        }
    }
}

/// Returns the names in a file, one a line. Lines that only say that there are none begin with a
/// `#`, or are `no pid` or `no cgroup`.
fn lines(text: &str) -> Vec<String> {
    const NONE: [&str; 2] = ["no pid", "no cgroup"];
    let is_name = |line: &&str| !line.is_empty() && !line.starts_with('#') && !NONE.contains(line);
    text.lines()
        .map(str::trim)
        .filter(is_name)
        .map(Into::into)
        .collect()
}

/// Returns whether a line names `function`, perhaps with its module in brackets, or with a command
/// behind a colon.
fn has(lines: &[String], function: &str) -> bool {
    let name = |line: &str| line.split([' ', '\t', ':']).next() == Some(function);
    lines.iter().any(|line| name(line))
}

/// Returns the CPUs of `online` (as `0-3,5`) that are not in `mask` (hex, in groups of 32 bits).
/// Empty if the mask is unreadable.
fn left_out(mask: &str, online: &str) -> Vec<u32> {
    let digits: Vec<u32> = (mask.trim().chars().rev())
        .filter(|digit| *digit != ',')
        .map_while(|digit| digit.to_digit(16))
        .collect();
    if digits.is_empty() {
        return Vec::new();
    }
    let is_in = |cpu: u32| {
        let digit = digits.get(cpu as usize / 4);
        digit.is_some_and(|digit| (digit >> (cpu % 4)) & 1 != 0)
    };
    let range = |part: &str| {
        let (from, until) = part.split_once('-').unwrap_or((part, part));
        Some(from.parse::<u32>().ok()?..=until.parse::<u32>().ok()?.min(1 << 16))
    };
    let cpus = online.trim().split(',').filter_map(range).flatten();
    cpus.filter(|cpu| !is_in(*cpu)).collect()
}

/// Returns sentences on what hides `function` in an instance that is to trace it; none of them if
/// nothing does. `None` if the instance is not to trace it at all.
///
/// `leads_to` tells whether the functions that it is given call the function, be it over others.
pub fn reasons(
    settings: &FilterSettings,
    function: &str,
    leads_to: &dyn Fn(&[String]) -> bool,
) -> Option<Vec<String>> {
    if !settings.wants(function) {
        return None;
    }
    let mut said = Vec::new();
    if settings.tracer == "nop" {
        said.push("current_tracer is nop: nothing is traced".into());
    }
    if has(&settings.notrace, function) {
        said.push("notrace has it".into());
    }
    match (&settings.stopped, settings.is_on) {
        (Some(why), false) => said.push(format!(
            "recording was stopped ({why}): echo 1 > tracing_on"
        )),
        (None, false) => said.push("tracing_on is 0: nothing is recorded".into()),
        (_, true) => {}
    }
    if !settings.pids.is_empty() {
        said.push(format!(
            "pid: only calls of these tasks: {}",
            some(&settings.pids)
        ));
    }
    if !settings.notrace_pids.is_empty() {
        said.push(format!(
            "notrace_pid: no calls of these tasks: {}",
            some(&settings.notrace_pids)
        ));
    }
    if !settings.cgroups.is_empty() {
        said.push(format!(
            "cgroup: only calls of tasks in: {}",
            some(&settings.cgroups)
        ));
    }
    if !settings.cpus_left_out.is_empty() {
        let cpus: Vec<String> = settings.cpus_left_out.iter().map(u32::to_string).collect();
        said.push(format!(
            "tracing_cpumask: no calls on these CPUs: {}",
            some(&cpus)
        ));
    }
    if settings.tracer != "function_graph" {
        return Some(said);
    }
    let roots = &settings.graph_roots;
    if !roots.is_empty() && !has(roots, function) {
        let of = some(roots);
        said.push(match leads_to(roots) {
            true => format!("graph_function: only calls below {of}"),
            false => format!(
                "graph_function: only calls below {of}, from where no direct calls lead to it"
            ),
        });
    }
    if has(&settings.graph_notrace, function) {
        said.push("graph_notrace has it".into());
    } else if !settings.graph_notrace.is_empty() && leads_to(&settings.graph_notrace) {
        said.push(format!(
            "graph_notrace: no calls below {}",
            some(&settings.graph_notrace)
        ));
    }
    match settings.max_depth {
        0 => {}
        1 => said.push("max_depth is 1: no calls below others".into()),
        depth => said.push(format!("max_depth is {depth}: no calls that are deeper")),
    }
    if settings.thresh > 0 {
        said.push(format!(
            "tracing_thresh: only calls of at least {} us",
            settings.thresh
        ));
    }
    match settings.errnos.as_str() {
        "" => {}
        "1" => said.push("tracing_errno: only calls by which an error came".into()),
        names => said.push(format!("tracing_errno: only calls by which {names} came")),
    }
    Some(said)
}

/// Returns the first words, and the number of the others.
fn some(words: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = words[..words.len().min(SHOWN)].join(", ");
    match words.len().saturating_sub(SHOWN) {
        0 => shown,
        others => format!("{shown} and {others} others"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracing(change: impl Fn(&mut FilterSettings)) -> Option<Vec<String>> {
        let mut settings = FilterSettings {
            tracer: "function_graph".into(),
            filter: vec!["path_mount".into(), "load [loop]".into()],
            is_on: true,
            ..FilterSettings::default()
        };
        change(&mut settings);
        reasons(&settings, "path_mount", &|roots| {
            roots.iter().any(|root| root == "caller")
        })
    }

    fn list(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| word.to_string()).collect()
    }

    #[test]
    fn what_hides_nothing_is_not_named() {
        assert_eq!(tracing(|_| ()), Some(vec![]));
        assert_eq!(
            tracing(|settings| settings.filter = list(&["vfs_read"])),
            None
        );
        assert_eq!(tracing(|settings| settings.filter = vec![]), Some(vec![]));
        let idle = |settings: &mut FilterSettings| {
            (settings.filter, settings.tracer) = (vec![], "nop".into())
        };
        assert_eq!(tracing(idle), None);
    }

    #[test]
    fn each_setting_is_named() {
        let said = |change: &dyn Fn(&mut FilterSettings)| {
            let said = tracing(change).unwrap();
            assert_eq!(said.len(), 1, "{said:?}");
            said[0].clone()
        };
        assert!(said(&|settings| settings.tracer = "nop".into()).contains("nop"));
        assert!(said(&|settings| settings.notrace = list(&["path_mount"])).contains("notrace"));
        assert!(said(&|settings| settings.is_on = false).contains("tracing_on is 0"));
        let stopped = |settings: &mut FilterSettings| {
            (settings.is_on, settings.stopped) = (false, Some("budget: 9 calls".into()));
        };
        assert!(said(&stopped).contains("(budget: 9 calls)"));
        assert!(said(&|settings| settings.pids = list(&["7"])).contains("these tasks: 7"));
        assert!(said(&|settings| settings.notrace_pids = list(&["8"])).starts_with("notrace_pid"));
        assert!(said(&|settings| settings.cgroups = list(&["/a"])).ends_with("tasks in: /a"));
        assert!(said(&|settings| settings.cpus_left_out = vec![1, 3]).ends_with("CPUs: 1, 3"));
        assert!(
            said(&|settings| settings.graph_roots = list(&["caller"])).ends_with("below caller")
        );
        assert!(said(&|settings| settings.graph_roots = list(&["x"])).contains("no direct calls"));
        assert!(
            said(&|settings| settings.graph_notrace = list(&["caller"])).contains("below caller")
        );
        assert!(said(&|settings| settings.max_depth = 2).contains("max_depth is 2"));
        assert!(said(&|settings| settings.thresh = 100).contains("100 us"));
        assert!(said(&|settings| settings.errnos = "1".into()).ends_with("an error came"));
        assert!(said(&|settings| settings.errnos = "EIO".into()).contains("EIO came"));
    }

    #[test]
    fn settings_of_one_tracer_do_not_hide_from_another() {
        let function = |settings: &mut FilterSettings| {
            settings.tracer = "function".into();
            settings.graph_roots = list(&["x"]);
            (settings.max_depth, settings.thresh) = (1, 1);
            settings.errnos = "1".into();
        };
        assert_eq!(tracing(function), Some(vec![]));
    }

    #[test]
    fn cpus_that_a_mask_leaves_out() {
        assert_eq!(left_out("3\n", "0-3,5\n"), [2, 3, 5]);
        assert_eq!(left_out("1,00000000\n", "31-32\n"), [31]);
        assert_eq!(left_out("ff\n", "0-7\n"), [0; 0]);
        assert_eq!(left_out("", "0-7\n"), [0; 0]);
    }

    #[test]
    fn instances_are_read() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("instances/mine");
        std::fs::create_dir_all(&own).unwrap();
        for (name, text) in [
            ("current_tracer", "function\n"),
            ("filter", "vfs_read\nload [loop]\n"),
            ("pid", "no pid\n"),
            ("cgroup", "no cgroup\n"),
            ("tracing_on", "0\n"),
            ("status", "clock: local\nstopped: budget: 2\n"),
            ("graph_function", "#### all functions enabled ####\n"),
            ("max_depth", "3\n"),
        ] {
            std::fs::write(own.join(name), text).unwrap();
        }
        let all = FilterSettings::of_all(root.path());
        assert_eq!(all.len(), 2);
        let mine = FilterSettings {
            instance: "mine".into(),
            tracer: "function".into(),
            filter: list(&["vfs_read", "load [loop]"]),
            stopped: Some("budget: 2".into()),
            max_depth: 3,
            ..FilterSettings::default()
        };
        assert_eq!(all[1], mine);
        assert!(reasons(&all[1], "load", &|_| false).is_some());
    }
}
