# SPDX-License-Identifier: GPL-2.0
# What the guest tests share; each begins with ". /tests/lib/ktap.sh".
#
#	t 'what holds' function		runs function with errexit and xtrace; its log is
#					shown if it fails
#	texts 'what holds' function	the same, but not on a debug kernel
#	skip 'what holds' 'why not'
#	finish				prints the plan; a file that ends before has none, and fails

R=/sys/kernel/debug/rftrace
T=/sys/kernel/tracing
# What a buffer's size is if nothing is said.
SIZE_KB=1408
# And a sub-buffer's.
SUBBUF_KB=16

# As a mask; nothing here changes the kernel's own.
ALL_CPUS=$(cat $T/tracing_cpumask)

tests=0
failures=0

t() {
	tests=$((tests + 1))
	read_time
	began=$time
	reset
	# (not in a condition: errexit would be off in all of it)
	(
		# (whatever became of the test, nothing of it goes on)
		trap 'set +x; end_background' EXIT
		set -ex
		"$2"
	) >/tmp/t.log 2>&1
	code=$?
	read_time
	took=" # $(((time - began) / 100)) s"
	if [ $code -eq 0 ]; then
		echo "ok $tests $1$took"
	else
		failures=$((failures + 1))
		tail -n 25 /tmp/t.log | cut -c 1-300 | sed 's/^/# /'
		echo "# exit code $code"
		echo "not ok $tests $1$took"
	fi
}

skip() {
	tests=$((tests + 1))
	echo "ok $tests $1 # SKIP $2"
}

# For what is shown, or refused, alike on every kernel, by code that other tests run too: a debug kernel is for
# what its checkers find, and takes minutes.
texts() {
	if [ "$SLOWER" -eq 1 ]; then
		t "$@"
	else
		skip "$1" 'the same on every kernel, and this one is slow'
	fi
}

# stressed NAME FUNCTION: as t, of what comes of much at once. It takes minutes on a debug kernel, whose checkers make
# stress gives more to look at; what comes of it is the same on other kernels.
stressed() {
	if [ "$SLOWER" -eq 1 ]; then
		t "$@"
	else
		skip "$1" 'takes minutes here: other kernels check the result, and make stress does such things on this one'
	fi
}

# For a whole file of such tests, at its begin.
only_texts() {
	[ "$SLOWER" -eq 1 ] || { echo '1..0 # SKIP texts are the same on every kernel, and this one is slow'; exit 0; }
}

finish() {
	unload
	stock_off
	echo "1..$tests"
	exit $((failures > 0))
}

# --- assertions: "! command" never fails under errexit, these do

# holds EXPRESSION: awk's, of numbers.
holds() {
	awk "BEGIN { exit !($1) }" || {
		echo "it does not hold that $1"
		return 1
	}
}

fails() {
	if "$@"; then
		echo "unexpectedly succeeded: $*"
		return 1
	fi
}

# is WHAT GOT WANTED
is() {
	if [ "$2" != "$3" ]; then
		echo "$1 is '$2', not '$3'"
		return 1
	fi
}

# says FILE TEXT: the file is exactly this one line.
says() {
	is "$1" "$(cat "$1")" "$2"
}

# gets ERRNO PATH [FLAGS] DATA...: writing ends like that (see helpers/fileio.c).
gets() {
	local wanted=$1
	shift
	is "result of writing '$*'" "$(fileio write "$@")" "$wanted"
}

# until_true SECONDS COMMAND...: polls, ten times a second. SECONDS are plenty where nothing else is at
# work; a busy machine gets ten times that before the test fails.
until_true() {
	local time deadline
	read_time
	deadline=$((time + $1 * 1000))
	shift
	until "$@"; do
		read_time
		if [ "$time" -ge $deadline ]; then
			echo "did not come to hold: $*"
			return 1
		fi
		usleep 100000
	done
}

# tries COUNT COMMAND...: where what else the machine does can spoil a comparison, one that holds will do.
tries() {
	local left=$1 code
	shift
	while :; do
		# (not in a condition: errexit would be off in all of it)
		set +e
		(set -e; "$@")
		code=$?
		set -e
		left=$((left - 1))
		if [ $code -eq 0 ] || [ $left -le 0 ]; then return $code; fi
		echo "another try, of $left"
	done
}

# --- the module

load() {
	insmod /rust_ftrace.ko "$@"
}

unload() {
	if [ -e /sys/module/rust_ftrace ]; then rmmod rust_ftrace; fi
}

# A fresh module: nothing of an earlier test is left.
reload() {
	unload
	load "$@"
	if [ -z "$DEFAULT_OPTIONS" ]; then
		read_options
		DEFAULT_OPTIONS=$trace_options
	fi
}
DEFAULT_OPTIONS=

