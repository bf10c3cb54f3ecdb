#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Which calls function_graph traces, and what becomes of those that are open.
. /tests/lib/ktap.sh

reload
SLEEP=$(pick do_nanosleep)
MOUNT=$(pick path_mount)

# calls_in FILE: the lines of calls.
calls_in() {
	cat "$1" >/tmp/calls.trace
	grep -E '\) .*\|  ' /tmp/calls.trace | grep -v '^#' || :
}
# shapes FILE: "depth text" of each line, without CPU and duration.
shapes() {
	calls_in "$1" | sed -E 's/^[^|]*\|  //' |
		awk '{ match($0, /^ */); print RLENGTH / 2, substr($0, RLENGTH + 1) }'
}
# without_interrupts <SHAPES: without what interrupts call that is not in one. (It can come between a function and the line
# of that, as if that had called it.)
without_interrupts() {
	awk -v any_time="^($ANY_TIME)[(][)]" '
		hidden { if ($1 == at && $2 == "}") hidden = 0; next }
		$2 ~ any_time { at = $1; hidden = /\{$/; next }
		{ print }'
}
# durations FILE: in us.
durations() {
	calls_in "$1" | sed -nE 's/^ *[0-9]+\) [^0-9]*([0-9.]+) us .*/\1/p'
}
# Some hundreds, of which some call others.
many() {
	local pattern
	# (not every kernel has some of each)
	for pattern in 'path_*' 'vfs_*' 'security_*' '*mount*' 'do_*' '*nanosleep*' '*schedule'; do
		echo "$pattern" >>$R/filter || :
	done
}
# Hooking all functions takes minutes on a debug kernel.
if [ "$SLOWER" -eq 1 ]; then
	MANY=100
	all() { :; }
else
	MANY=10
	all() { many; }
fi
graph() {
	echo function_graph >$R/current_tracer
	says $R/current_tracer function_graph
}
# (on one CPU: a call that returns on another is two lines)
mount_once() {
	taskset 1 mount -t tmpfs none /mnt
	umount /mnt
}
nap() {
	taskset 1 usleep "$1"
}
asleep() {
	taskset 1 usleep "$1" &
	workers="$workers $!"
}
has_open() {
	shapes $R/trace | grep -qxF "0 $SLEEP() {"
}

# (the entry of a call counts already when an interrupt comes before it is recorded, with fgraph as with us: the calls
# of that interrupt stand one too deep then)
below_a_root() {
	echo 0 >$R/options/funcgraph-irqs
	tries 3 one_below_a_root
	echo 1 >$R/options/funcgraph-irqs
}
one_below_a_root() {
	echo nop >$R/current_tracer
	echo 1 >$R/tracing_on
	echo "$MOUNT" >$R/graph_function
	says $R/graph_function "$MOUNT"
	says $R/set_graph_function "$MOUNT"
	all
	graph
	mount_once
	calls files 20
	echo 0 >$R/tracing_on
	(set +x; hooked_as_said)
	shapes $R/trace | without_interrupts >/tmp/shapes
	# One tree, all of it.
	is "first line" "$(head -n 1 /tmp/shapes)" "0 $MOUNT() {"
	is "last line" "$(tail -n 1 /tmp/shapes)" "0 }"
	is "roots" "$(grep -c '^0 ' /tmp/shapes)" 2
	[ "$(wc -l </tmp/shapes)" -gt $MANY ]
	awk -v many=$MANY '
		BEGIN { depth = 0 }
		function at(depth) {
			if ($1 == depth || bad++) return
			print "line " NR ": depth " depth " expected"
			for (i = NR - 10; i < NR; i++) print line[i]
			print
		}
		{ line[NR] = $0 }
		/\{$/ { at(depth); depth++ }
		/\(\);$/ { at(depth); leaves++ }
		/^[0-9]+ }/ { depth--; at(depth) }
		END { print leaves " leaves"; exit bad || depth || leaves < many / 4 }' /tmp/shapes
	is "returns missed" "$(status 'missed returns')" 0
	echo >$R/graph_function
	says $R/graph_function '#### all functions enabled ####'
}

not_below() {
	echo "$MOUNT" >$R/graph_function
	many
	graph
	mount_once
	echo 0 >$R/tracing_on
	# Something that calls others.
	shapes $R/trace | awk '/\{$/ && $1 == 1 { sub(/\(.*/, "", $2); print $2; exit }' >/tmp/child
	read -r child </tmp/child
	shapes $R/trace | awk -v child="$child() {" '$1 == 1 && $2 " " $3 == child { on = 1; next }
		$1 == 1 { on = 0 } on { print }' | grep -c . >/tmp/below
	[ "$(cat /tmp/below)" -gt 0 ]
	says $R/graph_notrace '#### no functions disabled ####'
	echo "$child" >$R/graph_notrace
	says $R/graph_notrace "$child"
	echo >$R/trace
	echo 1 >$R/tracing_on
	mount_once
	echo 0 >$R/tracing_on
	shapes $R/trace >/tmp/shapes
	head -n 1 /tmp/shapes | grep -qF "0 $MOUNT()"
	fails grep -qF " $child()" /tmp/shapes
	# Its siblings are there.
	[ $MANY -lt 100 ] || [ "$(grep -c '^1 ' /tmp/shapes)" -gt 3 ]
	echo >$R/graph_notrace
}

depth_limit() {
	says $R/max_depth 0
	echo "$MOUNT" >$R/graph_function
	echo 2 >$R/max_depth
	says $R/max_graph_depth 2
	many
	graph
	mount_once
	echo 0 >$R/tracing_on
	shapes $R/trace >/tmp/shapes
	is "first line" "$(head -n 1 /tmp/shapes)" "0 $MOUNT() {"
	is "depths" "$(awk '{ print $1 }' /tmp/shapes | sort -u | tr '\n' ' ')" "0 1 "
	gets 'write EINVAL' $R/max_depth x
	gets 'write EINVAL' $R/max_depth -1
	says $R/max_depth 2
	echo 0 >$R/max_depth
}

# Slow calls with what they were called from, and nothing else.
threshold() {
	says $R/tracing_thresh 0
	echo hrtimer_nanosleep >$R/graph_function
	echo 20000 >$R/tracing_thresh
	says $R/tracing_thresh 20000
	many
	graph
	nap 50000
	nap 1000
	echo 0 >$R/tracing_on
	cat $R/trace
	shapes $R/trace >/tmp/shapes
	is "first line" "$(head -n 1 /tmp/shapes)" "0 hrtimer_nanosleep() {"
	grep -qF "1 $SLEEP() {" /tmp/shapes
	durations $R/trace >/tmp/durations
	[ "$(wc -l </tmp/durations)" -ge 2 ]
	awk '$1 < 20000 || $1 > 60000000 { exit 1 }' /tmp/durations
	# All that was called of it took less.
	awk '/\{$/ { depth++ } /^[0-9]+ }/ { depth-- } END { exit depth }' /tmp/shapes
	gets 'write EINVAL' $R/tracing_thresh x
	says $R/tracing_thresh 20000
	echo 0 >$R/tracing_thresh
}

# A call that has not returned is there, and becomes one line when it has.
open_calls() {
	echo "$SLEEP" >$R/filter
	graph
	asleep 100000000
	until_true 10 has_open
	is "lines" "$(shapes $R/trace | grep -c .)" 1
	end_background
	is "lines" "$(shapes $R/trace | tr '\n' ' ')" "0 $SLEEP(); "
}

# The entry was before the trace.
returns_alone() {
	echo "$SLEEP" >$R/filter
	graph
	asleep 100000000
	until_true 10 has_open
	echo >$R/trace
	end_background
	is "lines" "$(shapes $R/trace | tr '\n' ' ')" "0 } /* $SLEEP */ "
}

# What is asleep when a filter changes is not lost.
edits_keep_open_calls() {
	echo "$SLEEP" >$R/filter
	graph
	asleep 100000000
	until_true 10 has_open
	echo "$MOUNT" >>$R/filter
	end_background
	shapes $R/trace >/tmp/shapes
	cat /tmp/shapes
	grep -qxF "0 $SLEEP();" /tmp/shapes
}

# Times of one clock are not taken for those of another.
clock_changes() {
	local clock
	echo "$SLEEP" >$R/filter
	graph
	for clock in counter mono x86-tsc local; do
		asleep 100000000
		until_true 10 has_open
		echo $clock >$R/trace_clock
		end_background
		nap 1000
		shapes $R/trace >/tmp/shapes
		cat /tmp/shapes
		# (what was open before is not told of)
		fails grep -qF '}' /tmp/shapes
		grep -qxF "0 $SLEEP();" /tmp/shapes
		case $clock in
		mono | local) durations $R/trace | awk '$1 > 60000000 { exit 1 }' ;;
		esac
	done
}

