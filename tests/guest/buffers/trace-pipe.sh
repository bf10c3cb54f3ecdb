#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# trace_pipe: each event is given out once, and readers wait for more.
. /tests/lib/ktap.sh
. /tests/lib/nmis.sh

reload
YIELD=$(sys sched_yield)

# reader OUT COMMAND...: it reads in the background, as $reader.
reader() {
	local out=$1
	shift
	"$@" >"$out" 2>"$out.err" </dev/null &
	reader=$!
	workers="$workers $reader"
}

# sleeps PID: it waits for something.
sleeps() {
	grep -q '^State:.*S (sleeping)' "/proc/$1/status"
}

# waits PID: it sleeps, and there is nothing for it to read.
waits() {
	until_true 20 sleeps "$1"
	is present "$(status 'events present')" 0
	until_true 20 sleeps "$1"
}

# has_lines FILE COUNT
has_lines() {
	[ "$(events "$1" | wc -l)" -eq "$2" ]
}

# The events that a text of trace_pipe has, with those that it says were lost.
told() {
	awk '/^CPU:[0-9]+ \[LOST [0-9]+ EVENTS\]$/ { sum += $3; next } { sum++ } END { print sum + 0 }' "$@"
}

nothing_left() {
	[ "$(status 'events present')" -eq 0 ]
}

woken() {
	local i count
	echo "$YIELD" >$R/filter
	reader /tmp/out fileio stream $R/trace_pipe 65536
	count=$(some 8)
	for i in $(seq "$count"); do
		waits "$reader"
		is lines "$(wc -l </tmp/out)" $((i * 3 - 3))
		calls yields 1 0
		calls yields 2 1
		until_true 20 has_lines /tmp/out $((i * 3))
	done
	is read "$(status 'events read')" $((count * 3))
	accounts_agree
}

one_cpu() {
	local pid0 pid1
	echo "$YIELD" >$R/filter
	reader /tmp/out0 fileio stream $R/per_cpu/cpu0/trace_pipe 65536
	pid0=$reader
	reader /tmp/out1 fileio stream $R/per_cpu/cpu1/trace_pipe 65536
	pid1=$reader
	waits "$pid0"
	waits "$pid1"
	calls yields 5 1
	until_true 20 has_lines /tmp/out1 5
	waits "$pid0"
	calls yields 7 0
	until_true 20 has_lines /tmp/out0 7
	is 'of CPU 0' "$(grep -c '\[000\]' /tmp/out0)" 7
	is 'of CPU 1' "$(grep -c '\[001\]' /tmp/out1)" 5
	accounts_agree
}

nonblock() {
	echo "$YIELD" >$R/filter
	is outcome "$(fileio drain $R/trace_pipe 4096 2>&1)" EAGAIN
	is outcome "$(fileio drain $R/per_cpu/cpu1/trace_pipe 4096 2>&1)" EAGAIN
	calls yields 10 1
	fails fileio drain $R/per_cpu/cpu0/trace_pipe 4096 >/tmp/out
	is 'on the other CPU' "$(wc -l </tmp/out)" 0
	fails fileio drain $R/trace_pipe 4096 >/tmp/out
	has_lines /tmp/out 10
}

polled() {
	local i
	echo "$YIELD" >$R/filter
	for i in $(seq "$(some 5)"); do
		reader /tmp/out fileio poll $R/trace_pipe
		until_true 20 grep -q wait /tmp/out
		waits "$reader"
		says /tmp/out wait
		calls yields 1 $((i % 2))
		wait "$reader"
		is outcome "$(tail -n 1 /tmp/out)" ready
		# It takes nothing out.
		is present "$(status 'events present')" 1
		fails fileio drain $R/trace_pipe 4096 >/tmp/out
		has_lines /tmp/out 1
	done
}

polled_at_once() {
	echo "$YIELD" >$R/filter
	calls yields 1 0
	is outcome "$(fileio poll $R/trace_pipe)" ready
}

# same_as_trace SIZE...: what was recorded, by reads of these sizes.
same_as_trace() {
	calls files 50 0 &
	calls turns 100 1
	wait
	echo 0 >$R/tracing_on
	cat $R/trace >/tmp/trace
	events /tmp/trace >/tmp/want
	[ "$(wc -l </tmp/want)" -gt 200 ]
	fails fileio drain $R/trace_pipe "$@" >/tmp/got
	cmp /tmp/want /tmp/got
	is present "$(status 'events present')" 0
	is read "$(status 'events read')" "$(wc -l </tmp/want)"
	is 'left in trace' "$(events $R/trace | wc -l)" 0
	accounts_agree
}

lines_of_trace() {
	echo "$YIELD vfs_* $PARENT" >$R/filter
	same_as_trace 65536
}

