#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# free_buffer: with options/disable_on_free, a recording ends with the last task that has it open, however that ends.
. /tests/lib/ktap.sh

reload
YIELD=$(sys sched_yield)
I=$R/instances/held
CPUS=$(find $R/per_cpu -name stats | wc -l)

# KiB of memory that the instance in $R has.
memory_kb() {
	status memory | sed 's/ KiB//'
}

# holder DIRECTORY: a process that has its free_buffer open, and does nothing, as $holder.
holder() {
	sleep 10000 3>"$1/free_buffer" &
	holder=$!
	workers="$workers $holder"
	until_true 10 has_open $holder "$1"
}
has_open() {
	[ "$(readlink "/proc/$1/fd/3")" = "$2/free_buffer" ]
}

# killed PID: with no chance to do anything.
killed() {
	kill -KILL "$1"
	wait "$1" || :
}

# held FILTER TRACER: an instance that traces that, with buffers of 4 MiB a CPU, and a holder.
held() {
	mkdir $I
	echo 1 >$I/options/disable_on_free
	holder $I
	echo 4096 >$I/buffer_size_kb
	echo "$1" >$I/filter
	echo "$2" >$I/current_tracer
}

# (R is the instance)
has_ended() {
	[ "$(status 'armed functions')" -eq 0 ] && [ "$(status tracing_on)" -eq 0 ]
}
# ended WAS: all that says so; WAS is the memory that it had.
ended() {
	is armed "$(status 'armed functions')" 0
	is tracer "$(status tracer)" nop
	is 'commands' "$(grep -c ':' $R/filter || :)" 0
	is on "$(cat $R/tracing_on)" 0
	[ $(($1 - $(memory_kb))) -ge $((CPUS * 4096)) ]
	# Neither do we say that anything is hooked, nor does the kernel.
	is hooked "$(cat $T/enabled_functions /sys/kernel/debug/rftrace/enabled_functions)" ''
}

# In $took, in hundredths of a second, and $by_hand is what the same takes by writes to the files.
ends_with_it() {
	local R=$I memory began
	held "$YIELD vfs_* $PARENT:traceoff vfs_read:stacktrace" function
	background calls yields 0 0
	background calls files 0 1
	until_true 10 some_hits
	began=$(now)
	echo 0 >$I/tracing_on
	echo nop >$I/current_tracer
	no_commands $I/filter
	by_hand=$(($(now) - began))
	echo "$PARENT:traceoff vfs_read:stacktrace" >>$I/filter
	echo function >$I/current_tracer
	echo 1 >$I/tracing_on
	until_true 10 some_hits
	[ "$(status 'armed functions')" -gt 20 ]
	grep -q ":traceoff:unlimited" $I/filter
	memory=$(memory_kb)
	[ "$memory" -gt $((CPUS * 4096)) ]
	began=$(now)
	killed "$holder"
	until_true 10 has_ended
	took=$(($(now) - began))
	until_true 10 is_idle
	ended "$memory"
	# What was said of functions is still there, and what was counted adds up.
	grep -qx "$YIELD" $I/filter
	accounts_agree
	end_background
	rmdir $I
}
# (the kernel waits for all tasks when functions are unhooked, and a busy machine may take longer than that for it)
in_time() {
	local took=1000000 by_hand=0 left=5
	until [ "$took" -lt $((100 * SLOWER)) ] || [ "$took" -lt $((2 * by_hand)) ]; do
		[ $left -gt 0 ]
		left=$((left - 1))
		ends_with_it
		echo "it took $took hundredths of a second, by hand $by_hand; $left tries left"
	done
}
some_hits() {
	[ "$(status hits)" -gt 100 ]
}
# The last thing that is done: the buffers go.
is_idle() {
	[ "$(status memory | sed 's/ KiB//')" -lt $((CPUS * 4096)) ]
}

every_tracer() {
	local R=$I tracer memory functions=
	for tracer in function calltrace function_graph; do
		# (all functions once: they take long to hook, with function_graph on a debug kernel minutes)
		if [ $tracer != function ]; then functions="$YIELD vfs_*"; fi
		held "$functions" $tracer
		echo 1 >$I/options/function-fork
		background calls yields 0 0
		until_true 20 some_hits
		echo 1 >$I/snapshot
		memory=$(memory_kb)
		[ "$(sed 20q $I/snapshot | events | wc -l)" -gt 0 ]
		killed "$holder"
		until_true 10 is_idle
		ended "$memory"
		says $I/options/function-fork 0
		grep -q '^# \* Snapshot is freed \*$' $I/snapshot
		end_background
		rmdir $I
	done
}

two_holders() {
	local R=$I first memory
	held "$YIELD" function
	first=$holder
	holder $I
	memory=$(memory_kb)
	killed "$first"
	calls yields 10 0
	is hits "$(status hits)" 10
	is armed "$(status 'armed functions')" 1
	# (one that comes and goes changes nothing)
	echo 0 >$I/free_buffer
	is armed "$(status 'armed functions')" 1
	fails rmdir $I
	killed "$holder"
	ended "$memory"
	rmdir $I
}

