#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The profile's own files: all CPUs together, percentiles, histograms, and counts that begin from zero.
. /tests/lib/ktap.sh
. /tests/lib/nmis.sh

insmod /lib/modules/known_calls.ko
K=/sys/kernel/debug/known_calls
reload
YIELD=$(sys sched_yield)
SLEEP=$(pick do_nanosleep)
SUMS=$R/trace_stat/function
TIMES=$R/trace_stat/function_latency

profile() { echo 1 >$R/function_profile_enabled; }
ended() { echo 0 >$R/function_profile_enabled; }
# of COLUMN FUNCTION: of its line, 0 if it has none.
of() {
	local column
	case $1 in
	calls) column=3 ;;
	total) column=4 ;;
	self) column=5 ;;
	average) column=6 ;;
	p50) column=7 ;;
	p90) column=8 ;;
	p99) column=9 ;;
	max) column=10 ;;
	esac
	awk -v name="$2" -v column=$column '$1 == name { value = $column } END { print value ? value : 0 }' $SUMS
}
# histogram FUNCTION: the lines of its buckets.
histogram() {
	awk -v name="$1" '
		/^# function: / { on = $3 == name; next }
		/^# statistics/ { on = 0 }
		on && $2 == "-"' $TIMES
}
# counted FUNCTION: calls in its histogram.
counted() { histogram "$1" | awk '{ sum += $6 } END { print sum + 0 }'; }
nap() { taskset 1 usleep "$1"; }

columns() {
	is lines "$(grep -c . $SUMS)" 2
	is lines "$(grep -c . $TIMES)" 0
	is names "$(sed -n 1p $SUMS | tr -s ' ')" \
		' Function | Calls Total us Self us Avg us p50 us p90 us p99 us Max us'
	echo "$YIELD" >$R/filter
	profile
	calls yields 2000 0
	calls yields 1000 1
	is calls "$(of calls "$YIELD")" 3000
	is lines "$(grep -c . $SUMS)" 3
	is words "$(sed -n 3p $SUMS | wc -w)" 10
	is width "$(sed -n 3p $SUMS | wc -c)" "$(sed -n 1p $SUMS | wc -c)"
	ended
	# The same in any pieces.
	cat $SUMS >/tmp/once
	dd if=$SUMS bs=7 2>/dev/null | cmp - /tmp/once
	cat $TIMES >/tmp/once
	dd if=$TIMES bs=7 2>/dev/null | cmp - /tmp/once
	# Programs that add up the second column of trace_stat/function* take none of it (funccount of perf-tools).
	is sum "$(cat $R/trace_stat/function* | awk '
		$2 ~ /[0-9]/ { count[$1] += $2 }
		END { for (name in count) print name, count[name] }')" "$YIELD 3000"
	holds "$(of p50 "$YIELD") <= $(of p90 "$YIELD")"
	holds "$(of p90 "$YIELD") <= $(of p99 "$YIELD")"
	holds "$(of p99 "$YIELD") <= $(of max "$YIELD")"
	holds "$(of p50 "$YIELD") > 0"
	# (digits are cut off twice)
	holds "$(of average "$YIELD") * 3000 <= $(of total "$YIELD")"
	holds "($(of average "$YIELD") + 0.003) * 3000 > $(of total "$YIELD")"
}

# Of the same calls, as function_graph times them: a percentile is no less than the call's that has the rank, and an
# eighth more at most. (it is timed a little inside of that, and a busy machine may stand still between the two)
percentiles() {
	tries 4 once_percentiles
}
once_percentiles() {
	local rank percent exact got
	echo "$SLEEP" >$R/filter
	echo function_graph >$R/current_tracer
	echo 1 >$R/tracing_on
	echo >$R/trace
	profile
	for time in 2000 3000 5000 8000 8000 13000 21000 34000 55000 89000; do nap $time; done
	ended
	echo 0 >$R/tracing_on
	grep "$SLEEP();" $R/trace | sed -nE 's/^ *[0-9]+\) [^0-9]*([0-9.]+) us .*/\1/p' | sort -n >/tmp/durations
	is calls "$(grep -c . /tmp/durations)" 10
	for percent in 50 90 99; do
		rank=$(((percent * 10 + 99) / 100))
		exact=$(sed -n ${rank}p /tmp/durations)
		got=$(of p$percent "$SLEEP")
		holds "$got > 0.98 * $exact && $got < 1.125 * 1.02 * $exact"
	done
	exact=$(sed -n 10p /tmp/durations)
	got=$(of max "$SLEEP")
	holds "$got > 0.98 * $exact && $got < 1.02 * $exact"
	is calls "$(counted "$SLEEP")" 10
}

