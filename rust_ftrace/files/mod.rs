// SPDX-License-Identifier: GPL-2.0

//! The directory: one table says every file, its mode, its help line and what handles it.

mod control;
mod graph;
mod lines;
mod lists;
mod options;
mod pid;
mod pipe;
mod raw;
mod sites;
mod sizes;
mod small;
mod snapshot;
mod status;
mod trace;
mod words;

use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::Arc;

use self::control::{AvailableTracers, CurrentTracer, Errors, Readme, TraceClock, TracingOn};
use self::graph::{GraphFunctionList, GraphNotraceList, MaxDepth, Thresh};
use self::lists::{AvailableFile, EnabledFile, FilterList, ListFile, NotraceList};
use self::options::{OptionFile, TraceOptions};
use self::pid::PidFile;
use self::pipe::PipeFile;
use self::raw::RawFile;
use self::sizes::{BufferPercent, BufferSize, FreeBuffer, SubbufSize, TotalSize};
use self::small::SmallFile;
use self::snapshot::SnapshotFile;
use self::status::{CpuStats, Status};
use self::trace::TraceFile;
use crate::engine::options::TraceOption;
use crate::instance::Instance;
use crate::sys::cpu;
use crate::sys::debugfs::{Place, Tree};

/// What a file belongs to.
pub(crate) struct Context {
    instance: Arc<Instance>,
    /// The CPU, for files below `per_cpu`.
    cpu: Option<CpuId>,
}

/// Puts a file into a directory of a tree.
type Make = fn(&mut Tree<Context>, Place, &CStr, u16, Arc<Context>) -> Result;

/// A file of the directory.
struct Spec {
    /// Its name; files below `options/` and `per_cpu/cpuN/` with that before it.
    name: &'static str,
    /// tracefs's name for it, if another.
    alias: Option<&'static str>,
    /// Permissions.
    mode: u16,
    /// What `README` says of it.
    help: &'static str,
    make: Make,
}

const READ: u16 = 0o400;
const WRITE: u16 = 0o600;
const FREE: u16 = 0o200;

const OPTIONS: &str = "options/";
const PER_CPU: &str = "per_cpu/cpuN/";

macro_rules! spec {
    ($name:literal, $mode:ident, $file:ty, $help:expr) => {
        spec!(@ $name, None, $mode, $file, $help)
    };
    ($name:literal = $alias:literal, $mode:ident, $file:ty, $help:expr) => {
        spec!(@ $name, Some($alias), $mode, $file, $help)
    };
    ($name:literal, $mode:ident, stream $stream:ty, $help:expr) => {
        Spec {
            name: $name,
            alias: None,
            mode: $mode,
            help: $help,
            make: Tree::stream::<$stream>,
        }
    };
    (@ $name:literal, $alias:expr, $mode:ident, $file:ty, $help:expr) => {
        Spec {
            name: $name,
            alias: $alias,
            mode: $mode,
            help: $help,
            make: Tree::file::<$file>,
        }
    };
}