# Sets trace_options to all of them, as words.
read_options() {
	local line
	trace_options=''
	while read -r line; do trace_options="$trace_options$line "; done <$R/trace_options
}

# With this a tracer without a filter traces all functions of these names: to hook the others, too, takes 20 s.
few() {
	echo '[!cv]*' 'c[!p]*' 'cp[!u]*' 'v[!f]*' 'vf[!s]*' >$R/notrace
}

# status KEY: its value.
status() {
	sed -n "s/^$1: //p" $R/status
}

# stat_of CPU KEY
stat_of() {
	sed -n "s/^$2: //p" $R/per_cpu/cpu"$1"/stats
}

# All files as after loading: no test depends on how the one before it ended.
# (processes are dear on a debug kernel: here the shell itself reads)
reset() {
	local value
	end_background
	[ -e $R ] || return 0
	for value in $R/instances/*; do if [ -d "$value" ]; then rmdir "$value"; fi; done
	# (before the filter: it would count all functions)
	echo 0 >$R/function_profile_enabled
	echo nop >$R/current_tracer
	echo >$R/filter
	no_commands $R/filter
	echo >$R/notrace
	echo >$R/pid
	echo >$R/notrace_pid
	echo >$R/cgroup
	echo "$ALL_CPUS" >$R/tracing_cpumask
	echo 0 >$R/dump_on_oops
	echo >$R/graph_function
	echo >$R/graph_notrace
	echo 0 >$R/max_depth
	echo 0 >$R/tracing_thresh
	echo 0 >$R/tracing_errno
	# (to read them all takes as long as to write a few)
	read_options
	[ "$trace_options" = "$DEFAULT_OPTIONS" ] || for value in $DEFAULT_OPTIONS; do echo "$value" >$R/trace_options; done
	read -r value <$R/trace_clock
	case $value in *'[local]'*) ;; *) echo local >$R/trace_clock ;; esac
	echo 0 >$R/snapshot
	echo 50 >$R/buffer_percent
	read -r value <$R/buffer_subbuf_size_kb
	[ "$value" = "$SUBBUF_KB" ] || echo "$SUBBUF_KB" >$R/buffer_subbuf_size_kb
	read -r value <$R/buffer_size_kb
	[ "$value" = "$SIZE_KB" ] || echo "$SIZE_KB" >$R/buffer_size_kb
	echo 1 >$R/tracing_on
	echo >$R/trace
	echo >$R/error_log
}

# no_commands FILE: takes all commands out of it, a filter of ours or tracefs's: > does not.
no_commands() {
	local line name
	while read -r line; do
		name=${line%%:*}
		# (one word may take out several)
		case $line in *:mod:*) ;; *:*) echo "!${name%% *}:${line#*:}" >>"$1" 2>/dev/null || : ;; esac
	done <"$1"
}

# The lines of events of a trace read from stdin or FILE.
events() {
	grep -v '^#' "$@" | grep -v '^CPU:'
}

# hits FUNCTION: how many events of it the trace holds.
hits() {
	cat $R/trace >/tmp/hits.trace
	grep -cF ": $1 <-" /tmp/hits.trace || :
}

# calls_of FUNCTION: how many of its events are of the program calls. (shells too call getppid)
calls_of() {
	cat $R/trace >/tmp/hits.trace
	grep -cE "^ *calls-[0-9]+ .*: $1 <-" /tmp/hits.trace || :
}

# names FILE: the functions in filter or notrace, without modules, in one line.
names() {
	sed 's/ .*//' "$1" | tr '\n' ' ' | sed 's/ $//'
}

# written = read + present + overwritten, of all and of each CPU, and the CPUs add up. Every event, written or lost, is an
# entry, a return, or a mark; and every one that is lost has its reason.
# (only when nothing is being recorded)
accounts_agree() {
	awk '
		function is(what, got, wanted) {
			if (got != wanted) { print what " is " got ", not " wanted; bad = 1 }
		}
		{
			at = index($0, ": ")
			value[FILENAME, substr($0, 1, at - 1)] = substr($0, at + 2) + 0
			file[FILENAME]
		}
		END {
			for (f in file) {
				if (f ~ /status$/) {
					is("written", value[f, "events written"], value[f, "events read"] + \
						value[f, "events present"] + value[f, "events overwritten"])
					is("hits, returns and marks", value[f, "hits"] + value[f, "returns"] + value[f, "marks"], \
						value[f, "events written"] + value[f, "events lost"])
					is("lost, by reasons", value[f, "lost to full buffers"] + \
						value[f, "lost to commit overruns"] + value[f, "lost without buffer"] + \
						value[f, "lost while the clock was read"] + \
						value[f, "lost while a snapshot was taken"], value[f, "events lost"])
					if (!((f, "returns") in value)) { print "no returns"; bad = 1 }
					all = value[f, "events written"]
					continue
				}
				is("written in " f, value[f, "written events"], value[f, "read events"] + \
					value[f, "entries"] + value[f, "overrun"])
				sum += value[f, "written events"]
				cpus++
			}
			is("the sum of the CPUs", sum, all)
			exit bad || !cpus || all == ""
		}' $R/status $R/per_cpu/cpu*/stats
}