# A task that never comes back from a root leaves nothing behind.
exits_inside() {
	echo 'do_exit' >$R/graph_function
	many
	graph
	for i in $(seq "$(some 40)"); do calls getppid 1; done
	echo 0 >$R/tracing_on
	shapes $R/trace >/tmp/shapes
	grep -qxF '0 do_exit() {' /tmp/shapes
	is "calls outside" "$(grep -cF "$PARENT" /tmp/shapes)" 0
	is "outermost calls" "$(sed -n 's/^0 \([^}]\)/\1/p' /tmp/shapes | sort -u | tr '\n' ' ')" 'do_exit() { '
}

sleeping_does_not_count() {
	echo "$SLEEP" >$R/filter
	graph
	nap 300000
	durations $R/trace | tail -n 1 | awk '$1 < 300000 { exit 1 }'
	echo 0 >$R/options/sleep-time
	echo >$R/trace
	nap 300000
	durations $R/trace | tail -n 1 >/tmp/took
	cat /tmp/took
	awk '$1 <= 0 || $1 > 200000 { exit 1 }' /tmp/took
	echo 1 >$R/options/sleep-time
	echo >$R/trace
	nap 300000
	durations $R/trace | tail -n 1 | awk '$1 < 300000 { exit 1 }'
}

return_values() {
	echo "$PARENT" >$R/filter
	echo 1 >$R/options/funcgraph-retval
	graph
	calls getppid 1
	calls_in $R/trace >/tmp/lines
	cat /tmp/lines
	# (one of the program, whose parent is this shell; others can be of shells)
	printf -v want 'ret=0x%x ' $$ 2>/dev/null || want="ret=0x$(printf %x $$) "
	grep -qF "$want" /tmp/lines
}

