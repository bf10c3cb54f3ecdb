#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The buffers: what is written is there or was overwritten, and all is counted.
. /tests/ktap.sh

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

# With a filter that nobody else hits, the calls of two processes are all there is.
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

t 'all events are there when they fit' all_fit
t 'when they do not, the last ones are, and the others are counted' overwrite
t 'resizing under load loses no count' resized_under_load
t 'clearing under load keeps the counts right' cleared_under_load
t 'tracing_on 0 stops at once, 1 goes on' off_is_off
t "stats has tracefs's lines" stats_keys
t 'memory follows the size' memory
t 'sizes are rounded up' sizes
t 'interrupts of all that records: all is counted' busy
finish