small_reads() {
	echo "$YIELD vfs_read $PARENT" >$R/filter
	same_as_trace 1 7 100 3 64
}

with_depth() {
	echo 1 >$R/options/func-depth
	echo "$YIELD vfs_* do_sys_openat2 $PARENT" >$R/filter
	same_as_trace 100 1 4096
}

part_taken() {
	local pid
	echo "$YIELD" >$R/filter
	calls yields 30 0
	echo 0 >$R/tracing_on
	events $R/trace >/tmp/want
	# One read of some lines.
	dd if=$R/trace_pipe of=/tmp/got bs=1000 count=1
	pid=$(wc -l </tmp/got)
	[ "$pid" -gt 2 ]
	[ "$pid" -lt 20 ]
	events $R/trace >/tmp/rest
	cat /tmp/got /tmp/rest | cmp - /tmp/want
	is read "$(status 'events read')" "$pid"
	accounts_agree
}

shared() {
	local pid0 pid1 count=$((20000 / SLOWER))
	echo "$YIELD" >$R/filter
	calls yields $count 0 &
	calls yields $count 1
	wait
	events $R/trace | sort >/tmp/want
	# (they begin at the same time)
	reader /tmp/out0 fileio drain $R/trace_pipe 100
	pid0=$reader
	reader /tmp/out1 fileio drain $R/trace_pipe 4096
	pid1=$reader
	reader /tmp/out2 fileio drain $R/per_cpu/cpu1/trace_pipe 200
	for pid in $pid0 $pid1 $reader; do wait "$pid" || :; done
	is lines "$(cat /tmp/out0 /tmp/out1 /tmp/out2 | wc -l)" $((2 * count))
	sort /tmp/out0 /tmp/out1 /tmp/out2 | cmp - /tmp/want
	is read "$(status 'events read')" $((2 * count))
	accounts_agree
}

shared_under_load() {
	local pid0 count=$((100000 / SLOWER))
	echo "$YIELD" >$R/filter
	echo 64 >$R/buffer_size_kb
	reader /tmp/out0 fileio stream $R/trace_pipe 1000
	pid0=$reader
	reader /tmp/out1 fileio stream $R/trace_pipe 65536
	reader /tmp/out2 fileio stream $R/per_cpu/cpu0/trace_pipe 4096
	calls yields $count 0 &
	calls yields $count 1
	wait $!
	until_true 60 nothing_left
	until_true 20 sleeps "$pid0"
	until_true 20 sleeps "$reader"
	is told "$(told /tmp/out0 /tmp/out1 /tmp/out2)" "$(status 'events written')"
	is 'written or lost' $(($(status 'events written') + $(status 'events lost'))) $((2 * count))
	is read "$(status 'events read')" "$(cat /tmp/out0 /tmp/out1 /tmp/out2 | events | wc -l)"
	accounts_agree
}

lost() {
	local present
	echo 32 >$R/buffer_size_kb
	echo "$YIELD" >$R/filter
	calls yields 30000 0
	calls yields 10 1
	present=$(status 'events present')
	fails fileio drain $R/trace_pipe 65536 >/tmp/out
	is lines "$(events /tmp/out | wc -l)" "$present"
	is told "$(told /tmp/out)" 30010
	is 'lost on 0' "$(sed -n 's/^CPU:0 \[LOST \([0-9]*\) EVENTS\]$/\1/p' /tmp/out)" "$(stat_of 0 overrun)"
	is 'lost on 1' "$(grep -c '^CPU:1' /tmp/out)" 0
	# Once they were told of they are not again.
	calls yields 5 0
	fails fileio drain $R/trace_pipe 65536 >/tmp/out
	is told "$(told /tmp/out)" 5
	accounts_agree
}

killed() {
	local signal
	echo "$YIELD" >$R/filter
	for signal in HUP TERM KILL; do
		reader /tmp/out fileio stream $R/trace_pipe 65536
		waits "$reader"
		kill -$signal "$reader"
		until_true 20 sh -c "! kill -0 $reader"
		fails wait "$reader"
	done
	# No reader waits any more, and nothing was taken.
	calls yields 3 0
	is present "$(status 'events present')" 3
}

held() {
	reader /tmp/out fileio stream $R/trace_pipe 65536
	waits "$reader"
	fails rmmod rust_ftrace
	end_background
	rmmod rust_ftrace
	load
	reader /tmp/out fileio poll $R/per_cpu/cpu0/trace_pipe
	until_true 20 grep -q wait /tmp/out
	fails rmmod rust_ftrace
	end_background
	reload
}