/// Every file, in the order of `README`.
const TABLE: &[Spec] = &[
    spec!("README", READ, SmallFile<Readme>, "this text"),
    spec!(
        "filter" = "set_ftrace_filter",
        WRITE,
        ListFile<FilterList>,
        "the functions to trace: names or patterns (accepts: .* glob-matching-pattern), '!name' \
         removes, 'name:mod:module'; > replaces, >> adds; the first starts the function tracer"
    ),
    spec!(
        "notrace" = "set_ftrace_notrace",
        WRITE,
        ListFile<NotraceList>,
        "the functions not to trace, whatever the filter says"
    ),
    spec!(
        "pid" = "set_ftrace_pid",
        WRITE,
        PidFile,
        "the tasks to trace, by thread ID, none for all: > replaces, >> adds, '!id' removes"
    ),
    spec!(
        "graph_function" = "set_graph_function",
        WRITE,
        ListFile<GraphFunctionList>,
        "the functions below which function_graph traces calls; all calls, if none"
    ),
    spec!(
        "graph_notrace" = "set_graph_notrace",
        WRITE,
        ListFile<GraphNotraceList>,
        "the functions that function_graph traces no calls of and below"
    ),
    spec!(
        "max_depth" = "max_graph_depth",
        WRITE,
        SmallFile<MaxDepth>,
        "how deep function_graph traces calls; 0 for any depth"
    ),
    spec!(
        "tracing_thresh",
        WRITE,
        SmallFile<Thresh>,
        "function_graph shows only calls that take longer, in us, and what they are in; 0 for all"
    ),
    spec!(
        "trace",
        WRITE,
        TraceFile,
        "the events as text, merged over CPUs; writing to it clears them"
    ),
    spec!(
        "trace_pipe",
        READ,
        stream PipeFile,
        "the events as text, each given out once; waits for more"
    ),
    spec!(
        "status",
        READ,
        SmallFile<Status>,
        "what is armed, hit, written and lost, and the memory in use"
    ),
    spec!(
        "tracing_on",
        WRITE,
        SmallFile<TracingOn>,
        "0 stops recording at once and leaves all else as it is, 1 goes on"
    ),
    spec!(
        "current_tracer",
        WRITE,
        SmallFile<CurrentTracer>,
        "the tracer; nop for none"
    ),
    spec!(
        "available_tracers",
        READ,
        SmallFile<AvailableTracers>,
        "what can be written to current_tracer"
    ),
    spec!(
        "buffer_size_kb",
        WRITE,
        SmallFile<BufferSize>,
        "size of each CPU's buffer in KiB; changing it empties them; X if they differ"
    ),
    spec!(
        "buffer_total_size_kb",
        READ,
        SmallFile<TotalSize>,
        "size of all buffers together in KiB"
    ),
    spec!(
        "buffer_subbuf_size_kb",
        WRITE,
        SmallFile<SubbufSize>,
        "size of the parts of a buffer in KiB, 4 to 512; changing it empties the buffers"
    ),
    spec!(
        "buffer_percent",
        WRITE,
        SmallFile<BufferPercent>,
        "how full a CPU's buffer is when those who poll or splice its files are woken"
    ),
    spec!(
        "snapshot",
        WRITE,
        SnapshotFile,
        "1 keeps what was recorded, to be read here, and goes on in an empty buffer; 0 frees it, \
             2 clears it"
    ),
    spec!(
        "free_buffer",
        FREE,
        FreeBuffer,
        "closing it gives back the memory of the buffers"
    ),
    spec!(
        "trace_clock",
        WRITE,
        SmallFile<TraceClock>,
        "what events are stamped with, the current one in brackets; changing it clears the buffers"
    ),
    spec!(
        "trace_options",
        WRITE,
        SmallFile<TraceOptions>,
        "all options; writing a name switches it on, no before it off"
    ),
    spec!(
        "options/overwrite",
        WRITE,
        SmallFile<OptionFile<{ TraceOption::Overwrite as usize }>>,
        "1: new events take the place of the oldest when a buffer is full; 0: they are dropped"
    ),
    spec!(
        "options/disable_on_free",
        WRITE,
        SmallFile<OptionFile<{ TraceOption::DisableOnFree as usize }>>,
        "1: closing free_buffer also stops recording"
    ),
    spec!(
        "options/func-depth",
        WRITE,
        SmallFile<OptionFile<{ TraceOption::FuncDepth as usize }>>,
        "1 adds the call depth to each line of trace"
    ),
    spec!(
        "options/func_stack_trace",
        WRITE,
        SmallFile<OptionFile<{ TraceOption::FuncStackTrace as usize }>>,
        "1: the function tracer records the stack of each call"
    ),
    spec!(
        "options/func-args",
        WRITE,
        SmallFile<OptionFile<{ TraceOption::FuncArgs as usize }>>,
        "1: the function tracer records the arguments of each call"
    ),
    spec!(
        "options/funcgraph-overrun",
        WRITE,
        SmallFile<OptionFile<{ TraceOption::GraphOverrun as usize }>>,
        "1: function_graph shows how many calls were too deep to be traced"
    ),
    spec!(
        "options/funcgraph-cpu",
        WRITE,
        SmallFile<OptionFile<{ TraceOption::GraphCpu as usize }>>,
        "1: function_graph shows the CPU"
    ),
    spec!(
        "options/funcgraph-overhead",
        WRITE,
        SmallFile<OptionFile<{ TraceOption::GraphOverhead as usize }>>,
        "1: function_graph marks long durations"
    ),
    spec!(
        "options/funcgraph-proc",
        WRITE,
        SmallFile<OptionFile<{ TraceOption::GraphProc as usize }>>,
        "1: function_graph shows the task"
    ),
    spec!(
        "options/funcgraph-duration",
        WRITE,
        SmallFile<OptionFile<{ TraceOption::GraphDuration as usize }>>,
        "1: function_graph shows how long calls took"
    ),
    spec!(
        "options/funcgraph-abstime",
        WRITE,
        SmallFile<OptionFile<{ TraceOption::GraphAbstime as usize }>>,
        "1: function_graph shows when calls began or ended"
    ),
    spec!(
        "options/funcgraph-irqs",
        WRITE,
        SmallFile<OptionFile<{ TraceOption::GraphIrqs as usize }>>,
        "1: function_graph traces hardware interrupts too"
    ),
    spec!(
        "options/funcgraph-tail",
        WRITE,
        SmallFile<OptionFile<{ TraceOption::GraphTail as usize }>>,
        "1: function_graph shows the function's name at its end"
    ),
    spec!(
        "options/funcgraph-retval",
        WRITE,
        SmallFile<OptionFile<{ TraceOption::GraphRetval as usize }>>,
        "1: function_graph records and shows what functions return"
    ),
    spec!(
        "options/funcgraph-retval-hex",
        WRITE,
        SmallFile<OptionFile<{ TraceOption::GraphRetvalHex as usize }>>,
        "1: function_graph shows that in hex always"
    ),
    spec!(
        "options/funcgraph-retaddr",
        WRITE,
        SmallFile<OptionFile<{ TraceOption::GraphRetaddr as usize }>>,
        "1: function_graph records and shows where calls came from"
    ),
    spec!(
        "options/funcgraph-args",
        WRITE,
        SmallFile<OptionFile<{ TraceOption::GraphArgs as usize }>>,
        "1: function_graph records and shows the arguments of calls"
    ),
    spec!(
        "options/sleep-time",
        WRITE,
        SmallFile<OptionFile<{ TraceOption::SleepTime as usize }>>,
        "1: durations include the time that the task was not running"
    ),
    spec!(
        "options/graph-time",
        WRITE,
        SmallFile<OptionFile<{ TraceOption::GraphTime as usize }>>,
        "1: the profile's times of a function include those of what it called"
    ),
    spec!(
        "available_filter_functions",
        READ,
        AvailableFile,
        "every function that can be traced"
    ),
    spec!(
        "enabled_functions",
        READ,
        EnabledFile,
        "every function that is traced now"
    ),
    spec!(
        "error_log",
        WRITE,
        SmallFile<Errors>,
        "what was wrong with what was written; writing to it clears it"
    ),
    spec!(
        "per_cpu/cpuN/trace",
        WRITE,
        TraceFile,
        "as trace, for one CPU"
    ),
    spec!(
        "per_cpu/cpuN/trace_pipe",
        READ,
        stream PipeFile,
        "as trace_pipe, for one CPU"
    ),
    spec!(
        "per_cpu/cpuN/raw",
        READ,
        stream RawFile,
        "the events as they are recorded (docs/raw-format.md), each given out once"
    ),
    spec!(
        "per_cpu/cpuN/snapshot",
        WRITE,
        SnapshotFile,
        "as snapshot, for one CPU"
    ),
    spec!(
        "per_cpu/cpuN/buffer_size_kb",
        WRITE,
        SmallFile<BufferSize>,
        "as buffer_size_kb, for one CPU"
    ),
    spec!(
        "per_cpu/cpuN/stats",
        READ,
        SmallFile<CpuStats>,
        "the counts of one CPU's buffer"
    ),
];

