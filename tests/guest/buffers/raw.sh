#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# per_cpu/cpuN/raw, as helpers/rawdump.c decodes it by docs/raw-format.md.
. /tests/lib/ktap.sh

reload
YIELD=$(sys sched_yield)

# The kernel's own functions, with their addresses in ascending order; of several names of one, the first,
# as the kernel has it.
awk '$2 ~ /^[tTwW]$/ && $4 == "" && $1 != last { print $1, $3; last = $1 }' /proc/kallsyms >/tmp/kernel.symbols

# of_trace CPU: what trace has of it, a line "CPU MICROSECONDS PID COMM FUNCTION PARENT on|off" each.
of_trace() {
	events $R/per_cpu/cpu"$1"/trace |
		sed -E 's/^ *(.*)-([0-9]+) +\[0*([0-9]+)\] (.)[^ ]* +([0-9]+)\.([0-9]+): ([^ ]+) <-(.*)$/\3 \5\6 \2 \1 \7 \8 \4/' |
		sed -E 's/ [dD]$/ off/; s/ [^ ]$/ on/'
}

# of_raw DUMP: the same from what rawdump printed.
of_raw() {
	awk 'NF == 8 { print $1, substr($2, 1, length($2) - 3), $3, $5, $6, $7, $8 }' "$1"
}

# same WANTED GOT: but for the time, which trace rounds, and which may be converted a bit differently.
same() {
	is lines "$(wc -l <"$2")" "$(wc -l <"$1")"
	paste -d ' ' "$1" "$2" | awk '
	{
		apart = $2 - $9
		if ($1 != $8 || apart < -1 || apart > 1 || $3 != $10 || $4 != $11 || $5 != $12 ||
		    $6 != $13 || $7 != $14) {
			print
			wrong = 1
		}
	}
	END { exit wrong }'
}

# Two CPUs' worth of some functions, by several programs with names short and long.
work() {
	local name
	echo "$YIELD $PARENT vfs_*" >$R/filter
	for name in a a_long_name a_name_that_is_too_long; do
		cp "$(which calls)" /tmp/$name
		/tmp/$name files "$1" 0
		/tmp/$name turns "$1" 1
		/tmp/$name files "$1" 1
	done
	echo 0 >$R/tracing_on
}

# decoded_as_trace OPTION...: with these of rawdump's, each CPU's raw has what its trace has.
decoded_as_trace() {
	local cpu count
	for cpu in 0 1; do
		of_trace $cpu >/tmp/want
		count=$(wc -l </tmp/want)
		[ "$count" -gt 100 ]
		rawdump --nonblock --symbols /tmp/kernel.symbols "$@" $R/per_cpu/cpu$cpu/raw >/tmp/dump
		is 'the end' "$(tail -n 1 /tmp/dump)" EAGAIN
		of_raw /tmp/dump >/tmp/got
		same /tmp/want /tmp/got
		is 'of process' "$(awk 'NF == 8 && $5 ~ /^a/ && $3 != $4' /tmp/dump | wc -l)" 0
		is lost "$(grep -c ^lost /tmp/dump)" 0
		is read "$(stat_of $cpu 'read events')" "$count"
		is 'left in trace' "$(events $R/per_cpu/cpu$cpu/trace | wc -l)" 0
	done
	accounts_agree
}

like_trace() {
	work 20
	decoded_as_trace
	# All three names, as long as the kernel has them.
	is names "$(awk 'NF == 8 && $5 ~ /^a/ { print $5 }' /tmp/dump | sort -u | tr '\n' ' ')" \
		'a a_long_name a_name_that_is_ '
}

small_reads() {
	work 5
	decoded_as_trace --size 1
	echo 1 >$R/tracing_on
	echo >$R/trace
	work 20
	decoded_as_trace --size 97
}

torn_reads() {
	work 20
	decoded_as_trace --torn
}

spliced() {
	work 20
	decoded_as_trace --splice
	echo 1 >$R/tracing_on
	echo >$R/trace
	work 20
	decoded_as_trace --splice --size 1000
}

