#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The command rftrace: profile, counted in the kernel and of events.
. /tests/lib/ktap.sh

reload
YIELD=$(sys sched_yield)
SLEEP=$(pick do_nanosleep)
F=/tmp/folded

without_instance() {
	is 'instances left over' "$(ls -d $R/instances/rftrace.* 2>/dev/null)" ''
}

# json KEY FUNCTION: its value in the line of the function, in /tmp/out; of the summary, without a function.
json() {
	local line="\"function\":\"$2\""
	[ "$2" ] || line='^{"summary":'
	grep "$line" /tmp/out | sed -n 's/.*"'"$1"'":"\{0,1\}\([^",}]*\)[",}].*/\1/p'
}

# prof ARGUMENT...: what it prints is in /tmp/out, what it says in /tmp/said.
prof() {
	rftrace profile "$@" >/tmp/out 2>/tmp/said || { cat /tmp/out /tmp/said; return 1; }
	cat /tmp/out /tmp/said
}

# The same calls by both, and none of other tasks.
exact() {
	local how
	background calls turns 0 1
	for how in '' --events; do
		prof $how --json -l "$PARENT" -l "$YIELD" calls turns 3000
		is "calls of $PARENT" "$(json calls "$PARENT")" 3000
		is "calls of $YIELD" "$(json calls "$YIELD")" 3000
		is 'lines' "$(grep -c . /tmp/out)" 3
		is 'lost' "$(json lost)" 0
		[ "$(json p50_ns "$YIELD")" -le "$(json p90_ns "$YIELD")" ]
		[ "$(json p90_ns "$YIELD")" -le "$(json p99_ns "$YIELD")" ]
		[ "$(json p99_ns "$YIELD")" -le "$(json max_ns "$YIELD")" ]
		[ "$(json self_ns "$YIELD")" -eq "$(json total_ns "$YIELD")" ]
		[ "$(json total_ns "$YIELD")" -ge $((2999 * $(json avg_ns "$YIELD"))) ]
		without_instance
	done
	# A call within which something was recorded is two events.
	grep -q '^rftrace: [1-9][0-9]* events, none lost; ' /tmp/said
	prof -s calls -l "$PARENT" calls getppid 500
	says /tmp/said "$(sed -n '/^rftrace: 500 calls of 1 function, none lost; counted in the kernel, in [0-9.]* s$/p' /tmp/said)"
	[ -s /tmp/said ]
	is 'columns' "$(sed -n '1s/  */ /gp' /tmp/out)" ' SELF TOTAL CALLS AVG P50 P99 MAX FUNCTION'
	sed -n '2s/  */ /gp' /tmp/out | grep -q " 500 .* $PARENT\$"
}

# Functions, roots and tasks are chosen as for events.
chosen() {
	local worker
	prof --json -g path_mount -n '*lock*' mount -t tmpfs none /mnt
	umount /mnt
	is 'calls of the root' "$(json calls path_mount)" 1
	is 'calls below it' "$(json calls security_sb_mount)" 1
	is 'left out' "$(grep -c 'lock' /tmp/out)" 0
	[ "$(grep -c . /tmp/out)" -gt 20 ]
	# Own times are parts of the root's.
	holds "$(sed -n 's/.*"self_ns":\([0-9]*\),.*/\1/p' /tmp/out | awk '{ sum += $1 } END { printf "%d", sum }') \
		<= $(json total_ns path_mount)"
	background calls turns 0 1
	worker=$!
	prof --json -l "$YIELD" --duration 500ms -P $worker
	[ "$(json calls "$YIELD")" -gt 0 ]
	grep -q ' in [0-9]*\.[5-9][0-9]* s$\| in [1-9][0-9]*\.[0-9]* s$' /tmp/said
	prof --json -a -l "$YIELD" calls yields 100
	[ "$(json calls "$YIELD")" -gt 100 ]
	prof --limit 1 -s total -l "$YIELD" -l "$PARENT" calls turns 10
	tail -n 1 /tmp/out | grep -q '^\.\.\. and 1 more$'
	without_instance
}