# --- the kernel's own tracer

stock_off() {
	echo nop >$T/current_tracer
	echo >$T/set_ftrace_filter
	no_commands $T/set_ftrace_filter
	echo >$T/set_ftrace_notrace
	echo 0 >$T/options/func_stack_trace 2>/dev/null
	if [ -e $T/options/func-args ]; then echo 0 >$T/options/func-args; fi
	echo >$T/set_ftrace_pid
	echo $SIZE_KB >$T/buffer_size_kb
	echo 1 >$T/tracing_on
	echo >$T/trace
	# (what a perf that was killed leaves)
	rmdir $T/instances/perf-ftrace-* 2>/dev/null || :
}

# What we say is hooked is what the kernel says, whose own tracer hooks nothing.
hooked_as_said() {
	is 'hooked, in the kernel' "$(sed 's/ .*//' $T/enabled_functions | sort)" \
		"$(sed 's/ .*//' $R/enabled_functions | sort)"
	is count "$(grep -c . $R/enabled_functions)" "$(status 'armed functions')"
}

# listed_as_there ORDER WORD...: filter says to each word what tracefs says, in its order (cat) or in any (sort).
listed_as_there() {
	local order=$1 word
	shift
	for word; do
		echo "$word" >>$T/set_ftrace_filter
		echo "$word" >>$R/filter
		$order $T/set_ftrace_filter >/tmp/stock.list
		$order $R/filter >/tmp/our.list
		diff /tmp/stock.list /tmp/our.list
	done
}

# by_context <EVENTS: "CONTEXT|TIME|TEXT" of each, where the context is CPU, thread, kind of interrupt, and whether
# interrupts are off. All functions that are called in one context have the same order for all tracers: ftrace calls
# one tracer after the other, with preemption off, and what interrupts that runs in another context, to its end. (with
# "d": the end of an interrupt, when it counts as the task's again)
by_context() {
	sed -nE 's/^.{16}-([0-9]+) +\[([0-9]+)\] (.).(.).. +([0-9]+\.[0-9]+): (.*)$/\2 \1 |\3|\4|\5|\6/p' |
		awk -F '|' '{
			at = length($1 $2 $3 $4) + 5
			print $1 tolower($3) ($2 ~ /[dD]/ ? "d" : "") "|" $4 "|" substr($0, at)
		}'
}

# ordered PID [COMMAND...]: what both_with left of a thread: "CONTEXT|TEXT" in /tmp/stock.calls and /tmp/our.calls, each
# context together, in order. The command makes lines of events out of a trace: those of the thread, if there is none.
# The kernel's tracer is the first to be on, and the last to be off: what it has more of at the end is left out.
ordered() {
	local thread=$1 end f
	shift
	[ $# -gt 0 ] || set -- grep -- "-$thread  *\["
	end=$(grep -F ': tracing_mark_write: end' /tmp/stock.trace | sed -E 's/^.* ([0-9]+\.[0-9]+): .*$/\1/')
	[ -n "$end" ]
	for f in stock our; do
		"$@" </tmp/$f.trace | by_context | sort -s -t '|' -k 1,1 >/tmp/$f.sorted
	done
	awk -F '|' -v end="$end" '
		NR == FNR { ours[$1]++; next }
		++seen[$1] <= ours[$1] || $2 + 0 < end + 0' /tmp/our.sorted /tmp/stock.sorted |
		cut -d '|' -f 1,3- >/tmp/stock.calls
	cut -d '|' -f 1,3- /tmp/our.sorted >/tmp/our.calls
}

# none_lost: neither tracer has lost any event.
none_lost() {
	is 'overwritten' "$(status 'events overwritten')" 0
	is 'lost' "$(status 'events lost')" 0
	is "what the kernel's tracer lost" "$(cat $T/per_cpu/cpu*/stats |
		awk '/^(overrun|commit overrun|dropped events):/ { sum += $NF } END { print sum + 0 }')" 0
}

