#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# trace_marker and trace_marker_raw: what programs write is shown as tracefs shows it.
. /tests/lib/ktap.sh

reload
YIELD=$(sys sched_yield)

# without_time: lines of events but for comm, pid, CPU, time, and whether a tick has just wanted another task.
without_time() {
	grep -v '^#' | sed -E 's/^ *[^ ].*-[0-9]+ +\[[0-9]+\] (.).([^ ]+) +[0-9.]+: /\1\2 /'
}

# say DIRECTORY: writes of all kinds.
say() {
	fileio write "$1"/trace_marker 'hello'
	fileio write "$1"/trace_marker 'with newline\n'
	fileio write "$1"/trace_marker 'two\nlines' 'two more\n\n'
	printf '\001\0\0\0wxyz' >"$1"/trace_marker_raw
	fileio write "$1"/trace_marker_raw 'abcdefgh'
	for length in 1 13 14 15 28 100 113 255 256 1000 4000; do
		head -c $length /tmp/zeroes | tr '\0' x >/tmp/text
		dd if=/tmp/text of="$1"/trace_marker bs=8192 2>/dev/null
		# (whole words: what fills them up is not the same each time)
		head -c $((length / 4 * 4)) /tmp/text | cat /tmp/id - >/tmp/raw
		[ $length -gt 1000 ] || dd if=/tmp/raw of="$1"/trace_marker_raw bs=8192 2>/dev/null
	done
}

as_in_tracefs() {
	head -c 8192 /dev/zero >/tmp/zeroes
	printf '\252\273\0\377' >/tmp/id
	stock_off
	for directory in $T $R; do
		taskset 1 sh -c '. /tmp/say; say "$1"' sh $directory >/tmp/said$directory.result
	done
	diff /tmp/said$T.result /tmp/said$R.result
	without_time <$T/trace >/tmp/want
	without_time <$R/trace >/tmp/got
	[ "$(wc -l </tmp/want)" -ge 25 ]
	diff /tmp/want /tmp/got
	is tracer "$(cat $R/current_tracer)" nop
	is hits "$(status hits)" 0
	accounts_agree
}

# What is longer than one event is more of them, and nothing is left out.
long() {
	head -c 10000 /dev/urandom | od -An -tx1 -v | tr -d ' \n' >/tmp/text
	is bytes "$(wc -c </tmp/text)" 20000
	dd if=/tmp/text of=$R/trace_marker bs=20000 2>/dev/null
	[ "$(status marks)" -ge 5 ]
	grep -o 'tracing_mark_write: .*' $R/trace | sed 's/.*: //' | tr -d '\n' | cmp - /tmp/text
	# In sub-buffers in which there is less room than that.
	reset
	echo 4 >$R/buffer_subbuf_size_kb
	dd if=/tmp/text of=$R/trace_marker bs=20000 2>/dev/null
	grep -o 'tracing_mark_write: .*' $R/trace | sed 's/.*: //' | tr -d '\n' | cmp - /tmp/text
	head -c 3600 /tmp/text >/tmp/raw
	is raw "$(dd if=/tmp/raw of=$R/trace_marker_raw bs=4096 2>&1 | grep -c 'Invalid argument')" 1
	echo 16 >$R/buffer_subbuf_size_kb
	accounts_agree
}

refused() {
	for directory in $T $R; do
		{
			fileio write $directory/trace_marker_raw 'abc'
			fileio write $directory/trace_marker_raw ''
			head -c 4097 /tmp/zeroes >/tmp/raw
			dd if=/tmp/raw of=$directory/trace_marker_raw bs=8192 2>&1 | grep -o 'Invalid argument'
			echo 0 >$directory/tracing_on
			fileio write $directory/trace_marker 'off'
			fileio write $directory/trace_marker_raw 'off!'
			echo 1 >$directory/tracing_on
			fileio open $directory/trace_marker r
		} >/tmp/refused 2>&1
		sed 's/^open .*/open/' /tmp/refused >/tmp/refused$directory
	done
	diff /tmp/refused$T /tmp/refused$R
	is marks "$(grep -c tracing_mark_write $R/trace || :)" 0
}

# In the order of time between functions, with the task's name.
between_functions() {
	echo "$YIELD" >$R/filter
	for number in 1 2 3; do
		calls yields 2 1
		taskset 2 sh -c "echo mark $number >$R/trace_marker"
	done
	echo 0 >$R/tracing_on
	sed -E -n 's/^ *([a-z]+)-[0-9]+ .*: (mark [0-9]|[a-z_0-9]+).*/\1 \2/p' $R/trace |
		tr '\n' ' ' >/tmp/got
	is order "$(cat /tmp/got)" "calls $YIELD calls $YIELD sh mark 1 calls $YIELD calls $YIELD sh mark 2 calls $YIELD calls $YIELD sh mark 3 "
	is hits "$(status hits)" 6
	is marks "$(status marks)" 3
	accounts_agree
}

