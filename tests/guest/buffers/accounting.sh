#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The buffers: what is written is there or was overwritten, and all is counted.
. /tests/lib/ktap.sh

reload
YIELD=$(sys sched_yield)

all_fit() {
	echo "$YIELD" >$R/filter
	calls yields 1000 0
	calls yields 2000 1
	is 'on 0' "$(stat_of 0 'written events')" 1000
	is 'on 1' "$(stat_of 1 'written events')" 2000
	is present "$(status 'events present')" 3000
	is overwritten "$(status 'events overwritten')" 0
	is lines "$(events $R/trace | wc -l)" 3000
	accounts_agree
}

overwrite() {
	local present
	echo 32 >$R/buffer_size_kb
	echo "$YIELD" >$R/filter
	calls yields 30000 0
	calls yields 100 1
	is 'on 0' "$(stat_of 0 'written events')" 30000
	is 'on 1' "$(stat_of 1 'written events')" 100
	[ "$(stat_of 0 overrun)" -gt 20000 ]
	is 'overrun on 1' "$(stat_of 1 overrun)" 0
	present=$(status 'events present')
	is lines "$(events $R/trace | wc -l)" "$present"
	# At least half of what 16 bytes an event would let in.
	[ "$present" -gt $((32 * 1024 / 16 / 2)) ]
	accounts_agree
	# It is the last ones that stay.
	sh -c "exec calls yields 5 0"
	is 'newest' "$(cat $R/per_cpu/cpu0/trace | tail -n 5 | sed -E 's/^ *(calls-[0-9]+) .*/\1/' | sort -u | wc -l)" 1
	[ "$(cat $R/per_cpu/cpu0/trace | tail -n 6 | sed -E 's/^ *(calls-[0-9]+) .*/\1/' | sort -u | wc -l)" -eq 2 ]
}

# With a filter that no other task hits, the calls of two processes are all there is.
resized_under_load() {
	local size i
	echo "$YIELD" >$R/filter
	counting /tmp/count.0 calls yields 0 0
	counting /tmp/count.1 calls yields 0 1
	until_true 10 both_written
	for i in 1 2 3 4 5; do
		for size in 32 256 1024 64; do echo $size >$R/buffer_size_kb; done
	done
	end_background
	all_counted
	echo $SIZE_KB >$R/buffer_size_kb
	all_counted
}

both_written() {
	[ "$(stat_of 0 'written events')" -gt 0 ] && [ "$(stat_of 1 'written events')" -gt 0 ]
}

# Each CPU wrote or lost as many as were counted, and lost next to none.
all_counted() {
	local cpu
	for cpu in 0 1; do
		is "hits on $cpu" $(($(stat_of $cpu 'written events') + $(stat_of $cpu 'commit overrun'))) \
			"$(cat /tmp/count.$cpu)"
		[ "$(stat_of $cpu 'commit overrun')" -le 10 ]
	done
	accounts_agree
}

cleared_under_load() {
	local i
	echo 64 >$R/buffer_size_kb
	echo "$YIELD vfs_*" >$R/filter
	background calls yields 0 0
	background calls files 0 1
	for i in 1 2 3 4; do
		echo >$R/trace
		echo >$R/per_cpu/cpu1/trace
		until_true 10 both_written
	done
	echo 0 >$R/tracing_on
	accounts_agree
	end_background
	echo >$R/trace
	is written "$(status 'events written')" 0
	is lines "$(events $R/trace | wc -l)" 0
	accounts_agree
}

# more_hits THAN
more_hits() {
	[ "$(status hits)" -gt "$1" ]
}

# worked PID THAN: that process has run for more ticks than that.
worked() {
	[ "$(ticks "$1")" -gt "$2" ]
}

ticks() {
	awk '{ print $14 + $15 }' /proc/"$1"/stat
}

