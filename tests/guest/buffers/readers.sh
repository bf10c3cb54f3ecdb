#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Several readers while much is traced.
. /tests/lib/ktap.sh

reload

LINE='^ *[^ ].{0,15}-[0-9]+ +\[[0-9]{3}\] .{5} +[0-9]+\.[0-9]{6}: [^ ]+( \[[^ ]+\])? <-[^ ]+( \[[^ ]+\])?$'

# reader COUNT FILE: reads the trace so often, into FILE.1 and so on.
reader() {
	local i=0
	rm -f "$2".*
	while [ $i -lt "$1" ]; do
		i=$((i + 1))
		cat $R/trace >"$2.$i"
	done
	echo $i >"$2.done"
}

# all_well COUNT FILE: what reader read is whole lines in order. (looked at when nothing is traced any
# more: what looks is slow enough)
all_well() {
	local i=0
	says "$2.done" "$1"
	while [ $i -lt "$1" ]; do
		i=$((i + 1))
		events "$2.$i" | grep -vE "$LINE" >/tmp/odd || :
		head -n 3 /tmp/odd
		[ ! -s /tmp/odd ]
		events "$2.$i" | sed -E 's/^.{16}-[0-9]+ +\[[0-9]+\] .{5} +([0-9]+\.[0-9]{6}): .*/\1/' |
			awk '$1 < last { print "goes back: " last " to " $1; bad = 1 } { last = $1 } END { exit bad }'
	done
}

two_readers() {
	local one two
	echo 64 >$R/buffer_size_kb
	echo '[f-k]*' >$R/filter
	background calls files 0 0
	background calls forks 0 1
	reader 2 /tmp/reader1 &
	one=$!
	reader 2 /tmp/reader2 &
	two=$!
	wait $one
	wait $two
	echo >$R/filter
	end_background
	all_well 2 /tmp/reader1
	all_well 2 /tmp/reader2
	grep -q '<-' /tmp/reader1.1
	accounts_agree
}

while_all_changes() {
	# Sizes, clearing, filters, switches: readers see whole lines in order, or nothing.
	local one i
	echo 'vfs_* *lock*' >$R/filter
	echo 128 >$R/buffer_size_kb
	background calls files 0 0
	background calls files 0 1
	reader 4 /tmp/reader1 &
	one=$!
	i=0
	while kill -0 $one 2>/dev/null; do
		i=$((i + 1))
		echo $((64 + i % 3 * 64)) >$R/buffer_size_kb
		echo >$R/trace
		echo 0 >$R/tracing_on
		echo "vfs_*" >$R/filter
		echo 1 >$R/tracing_on
		echo "*lock*" >>$R/filter
		cat $R/per_cpu/cpu0/stats $R/status >/dev/null
	done
	wait $one
	end_background
	echo 0 >$R/tracing_on
	[ $i -ge 1 ]
	all_well 4 /tmp/reader1
	accounts_agree
}

slow_reader() {
	# One that holds the file open over all changes gets an end of it, not an error.
	echo "$PARENT" >$R/filter
	calls getppid 5000 0
	exec 3<$R/trace
	head -c 1000 <&3 >/dev/null
	echo 64 >$R/buffer_size_kb
	calls getppid 20000 0
	echo >$R/trace
	echo nop >$R/current_tracer
	cat <&3 >/tmp/rest
	exec 3<&-
	# (its first line is cut)
	sed 1d /tmp/rest | grep -v '^#' | grep -v '^CPU:' | grep -vE "$LINE" >/tmp/odd || :
	head -n 3 /tmp/odd
	[ ! -s /tmp/odd ]
}

# empty FILE: it may be.
empty() {
	case $1 in
	*/error_log | */function_latency | */function_folded | */printk_formats | */available_events | */show_event_* | */set_event*) true ;;
	*) false ;;
	esac
}

readers_of_each_file() {
	local f read
	echo 'vfs_*' >$R/filter
	background calls files 0 0
	background calls files 0 1
	for f in $(find $R -type f | one_of_each); do
		# (those that give each event out once have no end)
		case $f in
		*/free_buffer | */trace_marker*) continue ;;
		*/trace_pipe | */raw | */trace_pipe_raw) read="head -c 1000" ;;
		*) read=cat ;;
		esac
		$read "$f" >/tmp/one &
		$read "$f" >/tmp/two
		wait $!
		[ -s /tmp/one ] || empty "$f"
		[ -s /tmp/two ] || empty "$f"
	done
	end_background
}

stressed 'two readers while a fifth of all functions is traced' two_readers
stressed 'a reader while all is changed' while_all_changes
t 'a reader that is overtaken by changes' slow_reader
stressed 'two readers of each file' readers_of_each_file
finish