return_addresses() {
	echo "$SLEEP" >$R/filter
	echo 1 >$R/options/funcgraph-retaddr
	graph
	nap 1000
	calls_in $R/trace | grep -qE "$SLEEP\\(\\); /\\* <-hrtimer_nanosleep"
}

by_pid() {
	echo "$SLEEP" >$R/filter
	echo $$ >$R/pid
	graph
	nap 1000
	is "lines of others" "$(shapes $R/trace | grep -c .)" 0
	echo >$R/pid
	nap 1000
	is "lines of all" "$(shapes $R/trace | grep -c .)" 1
}

pipe_has_calls() {
	local sleeper
	echo "$SLEEP" >$R/filter
	echo 1 >$R/options/funcgraph-proc
	graph
	background timeout 60 sh -c "cat $R/trace_pipe >/tmp/piped"
	asleep 100000000
	sleeper=$!
	# The entry comes at once, and the return when it is there. (until_true sleeps, too)
	entered() { grep -qE "usleep-$sleeper .*\|  $SLEEP\(\) \{" /tmp/piped; }
	returned() { grep -qE "usleep-$sleeper .*\|  }" /tmp/piped; }
	until_true 20 entered
	fails returned
	kill $sleeper
	until_true 20 returned
}

# On both CPUs, while it is read, resized, cleared and switched. (hooking all functions takes long)
under_load() {
	echo 'vfs_*' >$R/filter
	graph
	background churn 0
	background churn 1
	for i in $(seq $((SLOWER == 1 ? 3 : 1))); do
		cat $R/trace >/tmp/load.trace
		# No call can have taken longer than all of this.
		sed -nE 's/^ *[0-9]+\) [^0-9]*([0-9.]+) us .*/\1/p' /tmp/load.trace |
			awk '$1 > 600000000 { print; bad = 1 } END { exit bad }'
		echo $((SIZE_KB + i * 64)) >$R/buffer_size_kb
		echo 1 >$R/snapshot
		echo vfs_open >$R/graph_function
		echo >$R/graph_function
		echo 100 >$R/tracing_thresh
		echo 0 >$R/tracing_thresh
		echo function >$R/current_tracer
		echo function_graph >$R/current_tracer
	done
	has_calls() { [ "$(status 'events present')" -gt 100 ]; }
	until_true 20 has_calls
	echo 0 >$R/tracing_on
	accounts_agree
	is "overruns" "$(status 'lost to commit overruns')" 0
	end_background
}

