#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# function_graph, with the kernel's own, on at the same time, as the oracle: the same calls, the same text.
. /tests/lib/ktap.sh

only_texts

reload

# Only "calls files" makes pipes while both are on: these are called below one root.
PIPES='*pipe*'
ROOT=$(pick do_pipe2 __do_sys_pipe2 __x64_sys_pipe2)
OPENAT=$(pick do_sys_openat2 do_sys_open)
MOUNT=$(pick path_mount do_mount)
DROP=$(pick kfree_skb sk_skb_reason_drop kfree_skb_reason) 2>/dev/null || :

DISPLAY='abstime cpu proc overhead duration tail overrun'

# What is shown, as at the start.
defaults() {
	local dir option
	for dir in $T $R; do
		for option in cpu duration overhead irqs; do echo 1 >$dir/options/funcgraph-$option; done
		for option in abstime proc tail overrun; do echo 0 >$dir/options/funcgraph-$option; done
		echo >$dir/set_graph_function
		echo >$dir/set_ftrace_filter
	done
	for option in retval retval-hex retaddr args; do echo 0 >$R/options/funcgraph-$option; done
	echo 0 >$R/tracing_thresh
}

# set OPTION VALUE: in both.
set_both() {
	echo "$2" >$T/options/funcgraph-"$1"
	echo "$2" >$R/options/funcgraph-"$1"
}

