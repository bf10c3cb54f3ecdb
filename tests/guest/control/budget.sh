#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# budget: an instance that takes more is stopped, within a second, and status says why.
. /tests/lib/ktap.sh

reload
YIELD=$(sys sched_yield)
I=$R/instances/other

# load: calls on both CPUs.
load_both() {
	background calls yields 0 0
	background calls yields 0 1
}
is_off() {
	[ "$(cat $R/tracing_on)" -eq 0 ]
}
is_measured() {
	grep -q '^# [0-9]* calls/s' $R/budget
}
some_hits() {
	[ "$(status hits)" -gt "${1:-100}" ]
}
# What it has measured last.
rate() {
	sed -n 's|^# \([0-9]*\) calls/s.*|\1|p' $R/budget
}

reads_back() {
	is budget "$(cat $R/budget)" 'calls 0
cpu 0
# nothing was measured yet'
	echo 'calls 2000000 cpu 20' >$R/budget
	is limits "$(head -n 2 $R/budget)" 'calls 2000000
cpu 20'
	printf 'cpu 30\n' >$R/budget
	is limits "$(head -n 2 $R/budget)" 'calls 2000000
cpu 30'
	printf 'calls 5\ncpu 6\n' >>$R/budget
	is limits "$(head -n 2 $R/budget)" 'calls 5
cpu 6'
	# What it says it takes.
	sed '/^#/d' $R/budget >/tmp/budget
	cat /tmp/budget >$R/budget
	is limits "$(head -n 2 $R/budget)" 'calls 5
cpu 6'
	gets 'write EINVAL' $R/budget 'calls'
	gets 'write EINVAL' $R/budget 'calls 7 cpu'
	gets 'write EINVAL' $R/budget 'calls 7 cpu x'
	gets 'write EINVAL' $R/budget 'calls 7 0'
	gets 'write ERANGE' $R/budget 'cpu 99999999999999999999'
	tail -n 1 $R/error_log | grep -q '\^'
	grep -q "budget: error: Too large a number" $R/error_log
	is limits "$(head -n 2 $R/budget)" 'calls 5
cpu 6'
	echo 0 >$R/budget
	is limits "$(head -n 2 $R/budget)" 'calls 0
cpu 0'
	echo 'calls 5' >$R/budget
	echo >$R/budget
	is limits "$(head -n 2 $R/budget)" 'calls 0
cpu 0'
	is stopped "$(status stopped)" no
}

# All functions, and no other instance's tracing is touched.
runaway() {
	local began on off allowed=1000
	mkdir $I
	echo 64 >$R/buffer_size_kb
	echo "$YIELD" >$I/filter
	echo "calls $allowed" >$R/budget
	load_both
	echo 0 >$R/tracing_on
	# (a debug kernel takes minutes for all)
	if [ "$SLOWER" -eq 1 ]; then echo '*' >$R/filter; else echo 'vfs_* *sched* *_time*' >$R/filter; fi
	[ "$(status 'armed functions')" -gt $((10000 / SLOWER / 10)) ]
	is stopped "$(status stopped)" no
	# (by the stamps of what was recorded: with all functions traced a busy machine takes its time to see it)
	on=$(stat_of 0 'now ts')
	echo 1 >$R/tracing_on
	until_true 20 is_off
	cat $R/trace >/tmp/budget.trace
	off=$(tail -n 1 /tmp/budget.trace | sed -E 's/.* ([0-9]+\.[0-9]+): .*/\1/')
	awk -v on="$on" -v off="$off" -v most=$((7 * SLOWER)) 'BEGIN {
		print "it took " off - on " s"
		exit !(off > on && off - on < most / 10)
	}'
	status stopped | grep -qE "^budget: [0-9]+ calls/s, $allowed allowed\$"
	[ "$(status stopped | sed 's|^budget: \([0-9]*\) calls/s.*|\1|')" -gt $allowed ]
	# It is off on all CPUs, at once, and what was recorded is there.
	began=$(status hits)
	[ "$began" -gt 0 ]
	usleep 50000
	is hits "$(status hits)" "$began"
	says $I/tracing_on 1
	grep -qx 'stopped: no' $I/status
	began=$(sed -n 's/^hits: //p' $I/status)
	until_true 10 goes_on "$began"
	end_background
	accounts_agree
	rmdir $I
}
goes_on() {
	[ "$(sed -n 's/^hits: //p' $I/status)" -gt "$1" ]
}

# Until a write says otherwise.
resumed() {
	echo 'calls 100' >$R/budget
	load_both
	echo "$YIELD" >$R/filter
	until_true 10 is_off
	status stopped | grep -q '^budget: .* 100 allowed'
	echo 0 >$R/tracing_on
	status stopped | grep -q '^budget: '
	echo 1 >$R/tracing_on
	until_true 10 is_off
	status stopped | grep -q '^budget: .* 100 allowed'
	# Another budget is another matter, and does not switch on.
	echo 'calls 100000000' >$R/budget
	is stopped "$(status stopped)" no
	says $R/tracing_on 0
	echo >$R/trace
	echo 1 >$R/tracing_on
	until_true 10 is_measured
	until_true 10 some_hits 3000
	says $R/tracing_on 1
	is stopped "$(status stopped)" no
	# And so is none.
	echo 'calls 100' >$R/budget
	until_true 10 is_off
	echo 0 >$R/budget
	is stopped "$(status stopped)" no
	echo >$R/trace
	echo 1 >$R/tracing_on
	until_true 10 some_hits 3000
	says $R/tracing_on 1
}