waits() {
	prof --json --wait -l "$SLEEP" usleep 50000
	is 'calls' "$(json calls "$SLEEP")" 1
	holds "$(json asleep_ns "$SLEEP") >= 45000000"
	holds "$(json asleep_ns "$SLEEP") + $(json queued_ns "$SLEEP") <= $(json total_ns "$SLEEP")"
	grep -q '"woken_by":"\[[a-z]*irq\]"' /tmp/out
	prof --wait -s asleep -l "$SLEEP" usleep 50000
	is 'columns' "$(sed -n '1s/.*  *MAX/MAX/; 1s/  */ /gp' /tmp/out)" 'MAX ASLEEP QUEUED WOKEN BY FUNCTION'
	prof --json -l "$SLEEP" usleep 50000
	is 'without' "$(grep -c asleep /tmp/out)" 0
	# Times that fill their columns are columns still.
	prof --json --wait -l "$SLEEP" usleep 12000000
	holds "$(json max_ns "$SLEEP") >= 12000000000"
	holds "$(json p50_ns "$SLEEP") >= 12000000000 && $(json p50_ns "$SLEEP") < 15000000000"
	without_instance
}

# Contexts, up to a picture.
folded() {
	prof --folded $F -g path_mount mount -t tmpfs none /mnt
	umount /mnt
	grep -q ' path_mount$' /tmp/out
	grep -q '^path_mount;.*security_sb_mount[; ]' $F
	# Interrupts have roots of their own, and their begins and ends are of whatever they come into.
	grep -v '^path_mount[; ]' $F >/tmp/others || :
	cat /tmp/others
	is 'begin with the root' "$(grep -vcE "^\[(hard|soft)irq\]|^($ANY_TIME)[; ]" /tmp/others)" 0
	is 'mounts elsewhere' "$(grep -cE 'mount|_sb_' /tmp/others)" 0
	rftrace flamegraph $F -o /tmp/x.svg
	grep -q '<title>path_mount ' /tmp/x.svg
	grep -q '<title>security_sb_mount ' /tmp/x.svg
	# The same in a pipeline.
	rm /tmp/x.svg
	rftrace profile --folded - -g path_mount mount -t tmpfs none /mnt 2>/tmp/said | rftrace flamegraph - -o /tmp/x.svg
	umount /mnt
	grep -q '<title>security_sb_mount ' /tmp/x.svg
	grep -q '^rftrace: .*; counted in the kernel' /tmp/said
	prof --folded - --folded-by calls --folded-tasks -l "$PARENT" -l "$YIELD" calls turns 700
	is 'lines' "$(sort /tmp/out | tr '\n' ' ')" "$(printf '%s\n' "calls;$PARENT 700" "calls;$YIELD 700" | sort | tr '\n' ' ')"
	prof --folded $F --wait -l "$SLEEP" usleep 50000
	cat $F
	holds "$(sed -n "s/^$SLEEP;\\[asleep\\];\\[[a-z]*irq\\] //p" $F) >= 45000000"
	grep -q ASLEEP /tmp/out
	is 'nothing there' "$(: | rftrace flamegraph - -o /tmp/x.svg 2>/tmp/said; echo $?)" 1
	grep -q 'stdin has no folded stacks' /tmp/said
	without_instance
}

histograms() {
	prof --histogram -l "$PARENT" -l "$YIELD" calls turns 800
	for function in $PARENT $YIELD; do
		sed -n "/^# function: $function\$/,/call count/p" /tmp/out >/tmp/one
		grep -q 'call count: *800$' /tmp/one
		is 'in buckets' "$(awk -F '|' '$1 ~ / - / { sum += $2 } END { print sum }' /tmp/one)" 800
	done
	prof --histogram --limit 1 -l "$PARENT" -l "$YIELD" calls turns 10
	is 'functions' "$(grep -c '^# function' /tmp/out)" 1
	grep -q '^\.\.\. and 1 more$' /tmp/out
	without_instance
}

# An older module counts events, and does not do what takes counts.
older_module() {
	local in_place='mount -t tmpfs none /sys/kernel/debug/rftrace/trace_stat; exec rftrace profile "$@"'
	unshare -m sh -c "$in_place" sh --json -l "$PARENT" calls getppid 300 >/tmp/out 2>/tmp/said
	cat /tmp/out /tmp/said
	is 'calls' "$(json calls "$PARENT")" 300
	is 'said' "$(grep -c 'does not count in the kernel (it has no trace_stat/function): counts events$' /tmp/said)" 1
	is 'lines' "$(grep -c . /tmp/said)" 2
	is 'end' "$(unshare -m sh -c "$in_place" sh --folded $F true 2>/tmp/said; echo $?)" 125
	grep -q -e '--folded takes trace_stat/function, which this module does not have' /tmp/said
	without_instance
}

