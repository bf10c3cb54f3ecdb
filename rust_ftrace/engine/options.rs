// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The options of `options/` and `trace_options`: their names and values.
//!
//! Names and values at the start are tracefs's (kernel/trace/trace.h, trace_functions_graph.c), but
//! for `record-cgroup` and `func-depth`, which it does not have. Some options change nothing: their
//! subject does not exist here, or is always so.

macro_rules! options {
    ($($(#[$doc:meta])* $option:ident = $name:literal $default:ident,)*) => {
        /// An option.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum TraceOption {
            $($(#[$doc])* $option,)*
        }

        impl TraceOption {
            /// All options, in the order of `trace_options`.
            pub const ALL: &[Self] = &[$(Self::$option,)*];

            /// The option's name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$option => $name,)*
                }
            }

            /// Returns whether the option is on at first.
            const fn default(self) -> bool {
                match self {
                    $(Self::$option => options!(@ $default),)*
                }
            }
        }
    };
    (@ on) => { true };
    (@ off) => { false };
}

options! {
    /// Lines of entries have the caller.
    PrintParent = "print-parent" on,
    /// Names of functions have the offset and the size.
    SymOffset = "sym-offset" off,
    /// Names of functions have the address.
    SymAddr = "sym-addr" off,
    /// There are no lines that explain columns.
    Verbose = "verbose" off,
    /// Nothing: there is no `trace_printk()` here.
    TracePrintk = "trace_printk" on,
    /// Lines say where the buffer of a CPU begins, later than that of others.
    Annotate = "annotate" on,
    /// Lines have the task, the CPU, and the time.
    ContextInfo = "context-info" on,
    /// Lines are as those of tracers of latencies.
    LatencyFormat = "latency-format" off,
    /// Nothing: names of tasks are always recorded.
    RecordCmd = "record-cmd" on,
    /// Lines have the thread group.
    RecordTgid = "record-tgid" off,
    /// Tasks are recorded with their containers, and lines have these.
    RecordCgroup = "record-cgroup" off,
    /// Lines have the state of interrupts and preemption.
    IrqInfo = "irq-info" on,
    /// Writes to `trace_marker` are recorded.
    Markers = "markers" on,
    /// Nothing: there are no events whose list of tasks could follow forks.
    EventFork = "event-fork" off,
    /// Nothing: there are no events whose stacks could be recorded.
    Stacktrace = "stacktrace" off,
    /// Nothing, as in tracefs: it is about tracers of latencies.
    FunctionTrace = "function-trace" on,
    /// New events take the place of the oldest when a buffer is full.
    Overwrite = "overwrite" on,
    /// Closing `free_buffer` also stops recording.
    DisableOnFree = "disable_on_free" off,
    /// Lists of tasks follow those that are made and end.
    FunctionFork = "function-fork" off,
    /// Lines have the call depth.
    FuncDepth = "func-depth" off,
    /// The `function` tracer records the stack at each event.
    FuncStackTrace = "func_stack_trace" off,
    /// The `function` tracer records the arguments of each call.
    FuncArgs = "func-args" off,
    /// `function_graph` shows how many calls were too deep.
    GraphOverrun = "funcgraph-overrun" off,
    /// `function_graph` shows the CPU.
    GraphCpu = "funcgraph-cpu" on,
    /// `function_graph` marks long durations.
    GraphOverhead = "funcgraph-overhead" on,
    /// `function_graph` shows the task.
    GraphProc = "funcgraph-proc" off,
    /// `function_graph` shows how long calls took.
    GraphDuration = "funcgraph-duration" on,
    /// `function_graph` shows when calls began or ended.
    GraphAbstime = "funcgraph-abstime" off,
    /// `function_graph` traces in hardware interrupts.
    GraphIrqs = "funcgraph-irqs" on,
    /// `function_graph` shows the function's name at its end.
    GraphTail = "funcgraph-tail" off,
    /// `function_graph` records the values that functions return.
    GraphRetval = "funcgraph-retval" off,
    /// `function_graph` always shows these values in hex.
    GraphRetvalHex = "funcgraph-retval-hex" off,
    /// `function_graph` records the addresses that functions were called from.
    GraphRetaddr = "funcgraph-retaddr" off,
    /// `function_graph` records the arguments of calls.
    GraphArgs = "funcgraph-args" off,
    /// With `tracing_errno`, `function_graph` shows errors that callers have handled, too.
    GraphHandled = "funcgraph-handled" off,
    /// `function_graph` records what calls waited for.
    GraphWait = "funcgraph-wait" off,
    /// Durations include the time for which the task did not run.
    SleepTime = "sleep-time" on,
    /// The profile's times of functions include those of what they called.
    GraphTime = "graph-time" on,
    /// The profile counts calls by what they were called from.
    ProfileContexts = "profile-contexts" off,
    /// These are told apart by the task's name.
    ProfileTasks = "profile-tasks" off,
    /// The profile counts what calls waited for.
    ProfileWait = "profile-wait" off,
    /// Lines of `function_folded` have all of the time, also that of calls within.
    FoldedTotal = "folded-total" off,
    /// Lines of `function_folded` have the number of calls.
    FoldedCalls = "folded-calls" off,
}

/// The set of options that are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options(pub u64);

impl Options {
    /// The options at the start.
    pub const fn new() -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < TraceOption::ALL.len() {
            if TraceOption::ALL[index].default() {
                bits |= TraceOption::ALL[index].bit();
            }
            index += 1;
        }
        Self(bits)
    }

    /// Returns whether `option` is on.
    pub const fn has(self, option: TraceOption) -> bool {
        self.0 & option.bit() != 0
    }

    /// Returns the options with `option` on or off.
    pub const fn with(self, option: TraceOption, on: bool) -> Self {
        match on {
            true => Self(self.0 | option.bit()),
            false => Self(self.0 & !option.bit()),
        }
    }
}

impl TraceOption {
    /// Options that a new instance takes from the top one, as `trace_flags` of tracefs does. The
    /// others are of tracers, or off at first.
    pub const INHERITED: [Self; 16] = [
        Self::PrintParent,
        Self::SymOffset,
        Self::SymAddr,
        Self::Verbose,
        Self::TracePrintk,
        Self::Annotate,
        Self::ContextInfo,
        Self::LatencyFormat,
        Self::RecordCmd,
        Self::RecordTgid,
        Self::Overwrite,
        Self::DisableOnFree,
        Self::IrqInfo,
        Self::Markers,
        Self::Stacktrace,
        Self::FunctionTrace,
    ];

    /// Returns whether hooks depend on the option, or callbacks of the kernel.
    pub const fn is_planned(self) -> bool {
        matches!(
            self,
            Self::FuncStackTrace
                | Self::FunctionFork
                | Self::RecordCgroup
                | Self::SleepTime
                | Self::GraphTime
                | Self::GraphWait
                | Self::ProfileContexts
                | Self::ProfileWait
        )
    }

    const fn bit(self) -> u64 {
        1 << self as u8
    }

    /// Parses a word written to `trace_options`: an option's name, or that with `no` before it.
    pub fn parse(word: &[u8]) -> Option<(Self, bool)> {
        let find = |name: &[u8]| {
            let mut all = Self::ALL.iter().copied();
            all.find(|option| option.name().as_bytes() == name)
        };
        match word.strip_prefix(b"no").and_then(find) {
            Some(option) => Some((option, false)),
            None => find(word).map(|option| (option, true)),
        }
    }
}