# The rate is that of the machine: both CPUs' together, as their counts say.
both_cpus() {
	echo 'calls 1000000000' >$R/budget
	load_both
	echo "$YIELD" >$R/filter
	until_true 10 is_measured
	usleep 300000
	tries 10 agrees
}
agrees() {
	local before after began took one
	before=$(status hits)
	began=$(now)
	usleep 500000
	after=$(status hits)
	took=$(($(now) - began))
	one=$(((after - before) * 100 / took))
	echo "$(rate) measured, $one counted"
	# (the load comes and goes with the machine under this one)
	[ "$(rate)" -gt $((one / 2)) ]
	[ "$(rate)" -lt $((one * 2)) ]
}

# A burst is not what is meant, though it is more than the budget for some milliseconds.
burst() {
	echo "calls 60000" >$R/budget
	echo "$YIELD" >$R/filter
	# (far more than a sub-buffer has)
	for _ in 1 2 3 4 5 6; do
		calls yields 2500 0
		usleep 200000
	done
	is hits "$(status hits)" 15000
	is_measured
	is stopped "$(status stopped)" no
	says $R/tracing_on 1
}

# By time, too: the same calls cost more if more is recorded.
by_time() {
	local cost
	echo 'cpu 1000000' >$R/budget
	load_both
	echo "$YIELD" >$R/filter
	until_true 10 is_measured
	grep -qE '^# [0-9]+ calls/s, about [0-9]+ % of a CPU at [1-9][0-9]* ns a call$' $R/budget
	cost=$(cost)
	echo 1 >$R/options/func-args
	until_true 10 costs_more "$cost"
	echo 0 >$R/options/func-args
	echo function_graph >$R/current_tracer
	until_true 10 costs_more "$cost"
	echo 'cpu 1' >$R/budget
	until_true 20 is_off
	status stopped | grep -qE '^budget: [0-9]+ calls/s, about [0-9]+ % of a CPU at [0-9]+ ns a call, 1 % allowed$'
	end_background
	accounts_agree
}
cost() {
	sed -n 's/^# .* at \([0-9]*\) ns a call$/\1/p' $R/budget
}
costs_more() {
	[ "$(cost)" -ge $((3 * $1)) ]
}

# Where the buffer is full, and nothing is written any more.
dropped() {
	echo 0 >$R/options/overwrite
	echo 32 >$R/buffer_size_kb
	echo "$YIELD" >$R/filter
	calls yields 10000 0
	[ "$(status 'lost to full buffers')" -gt 5000 ]
	echo 'calls 100' >$R/budget
	background calls yields 0 0
	until_true 10 is_off
	status stopped | grep -q '^budget: '
	end_background
	accounts_agree
}

# A reader is told that nothing will come any more.
readers_end() {
	local pid
	echo "$YIELD" >$R/filter
	cat $R/trace_pipe >/tmp/pipe.out &
	pid=$!
	workers="$workers $pid"
	calls yields 10 0
	until_true 20 [ -s /tmp/pipe.out ]
	echo 'calls 100' >$R/budget
	background calls yields 0 1
	until_true 20 is_over "$pid"
	status stopped | grep -q '^budget: '
}
is_over() {
	[ ! -e "/proc/$1/stat" ] || grep -q ') Z ' "/proc/$1/stat"
}

# Limits, clears, sizes, snapshots and switches change under load; a budget of no limits stops nothing then.
under_load() {
	local i=0
	echo 1 >$R/snapshot
	load_both
	echo "$YIELD vfs_*" >$R/filter
	while [ $i -lt "$(some 20)" ]; do
		echo 'calls 50' >$R/budget
		echo 1 >$R/tracing_on
		echo 1 >$R/snapshot
		echo $((64 << (i % 3))) >$R/buffer_size_kb
		until_true 10 is_off
		echo 'calls 1000000000 cpu 100000000' >$R/budget
		echo >$R/trace
		echo 1 >$R/tracing_on
		echo 2 >$R/snapshot
		is stopped "$(status stopped)" no
		i=$((i + 1))
	done
	until_true 10 some_hits 3000
	says $R/tracing_on 1
	echo 0 >$R/tracing_on
	end_background
	accounts_agree
}

reset_budget() {
	echo 0 >$R/budget
}
# tb: as t, with no budget at first.
tb() {
	reset_budget
	t "$@"
	reset_budget
}

tb 'limits read back, and what means nothing changes none' reads_back
tb 'a glob of all functions is stopped within a second, and no other tracing' runaway
tb 'tracing_on resumes, and so do other limits' resumed
tb 'what is measured is the rate of all CPUs' both_cpus
tb 'a burst of some milliseconds does not count' burst
tb 'a limit of time, by what a call costs' by_time
tb 'events that are dropped count as well' dropped
tb 'readers come to their end' readers_end
tb 'all of it changes under load' under_load
finish