# The number that fgraph gives its users comes round: none of them may be told of calls of others.
every_number() {
	local number
	stock_off
	echo "$PARENT" >$T/set_ftrace_filter
	echo "$SLEEP" >$R/filter
	# (three of 16 numbers a time, so each of ours is another)
	for number in $(seq 16); do
		echo function_graph >$R/current_tracer
		echo nop >$R/current_tracer
		echo function_graph >$R/current_tracer
		echo function_graph >$T/current_tracer
		calls getppid 3
		nap 1000
		echo nop >$T/current_tracer
		echo nop >$R/current_tracer
	done
	stock_off
	fails sh -c 'dmesg | grep fprobe_return'
}

# Removed while a task sleeps inside a traced call.
removed_meanwhile() {
	echo "$SLEEP" >$R/filter
	graph
	taskset 1 usleep 3000000 &
	sleeper=$!
	until_true 10 has_open
	rmmod rust_ftrace
	wait $sleeper
	load
}

# It is never asked of fprobe, which would hang (docs/upstream/fprobe-table-endless.md).
own_of_fprobe() {
	reset
	echo preempt_count_sub "$MOUNT" >$R/filter
	echo function_graph >$R/current_tracer
	hooked_as_said
	is 'hooked' "$(sed 's/ .*//' $T/enabled_functions)" "$MOUNT"
	echo 1 >$R/function_profile_enabled
	echo nop >$R/current_tracer
	is 'counted' "$(sed 's/ .*//' $T/enabled_functions)" "$MOUNT"
	echo 0 >$R/function_profile_enabled
	echo function >$R/current_tracer
	is 'functions' "$(sed 's/ .*//' $T/enabled_functions | sort)" "$(printf '%s\n' "$MOUNT" preempt_count_sub | sort)"
	reset
}

t 'all calls below graph_function, and no others' below_a_root
t 'no calls below graph_notrace' not_below
t 'max_depth' depth_limit
if grep -qx preempt_count_sub /tmp/available; then
	t 'a function that fprobe calls while it moves its table' own_of_fprobe
else
	skip 'a function that fprobe calls while it moves its table' 'no preempt_count_sub()'
fi
t 'tracing_thresh shows slow calls and what they were called from' threshold
t 'a call that is open' open_calls
t 'a return whose entry was before the trace' returns_alone
t 'open calls outlast an edit of the filter' edits_keep_open_calls
t 'another clock, while calls are open' clock_changes
t 'tasks that exit inside a root' exits_inside
t 'options/sleep-time' sleeping_does_not_count
t 'options/funcgraph-retval' return_values
t 'options/funcgraph-retaddr' return_addresses
t 'pid' by_pid
t 'trace_pipe has entries at once' pipe_has_calls
t 'under load' under_load
t 'beside function_graph of the kernel, switched on and off' every_number
t 'the module is removed while a call is open' removed_meanwhile
finish