# both [ROOT]: both trace what two tasks do with pipes on CPU 1, or what one does below ROOT.
both() {
	local dir
	stock_off
	defaults
	for dir in $T $R; do
		echo 0 >$dir/tracing_on
		echo 4096 >$dir/buffer_size_kb
		if [ $# -eq 0 ]; then
			echo "$PIPES" >$dir/set_ftrace_filter
		else
			echo "$1" >$dir/set_graph_function
		fi
		# (see without_interrupts)
		echo 0 >$dir/options/funcgraph-irqs
		echo function_graph >$dir/current_tracer
	done
	echo 1 >$T/tracing_on
	echo 1 >$R/tracing_on
	if [ $# -eq 0 ]; then
		calls files 40 1 &
		calls files 40 1
		wait $!
	else
		# (the first is slow, and an interrupt likely)
		for _ in 1 2; do calls files 1 1; done
		echo >$T/trace
		echo >$R/trace
		for _ in 1 2; do calls files 1 1; done
	fi
	echo 0 >$T/tracing_on
	echo 0 >$R/tracing_on
}

# Times and durations that have their widths are blotted out.
blot() {
	sed -E 's/^[ 0-9]{5}\.[0-9]{6} \|/TIME |/' | awk '
		match($0, /[-+!#*@$ ] [0-9]+(\.[0-9]+)? us +\|/) && RLENGTH == 15 {
			$0 = substr($0, 1, RSTART - 1) "DURATION" substr($0, RSTART + RLENGTH - 1)
		}
		{ print }'
}

# without_interrupts <TRACE: where one comes between the two tracers' looks at a call, its calls are before the call's
# entry (or return) in one trace and behind it in the other. An entry and a return that only such calls stand between
# are made one line, as they are in the other.
without_interrupts() {
	awk -v any_time="^($ANY_TIME)[(][)]" '
		function flush() {
			if (held != "") print held
			held = ""
		}
		!match($0, /\|  [^|]*$/) || /^#/ { flush(); print; next }
		{
			start = RSTART
			text = substr($0, start + 1)
			match(text, /^ */)
			depth = RLENGTH
			name = substr(text, depth + 1)
		}
		inside && depth > at { next }
		inside && depth == at && name ~ /^}/ { inside = 0; next }
		{ inside = 0 }
		name ~ any_time {
			inside = name ~ /\{$/
			at = depth
			interrupted = 1
			next
		}
		held != "" && interrupted && depth == held_depth && name ~ /^}/ {
			sub(/\(\) \{$/, "();", held_text)
			print substr($0, 1, start) held_text
			held = ""
			next
		}
		{ flush() }
		name ~ /\(\) \{$/ { held = $0; held_text = text; held_depth = depth; interrupted = 0; next }
		{ print }
		END { flush() }'
}

# compare: what both show now.
compare() {
	local dir
	blot <$T/per_cpu/cpu1/trace | without_interrupts >/tmp/graph
	blot <$R/per_cpu/cpu1/trace | without_interrupts >/tmp/graph.our
	[ "$(wc -l </tmp/graph)" -ge 200 ]
	head -n 8 /tmp/graph.our
	diff /tmp/graph /tmp/graph.our >/tmp/diff || { head -n 20 /tmp/diff; return 1; }
}

once_same_lines() {
	both "$@"
	compare
	# (none of what is to be compared is missing)
	grep -q "|  *$ROOT() {\$" /tmp/graph.our
	grep -qE '^ 1\) DURATION\|  +[a-z0-9_.]+\(\);$' /tmp/graph.our
	grep -qE '^ 1\) DURATION\|  +\}$' /tmp/graph.our
	grep -qE '^ 1\) +calls-[0-9]+ +=> +calls-[0-9]+ +$' /tmp/graph.our
}

same_lines() {
	tries 5 once_same_lines
}

same_below() {
	tries 5 once_same_lines "$ROOT"
}

once_columns() {
	local option
	both
	compare
	for option in $DISPLAY; do
		cat $R/per_cpu/cpu1/trace >/tmp/before
		set_both "$option" $((1 - $(cat $R/options/funcgraph-$option)))
		echo "now $option"
		compare
		# (what it switches is there to be seen)
		if cat $R/per_cpu/cpu1/trace | cmp -s - /tmp/before; then return 1; fi
	done
	# Each with what it is not together with above, the last one first.
	for option in $DISPLAY; do
		set_both "$option" $((1 - $(cat $R/options/funcgraph-$option)))
		echo "now $option again"
		compare
	done
}

columns() {
	tries 5 once_columns
}

# What is on at the start is what is on there; what is written to trace_options is written to the files.
options_by_name() {
	local option
	defaults
	reload
	echo "$PARENT" >$T/set_ftrace_filter
	echo function_graph >$T/current_tracer
	# (the kernel may be built without some)
	grep -E '^(no)?funcgraph' $T/trace_options | grep -v -e retval -e retaddr -e args -e handled -e wait >/tmp/options
	stock_off
	grep -E '^(no)?funcgraph' $R/trace_options | grep -v -e retval -e retaddr -e args -e handled -e wait >/tmp/our.options
	cat /tmp/our.options
	[ "$(wc -l </tmp/our.options)" -eq 8 ]
	cmp /tmp/options /tmp/our.options
	for option in $DISPLAY irqs retval retval-hex retaddr args; do
		echo "funcgraph-$option" >$R/trace_options
		says $R/options/funcgraph-"$option" 1
		echo "nofuncgraph-$option" >$R/trace_options
		says $R/options/funcgraph-"$option" 0
		grep -qx "nofuncgraph-$option" $R/trace_options
	done
	defaults
}

# All files show the same lines.
files() {
	local cpu
	defaults
	echo "$PIPES" >$R/filter
	echo function_graph >$R/current_tracer
	calls files 100 0
	calls files 100 1
	echo 0 >$R/tracing_on
	cat $R/trace >/tmp/all
	is header "$(head -n 1 /tmp/all)" '# tracer: function_graph'
	for cpu in 0 1; do
		grep -E "^ $cpu\\)" /tmp/all >/tmp/of
		[ "$(wc -l </tmp/of)" -ge 200 ]
		grep -E "^ $cpu\\)" $R/per_cpu/cpu$cpu/trace | cmp - /tmp/of
	done
	echo 1 >$R/snapshot
	cmp $R/snapshot /tmp/all
}

# Taken out in pieces that end anywhere, with the switches of tasks where they belong.
pipe() {
	defaults
	echo "$PIPES" >$R/filter
	echo function_graph >$R/current_tracer
	calls files 200 1 &
	calls files 200 1
	wait $!
	echo 0 >$R/tracing_on
	grep -v '^#' $R/trace >/tmp/lines
	grep -q '=>' /tmp/lines
	fails fileio drain $R/trace_pipe 100 4096 33 >/tmp/pipe
	cmp /tmp/lines /tmp/pipe
}

# What functions return, and where they are called from: Debian's own tracer has it compiled out.
values() {
	local pid
	defaults
	sh -c 'echo $PPID' >/tmp/pid
	pid=$(cat /tmp/pid)
	echo "$PARENT $OPENAT" >$R/filter
	echo function_graph >$R/current_tracer
	echo 1 >$R/options/funcgraph-retval
	calls getppid 3
	cat /nonexistent 2>/dev/null || :
	echo 0 >$R/tracing_on
	cat $R/trace >/tmp/trace
	grep -E "  $PARENT\(\); /\* ret=$(printf '0x%x' "$pid") \*/\$" /tmp/trace
	grep -E "  $OPENAT\(\); /\* ret=-2 \*/\$" /tmp/trace
	echo 1 >$R/options/funcgraph-retval-hex
	grep -E "  $OPENAT\(\); /\* ret=0x(f{8})?fffffffe \*/\$" $R/trace
	echo 0 >$R/options/funcgraph-retval
	fails grep 'ret=' $R/trace
	echo 0 >$R/options/funcgraph-retval-hex

	echo >$R/trace
	echo 1 >$R/tracing_on
	echo 1 >$R/options/funcgraph-retaddr
	calls getppid 3
	echo 0 >$R/tracing_on
	cat $R/trace >/tmp/trace
	echo 0 >$R/options/funcgraph-retaddr
	# (the callers of system calls)
	grep -E "  $PARENT\(\); /\* <-(x64_sys_call|do_syscall_64|__x64_sys_getppid)\+0x[0-9a-f]+/0x[0-9a-f]+ \*/\$" /tmp/trace
	fails grep -e '<-' $R/trace
}

# The same as the kernel's own says, where it says any; registers as they are without BTF.
arguments() {
	defaults
	echo "$OPENAT" >$R/filter
	echo function_graph >$R/current_tracer
	echo 1 >$R/options/funcgraph-args
	cat /nonexistent 2>/dev/null || :
	echo 0 >$R/tracing_on
	echo 0 >$R/options/funcgraph-args
	cat $R/trace
	# (AT_FDCWD, as an int)
	grep -qE "\|  $OPENAT\((dfd=4294967196, filename=0x[0-9a-f]+, |0x(f{8})?ffffff9c, 0x[0-9a-f]+, ).*\);\$" $R/trace
}

ticks() { grep -qE '\|  +sched_tick\(\);$' $R/trace; }
# Interrupts of the timers of all CPUs.
timer_interrupts() { awk '$1 == "LOC:" { for (i = 2; i <= NF && $i ~ /^[0-9]+$/; i++) n += $i; print n }' /proc/interrupts; }
have_come() { [ "$(timer_interrupts)" -gt "$1" ]; }

interrupts() {
	defaults
	echo sched_tick >$R/filter
	echo function_graph >$R/current_tracer
	background calls getppid 0
	until_true 10 ticks
	echo 0 >$R/options/funcgraph-irqs
	echo >$R/trace
	# (as many ticks as make no doubt)
	until_true 20 have_come $(($(timer_interrupts) + 100))
	cat $R/trace
	fails ticks
	echo 1 >$R/options/funcgraph-irqs
	until_true 10 ticks
}

# With a threshold: what called a slow call is there, with the time at which it was called; and nothing else.
slow_calls() {
	defaults
	echo "$PIPES" '*nanosleep' 'common_nsleep*' >$R/filter
	echo 50000 >$R/tracing_thresh
	echo function_graph >$R/current_tracer
	echo 1 >$R/options/funcgraph-abstime
	calls files 10
	busybox usleep 100000
	calls files 10
	echo 0 >$R/tracing_on
	cat $R/trace >/tmp/trace
	cat /tmp/trace
	fails grep pipe /tmp/trace
	# The time from its beginning to its end is what it took.
	awk '
		/^#/ { next }
		{ match($0, /\|  +[^ |]*[a-z}]/); depth = split(substr($0, RSTART), words, "  ") }
		/\{$/ { began[depth] = $1; entries++ }
		/\}$/ {
			if (!began[depth]) { print "no beginning: " $0; bad = 1 }
			match($0, /[0-9]+\.[0-9]+ us/)
			took = substr($0, RSTART) / 1000000
			apart = $1 - began[depth] - took
			if (apart < -0.000003 || apart > 0.000003) { print "not " $1 - began[depth] ": " $0; bad = 1 }
			began[depth] = 0
			ends++
		}
		END { print entries, ends; exit bad || entries < 1 || entries != ends }' /tmp/trace
}

# nested < TRACE: every call's duration has room for those of the calls in it, but for rounding; and unless an
# interrupt comes just when the end is being recorded, as in ftrace.
nested() {
	awk '
		/^#/ || /=>/ || /^ -/ || !NF { next }
		{
			match($0, /\|  +/)
			depth = (RLENGTH - 3) / 2
			duration = 0
			if (match($0, /[0-9]+\.[0-9]+ us/)) duration = substr($0, RSTART) + 0
		}
		/\(\) \{$/ { sum[depth] = 0; open[depth] = 1; next }
		/;$/ { if (depth) sum[depth - 1] += duration; calls++; next }
		/\}/ {
			if (open[depth] && duration + 0.01 < sum[depth]) {
				print "calls of " sum[depth] " us in: " $0
				bad = 1
			}
			open[depth] = 0
			if (depth) sum[depth - 1] += duration
			calls++
			if (depth > deepest) deepest = depth
		}
		END {
			print calls " calls, " deepest + 1 " deep"
			exit bad || calls < 20 || deepest < 3
		}'
}

# --- as people type it

# Under what a mount is called, what it calls, and how long each takes.
typed_mount() {
	tries 3 once_typed_mount
}

once_typed_mount() {
	echo nop >$R/current_tracer
	echo 1 >$R/tracing_on
	defaults
	cd $R
	echo $MOUNT > graph_function; echo function_graph > current_tracer
	taskset 1 mount -t tmpfs none /mnt
	echo 0 > tracing_on
	umount /mnt
	cat trace >/tmp/trace
	head -n 20 /tmp/trace
	is 'the first call' "$(grep -v '^#' trace | head -n 1 | sed 's/.*|  //')" "$MOUNT() {"
	is 'how often it is called' "$(grep -cE "\|  $MOUNT\(\) \{" /tmp/trace)" 1
	is 'how often it ends' "$(grep -cE '\|  \}$' /tmp/trace)" 1
	nested </tmp/trace
}

typed_open() {
	tries 3 once_typed_open
}

once_typed_open() {
	echo nop >$R/current_tracer
	echo 1 >$R/tracing_on
	defaults
	cd $R
	echo $OPENAT > set_graph_function
	echo function_graph > current_tracer
	echo funcgraph-proc > trace_options
	echo > trace
	echo 1 > tracing_on
	ls >/dev/null
	echo 0 > tracing_on
	cat trace >/tmp/trace
	head -n 20 /tmp/trace
	is columns "$(sed -n 3p /tmp/trace)" '# CPU  TASK/PID         DURATION                  FUNCTION CALLS'
	grep -E "^ [01]\)  +ls-[0-9]+ +\|  +\|  $OPENAT\(\) \{\$" /tmp/trace
	grep -E "^ [01]\)  +ls-[0-9]+ +\| [-+!#*@\$ ] [0-9.]+ us +\|  \}\$" /tmp/trace
	sed 's/^\( [01])\)[^|]*|/\1/' /tmp/trace | nested
}

typed_packet() {
	defaults
	ifconfig lo up 127.0.0.1
	cd $R
	echo $MOUNT "$DROP" 'skb_*' 'kfree*' 'kmem*' > set_ftrace_filter
	echo "!$MOUNT" >> set_ftrace_filter
	fails grep -qx $MOUNT set_ftrace_filter
	echo $DROP > set_graph_function
	echo function_graph > current_tracer
	# (a packet to a port that no program listens at)
	timeout 5 nslookup x 127.0.0.1 >/dev/null 2>&1 || :
	echo 0 > tracing_on
	cat trace >/tmp/trace
	head -n 20 /tmp/trace
	grep -qE "^ [01]\) .*\|  $DROP\(\)( \{|;)\$" /tmp/trace
	grep -qE '^ [01]\) [-+!#*@$ ] [0-9.]+ us +\|    +[a-z0-9_.]+\(\);$' /tmp/trace
}

# A call that is still open is shown, and its end when it comes, by its name if nothing else tells it.
open_calls() {
	local sleep
	defaults
	sleep=$(pick hrtimer_nanosleep common_nsleep)
	echo "$sleep" >$R/filter
	echo function_graph >$R/current_tracer
	busybox sleep 100 &
	until_true 10 grep -qE "\|  +$sleep\(\) \{\$" $R/trace
	echo >$R/trace
	busybox sleep 1
	kill $!
	wait $! || :
	cat $R/trace
	grep -qE "^ [01]\) \\$ [1-9][0-9]{6,} us  \|  +\} /\* $sleep \*/\$" $R/trace
	# Not while recording is off.
	echo 0 >$R/tracing_on
	echo >$R/trace
	busybox sleep 0.1
	fails grep -v '^#' $R/trace
}

overwritten() {
	local cpu
	defaults
	echo "$PIPES" >$R/filter
	echo 64 >$R/buffer_size_kb
	echo function_graph >$R/current_tracer
	calls files 4000 0
	calls files 4000 1
	echo 0 >$R/tracing_on
	[ "$(stat_of 0 overrun)" -gt 0 ]
	[ "$(stat_of 1 overrun)" -gt 0 ]
	cat $R/trace >/tmp/trace
	head -n 8 /tmp/trace
	for cpu in 0 1; do grep -q "^ $cpu)" /tmp/trace; done
	# (as ftrace: it is not said that a CPU begins later, nor what the oldest event is that there is)
	fails grep -e '^#####' -e '^CPU:' /tmp/trace
	fails grep -E '[0-9]{8,} us' /tmp/trace
}

t 'the same calls, the same lines' same_lines
t 'the same below a root, at any depth' same_below
t 'the same columns, whatever is switched' columns
t 'options by their names' options_by_name
t 'all files show the same' files
t 'trace_pipe gives out the same lines' pipe
t 'return values and addresses' values
t 'arguments' arguments
t 'interrupts, and none' interrupts
t 'slow calls, and what called them' slow_calls
t 'typed: a mount, all below it' typed_mount
t 'typed: what ls opens, with the task' typed_open
if [ -n "$DROP" ]; then
	t 'typed: a packet that is dropped' typed_packet
else
	skip 'typed: a packet that is dropped' 'the kernel has no network'
fi
t 'calls that are open' open_calls
t 'overwritten history' overwritten
defaults
finish