exits() {
	is 'of a command' "$(rftrace profile -l "$PARENT" sh -c 'exit 7' >/tmp/out 2>/tmp/said; echo $?)" 7
	is 'by a signal' "$(rftrace profile -l "$PARENT" sh -c 'kill -9 $$' >/tmp/out 2>/tmp/said; echo $?)" 137
	is 'without a command' "$(rftrace profile -l "$PARENT" /no/such >/tmp/out 2>/tmp/said; echo $?)" 127
	is 'with a wrong name' "$(rftrace profile -l no_such_function true 2>/tmp/said; echo $?)" 125
	grep -q 'filter does not take no_such_function: ' /tmp/said
	is 'with no place' "$(rftrace profile --folded /no/such/file true 2>/tmp/said; echo $?)" 125
	cat /tmp/said
	is 'with waits of events' "$(rftrace profile --wait --by comm true 2>/tmp/said; echo $?)" 2
	cat /tmp/said
	grep -q -e '--wait is counted in the kernel, and --by comm takes events' /tmp/said
	is 'by what is not there' "$(rftrace profile -s asleep true 2>/tmp/said; echo $?)" 2
	without_instance
	# Ended from elsewhere.
	rftrace profile -a -l 'vfs_*' >/tmp/out 2>/tmp/said &
	profiler=$!
	until_true 20 is_counting $profiler
	echo 0 >$R/instances/rftrace.$profiler/function_profile_enabled
	code=0
	wait $profiler || code=$?
	is 'ended' $code 1
	cat /tmp/said
	grep -q 'counting was stopped: somebody wrote 0 to function_profile_enabled' /tmp/said
	if [ -e /proc/kcore ]; then
		prof -l do_mount true
		grep -q '^rftrace: do_mount: .*path_mount' /tmp/said
	fi
	without_instance
}

is_counting() {
	[ "$(cat $R/instances/rftrace."$1"/function_profile_enabled)" = 1 ]
}

killed() {
	local path
	rftrace profile -a -l 'vfs_*' >/tmp/out 2>/tmp/said &
	profiler=$!
	until_true 20 is_counting $profiler
	path=$R/instances/rftrace.$profiler
	[ "$(grep -c . $R/enabled_functions)" -gt 20 ]
	grep -qx 'profile: on, [1-9][0-9]* functions' $path/status
	kill -9 $profiler
	wait $profiler || true
	until_true 1 is 'enabled' "$(grep -c . $R/enabled_functions)" 0
	is 'in the kernel' "$(grep -c . $T/enabled_functions)" 0
	grep -qx 'profile: none' $path/status
	# The next one cleans up.
	prof -l "$PARENT" true
	without_instance
}

interrupted() {
	rftrace profile -a -l vfs_read >/tmp/out 2>/tmp/said &
	profiler=$!
	until_true 20 is_counting $profiler
	cat /proc/self/status >/dev/null
	kill -INT $profiler
	wait $profiler
	cat /tmp/out /tmp/said
	grep -q ' vfs_read$' /tmp/out
	without_instance
}

# It is told how much found no room.
full() {
	reload profile_histograms=2 profile_contexts=2
	prof --folded $F -s calls --limit 5 calls files 50
	grep -q '^[1-9][0-9]* calls in no percentile: all histograms were taken' /tmp/out
	grep -q '^[1-9][0-9]* calls in \[other\]: all contexts were taken' /tmp/out
	prof --json calls files 50
	[ "$(json without_histogram)" -gt 0 ]
	is 'lost' "$(json lost)" 0
	reload
}

t 'counts are exact, in the kernel and of events' exact
texts 'functions, roots and tasks are chosen' chosen
texts 'for how long calls were asleep' waits
texts 'contexts become a flame graph' folded
texts 'histograms' histograms
texts 'a module without counts' older_module
texts 'exit codes, and what is said of wrong words' exits
t 'a profiler that is killed leaves nothing armed' killed
t 'a profiler that is interrupted ends well' interrupted
texts 'what found no room is told of' full
finish