# Calls that spin for as long as they are told to, with another in each.
known_sleeps() {
	local left=40
	echo "$SLEEP" >$R/filter
	profile
	while [ $left -gt 0 ]; do
		nap 1000
		left=$((left - 1))
	done
	nap 300000
	is calls "$(of calls "$SLEEP")" 41
	holds "$(of p50 "$SLEEP") >= 1000"
	holds "$(of p50 "$SLEEP") < 200000"
	holds "$(of p99 "$SLEEP") >= 300000"
	holds "$(of max "$SLEEP") >= 300000"
	holds "$(of max "$SLEEP") == $(of p99 "$SLEEP")"
}

own() {
	echo known_outer known_inner >$R/filter
	profile
	taskset 1 sh -c "echo 5000 >$K/pairs"
	ended
	is outer "$(of calls known_outer)" 5000
	is inner "$(of calls known_inner)" 5000
	is own "$(of self known_inner)" "$(of total known_inner)"
	# (digits are cut off)
	sum="$(of self known_outer) + $(of self known_inner)"
	holds "$sum <= $(of total known_outer) + 0.002 && $sum >= $(of total known_outer) - 0.002"
	holds "$(of self known_outer) > 0"
	holds "$(of self known_outer) < $(of total known_outer)"
	# Whatever else hooks the calls, and so has words between.
	echo function_graph >$R/current_tracer
	profile
	taskset 1 sh -c "echo 5000 >$K/pairs"
	ended
	is own "$(of self known_inner)" "$(of total known_inner)"
	sum="$(of self known_outer) + $(of self known_inner)"
	holds "$sum <= $(of total known_outer) + 0.002 && $sum >= $(of total known_outer) - 0.002"
	# By the slower hook, too.
	echo nop >$R/current_tracer
	for option in graph-time sleep-time; do
		echo 0 >$R/options/$option
		profile
		taskset 1 sh -c "echo 5000 >$K/pairs"
		ended
		is inner "$(of calls known_inner)" 5000
		is calls "$(counted known_outer)" 5000
		sum="$(of self known_outer) + $(of self known_inner)"
		holds "$sum <= $(of total known_outer) + 0.002 && $sum >= $(of total known_outer) - 0.002"
		echo 1 >$R/options/$option
	done
}

# What is written there is what the histogram has, in the columns of perf.
histograms() {
	echo "$YIELD $SLEEP" >$R/filter
	profile
	calls yields 3000 0
	nap 30000
	ended
	is functions "$(grep -c '^# function: ' $TIMES)" 2
	is headers "$(grep -c '^#  *DURATION  *|  *COUNT | GRAPH  *|$' $TIMES)" 2
	is statistics "$(grep -cx '# statistics  (in usec)' $TIMES)" 2
	is calls "$(counted "$YIELD")" 3000
	is calls "$(counted "$SLEEP")" 1
	grep -qE '^  call count: +3000$' $TIMES
	# Buckets follow each other, and are no wider than an eighth. (digits are cut off)
	{ histogram "$YIELD"; histogram "$SLEEP"; } >/tmp/buckets
	awk '
		$4 !~ /^(us|ms|s)$/ || $5 != "|" || $6 !~ /^[0-9]+$/ { print "not a line: " $0; exit 1 }
		length($0) != 88 { print "not as long as others: " $0; exit 1 }
		{ unit = $4 == "us" ? 1 : $4 == "ms" ? 1000 : 1000000; from = $1 * unit; to = $3 * unit }
		from < before - 0.002 * unit && before < 1000 { print "before the last: " $0; exit 1 }
		to <= from || to - from > from / 8 + 0.003 * unit { print "too wide: " $0; exit 1 }
		{ before = to }' /tmp/buckets
	# Only those in filter.
	echo "$SLEEP" >$R/filter
	is functions "$(grep '^# function: ' $TIMES)" "# function: $SLEEP"
	is lines "$(of calls "$YIELD")" 3000
}