subbufs() {
	echo 4 >$R/buffer_subbuf_size_kb
	work 100
	decoded_as_trace --headers
	[ "$(grep -c ^record /tmp/dump)" -gt 4 ]
	# Sub-buffers are given in turn, and index and number of events lead to the next.
	awk '/^record/ {
		if (seen && ($7 < subbuf || $9 != next_event)) exit 1
		seen = 1
		subbuf = $7
		next_event = $9 + $13
	}' /tmp/dump
}

with_pipe() {
	local of_pipe
	# (of another size, so made anew: the events of a buffer are counted from there)
	echo 512 >$R/buffer_size_kb
	echo "$YIELD" >$R/filter
	calls yields 100 0
	echo 0 >$R/tracing_on
	of_trace 0 >/tmp/want
	# Some go to trace_pipe, the others to raw.
	dd if=$R/per_cpu/cpu0/trace_pipe of=/tmp/pipe bs=2000 count=1
	of_pipe=$(wc -l </tmp/pipe)
	[ "$of_pipe" -gt 2 ]
	[ "$of_pipe" -lt 90 ]
	tail -n +$((of_pipe + 1)) /tmp/want >/tmp/rest
	rawdump --nonblock --headers --symbols /tmp/kernel.symbols $R/per_cpu/cpu0/raw >/tmp/dump
	of_raw /tmp/dump >/tmp/got
	same /tmp/rest /tmp/got
	is 'first event' "$(awk '/^record/ { print $9; exit }' /tmp/dump)" "$of_pipe"
	accounts_agree
}

lost() {
	local present
	echo 32 >$R/buffer_size_kb
	echo "$YIELD" >$R/filter
	calls yields 30000 0
	present=$(stat_of 0 entries)
	rawdump --nonblock $R/per_cpu/cpu0/raw >/tmp/dump
	is lines "$(awk 'NF == 8' /tmp/dump | wc -l)" "$present"
	is lost "$(sed -n 's/^lost //p' /tmp/dump)" $((30000 - present))
	is lost "$(stat_of 0 overrun)" $((30000 - present))
	accounts_agree
}

# Written while it is read: what was not read was lost, and told of.
lost_under_load() {
	local pid count=$((200000 / SLOWER)) how
	echo 64 >$R/buffer_size_kb
	echo "$YIELD" >$R/filter
	rawdump --size 5000 $R/per_cpu/cpu0/raw >/tmp/dump &
	pid=$!
	workers="$workers $pid"
	calls yields $count 0
	until_true 60 sh -c "grep -qE '^entries: +0$' $R/per_cpu/cpu0/stats"
	reader=$pid
	until_true 20 sleeps
	# A reader that has read is ended, and puts the rest out.
	echo 0 >$R/tracing_on
	wait $pid
	is 'the end' "$(tail -n 1 /tmp/dump)" end
	is told "$(awk 'NF == 8 { sum++ } /^lost/ { sum += $2 } END { print sum + 0 }' /tmp/dump)" \
		"$(stat_of 0 'written events')"
	is hits $(($(stat_of 0 'written events') + $(stat_of 0 'commit overrun'))) $count
	accounts_agree
}

# sleeps [PID]: it does; the reader, if none is said.
sleeps() {
	grep -q '^State:.*S (sleeping)' /proc/"${1:-$reader}"/status
}

# waiting PERCENT OPTION...: rawdump of CPU 0, in the background, as $reader, waits for so much of 64 KiB.
waiting() {
	echo 64 >$R/buffer_size_kb
	echo "$YIELD" >$R/filter
	echo "$1" >$R/buffer_percent
	shift
	rawdump "$@" $R/per_cpu/cpu0/raw >/tmp/dump &
	reader=$!
	workers="$workers $reader"
	if [ "$1" = --poll ]; then until_true 20 grep -q wait /tmp/dump; fi
	until_true 20 sleeps
}

# printed EVENTS [WAITS]: the reader did, and it sleeps again.
printed() {
	# (errexit is off in a condition)
	[ "$(grep -c ' on$' /tmp/dump)" -eq "$1" ] &&
		{ [ -z "$2" ] || [ "$(grep -c wait /tmp/dump)" -eq "$2" ]; } && sleeps
}

# woken_once EVENTS: the reader was woken when half the buffer was filled, sleeps again, and all so many are
# there or were printed. (It may have read before the last of them were written.)
woken_once() {
	local printed
	printed=$(grep -c ' on$' /tmp/dump)
	[ "$printed" -ge 1000 ] && [ $((printed + $(stat_of 0 entries))) -eq "$1" ] &&
		{ ! grep -q wait /tmp/dump || [ "$(grep -c wait /tmp/dump)" -eq 2 ]; } && sleeps
}