/// The directory of an instance.
pub(crate) struct Directory {
    _tree: Tree<Context>,
}

impl Directory {
    /// Makes the directory `name` with all files for `instance`.
    ///
    /// # Errors
    ///
    /// Nothing is left behind then; those of [`Tree::new`] and [`Tree::file`].
    pub(crate) fn new(name: &CStr, instance: &Arc<Instance>) -> Result<Self> {
        let mut tree = Tree::new(name)?;
        let context = |cpu| {
            let instance = instance.clone();
            Arc::new(Context { instance, cpu }, GFP_KERNEL)
        };
        let all = context(None)?;
        let options = tree.directory(Tree::<Context>::TOP, c"options")?;
        for spec in TABLE {
            if let Some(name) = spec.name.strip_prefix(OPTIONS) {
                spec.make(&mut tree, options, name, all.clone())?;
            } else if !spec.name.starts_with(PER_CPU) {
                spec.make(&mut tree, Tree::<Context>::TOP, spec.name, all.clone())?;
            }
        }
        let per_cpu = tree.directory(Tree::<Context>::TOP, c"per_cpu")?;
        for cpu in cpu::possible() {
            let name = CString::try_from_fmt(fmt!("cpu{}", cpu.as_u32()))?;
            let place = tree.directory(per_cpu, &name)?;
            let context = context(Some(cpu))?;
            for spec in TABLE {
                if let Some(name) = spec.name.strip_prefix(PER_CPU) {
                    spec.make(&mut tree, place, name, context.clone())?;
                }
            }
        }
        Ok(Self { _tree: tree })
    }
}

impl Spec {
    /// Makes the file, and its other name.
    fn make(
        &self,
        tree: &mut Tree<Context>,
        place: Place,
        name: &str,
        context: Arc<Context>,
    ) -> Result {
        let name = CString::try_from_fmt(fmt!("{name}"))?;
        (self.make)(tree, place, &name, self.mode, context)?;
        if let Some(alias) = self.alias {
            let alias = CString::try_from_fmt(fmt!("{alias}"))?;
            tree.symlink(place, &alias, &name)?;
        }
        Ok(())
    }
}