clears() {
	echo "$YIELD" >$R/filter
	profile
	calls yields 1000 0
	nap 1000
	echo >$SUMS
	is calls "$(of calls "$YIELD")" 0
	is lines "$(grep -c . $SUMS)" 2
	is lines "$(grep -c . $R/trace_stat/function0)" 2
	is lines "$(grep -c . $TIMES)" 0
	calls yields 300 0
	calls yields 7 1
	is calls "$(of calls "$YIELD")" 307
	is calls "$(counted "$YIELD")" 307
	is hits "$(awk -v name="$YIELD" '$1 == substr(name, 1, 30) { print $2 }' $R/trace_stat/function1)" 7
	# The longest is that since then.
	holds "$(of max "$YIELD") > 0"
	holds "$(of max "$YIELD") <= $(of total "$YIELD")"
	# Opening it to write does the same, and functions come all the same.
	: >$SUMS
	echo "$SLEEP" >>$R/filter
	nap 200000
	calls yields 5 1
	is calls "$(of calls "$YIELD")" 5
	is calls "$(of calls "$SLEEP")" 1
	holds "$(of max "$YIELD") < 200000"
	ended
	is calls "$(of calls "$YIELD")" 5
	echo >$SUMS
	is calls "$(of calls "$YIELD")" 0
	profile
	calls yields 9 1
	is calls "$(of calls "$YIELD")" 9
}

# Whatever interrupts are at work: there are as many as there are calls.
clears_under_load() {
	local left
	left=$(some 20)
	background churn 0
	background calls signals 0 0
	echo "$YIELD vfs_* *signal*" >$R/filter
	profile
	while [ "$left" -gt 0 ]; do
		echo >$SUMS
		calls yields 500 1
		is calls "$(of calls "$YIELD")" 500
		is calls "$(counted "$YIELD")" 500
		left=$((left - 1))
	done
	is lost "$(status 'profile lost')" 0
}

few() {
	reload profile_histograms=2
	is 'histograms' "$(status 'profile histograms')" ''
	echo known_flat known_outer known_inner "$YIELD" >$R/filter
	profile
	is 'histograms' "$(status 'profile histograms')" '0 of 2 on a CPU'
	taskset 1 sh -c "echo 100 >$K/flat"
	taskset 1 sh -c "echo 200 >$K/pairs"
	calls yields 50 0
	is 'histograms' "$(status 'profile histograms')" '2 of 2 on a CPU'
	# The first two that returned have theirs, and the others share what is left.
	is rest "$(status 'profile rest')" 250
	is flat "$(counted known_flat)" 100
	is inner "$(counted known_inner)" 200
	is functions "$(grep -c '^# function: ' $TIMES)" 2
	for function in known_outer "$YIELD"; do
		is percentile "$(of p50 "$function")" -
		holds "$(of max "$function") > 0"
		holds "$(of total "$function") >= $(of max "$function")"
	done
	is outer "$(of calls known_outer)" 200
	is yields "$(of calls "$YIELD")" 50
	# Another CPU has its own.
	calls yields 70 1
	is rest "$(status 'profile rest')" 250
	ended
	reload profile_histograms=0
	echo "$YIELD" >$R/filter
	profile
	calls yields 30 0
	is yields "$(of calls "$YIELD")" 30
	is percentile "$(of p50 "$YIELD")" -
	is rest "$(status 'profile rest')" 30
	ended
	reload
}

memory() {
	echo "$YIELD" >$R/filter
	before=$(status memory)
	profile
	calls yields 10 0
	during=$(status memory)
	[ "${during% *}" -gt "${before% *}" ]
	echo >$SUMS
	ended
	echo >$R/free_buffer
	is lines "$(grep -c . $SUMS)" 2
	# (buffers are given back, too)
	[ "$(status memory | sed 's/ .*//')" -le "${before% *}" ]
}

