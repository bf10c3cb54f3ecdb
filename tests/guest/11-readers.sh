#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Several readers while much is traced.
. /tests/ktap.sh

reload

LINE='^ *[^ ].{0,15}-[0-9]+ +\[[0-9]{3}\] .{5} +[0-9]+\.[0-9]{6}: [^ ]+( \[[^ ]+\])? <-[^ ]+( \[[^ ]+\])?$'

# reader COUNT FILE: reads the trace so often; FILE gets what was wrong.
reader() {
	local i=0 out=$2.trace
	: >"$2"
	while [ $i -lt "$1" ]; do
		i=$((i + 1))
		cat $R/trace >"$out" || echo "cat failed" >>"$2"
		events "$out" | grep -vE "$LINE" | head -n 3 >>"$2"
		events "$out" | sed -E 's/^.{16}-[0-9]+ +\[[0-9]+\] .{5} +([0-9]+\.[0-9]{6}): .*/\1/' |
			awk '$1 < last { print "goes back: " last " to " $1; exit } { last = $1 }' >>"$2"
	done
	echo "done $i" >>"$2"
}

two_readers() {
	local one two
	echo 64 >$R/buffer_size_kb
	echo '*' >$R/filter
	background calls files 0 0
	background calls forks 0 1
	reader 2 /tmp/reader.1 &
	one=$!
	reader 2 /tmp/reader.2 &
	two=$!
	wait $one
	wait $two
	echo >$R/filter
	end_background
	cat /tmp/reader.1 /tmp/reader.2
	is 'one reader' "$(cat /tmp/reader.1)" 'done 2'
	is 'the other' "$(cat /tmp/reader.2)" 'done 2'
	accounts_agree
}

while_all_changes() {
	# Sizes, clearing, filters, switches: readers see whole lines in order, or nothing.
	local one i
	echo 'vfs_* *lock*' >$R/filter
	echo 128 >$R/buffer_size_kb
	background calls files 0 0
	background calls files 0 1
	reader 4 /tmp/reader.1 &
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
	cat /tmp/reader.1
	[ $i -ge 1 ]
	is reader "$(cat /tmp/reader.1)" 'done 4'
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

readers_of_each_file() {
	local f
	echo 'vfs_*' >$R/filter
	background calls files 0 0
	background calls files 0 1
	for f in $(find $R -type f); do
		case $(stat -c %a "$f") in 200) continue ;; esac
		cat "$f" >/tmp/one &
		cat "$f" >/tmp/two
		wait $!
		[ -s /tmp/one ] || [ "${f##*/}" = error_log ]
		[ -s /tmp/two ] || [ "${f##*/}" = error_log ]
	done
	end_background
}

t 'two readers while all functions are traced' two_readers
t 'a reader while all is changed' while_all_changes
t 'a reader that is overtaken by changes' slow_reader
t 'two readers of each file' readers_of_each_file
finish