# Between calls, as a comment.
between_calls() {
	stock_off
	for directory in $T $R; do
		echo 'vfs_write vfs_read' >$directory/set_ftrace_filter
		echo function_graph >$directory/current_tracer
		echo 0 >$directory/tracing_on
		echo >$directory/trace
		echo 1 >$directory/tracing_on
		taskset 2 sh -c "echo one >$directory/trace_marker; echo two >$directory/trace_marker"
		printf '\001\0\0\0wxyz' >$directory/trace_marker_raw
		echo 0 >$directory/tracing_on
		grep -E 'vfs_write|/\*|}' $directory/trace | grep -B1 -A1 '/\*' | grep -v '^--' |
			sed -E 's/^ *[0-9]+\)[^|]*\|/|/' >/tmp/graph$directory
	done
	stock_off
	diff /tmp/graph$T /tmp/graph$R
	is comments "$(grep -c '/\* one \*/\|/\* two \*/' /tmp/graph$R)" 2
}

# A reader that waits for events gets a mark at once.
wakes() {
	fileio stream $R/trace_pipe 4096 >/tmp/out &
	workers="$workers $!"
	until_true 20 grep -q '^State:.*S (sleeping)' /proc/$!/status
	echo 'wake up' >$R/trace_marker
	until_true 20 grep -q 'wake up' /tmp/out
	end_background
	is 'left in trace' "$(events $R/trace | wc -l)" 0
}

# Many at once, on all CPUs, while functions are traced: all are there, whole.
many() {
	local writer
	echo 16384 >$R/buffer_size_kb
	echo "$YIELD" >$R/filter
	background calls yields 0 0
	background calls yields 0 1
	for writer in 1 2 3 4; do
		(
			i=0
			while [ $i -lt 200 ]; do
				echo "writer $writer says $i and nothing else"
				i=$((i + 1))
			done >$R/trace_marker
		) &
		writers="${writers:-} $!"
	done
	# shellcheck disable=SC2086
	wait $writers
	echo 0 >$R/tracing_on
	end_background
	grep 'tracing_mark_write: writer [1-4] says [0-9]* and nothing else$' $R/trace | sed 's/.*writer/writer/' | sort >/tmp/got
	is lines "$(wc -l </tmp/got)" 800
	is 'of all writers' "$(uniq </tmp/got | wc -l)" 800
	is marks "$(status marks)" 800
	accounts_agree
}

# Programs that read pages find them, too.
in_pages() {
	taskset 2 fileio write $R/trace_marker 'in a page'
	taskset 2 sh -c "printf '\\002\\0\\0\\0raw' >$R/trace_marker_raw"
	kpages $R/per_cpu/cpu1/trace_pipe_raw >/tmp/pages
	is text "$(grep -c '^[0-9]* 5 .* in a page$' /tmp/pages)" 1
	is raw "$(grep -c '^[0-9]* 19 .* 2 72 61 77 00$' /tmp/pages)" 1
}

# The writer of a mark does not wait for a task that hooks all functions, which takes seconds.
beside_a_switch() {
	local began slowest=0 pid tracer count slowest_mark
	marks $R/trace_marker >/tmp/marks &
	pid=$!
	workers="$workers $pid"
	for tracer in function nop function nop; do
		began=$(now)
		echo $tracer >$R/current_tracer
		began=$(($(now) - began))
		if [ $began -gt $slowest ]; then slowest=$began; fi
	done
	kill -TERM $pid
	wait $pid
	read -r count slowest_mark </tmp/marks
	echo "# switches took at most $slowest hundredths of a second; of $count marks none took more than $slowest_mark us"
	[ "$count" -gt 10 ]
	[ $((slowest_mark / 10000)) -lt $((slowest / 3)) ]
}

sed -n '/^say() {$/,/^}$/p' /tests/buffers/trace-marker.sh >/tmp/say
mkdir -p /tmp/said$T /tmp/said$R /tmp/refused$T /tmp/refused$R /tmp/graph$T /tmp/graph$R
rmdir /tmp/said$T /tmp/said$R /tmp/refused$T /tmp/refused$R /tmp/graph$T /tmp/graph$R
t "marks are shown as in tracefs" as_in_tracefs
t "long ones" long
t "bad ones, and when nothing is recorded" refused
t "between functions" between_functions
t "between calls" between_calls
t "readers are woken" wakes
t "many at once" many
t "as pages" in_pages
if [ "$SLOWER" -eq 1 ]; then
	t 'marks are written while the tracer is switched' beside_a_switch
else
	skip 'marks are written while the tracer is switched' 'hooking all takes minutes here'
fi
finish