# Each instance has its own, of the functions, tasks and CPUs that it traces.
instances() {
	local I=$R/instances/other
	mkdir $I
	is files "$(ls $I/trace_stat)" "$(ls $R/trace_stat)"
	echo "$YIELD" >$R/filter
	echo "$YIELD $PARENT" >$I/filter
	profile
	echo 1 >$I/function_profile_enabled
	calls turns 100 0
	is here "$(of calls "$YIELD")" 100
	is here "$(of calls "$PARENT")" 0
	SUMS=$I/trace_stat/function
	is there "$(of calls "$YIELD")" 100
	[ "$(of calls "$PARENT")" -ge 100 ]
	# Time of calls that both hook is as good.
	holds "$(of self "$YIELD") > 0"
	echo >$SUMS
	is there "$(of calls "$YIELD")" 0
	SUMS=$R/trace_stat/function
	is here "$(of calls "$YIELD")" 100
	rmdir $I
	calls turns 10 0
	is here "$(of calls "$YIELD")" 110
	ended
}

only_some() {
	echo "$YIELD" >$R/filter
	profile
	echo 1 >$R/tracing_cpumask
	calls yields 100 0
	calls yields 30 1
	is 'of CPU 0' "$(of calls "$YIELD")" 100
	echo 3 >$R/tracing_cpumask
	# (sh takes another program's place with its own pid)
	sh -c "echo \$\$ >$R/pid; exec calls yields 7 0"
	calls yields 1000 0
	is 'of the task' "$(of calls "$YIELD")" 107
	echo >$R/pid
	sh -c "echo \$\$ >$R/notrace_pid; exec calls yields 5000 0"
	calls yields 3 0
	is 'of others' "$(of calls "$YIELD")" 110
	echo >$R/notrace_pid
	# By the slower hook, too.
	echo 0 >$R/options/sleep-time
	echo 2 >$R/tracing_cpumask
	calls yields 100 0
	calls yields 30 1
	is 'of CPU 1' "$(of calls "$YIELD")" 140
	echo 3 >$R/tracing_cpumask
	echo 1 >$R/options/sleep-time
	ended
	is lost "$(status 'profile lost')" 0
}

# What is too deep for the kernel is not counted, and is told.
deep() {
	local seen missed deep
	echo known_deep >$R/filter
	profile
	echo 50 >$K/deep
	is calls "$(of calls known_deep)" 50
	is missed "$(status 'profile missed')" 0
	echo >$SUMS
	echo 150 >$K/deep
	seen=$(of calls known_deep)
	missed=$(status 'profile missed')
	deep=$(status 'profile too deep' | cut -d ' ' -f 1)
	is 'seen, and too deep' $((seen + missed + deep)) 150
	is depth "$seen" 54
	ended
}

has_calls() { [ "$(of calls "$1")" -ge "$2" ]; }
nmis() {
	local function=$NMI_FUNCTION i
	echo "$function $YIELD" >$R/filter
	profile
	console_off
	counting /tmp/yields calls yields 0 1
	for i in 1 2 3 4 5 6; do
		# (each is the first of the function after a clear)
		echo >$SUMS
		nmi_on_cpu_1
		until_true 20 has_calls "$function" 1
		is calls "$(counted "$function")" "$(of calls "$function")"
	done
	end_background
	ended
	# Each call is in the histogram. (one may have been entered before the last clear, and returned after it)
	holds "$(counted "$YIELD") >= $(of calls "$YIELD")"
	holds "$(counted "$YIELD") <= $(of calls "$YIELD") + 1"
	is lost "$(status 'profile lost')" 0
	is rest "$(status 'profile rest')" 0
}

