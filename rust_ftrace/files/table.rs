// SPDX-License-Identifier: GPL-2.0

//! The table of files: every file, its mode, its help line and what handles it.

use super::attribute::AttributeFile;
use super::budget::BudgetFile;
use super::cgroups::CgroupFile;
use super::control::{
    AvailableTracers, CurrentTracer, Errors, TimestampMode, TraceClock, TracingOn,
};
use super::cpumask::Cpumask;
use super::dump_on_oops::DumpOnOops;
use super::events::{Enable, EventFormat, HeaderEvent, HeaderPage};
use super::folded::FoldedFile;
use super::free_buffer::FreeBuffer;
use super::graph::{Errnos, GraphFunctionList, GraphNotraceList, MaxDepth, Thresh};
use super::lists::{
    AddressesFile, AvailableFile, EnabledFile, FilterList, ListFile, NotraceList, TotalInfo,
};
use super::marker::{MarkerFile, RawMarkerFile};
use super::no_events::{EventPid, Nothing, SetEvent};
use super::options::{OptionFile, TraceOptions};
use super::pids::{NotTraced, PidFile, Traced};
use super::pipe::PipeFile;
use super::profile::{LatencyFile, ProfileEnabled, ProfileFile, SummaryFile};
use super::raw::RawFile;
use super::readme::{FileTable, Readme};
use super::saved_tasks::{SavedCmdlines, SavedCmdlinesSize, SavedTgids};
use super::sizes::{BufferPercent, BufferSize, SubbufSize, TotalSize};
use super::snapshot::SnapshotFile;
use super::spec::{spec, Spec, READ, WRITE, WRITE_ONLY};
use super::status::{CpuStats, Status};
use super::trace::TraceFile;
use super::trace_pipe_raw::KernelPagesFile;
use crate::engine::kernel_page::RecordType;
use crate::engine::options::TraceOption;
use crate::sys::debugfs::FileTree;

pub(super) const PER_CPU: &str = "per_cpu/cpuN/";
pub(super) const INSTANCES: &str = "instances/NAME";
pub(super) const TRACE_STAT_FUNCTION: &str = "trace_stat/functionN";

/// The table, for `README`.
struct All;

impl FileTable for All {
    fn rows() -> &'static [Spec] {
        TABLE
    }
}