times_slept() {
	sed -n 's/^voluntary_ctxt_switches:[^0-9]*//p' /proc/"$reader"/status
}

# sleeps_through COMMAND...: the reader is not woken by this. (By the time that a reader of the other CPU was
# woken by what came later, it would have been.)
sleeps_through() {
	local slept other
	until_true 20 sleeps
	slept=$(times_slept)
	"$@"
	fileio stream $R/per_cpu/cpu1/trace_pipe 65536 >/tmp/other &
	other=$!
	workers="$workers $other"
	until_true 20 sleeps $other
	calls yields 1 1
	until_true 20 grep -q calls- /tmp/other
	kill $other
	sleeps
	is 'times slept' "$(times_slept)" "$slept"
}

polled_for_one() {
	local i
	waiting 0 --poll
	for i in 1 2 3 4; do
		sleeps_through calls yields 5 1
		calls yields 1 0
		until_true 20 printed $i $((i + 1))
	done
}

polled_for_half() {
	waiting 50 --poll
	sleeps_through calls yields 20 0
	# Four sub-buffers of 16 KiB: half is filled when there are two.
	sleeps_through calls yields 900 0
	calls yields 200 0
	until_true 20 woken_once 1120
	is lost "$(grep -c ^lost /tmp/dump)" 0
}

polled_for_all() {
	waiting 100 --poll
	sleeps_through calls yields 2500 0
	calls yields 10000 0
	until_true 20 grep -q woken /tmp/dump
}

# A reader that waits for a part of the buffer waits on for that of another size.
polled_then_resized() {
	waiting 50 --poll
	echo 128 >$R/buffer_size_kb
	sleeps_through calls yields 1100 0
	is present "$(stat_of 0 entries)" 1100
	calls yields 3100 0
	until_true 20 grep -q woken /tmp/dump
}

polled_then_swapped() {
	waiting 50 --poll
	calls yields 900 0
	echo 1 >$R/snapshot
	sleeps_through calls yields 900 0
	calls yields 600 0
	until_true 20 woken_once 1500
}

polled_then_freed() {
	waiting 50 --poll
	calls yields 900 0
	echo >$R/free_buffer
	[ "$(cat $R/buffer_size_kb)" -lt 64 ]
	sleeps_through calls yields 5 1
	calls yields 5000 0
	until_true 20 grep -q woken /tmp/dump
}

spliced_half() {
	local printed
	waiting 50 --splice
	sleeps_through calls yields 20 0
	calls yields 1100 0
	until_true 20 woken_once 1120
	printed=$(grep -c ' on$' /tmp/dump)
	# With tracing_on 0 what there is will do, and then it ends.
	sleeps_through calls yields 7 0
	is events "$(grep -c ' on$' /tmp/dump)" "$printed"
	echo 0 >$R/tracing_on
	wait $reader
	is events "$(grep -c ' on$' /tmp/dump)" 1127
	is 'the end' "$(tail -n 1 /tmp/dump)" end
}

# (read does not wait for a part of the buffer)
read_blocks() {
	local i
	waiting 100
	for i in 1 2 3 4; do
		sleeps_through calls yields 5 1
		calls yields 3 0
		until_true 20 printed $((3 * i))
	done
}

# gapless DUMP: each record begins where the one before ended, and what was lost between is told. (Events
# before the first may have been cleared.)
gapless() {
	awk '/^record/ {
		if (seen++ && $9 != next_event + $11) { print; exit 1 }
		next_event = $9 + $13
	}' "$1"
}