# Another instance counts the same, and nothing of it is cleared. What is left of a clear is what came after some moment
# within it: no less than what the other counted behind it, no more than what it counted from before it on.
clears_under_nmis() {
	local I=$R/instances/other round name
	mkdir $I
	for name in $R $I; do
		echo "$NMI_FUNCTION known_flat" >"$name/filter"
		echo nop >"$name/current_tracer"
		echo 1 >"$name/function_profile_enabled"
	done
	console_off
	for round in $(seq "$(some 8)"); do
		rm -f /tmp/enough /tmp/made-*
		of_other >/tmp/began
		background taskset 1 sh -c 'made=0
			while [ ! -e /tmp/enough ]; do echo l >/proc/sysrq-trigger; made=$((made + 1)); done
			echo $made >/tmp/made-nmis'
		background taskset 2 sh -c "made=0
			while [ ! -e /tmp/enough ]; do echo 50 >$K/flat; made=\$((made + 50)); done
			echo \$made >/tmp/made-flat"
		until_true 60 some_came
		# (on the CPU of the NMIs)
		taskset 2 sh -c "echo >$SUMS"
		taskset 2 sh -c "echo >$SUMS"
		of_other >/tmp/before
		taskset 2 sh -c "echo >$SUMS"
		of_other >/tmp/after
		until_true 60 some_came
		touch /tmp/enough
		for name in $workers; do wait "$name"; done
		workers=
		of_other >/tmp/end
		cat /tmp/began /tmp/before /tmp/after /tmp/end $SUMS
		for name in "$NMI_FUNCTION" known_flat; do
			holds "$(of calls "$name") <= $(in_file "$name" end) - $(in_file "$name" before)"
			holds "$(of calls "$name") >= $(in_file "$name" end) - $(in_file "$name" after)"
			holds "$(of calls "$name") > 0"
			# (a call may have been entered before the clear, and returned after it)
			holds "$(counted "$name") >= $(of calls "$name")"
			holds "$(counted "$name") <= $(of calls "$name") + 1"
		done
		# What is not cleared has all.
		is flat $(($(in_file known_flat end) - $(in_file known_flat began))) "$(cat /tmp/made-flat)"
		[ $(($(in_file "$NMI_FUNCTION" end) - $(in_file "$NMI_FUNCTION" began))) -ge "$(cat /tmp/made-nmis)" ]
	done
	[ "$round" -ge 3 ]
	ended
	rmdir $I
	is lost "$(status 'profile lost')" 0
}
# of_other: "FUNCTION CALLS" of each that the other instance counts.
of_other() { awk 'NR > 2 { print $1, $3 }' $R/instances/other/trace_stat/function; }
# in_file FUNCTION FILE: its calls in one that of_other made.
in_file() { awk -v name="$1" '$1 == name { calls = $2 } END { print calls + 0 }' "/tmp/$2"; }
# some_came: three NMIs more than there were when this held last.
some_came() {
	of_other >/tmp/now
	[ $(($(in_file "$NMI_FUNCTION" now) - ${came:-0})) -ge 3 ] || return 1
	came=$(in_file "$NMI_FUNCTION" now)
}

# On each CPU, in tasks, timers and interrupts of another CPU.
in_contexts() {
	local name all
	all=$((150 * $(grep -c ^processor /proc/cpuinfo)))
	echo 'known_in_*' >$R/filter
	echo function_graph >$R/current_tracer
	profile
	echo >$R/trace
	echo 150 >$K/contexts
	ended
	for name in task softirq hardirq; do
		is "calls in $name" "$(of calls known_in_$name)" $all
		is "of the graph, in $name" "$(grep -c " known_in_$name \\[known_calls\]()" $R/trace)" $all
		is "in the histogram of $name" "$(counted known_in_$name)" $all
	done
	accounts_agree
}

t 'all CPUs together, in columns of their own' columns
t 'percentiles and the longest are those of the calls' percentiles
t 'sleeps are where they belong' known_sleeps
t "a function's own time is without that of what it calls" own
t 'histograms have the columns of perf ftrace latency' histograms
t 'counts begin from zero when they are told to' clears
stressed 'also under load' clears_under_load
t 'functions without a histogram share one, and it is said' few
t 'memory is given back' memory
t 'each instance has its own' instances
t 'only tasks and CPUs that are traced count' only_some
t 'calls in tasks, softirqs and hard interrupts are counted, each' in_contexts
t 'calls that are too deep are told' deep
complaints '^$'
t 'NMIs count' nmis
t 'and are cleared once, each' clears_under_nmis
console_again
rmmod known_calls
finish