off_is_off() {
	local hits pid
	echo "$YIELD" >$R/filter
	background calls yields 0 0
	pid=${workers##* }
	until_true 10 more_hits 0
	echo 0 >$R/tracing_on
	hits=$(status hits)
	# (the process goes on: it runs a while without being seen)
	until_true 10 worked "$pid" $(($(ticks "$pid") + 10))
	is hits "$(status hits)" "$hits"
	says $R/tracing_on 0
	echo 1 >$R/tracing_on
	until_true 10 more_hits "$hits"
	end_background
	accounts_agree
}

stats_keys() {
	echo "$YIELD" >$R/filter
	calls yields 10 0
	# tracefs's lines, in its order; ours may be followed by more.
	sed 's/:.*//' $T/per_cpu/cpu0/stats >/tmp/stock.keys
	sed 's/:.*//' $R/per_cpu/cpu0/stats | head -n "$(wc -l </tmp/stock.keys)" >/tmp/our.keys
	diff /tmp/stock.keys /tmp/our.keys
	fails grep -vE '^[a-z ]+: +[0-9]+(\.[0-9]{6})?$' $R/per_cpu/cpu0/stats
	# The oldest event is the first that the trace shows, now is now.
	is oldest "$(stat_of 0 'oldest event ts' | tr -d ' ')" \
		"$(events $R/per_cpu/cpu0/trace | head -n 1 | sed -E 's/.* ([0-9]+\.[0-9]{6}): .*/\1/')"
	# The clock of both is the same: ours is between two of theirs. (but for the rounding)
	{
		sed -n 's/^now ts: //p' $T/per_cpu/cpu0/stats
		stat_of 0 'now ts'
		sed -n 's/^now ts: //p' $T/per_cpu/cpu0/stats
	} | tr '\n' ' ' | awk '{ print; exit !($1 - 0.00001 <= $2 && $2 <= $3 + 0.00001) }'
}

memory() {
	local small large
	echo 64 >$R/buffer_size_kb
	echo "$YIELD" >$R/filter
	small=$(status memory | sed 's/ KiB//')
	echo 8192 >$R/buffer_size_kb
	says $R/buffer_size_kb 8192
	large=$(status memory | sed 's/ KiB//')
	# Two CPUs' buffers, and no more than a little over.
	[ $((large - small)) -ge $((2 * (8192 - 64))) ]
	[ $((large - small)) -lt $((2 * (8192 - 64) + 200)) ]
	calls yields $((100000 / SLOWER)) 0
	is present "$(stat_of 0 entries)" $((100000 / SLOWER))
	accounts_agree
}

sizes() {
	# The size read back is at least the one written, and little more.
	local size got
	for size in 1 31 33 100 1000 1408 5000; do
		echo $size >$R/buffer_size_kb
		got=$(cat $R/buffer_size_kb)
		[ "$got" -ge $size ]
		[ "$got" -lt $((size + 32)) ]
	done
}

both_overwritten() {
	[ "$(stat_of 0 overrun)" -gt 0 ] && [ "$(stat_of 1 overrun)" -gt 0 ]
}

# Interrupts in the middle of recording: what cannot be written is counted.
busy() {
	echo 64 >$R/buffer_size_kb
	echo '*timer* *lock* *signal* *entry*' >$R/filter
	background calls signals 0 0
	background calls signals 0 1
	until_true 10 both_overwritten
	end_background
	echo 0 >$R/tracing_on
	status 'events lost'
	is lines "$(events $R/trace | wc -l)" "$(status 'events present')"
	accounts_agree
}

# cpu0: its events as lines.
cpu0() {
	events $R/per_cpu/cpu0/trace
}

# memory_of: KiB of all buffers.
memory_of() {
	status memory | sed 's/ KiB//'
}

resize_keeps() {
	local count memory
	echo 256 >$R/buffer_size_kb
	memory=$(memory_of)
	echo "$YIELD" >$R/filter
	calls yields 5000 0
	calls yields 300 1
	events $R/trace >/tmp/before
	is lines "$(wc -l </tmp/before)" 5300
	# A larger one has all, one that is too small the newest.
	echo 1024 >$R/buffer_size_kb
	events $R/trace | diff /tmp/before -
	accounts_agree
	calls yields 1000 0
	cpu0 >/tmp/more
	is 'more lines' "$(wc -l </tmp/more)" 6000
	grep '\[000\]' /tmp/before >/tmp/first
	head -n 5000 /tmp/more | diff /tmp/first -
	echo 64 >$R/buffer_size_kb
	cpu0 >/tmp/less
	count=$(wc -l </tmp/less)
	# (of 4 sub-buffers of 1023 slots, one may have little in it, and each of two parts another)
	[ "$count" -gt 2000 ]
	[ "$count" -le 4096 ]
	tail -n "$count" /tmp/more | diff - /tmp/less
	is overwritten "$(stat_of 0 overrun)" $((6000 - count))
	accounts_agree
	# It can be taken out, each once, and is in a snapshot.
	head -n 1 /tmp/less >/tmp/first
	# (before it, it says what was lost)
	head -n 2 $R/per_cpu/cpu0/trace_pipe >/tmp/piped
	is lost "$(sed -nE '1s/^CPU:0 \[LOST ([0-9]+) EVENTS\]$/\1/p' /tmp/piped)" $((6000 - count))
	sed 1d /tmp/piped | diff /tmp/first -
	accounts_agree
	cpu0 >/tmp/rest
	tail -n "$(wc -l </tmp/rest)" /tmp/less | diff - /tmp/rest
	echo 1 >$R/snapshot
	events $R/per_cpu/cpu0/snapshot | diff /tmp/rest -
	is 'after the snapshot' "$(cpu0 | wc -l)" 0
	echo 0 >$R/snapshot
	# What has gone round gives its memory back.
	calls yields 1000 0
	echo 256 >$R/buffer_size_kb
	[ "$(memory_of)" -gt "$memory" ]
	calls yields 40000 0
	calls yields 40000 1
	[ "$(memory_of)" -le $((memory + 16)) ]
	accounts_agree
	# Clearing clears that, too.
	echo 512 >$R/buffer_size_kb
	echo >$R/trace
	is cleared "$(events $R/trace | wc -l)" 0
	is written "$(status 'events written')" 0
	accounts_agree
}

# raw and trace_pipe_raw give out what was kept, and then what came later.
kept_is_taken_out() {
	local dump
	for dump in "rawdump --nonblock $R/per_cpu/cpu0/raw" "kpages $R/per_cpu/cpu0/trace_pipe_raw"; do
		echo 256 >$R/buffer_size_kb
		echo >$R/trace
		echo "$YIELD" >$R/filter
		calls yields 3000 0
		echo 512 >$R/buffer_size_kb
		calls yields 500 0
		echo 1024 >$R/buffer_size_kb
		calls yields 70 0
		$dump >/tmp/dump
		is "$dump" "$(stat_of 0 'read events')" 3570
		is left "$(stat_of 0 entries)" 0
		accounts_agree
	done
}

# Recording goes on while the size changes: no event is there twice, or out of order, or missing between others.
kept_under_load() {
	local size
	echo 512 >$R/buffer_size_kb
	echo "$YIELD" >$R/filter
	counting /tmp/count.0 calls yields 0 0
	until_true 10 more_hits 100
	for size in 1024 4096 2048 8192; do echo $size >$R/buffer_size_kb; done
	end_background
	cpu0 | sed -E 's/^.* ([0-9]+\.[0-9]+): .*/\1/' >/tmp/times
	sort -c -n /tmp/times
	is all "$(($(wc -l </tmp/times) + $(stat_of 0 overrun) + $(stat_of 0 'commit overrun')))" "$(cat /tmp/count.0)"
	accounts_agree
}

t 'all events are there when they fit' all_fit
t 'when they do not, the last ones are, and the others are counted' overwrite
t 'resizing under load loses no count' resized_under_load
t 'a resize keeps the newest that there is room for' resize_keeps
t 'what was kept is taken out before what came later' kept_is_taken_out
t 'events that are recorded meanwhile come behind those that are kept' kept_under_load
t 'clearing under load keeps the counts right' cleared_under_load
t 'tracing_on 0 stops at once, 1 goes on' off_is_off
t "stats has tracefs's lines" stats_keys
t 'memory follows the size' memory
t 'sizes are rounded up' sizes
t 'interrupts of all that records: all is counted' busy
finish