/// Every file, in the order of `README`.
pub(super) const TABLE: &[Spec] = &[
    spec!("README", READ, AttributeFile<Readme<All>>, "this text"),
    spec!(
        "filter" = "set_ftrace_filter",
        WRITE,
        ListFile<FilterList>,
        "the functions to trace: names or patterns (accepts: .* glob-matching-pattern), '!name' \
         removes, 'name:mod:module'; > replaces, >> adds; the first starts the function tracer; \
         'name:traceoff[:count]' does that when it is called: traceon, stacktrace, snapshot, dump, cpudump"
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
        PidFile<Traced>,
        "the tasks to trace, by thread ID, none for all: > replaces, >> adds, '!id' removes"
    ),
    spec!(
        "notrace_pid" = "set_ftrace_notrace_pid",
        WRITE,
        PidFile<NotTraced>,
        "the tasks not to trace, whatever pid says"
    ),
    spec!(
        "cgroup",
        WRITE,
        CgroupFile,
        "the cgroups whose tasks to trace, with those below: paths from / on or IDs, none for all; > replaces, >> \
         adds, '!' removes; with pid, tasks that are in both"
    ),
    spec!(
        "tracing_cpumask",
        WRITE,
        AttributeFile<Cpumask>,
        "the CPUs to trace, as a mask in hex"
    ),
    spec!(
        "graph_function" = "set_graph_function",
        WRITE,
        ListFile<GraphFunctionList>,
        "the functions below which calls are traced and profiled; all calls, if none"
    ),
    spec!(
        "graph_notrace" = "set_graph_notrace",
        WRITE,
        ListFile<GraphNotraceList>,
        "the functions of which and below which no calls are traced or profiled"
    ),
    spec!(
        "max_depth" = "max_graph_depth",
        WRITE,
        AttributeFile<MaxDepth>,
        "how deep function_graph traces calls; 0 for any depth"
    ),
    spec!(
        "tracing_thresh",
        WRITE,
        AttributeFile<Thresh>,
        "function_graph shows only calls that take longer, in us, and what they are in; 0 for all"
    ),
    spec!(
        "tracing_errno",
        WRITE,
        AttributeFile<Errnos>,
        "function_graph shows only calls that return an error, and the calls that it came by: 1 for any, names as EINVAL,ENOMEM for these; 0 for all calls"
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
        "trace_marker",
        WRITE_ONLY,
        AttributeFile<MarkerFile>,
        "what a program writes here is an event, between those of functions"
    ),
    spec!(
        "trace_marker_raw",
        WRITE_ONLY,
        AttributeFile<RawMarkerFile>,
        "the same, of bytes: a number of 32 bits, and what the program means by it"
    ),
    spec!(
        "status",
        READ,
        AttributeFile<Status>,
        "what is armed, hit, written and lost, and the memory in use"
    ),
    spec!(
        "tracing_on",
        WRITE,
        AttributeFile<TracingOn>,
        "0 stops recording at once and leaves all else as it is, 1 goes on"
    ),
    spec!(
        "dump_on_oops",
        WRITE,
        AttributeFile<DumpOnOops>,
        "1: the trace goes to the console when the machine dies, 2: that of the CPU which it dies on; in the top \
         directory also 'NAME' and 'NAME=2' of instances, behind commas"
    ),
    spec!(
        "budget",
        WRITE,
        AttributeFile<BudgetFile>,
        "'calls N' a second, 'cpu N' percent of one CPU: who takes more is stopped as by tracing_on, and status says \
         why; 0 for any"
    ),
    spec!(
        "current_tracer",
        WRITE,
        AttributeFile<CurrentTracer>,
        "the tracer; nop for none"
    ),
    spec!(
        "available_tracers",
        READ,
        AttributeFile<AvailableTracers>,
        "what can be written to current_tracer"
    ),
    spec!(
        "buffer_size_kb",
        WRITE,
        AttributeFile<BufferSize>,
        "size of each CPU's buffer in KiB; changing it keeps the newest events that \
         there is room for; X if they differ"
    ),
    spec!(
        "buffer_total_size_kb",
        READ,
        AttributeFile<TotalSize>,
        "size of all buffers together in KiB"
    ),
    spec!(
        "buffer_subbuf_size_kb",
        WRITE,
        AttributeFile<SubbufSize>,
        "size of the parts of a buffer in KiB, 4 to 512; changing it empties the buffers"
    ),
    spec!(
        "buffer_percent",
        WRITE,
        AttributeFile<BufferPercent>,
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
        WRITE_ONLY,
        FreeBuffer,
        "closing it gives back the memory of the buffers, once nobody has it open; however who had it ended"
    ),
    spec!(
        "trace_clock",
        WRITE,
        AttributeFile<TraceClock>,
        "what events are stamped with, the current one in brackets; changing it clears the buffers"
    ),
    spec!(
        "timestamp_mode",
        READ,
        AttributeFile<TimestampMode>,
        "how the kernel's page format has times: as differences, or absolute"
    ),
    spec!(
        "trace_options",
        WRITE,
        AttributeFile<TraceOptions>,
        "all options; writing a name switches it on, no before it off"
    ),
    spec!("options/print-parent", option PrintParent, "1: lines of calls have the caller"),
    spec!(
        "options/sym-offset",
        option SymOffset,
        "1: names of functions have the offset and the size"
    ),
    spec!("options/sym-addr", option SymAddr, "1: names of functions have the address"),
    spec!(
        "options/verbose",
        option Verbose,
        "1: no lines that explain the columns; with latency-format, more of each"
    ),
    spec!("options/trace_printk", option TracePrintk, "no effect: there is no trace_printk here"),
    spec!(
        "options/annotate",
        option Annotate,
        "1: lines say where the buffer of a CPU begins later than others"
    ),
    spec!(
        "options/context-info",
        option ContextInfo,
        "1: lines have the task, the CPU, and the time"
    ),
    spec!(
        "options/latency-format",
        option LatencyFormat,
        "1: lines are as those of ftrace's latency tracers"
    ),
    spec!("options/record-cmd", option RecordCmd, "no effect: names of tasks are always recorded"),
    spec!("options/record-tgid", option RecordTgid, "1: lines have the thread group"),
    spec!(
        "options/record-cgroup",
        option RecordCgroup,
        "1: tasks are recorded with their cgroup's ID and the pid in their namespace, and lines have these"
    ),
    spec!(
        "options/irq-info",
        option IrqInfo,
        "1: lines have the state of interrupts and preemption"
    ),
    spec!("options/markers", option Markers, "0: writing to trace_marker is refused"),
    spec!("options/event-fork", option EventFork, "no effect: there are no events"),
    spec!("options/stacktrace", option Stacktrace, "no effect: there are no events"),
    spec!(
        "options/function-trace",
        option FunctionTrace,
        "no effect, as in tracefs with these tracers"
    ),
    spec!(
        "options/overwrite",
        option Overwrite,
        "1: new events take the place of the oldest when a buffer is full; 0: they are dropped"
    ),
    spec!(
        "options/disable_on_free",
        option DisableOnFree,
        "1: closing free_buffer also stops recording, unhooks all functions, and ends the profile"
    ),
    spec!(
        "options/function-fork",
        option FunctionFork,
        "1: pid and notrace_pid follow forks: children of tasks in them come in, tasks that end go out"
    ),
    spec!("options/func-depth", option FuncDepth, "1 adds the call depth to each line of trace"),
    spec!(
        "options/func_stack_trace",
        option FuncStackTrace,
        "1: the function tracer records the stack of each call"
    ),
    spec!(
        "options/func-args",
        option FuncArgs,
        "1: the function tracer records the arguments of each call"
    ),
    spec!(
        "options/funcgraph-overrun",
        option GraphOverrun,
        "1: function_graph shows how many calls were too deep to be traced"
    ),
    spec!("options/funcgraph-cpu", option GraphCpu, "1: function_graph shows the CPU"),
    spec!(
        "options/funcgraph-overhead",
        option GraphOverhead,
        "1: function_graph marks long durations"
    ),
    spec!("options/funcgraph-proc", option GraphProc, "1: function_graph shows the task"),
    spec!(
        "options/funcgraph-duration",
        option GraphDuration,
        "1: function_graph shows how long calls took"
    ),
    spec!(
        "options/funcgraph-abstime",
        option GraphAbstime,
        "1: function_graph shows when calls began or ended"
    ),
    spec!(
        "options/funcgraph-irqs",
        option GraphIrqs,
        "1: function_graph traces hardware interrupts too"
    ),
    spec!(
        "options/funcgraph-tail",
        option GraphTail,
        "1: function_graph shows the function's name at its end"
    ),
    spec!(
        "options/funcgraph-retval",
        option GraphRetval,
        "1: function_graph records and shows what functions return"
    ),
    spec!(
        "options/funcgraph-retval-hex",
        option GraphRetvalHex,
        "1: function_graph shows that in hex always"
    ),
    spec!(
        "options/funcgraph-retaddr",
        option GraphRetaddr,
        "1: function_graph records and shows where calls came from"
    ),
    spec!(
        "options/funcgraph-args",
        option GraphArgs,
        "1: function_graph records and shows the arguments of calls"
    ),
    spec!(
        "options/funcgraph-handled",
        option GraphHandled,
        "1: with tracing_errno, errors that callers have handled are shown, too"
    ),
    spec!(
        "options/funcgraph-wait",
        option GraphWait,
        "1: function_graph records and shows what calls waited for, and what woke them"
    ),
    spec!(
        "options/sleep-time",
        option SleepTime,
        "1: durations include the time that the task was not running"
    ),
    spec!(
        "options/graph-time",
        option GraphTime,
        "1: the profile's times of a function include those of what it called"
    ),
    spec!(
        "options/profile-contexts",
        option ProfileContexts,
        "1: the profile counts calls by what they were called from, too: trace_stat/function_folded"
    ),
    spec!(
        "options/profile-tasks",
        option ProfileTasks,
        "1: paths counted from now on begin with the task's name"
    ),
    spec!(
        "options/profile-wait",
        option ProfileWait,
        "1: the profile counts for how long calls were asleep, and queued for a CPU, and what woke them"
    ),
    spec!(
        "options/folded-total",
        option FoldedTotal,
        "1: lines of trace_stat/function_folded have all of the time, also that of what is called"
    ),
    spec!(
        "options/folded-calls",
        option FoldedCalls,
        "1: lines of trace_stat/function_folded have the number of calls"
    ),
    spec!(
        "available_filter_functions",
        READ,
        AvailableFile,
        "every function that can be traced"
    ),
    spec!(
        "available_filter_functions_addrs",
        READ,
        AddressesFile,
        "the same, each after its address"
    ),
    spec!(
        "dyn_ftrace_total_info",
        READ,
        AttributeFile<TotalInfo>,
        "how many functions can be traced, and how many pages of memory our list of them takes"
    ),
    spec!(
        "enabled_functions",
        READ,
        EnabledFile,
        "every function that is traced or counted now, and while calls are counted how often it was called"
    ),
    spec!(
        "function_profile_enabled",
        WRITE,
        AttributeFile<ProfileEnabled>,
        "1 counts the calls of the functions in filter, and times them, from zero; 0 ends that"
    ),
    spec!(
        "trace_stat/function",
        WRITE,
        SummaryFile,
        "what all CPUs have counted so: calls, total and own time, average, percentiles; writing to it begins from zero"
    ),
    spec!(
        "trace_stat/function_latency",
        READ,
        LatencyFile,
        "how long the calls of the functions in filter took: a histogram of each"
    ),
    spec!(
        "trace_stat/function_folded",
        READ,
        FoldedFile,
        "by options/profile-contexts: what functions were called from, as 'a;b;c N' for flame graphs; \
         N is the own time in ns (options/folded-total: all of it; options/folded-calls: calls)"
    ),
    spec!(
        "trace_stat/functionN",
        READ,
        ProfileFile,
        "what one CPU has counted so: calls, time, average and variance of each function, most time first"
    ),
    spec!(
        "error_log",
        WRITE,
        AttributeFile<Errors>,
        "what was wrong with what was written; writing to it clears it"
    ),
    spec!(
        "available_events",
        READ,
        AttributeFile<Nothing>,
        "empty: there are no events that could be switched on"
    ),
    spec!(
        "set_event",
        WRITE,
        AttributeFile<SetEvent>,
        "empty: there are no events; '!*:*' switches all of them off, and names of events are refused"
    ),
    spec!(
        "set_event_pid",
        WRITE,
        PidFile<EventPid<false>>,
        "no effect: there are no events; holds the process IDs that are written"
    ),
    spec!(
        "set_event_notrace_pid",
        WRITE,
        PidFile<EventPid<true>>,
        "no effect: there are no events; holds the process IDs that are written"
    ),
    spec!(
        "show_event_filters",
        READ,
        AttributeFile<Nothing>,
        "empty: there are no events that could have filters"
    ),
    spec!(
        "show_event_triggers",
        READ,
        AttributeFile<Nothing>,
        "empty: there are no events that could have triggers"
    ),
    spec!(
        "events/enable",
        WRITE,
        AttributeFile<Enable>,
        "0: there are no events that could be switched on"
    ),
    spec!(
        "events/header_page",
        READ,
        AttributeFile<HeaderPage>,
        "what the pages of trace_pipe_raw begin with"
    ),
    spec!(
        "events/header_event",
        READ,
        AttributeFile<HeaderEvent>,
        "what records on these pages begin with"
    ),
    spec!("events/ftrace/function/format", format Function, "the record of a function's entry"),
    spec!(
        "events/ftrace/funcgraph_entry/format",
        format GraphEntry,
        "the record of a call's entry"
    ),
    spec!("events/ftrace/funcgraph_exit/format", format GraphExit, "the record of a call's return"),
    spec!("events/ftrace/kernel_stack/format", format KernelStack, "the record of a stack"),
    spec!(
        "events/ftrace/print/format",
        format Print,
        "the record of what was written to trace_marker"
    ),
    spec!(
        "events/ftrace/raw_data/format",
        format RawData,
        "the record of what was written to trace_marker_raw"
    ),
    spec!(
        "saved_cmdlines",
        READ,
        AttributeFile<SavedCmdlines>,
        "the names of the tasks in trace_pipe_raw, by thread ID"
    ),
    spec!(
        "saved_cmdlines_size",
        WRITE,
        AttributeFile<SavedCmdlinesSize>,
        "no effect: the names of all tasks are kept"
    ),
    spec!(
        "saved_tgids",
        READ,
        AttributeFile<SavedTgids>,
        "their processes"
    ),
    spec!(
        "printk_formats",
        READ,
        AttributeFile<Nothing>,
        "empty: no event has a format of its own"
    ),
    spec!(
        "instances/NAME",
        directory,
        "mkdir begins another tracing, which has nearly all of these files for itself; rmdir ends it, unless one of \
         them is open"
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
        "per_cpu/cpuN/trace_pipe_raw",
        READ,
        stream KernelPagesFile,
        "the events as pages of the kernel's own ring buffer, as programs like trace-cmd read them, each given out once"
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
        AttributeFile<BufferSize>,
        "as buffer_size_kb, for one CPU"
    ),
    spec!(
        "per_cpu/cpuN/stats",
        READ,
        AttributeFile<CpuStats>,
        "the counts of one CPU's buffer"
    ),
];

/// The files that the top directory alone has: they show what is the machine's, and other
/// instances.
pub(super) const TOP_ONLY: &[&str] = &[
    INSTANCES,
    "README",
    "available_filter_functions",
    "available_filter_functions_addrs",
    "dyn_ftrace_total_info",
    "enabled_functions",
    "available_events",
    "saved_cmdlines",
    "saved_cmdlines_size",
    "saved_tgids",
    "printk_formats",
];