# both_with OPTION FILTER COMMAND...: /tmp/stock.trace and /tmp/our.trace of what both tracers record of the
# functions, with an option of both, while the command runs, as $pid; see ordered.
both_with() {
	local option=$1 filter=$2
	shift 2
	stock_off
	echo 16384 >$T/buffer_size_kb
	echo 16384 >$R/buffer_size_kb
	echo "$filter" >$T/set_ftrace_filter
	echo "$filter" >$R/filter
	echo 1 >$T/options/"$option"
	echo 1 >$R/options/"$option"
	echo function >$T/current_tracer
	echo function >$R/current_tracer
	"$@" &
	pid=$!
	wait $pid
	# (a task that ends is waited for before it has ended quite)
	echo end >$T/trace_marker
	echo 0 >$R/tracing_on
	echo 0 >$T/tracing_on
	cat $T/trace >/tmp/stock.trace
	cat $R/trace >/tmp/our.trace
	none_lost
	stock_off
}

# graph_nesting <TRACE: depth and function of every call that function_graph shows.
graph_nesting() {
	grep -v '^#' | sed -nE 's/^[^|]*\|  ( *)([a-zA-Z_][^ (]*)\(\).*/\1 \2/p' |
		awk '{ match($0, /^ */); print (RLENGTH - 1) / 2, $1 }'
}

# needs_module: a test file about the functions of a module (MOD; F is one of them) ends here if there is none.
needs_module() {
	if [ -z "$TARGET_MOD" ]; then
		echo "1..0 # SKIP no module to trace"
		unload
		exit 0
	fi
	# shellcheck disable=SC2034 # tests use them
	MOD=/lib/modules/$RELEASE/$TARGET_MOD.ko F=$TARGET_MOD_FUNC
}

# --- functions to trace: which there are depends on the compiler

# Functions that are left out, with or without an address: docs/upstream/ftrace-starting-cpu.md.
BEFORE_IDT='(.* )?(setup_ghcb|sev_es_negotiate_protocol|snp_register_ghcb_early|cpu_init_fred_(exceptions|rsps)|load_current_idt)'
# The list is long: it is read once for all files of tests.
if [ ! -e /tmp/available ]; then grep -vxE "$BEFORE_IDT" $T/available_filter_functions >/tmp/available; fi

# pick NAME...: the first that can be traced.
pick() {
	local name
	for name; do
		if grep -qxF "$name" /tmp/available; then
			echo "$name"
			return
		fi
	done
	echo "none of these can be traced: $*" >&2
	return 1
}

# sys NAME: what is armed for that system call.
sys() {
	pick "__do_sys_$1" "__se_sys_$1" "__x64_sys_$1"
}

# --- work

# background COMMAND...: its process is among those that end_background ends. It is nice, so that the test does not
# wait for what is only to keep the CPUs busy.
workers=
background() {
	"$@" >/dev/null 2>&1 </dev/null &
	workers="$workers $!"
	renice -n 10 -p $! >/dev/null 2>&1 || :
}

# counting FILE COMMAND...: as background; FILE gets what it says, which "calls MODE 0" does at its end.
counting() {
	local out=$1
	shift
	# (what is there from before must not be taken for what it says)
	rm -f "$out"
	"$@" >"$out" 2>/dev/null </dev/null &
	workers="$workers $!"
}

end_background() {
	local pid
	for pid in $workers; do kill "$pid" 2>/dev/null || :; done
	for pid in $workers; do wait "$pid" 2>/dev/null || :; done
	workers=
}

# Both CPUs run this until ended: processes, files, pipes.
churn() {
	while :; do
		ls -lR /proc/self /proc/irq
		dd if=/dev/zero bs=4096 count=50 | md5sum
		calls files 200 "$1"
	done
}

# shellcheck disable=SC2034 # tests use it
PARENT=$(sys getppid)

# Functions that are called at any time, by the begin and the end of an interrupt, which are not in it.
ANY_TIME='irq_enter_rcu|irq_exit_rcu|handle_softirqs|idle_cpu|__hrtimer_rearm_deferred|rcu_irq_exit_check_preempt'

# now: hundredths of a second since boot.
now() {
	local time
	read_time
	echo "$time"
}

# Sets time to that. (a process for it takes half a second on a debug kernel)
read_time() {
	local up rest
	read -r up rest </proc/uptime
	time=${up%.*}${up#*.}
}

# A debug kernel is many times slower.
case $KERNEL in
debug | kcsan) SLOWER=10 ;;
*) SLOWER=1 ;;
esac

# one_of_each: of the paths of files on stdin, those to try: on a slow kernel one of each kind.
one_of_each() {
	if [ "$SLOWER" -eq 1 ]; then cat; else grep -vE '/options/[^o]|/per_cpu/cpu[1-9]|/instances/.*/(options|per_cpu)/'; fi
}

# some COUNT: how often to do what takes long: on a slow kernel less often, but not just once.
some() {
	local count=$(($1 / SLOWER))
	echo $((count > 3 ? count : 3))
}