# A reader gets its end, and a task that has all open hinders nothing.
while_read() {
	local R=$I memory readers= file pid out
	held "$YIELD" function
	exec 4<$I/trace 5<$I/status 6>$I/filter
	for file in trace_pipe per_cpu/cpu0/trace_pipe per_cpu/cpu0/raw per_cpu/cpu0/trace_pipe_raw; do
		out=/tmp/"$(echo $file | tr / -)".out
		rm -f "$out"
		cat $I/$file >"$out" &
		readers="$readers $!"
		# (before the next one comes, which takes events, too)
		until_true 20 has_some "$out"
	done
	workers="$workers $readers"
	memory=$(memory_kb)
	killed "$holder"
	for pid in $readers; do until_true 10 is_over "$pid"; done
	ended "$memory"
	fails rmdir $I
	exec 4<&- 5<&- 6>&-
	rmdir $I
}
# (a reader that has read nothing goes on waiting, as where tracing_on is 0)
has_some() {
	taskset 1 calls yields 1000 0 >/dev/null
	[ -s "$1" ]
}
is_over() {
	[ ! -e "/proc/$1/stat" ] || grep -q ') Z ' "/proc/$1/stat"
}

# Without the option, nothing but memory goes.
buffers_only() {
	local R=$I memory
	held "$YIELD" function
	echo 0 >$I/options/disable_on_free
	calls yields 10 0
	echo 1 >$I/snapshot
	memory=$(memory_kb)
	killed "$holder"
	[ $((memory - $(memory_kb))) -ge $((CPUS * 4000)) ]
	grep -q '^# \* Snapshot is freed \*$' $I/snapshot
	is tracer "$(status tracer)" function
	is armed "$(status 'armed functions')" 1
	calls yields 10 0
	# (those that the snapshot had went with it)
	is written "$(status 'events written')" 10
	accounts_agree
	rmdir $I
}

# The directory at the top, with a profile, and afterwards all goes on as one likes.
at_the_top() {
	local memory
	echo 1 >$R/options/disable_on_free
	echo 4096 >$R/buffer_size_kb
	holder $R
	echo "$YIELD" >$R/filter
	echo 1 >$R/function_profile_enabled
	calls yields 10 0
	memory=$(memory_kb)
	killed "$holder"
	ended "$memory"
	says $R/function_profile_enabled 0
	is profile "$(status profile)" none
	accounts_agree
	echo function >$R/current_tracer
	calls yields 10 0
	is hits "$(status hits)" 0
	echo 1 >$R/tracing_on
	calls yields 10 0
	is hits "$(status hits)" 10
	is lines "$(events $R/trace | wc -l)" 10
	[ "$(cat $R/buffer_size_kb)" -le 64 ]
	accounts_agree
}

# Whichever is first, the directory goes, and nothing with it.
with_rmdir() {
	local i=0
	background calls yields 0 0
	while [ $i -lt "$(some 20)" ]; do
		held "$YIELD" function
		fails rmdir $I
		kill -KILL "$holder"
		until rmdir $I 2>/dev/null; do :; done
		wait "$holder" || :
		i=$((i + 1))
	done
	is hooked "$(cat $T/enabled_functions)" ''
}

with_rmmod() {
	local i=0
	background calls yields 0 0
	while [ $i -lt "$(some 3)" ]; do
		held "$YIELD vfs_*" function
		kill -KILL "$holder"
		until rmmod rust_ftrace 2>/dev/null; do :; done
		is hooked "$(cat $T/enabled_functions)" ''
		wait "$holder" || :
		load
		i=$((i + 1))
	done
}

# While all functions are hooked, which takes seconds, others open it and close it, and need not wait.
no_wait() {
	local change
	reload
	holder $R
	echo function_graph >$R/current_tracer &
	change=$!
	until_true 20 at_work $change
	true 3>$R/free_buffer
	at_work $change
	wait $change
	killed $holder
}
# at_work PID: for a tenth of a second of the kernel's time, and goes on.
at_work() {
	awk '{ sub(/.*\) /, "") } $1 == "Z" || $13 < 10 { exit 1 }' "/proc/$1/stat"
}

t 'a recording ends with who holds it, within a second, when that is killed' in_time
t 'with all functions, and every tracer' every_tracer
t 'it ends with the last of several' two_holders
t 'who opens it waits for no change' no_wait
t 'readers that wait come to an end' while_read
t 'with disable_on_free 0 only the memory of the buffers goes' buffers_only
t 'the top directory has it too, with its profile' at_the_top
t 'rmdir may come at any time' with_rmdir
t 'rmmod may, too' with_rmmod
finish