# A reader makes events itself, and can never have all.
everything() {
	local cpu reader readers=
	echo 64 >$R/buffer_size_kb
	echo function >$R/current_tracer
	for cpu in 0 1; do
		rawdump --headers --no-events --size 10000 $R/per_cpu/cpu$cpu/raw >/tmp/dump$cpu &
		readers="$readers $!"
	done
	workers="$workers $readers"
	background churn 0
	for cpu in 0 1; do
		until_true 60 sh -c "[ \$(grep -c ^record /tmp/dump$cpu) -gt 30 ]"
		until_true 60 sh -c "[ \$(grep -c ^lost /tmp/dump$cpu) -gt 2 ]"
	done
	echo 0 >$R/tracing_on
	for reader in $readers; do wait "$reader"; done
	for cpu in 0 1; do
		is 'the end' "$(tail -n 1 /tmp/dump$cpu)" end
		gapless /tmp/dump$cpu
		is told "$(awk '/^record/ { sum += $11 + $13 } END { print sum }' /tmp/dump$cpu)" \
			"$(stat_of $cpu 'written events')"
	done
	accounts_agree
}

# Two readers of one file: each record goes to one of them.
shared() {
	local first count=$((100000 / SLOWER))
	echo 64 >$R/buffer_size_kb
	echo "$YIELD" >$R/filter
	rawdump --size 3000 $R/per_cpu/cpu0/raw >/tmp/dump &
	first=$!
	rawdump $R/per_cpu/cpu0/raw >/tmp/dump2 &
	workers="$workers $first $!"
	calls yields $count 0
	until_true 60 sh -c "grep -qE '^entries: +0$' $R/per_cpu/cpu0/stats"
	for reader in $first $!; do until_true 20 sleeps; done
	cat /tmp/dump /tmp/dump2 >/tmp/dumps
	is told "$(awk 'NF == 8 { sum++ } /^lost/ { sum += $2 } END { print sum + 0 }' /tmp/dumps)" \
		"$(stat_of 0 'written events')"
	is read "$(grep -c ' on$' /tmp/dumps)" "$(stat_of 0 'read events')"
	is hits $(($(stat_of 0 'written events') + $(stat_of 0 'commit overrun'))) $count
	accounts_agree
}

held() {
	local option
	for option in --poll --splice --headers; do
		waiting 50 $option
		fails rmmod rust_ftrace
		end_background
	done
	reload
}

clocks() {
	echo "$YIELD" >$R/filter
	calls yields 1 0
	rawdump --nonblock --headers $R/per_cpu/cpu0/raw >/tmp/dump
	is 'flags and clock' "$(sed -n 's/^record .* flags/flags/p' /tmp/dump)" 'flags 1 clock 0'
	echo counter >$R/trace_clock
	calls yields 10 0
	rawdump --nonblock --headers $R/per_cpu/cpu0/raw >/tmp/dump
	is 'flags and clock' "$(sed -n 's/^record .* flags/flags/p' /tmp/dump)" \
		"flags 0 clock $(tr -s ' ' '\n' <$T/trace_clock | grep -n counter | awk -F: '{ print $1 - 1 }')"
	# It counts.
	is counts "$(awk 'NF == 8 { if (last && $2 <= last) exit 1; last = $2; n++ } END { print n }' /tmp/dump)" 10
}

woken() {
	echo "$PARENT" >$R/filter
	fileio wake $R/per_cpu/cpu0/raw >/tmp/woken
	is 'as in tracefs' "$(cat /tmp/woken)" "$(fileio wake $T/per_cpu/cpu0/trace_pipe_raw)"
	is 'end' "$(cat /tmp/woken)" 'splice 0'
}

t 'it decodes to what trace says' like_trace
texts 'small reads give the same' small_reads
t 'so do reads that end in a fault' torn_reads
t 'splice gives the same' spliced
texts 'sub-buffers follow each other' subbufs
t 'what trace_pipe took is not in raw' with_pipe
t 'lost events are counted exactly' lost
t 'so they are while it is read' lost_under_load
t 'buffer_percent 0: poll waits for an event' polled_for_one
t 'buffer_percent 50: poll waits for half the buffer' polled_for_half
t 'buffer_percent 100: poll waits for all of it' polled_for_all
t 'who polls goes on when the buffer is replaced' polled_then_resized
t 'who polls goes on after a snapshot' polled_then_swapped
t 'who polls goes on after free_buffer' polled_then_freed
t 'splice waits for buffer_percent, and for the end' spliced_half
t 'ioctl(0) ends a splice that waits, as in tracefs' woken
t 'read waits for an event' read_blocks
t 'two readers share' shared
t 'all functions are traced, those of the readers too' everything
t 'the module stays while it is open' held
t "other clocks' times are not nanoseconds" clocks
finish
