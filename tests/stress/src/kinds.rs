// SPDX-License-Identifier: GPL-2.0

//! The kinds of operations.

use std::io;

use crate::run::Hand;
use crate::world::World;
use crate::{bpf, command, files, machine, memory, others, tasks};

/// A kind of operations.
pub struct Kind {
    /// The name of the kind.
    pub name: &'static str,
    /// Number of tasks that do operations of the kind.
    pub tasks: u32,
    /// Maximum ms between two operations of a task, beside what [`Kind::rests`] adds.
    pub pause: u64,
    /// Number of times as long as an operation takes, but for waits at the gate, that its task
    /// rests after it.
    pub rests: u32,
    /// Minimum number of operations in 3 minutes, on a kernel that is not slow: about a third of
    /// those on a busy host.
    pub least: u64,
    /// True if the operations have files of the module open.
    pub opens: bool,
    /// Returns a reason why this machine cannot do the operations.
    pub lacks: fn(&World) -> Option<String>,
    /// Does one operation.
    pub step: fn(&mut Hand) -> io::Result<()>,
}

const fn kind(
    name: &'static str,
    tasks: u32,
    pause: u64,
    least: u64,
    step: fn(&mut Hand) -> io::Result<()>,
) -> Kind {
    Kind {
        name,
        tasks,
        pause,
        rests: 0,
        least,
        opens: false,
        lacks: nothing,
        step,
    }
}

const fn on_files(kind: Kind) -> Kind {
    Kind {
        opens: true,
        ..kind
    }
}

/// Has a task rest after operations for which all others wait, so that they get to theirs.
const fn alone(kind: Kind) -> Kind {
    Kind { rests: 2, ..kind }
}

const fn if_there(lacks: fn(&World) -> Option<String>, kind: Kind) -> Kind {
    Kind { lacks, ..kind }
}

fn nothing(_: &World) -> Option<String> {
    None
}

/// All kinds of operations.
///
/// Operations that change the hooks of the kernel wait for each other, and those that have files
/// open wait for a reload, which takes many seconds. So others than those on files pause for
/// longer.
pub const ALL: &[Kind] = &[
    on_files(kind("write", 3, 5, 75, files::write)),
    on_files(kind("garble", 1, 10, 45, files::garble)),
    on_files(kind("trace", 1, 50, 9, files::trace)),
    on_files(kind("buffers", 1, 30, 15, files::buffers)),
    on_files(kind("read", 2, 5, 45, files::read)),
    on_files(kind("move", 1, 5, 25, files::move_events)),
    on_files(kind("wait", 1, 20, 12, files::wait)),
    on_files(kind("instances", 1, 100, 20, files::instances)),
    kind("modules", 1, 1000, 6, machine::modules),
    alone(kind("reload", 1, 20_000, 1, machine::reload)),
    if_there(machine::no_cpus, kind("cpus", 1, 1000, 20, machine::cpus)),
    if_there(
        machine::no_suspend,
        kind("suspend", 1, 40_000, 0, machine::suspend),
    ),
    if_there(
        machine::no_live_patch,
        kind("live-patch", 1, 1000, 6, machine::live_patch),
    ),
    kind("kernel-tracers", 1, 1500, 15, machine::kernel_tracers),
    if_there(
        others::no_kprobes,
        kind("kprobes", 1, 1000, 15, others::kprobes),
    ),
    if_there(
        others::no_fprobes,
        kind("fprobes", 1, 1000, 15, others::fprobes),
    ),
    if_there(bpf::none, kind("bpf", 1, 1000, 8, bpf::programs)),
    kind("forks", 1, 50, 20, tasks::forks),
    kind("threads", 1, 50, 100, tasks::threads),
    kind("files", 2, 10, 200, tasks::file_work),
    kind("calls", 1, 300, 50, tasks::calls),
    kind("signals", 1, 100, 60, tasks::signals),
    if_there(
        tasks::no_cgroups,
        kind("cgroups", 1, 20, 200, tasks::cgroups),
    ),
    kind("memory", 1, 3000, 0, memory::pressure),
    if_there(
        command::no_rftrace,
        on_files(kind("rftrace", 1, 500, 6, command::rftrace)),
    ),
];

/// Returns the kind of a name.
pub fn of_name(name: &str) -> Option<&'static Kind> {
    ALL.iter().find(|kind| kind.name == name)
}
