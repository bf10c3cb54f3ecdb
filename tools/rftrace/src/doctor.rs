// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Examines all that tracing needs of a machine.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::live::{self, Mounts};

/// Oldest kernel that the module works on.
const OLDEST: (u32, u32) = (7, 2);

/// The files in which a machine describes itself; a test has another root.
#[derive(Debug)]
pub struct InspectedMachine {
    root: PathBuf,
    is_root: bool,
    release: String,
    machine: String,
}

impl InspectedMachine {
    /// Returns the machine that this runs on.
    pub fn this() -> Self {
        let uname = rustix::system::uname();
        Self {
            root: "/".into(),
            is_root: rustix::process::geteuid().is_root(),
            release: uname.release().to_string_lossy().into_owned(),
            machine: uname.machine().to_string_lossy().into_owned(),
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.path(path)).ok()
    }
}

/// A verdict on something that tracing needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckResult {
    /// The thing is as it should be.
    Good,
    /// The thing is missing, or wrong.
    Bad,
}

impl CheckResult {
    /// Returns the word for the verdict.
    pub fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "BAD",
        }
    }
}

/// Something that was looked at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The name of the thing.
    pub subject: &'static str,
    /// The verdict on it.
    pub verdict: CheckResult,
    /// Details of the finding.
    pub text: String,
    /// A command that mends the fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

fn good(subject: &'static str, text: impl Into<String>) -> Finding {
    Finding {
        subject,
        verdict: CheckResult::Good,
        text: text.into(),
        next: None,
    }
}

fn bad(subject: &'static str, text: impl Into<String>, next: Option<&str>) -> Finding {
    Finding {
        subject,
        verdict: CheckResult::Bad,
        text: text.into(),
        next: next.map(Into::into),
    }
}

/// Examines all that tracing needs, and returns what was found.
pub fn examine(machine: &InspectedMachine) -> Vec<Finding> {
    vec![
        user(machine),
        kernel(machine),
        debugfs(machine),
        lockdown(machine),
        module(machine),
    ]
}

fn user(machine: &InspectedMachine) -> Finding {
    match machine.is_root {
        true => good("user", "root"),
        false => bad(
            "user",
            "not root: tracing files and addresses are root's",
            Some("sudo rftrace doctor"),
        ),
    }
}

fn kernel(machine: &InspectedMachine) -> Finding {
    let release = &machine.release;
    let mut numbers = release
        .split(['.', '-', '+'])
        .map(|part| part.parse().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if machine.machine != "x86_64" {
        return bad(
            "kernel",
            format!("{release} on {}: only x86_64 is known", machine.machine),
            None,
        );
    }
    if version < OLDEST {
        let (major, minor) = OLDEST;
        return bad(
            "kernel",
            format!("{release} is older than {major}.{minor}"),
            None,
        );
    }
    good("kernel", release)
}

fn debugfs(machine: &InspectedMachine) -> Finding {
    let mounts = Mounts::read(&machine.root).ok();
    match mounts.as_ref().and_then(|mounts| mounts.first("debugfs")) {
        Some(path) => good("debugfs", format!("mounted at {}", path.display())),
        None => bad(
            "debugfs",
            "not mounted",
            Some("mount -t debugfs none /sys/kernel/debug"),
        ),
    }
}

fn lockdown(machine: &InspectedMachine) -> Finding {
    match live::lockdown(&machine.root) {
        None => good("lockdown", "none"),
        Some(mode) => bad(
            "lockdown",
            format!("{mode}: debugfs cannot be used; Secure Boot may have switched it on"),
            Some("mokutil --sb-state"),
        ),
    }
}

fn module(machine: &InspectedMachine) -> Finding {
    if machine.path("sys/module/rust_ftrace").exists() {
        let version = machine
            .text("sys/module/rust_ftrace/version")
            .unwrap_or_default();
        return good("module", format!("loaded {}", version.trim()).trim_end());
    }
    let modules = machine.path("lib/modules").join(&machine.release);
    match has_module(&modules) {
        true => bad("module", "not loaded", Some("modprobe rust_ftrace")),
        false => bad(
            "module",
            format!("not loaded, and {} has none", modules.display()),
            Some("insmod rust_ftrace.ko"),
        ),
    }
}

/// Returns whether `modules.dep` names the module.
fn has_module(modules: &Path) -> bool {
    let list = std::fs::read_to_string(modules.join("modules.dep")).unwrap_or_default();
    list.lines().any(|line| {
        line.split(':')
            .next()
            .is_some_and(|path| path.contains("/rust_ftrace.ko"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(release: &str, files: &[(&str, &str)]) -> (tempfile::TempDir, InspectedMachine) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let machine = InspectedMachine {
            root: root.path().into(),
            is_root: true,
            release: release.into(),
            machine: "x86_64".into(),
        };
        (root, machine)
    }

    fn bad_ones(machine: &InspectedMachine) -> Vec<&'static str> {
        let bad = |finding: &Finding| finding.verdict == CheckResult::Bad;
        examine(machine)
            .iter()
            .filter(|finding| bad(finding))
            .map(|finding| finding.subject)
            .collect()
    }

    const DEBUGFS: (&str, &str) = (
        "proc/self/mounts",
        "none /sys/kernel/debug debugfs rw 0 0\n",
    );
    const LOADED: (&str, &str) = ("sys/module/rust_ftrace/version", "0.1.0\n");

    #[test]
    fn a_machine_that_lacks_nothing() {
        let (_root, machine) = machine("7.3.4+deb13-amd64", &[DEBUGFS, LOADED]);
        assert_eq!(bad_ones(&machine), [""; 0]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let (_root, mut machine) = machine(
            "7.1.0",
            &[("sys/kernel/security/lockdown", "none [integrity] x\n")],
        );
        machine.is_root = false;
        assert_eq!(
            bad_ones(&machine),
            ["user", "kernel", "debugfs", "lockdown", "module"]
        );
    }

    #[test]
    fn a_module_that_is_installed_is_loaded_by_name() {
        let modules = (
            "lib/modules/7.2.0/modules.dep",
            "kernel/a.ko:\nupdates/rust_ftrace.ko.xz: x\n",
        );
        let (_root, machine) = machine("7.2.0", &[DEBUGFS, modules]);
        let next = examine(&machine).pop().and_then(|finding| finding.next);
        assert_eq!(next.as_deref(), Some("modprobe rust_ftrace"));
    }
}