ended() {
	local pid
	echo "$YIELD" >$R/filter
	reader /tmp/out1 fileio stream $R/trace_pipe 65536
	pid=$reader
	waits "$pid"
	calls yields 3 0
	until_true 20 has_lines /tmp/out1 3
	waits "$pid"
	# A reader that has read nothing waits on.
	reader /tmp/out2 fileio stream $R/trace_pipe 65536
	waits "$reader"
	echo 0 >$R/tracing_on
	wait "$pid"
	waits "$reader"
	echo 1 >$R/tracing_on
	calls yields 4 1
	until_true 20 has_lines /tmp/out2 4
}

# more_are_read: 200 events, on each CPU.
more_are_read() {
	local cpu
	for cpu in 0 1; do
		until_true 60 sh -c "[ \$(sed -n 's/^read events: //p' $R/per_cpu/cpu$cpu/stats) -gt $((
			$(stat_of $cpu 'read events') + 200)) ]"
	done
}

everything() {
	local i pids='' path
	echo 64 >$R/buffer_size_kb
	echo function >$R/current_tracer
	for path in trace_pipe per_cpu/cpu0/trace_pipe per_cpu/cpu1/trace_pipe per_cpu/cpu0/raw; do
		background fileio read $R/$path 65536
		pids="$pids ${workers##* }"
	done
	background fileio poll $R/per_cpu/cpu1/raw
	background churn 0
	for i in 1 2 3; do
		more_are_read
		echo $((i * 32)) >$R/buffer_size_kb
		echo >$R/trace
		cat $R/per_cpu/cpu0/trace >/dev/null
	done
	more_are_read
	echo 0 >$R/tracing_on
	for i in $pids; do kill "$i" || :; done
	until_true 60 sh -c "! kill -0 $pids"
	echo nop >$R/current_tracer
	accounts_agree
}

CPU1=/sys/devices/system/cpu/cpu1/online
hotplugged() {
	echo "$YIELD" >$R/filter
	reader /tmp/out fileio stream $R/per_cpu/cpu1/trace_pipe 65536
	waits "$reader"
	echo 0 >$CPU1
	waits "$reader"
	echo 1 >$CPU1
	calls yields 3 1
	until_true 20 has_lines /tmp/out 3
	# What it recorded can be read while it is away.
	end_background
	calls yields 7 1
	echo 0 >$CPU1
	fails fileio drain $R/per_cpu/cpu1/trace_pipe 65536 >/tmp/out
	echo 1 >$CPU1
	has_lines /tmp/out 7
	accounts_agree
}

nmi() {
	local i
	echo "$NMI_FUNCTION" >$R/filter
	console_off
	reader /tmp/out fileio stream $R/per_cpu/cpu1/trace_pipe 65536
	for i in 1 2 3 4 5 6; do
		waits "$reader"
		if [ $i -eq 4 ]; then background churn 1; fi
		nmi_on_cpu_1
		until_true 20 has_lines /tmp/out $i
	done
	is 'in an NMI' "$(grep -cE "\[001\] ..[zZ].. .*: $NMI_FUNCTION <-" /tmp/out)" 6
	accounts_agree
}

percents() {
	local value
	says $R/buffer_percent 50
	for value in 101 1000 -1 x ''; do
		gets 'write EINVAL' $R/buffer_percent "$value\n"
	done
	gets 'write ERANGE' $R/buffer_percent '18446744073709551616\n'
	says $R/buffer_percent 50
	for value in 0 1 99 100; do
		echo $value >$R/buffer_percent
		says $R/buffer_percent $value
	done
	echo 50 >$R/buffer_percent
}

t 'a reader is woken by the first event' woken
t "readers of one CPU get that CPU's events" one_cpu
t 'O_NONBLOCK: EAGAIN when there is nothing' nonblock
t 'poll waits for an event' polled
t 'poll does not wait when there is one' polled_at_once
t 'the lines are those of trace, which they are gone from' lines_of_trace
t 'small reads lose nothing' small_reads
t 'depths are those of trace' with_depth
t 'what one read did not take stays in trace' part_taken
t 'readers share: each event is given out once' shared
t 'readers share, while events are written and lost' shared_under_load
t 'lost events are told of exactly, once' lost
t 'a reader that waits can be killed' killed
t 'the module stays while somebody reads' held
t 'tracing_on 0 ends who has read' ended
stressed 'all functions are traced, those of the readers too' everything
complaints '^$'
t 'a reader is woken by the events of an NMI' nmi
console_again
if [ -e $CPU1 ]; then
	t 'a reader waits while its CPU goes and comes' hotplugged
else
	skip 'a reader waits while its CPU goes and comes' 'the kernel cannot take a CPU offline'
fi
t 'buffer_percent is checked and kept' percents
finish
