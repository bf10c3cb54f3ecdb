#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Functions whose calls several instances watch, by function_graph and by the profile: each sees all of them, whichever
# comes and goes while calls are open, and no other user of the kernel's fprobe misses any.
. /tests/lib/ktap.sh

insmod /lib/modules/known_calls.ko
K=/sys/kernel/debug/known_calls

reload
I=$R/instances
SLEEP=$(pick do_nanosleep)
# (waiting for what comes to hold is no sleep that is seen)
usleep() {
	true
}

# graph NAME FUNCTION...: an instance of that name has function_graph on.
graph() {
	local name=$1
	shift
	[ -d "$I/$name" ] || mkdir "$I/$name"
	echo "$*" >"$I/$name/filter"
	echo function_graph >"$I/$name/current_tracer"
}
# count FUNCTION...: the profile, which the top directory has, is on.
count() {
	echo "$*" >$R/filter
	echo nop >$R/current_tracer
	echo 1 >$R/function_profile_enabled
}
# of NAME KEY: the value in an instance's status.
of() {
	sed -n "s/^$2: //p" "$I/$1/status"
}
# counted FUNCTION: the calls that the profile counted.
counted() {
	cat $R/trace_stat/function[01] | awk -v name="$1" '$1 == name { hits += $2 } END { print hits + 0 }'
}
# lines NAME: the lines of calls in an instance's trace, without CPU and duration, in one line.
lines() {
	grep -v '^#' "$I/$1/trace" | sed -nE 's/ \[known_calls\]//; s/^[^|]*\| +//p' | tr '\n' ' '
}
# durations NAME: in us.
durations() {
	grep -v '^#' "$I/$1/trace" | sed -nE 's/^ *[0-9]+\) [^0-9]*([0-9.]+) us .*/\1/p'
}
# busy CALLS: these are made on each CPU in the background, 500 at a time, between which others run.
busy() {
	local cpu
	for cpu in 1 2; do
		background taskset $cpu sh -c "for i in \$(seq $(($1 / 500))); do echo 500 >$K/flat; done"
	done
}
is_done() {
	local worker
	for worker in $workers; do [ ! -d "/proc/$worker" ] || return 1; done
}
asleep() {
	taskset 1 usleep 100000000 &
	workers="$workers $!"
}
# open_in NAME COUNT: so many entries are in an instance's trace whose calls are open.
open_in() {
	[ "$(grep -cF "$SLEEP() {" "$I/$1/trace")" -eq "$2" ]
}

several_see_all() {
	graph one known_flat
	graph two known_flat known_inner
	echo 100 >$K/flat
	echo 10 >$K/pairs
	is 'hits of one' "$(of one hits)" 100
	is 'hits of two' "$(of two hits)" 110
	graph three known_flat
	graph four known_inner known_outer
	count known_flat
	echo 1000 >$K/flat
	echo 200 >$K/pairs
	is 'hits of one' "$(of one hits)" 1100
	is 'hits of two' "$(of two hits)" 1310
	is 'hits of three' "$(of three hits)" 1000
	is 'hits of four' "$(of four hits)" 400
	is 'counted' "$(counted known_flat)" 1000
	for name in one two three four; do
		is "missed by $name" "$(of $name 'missed returns')" 0
		is "lost by $name" "$(of $name 'events lost')" 0
		# All that it says of times is a time.
		durations $name | awk '$1 <= 0 || $1 > 60000000 { print; bad = 1 } END { exit bad || NR < 100 }'
	done
	# The kernel has the function once for us, whatever we say.
	grep -qE '^known_flat .*\(1\)' $T/enabled_functions
	rmdir $I/two $I/three
	echo known_flat known_outer >$I/four/filter
	echo 100 >$K/flat
	is 'hits of one' "$(of one hits)" 1200
	is 'hits of four' "$(of four hits)" 500
	is 'counted' "$(counted known_flat)" 1100
	rmdir $I/four
	echo 0 >$R/function_profile_enabled
	echo 100 >$K/flat
	is 'hits of one' "$(of one hits)" 1300
	is 'missed' "$(of one 'missed returns')" 0
	# What is left is for one alone again.
	echo >$I/one/trace
	echo 150 >$K/deep
	is 'hits of one' "$(of one hits)" 0
	echo known_deep >$I/one/filter
	echo 150 >$K/deep
	is 'hits of one' "$(of one hits)" 61
}

too_many() {
	local name
	for name in one two three four; do graph $name known_flat; done
	mkdir $I/five
	echo known_flat >$I/five/filter
	gets 'write EBUSY' $I/five/current_tracer function_graph
	says $I/five/current_tracer function
	grep -qF 'Too many tracers and profiles want the calls of this function' $I/five/error_log
	grep -qF 'Command: known_flat' $I/five/error_log
	is 'armed' "$(of five 'armed functions')" 1
	gets 'write EBUSY' $I/five/function_profile_enabled 1
	says $I/five/function_profile_enabled 0
	echo 100 >$K/flat
	for name in one two three four; do is "hits of $name" "$(of $name hits)" 100; done
	# Other functions go, and so does this one when there is room.
	echo known_inner >$I/five/filter
	echo function_graph >$I/five/current_tracer
	gets 'write EBUSY' $I/five/filter 'known_flat\n'
	says $I/five/filter 'known_inner [known_calls]'
	rmdir $I/two
	echo known_flat >$I/five/filter
	echo >$I/five/trace
	echo 100 >$K/flat
	is 'hits of five' "$(of five hits)" 100
	# A clock of its own takes a word of its own.
	gets 'write EBUSY' $I/five/trace_clock mono
	grep -qF '[local]' $I/five/trace_clock
	echo 100 >$K/flat
	is 'hits of five' "$(of five hits)" 200
}

# Calls are made all the while, as others come and go: none is missed, nor told of twice.
under_load() {
	local calls=$1 round
	graph one known_flat
	echo 1 >$I/one/options/funcgraph-retval
	count known_flat
	busy "$calls"
	for round in $(seq "$(some 12)"); do
		graph two known_flat
		command usleep 30000
		if [ $((round % 3)) -eq 0 ]; then graph three known_flat; fi
		if [ $((round % 3)) -eq 1 ]; then echo known_inner >$I/two/filter; fi
		command usleep 30000
		if [ $((round % 3)) -eq 0 ]; then rmdir $I/three; fi
		rmdir $I/two
	done
	until_true 600 is_done
	is 'hits' "$(of one hits)" $((2 * calls))
	is 'returns' "$(of one returns)" $((2 * calls))
	is 'missed' "$(of one 'missed returns')" 0
	is 'too deep' "$(of one 'calls too deep')" 0
	is 'counted' "$(counted known_flat)" $((2 * calls))
	[ "$round" -ge 3 ]
}

# It has an fprobe of its own, which keeps as much of a call as one may: 15 words.
theirs_miss_nothing() {
	local calls=$1 name round arg args=''
	for arg in $(seq 15); do args="$args \$arg$arg"; done
	echo "f:theirs known_flat%return$args \$retval" >>$T/dynamic_events
	mkdir $T/instances/theirs
	echo 64 >$T/instances/theirs/buffer_size_kb
	echo 1 >$T/instances/theirs/events/fprobes/theirs/enable
	for name in one two three; do graph $name known_flat; done
	count known_flat
	busy "$calls"
	for round in $(seq "$(some 5)"); do
		echo nop >$I/two/current_tracer
		command usleep 20000
		rmdir $I/three
		graph three known_flat
		echo function_graph >$I/two/current_tracer
	done
	until_true 600 is_done
	[ "$round" -ge 1 ]
	is 'their calls' "$(awk '/^(entries|overrun|dropped events|commit overrun):/ { sum += $NF } END { print sum }' \
		$T/instances/theirs/per_cpu/cpu*/stats)" $((2 * calls))
	is 'hits of one' "$(of one hits)" $((2 * calls))
	is 'counted' "$(counted known_flat)" $((2 * calls))
	echo 0 >$T/instances/theirs/events/fprobes/theirs/enable
	rmdir $T/instances/theirs
	echo '-:theirs' >>$T/dynamic_events
}

# Calls sleep for a moment all the while, so that some are open whenever their function goes to another hook.
sleepers_under_load() {
	local naps=$1 round cpu
	graph one "$SLEEP"
	# (so that each return is an event)
	echo 1 >$I/one/options/funcgraph-retval
	for cpu in 1 2 1 2; do
		background taskset $cpu sh -c "i=0; while [ \$i -lt $naps ]; do usleep 1000; i=\$((i + 1)); done"
	done
	round=0
	until is_done; do
		graph two "$SLEEP"
		rmdir $I/two
		round=$((round + 1))
	done
	echo "# two came and went $round times"
	[ "$round" -ge 1 ]
	is 'missed' "$(of one 'missed returns')" 0
	is 'returns' "$(of one returns)" "$(of one hits)"
	[ "$(of one hits)" -ge $((4 * naps)) ]
}

# Each call returns to those that know it, whatever it was hooked for meanwhile.
open_calls() {
	graph one "$SLEEP"
	echo nop >$R/current_tracer
	asleep
	until_true 10 open_in one 1
	# It is shared from here on, and one of the two has not seen the first.
	graph two "$SLEEP"
	asleep
	until_true 10 open_in two 1
	graph three "$SLEEP"
	asleep
	until_true 10 open_in three 1
	rmdir $I/two
	asleep
	until_true 10 open_in three 2
	# One is alone again.
	rmdir $I/three
	asleep
	until_true 10 open_in one 5
	end_background
	is 'lines of one' "$(lines one | grep -o "$SLEEP()" | wc -l)" 5
	# (a call whose return comes behind others' has two lines)
	is 'returns of one' "$(lines one | tr ' ' '\n' | grep -cE '^}$|\(\);$')" 5
	is 'missed' "$(of one 'missed returns')" 0
	durations one | awk '$1 > 60000000 { exit 1 }'
}

# A sleeper comes back when nothing is left that saw it go to sleep, nor anything but its own memory.
returns_to_none() {
	graph one "$SLEEP"
	graph two "$SLEEP"
	count "$SLEEP"
	asleep
	until_true 10 open_in two 1
	rmdir $I/one $I/two
	echo 0 >$R/function_profile_enabled
	# Others have the seats of these, and know nothing of the call.
	graph four "$SLEEP"
	graph five "$SLEEP"
	count "$SLEEP"
	end_background
	taskset 1 usleep 1000
	for name in four five; do
		is "lines of $name" "$(lines $name)" "$SLEEP(); "
		is "returns of $name" "$(of $name returns)" 0
	done
	is 'counted' "$(counted "$SLEEP")" 1
	# And none at all is left.
	asleep
	until_true 10 open_in four 1
	unload
	end_background
	load
}

clocks() {
	local name
	graph one "$SLEEP"
	graph two "$SLEEP"
	echo mono >$I/two/trace_clock
	graph one "$SLEEP"
	taskset 1 usleep 50000
	for name in one two; do
		durations $name >/tmp/took
		cat /tmp/took
		awk '$1 < 50000 || $1 > 60000000 { bad = 1 } END { exit bad || NR != 1 }' /tmp/took
	done
	# A call that is open when the clock changes is not that instance's any more; it is the other's.
	asleep
	until_true 10 open_in one 1
	echo local >$I/two/trace_clock
	end_background
	is 'lines of two' "$(lines two)" ''
	is 'lines of one' "$(lines one)" "$SLEEP(); $SLEEP(); "
}

time_asleep() {
	graph one "$SLEEP"
	graph two "$SLEEP"
	echo 0 >$I/two/options/sleep-time
	taskset 1 usleep 300000
	durations one | awk '$1 < 300000 { bad = 1 } END { exit bad || NR != 1 }'
	durations two >/tmp/took
	cat /tmp/took
	awk '$1 <= 0 || $1 > 200000 { bad = 1 } END { exit bad || NR != 1 }' /tmp/took
	# (four words for all of them: two of each that leaves out the time asleep)
	rmdir $I/one
	echo 0 >$R/options/sleep-time
	count "$SLEEP"
	taskset 1 usleep 300000
	cat $R/trace_stat/function0
	is 'counted' "$(counted "$SLEEP")" 1
	awk -v name="$SLEEP" '$1 == name { found = 1; if ($3 + 0 > 200000) exit 1 } END { exit !found }' \
		$R/trace_stat/function0
}

below_roots() {
	# All calls of pairs, those below the outer ones, those without the inner ones, and slow ones.
	graph all known_outer known_inner
	mkdir $I/below $I/without $I/slow
	echo known_outer >$I/below/graph_function
	graph below known_inner known_flat
	echo known_outer >$I/without/graph_notrace
	graph without known_outer known_inner known_flat
	taskset 1 sh -c "echo 3 >$K/pairs"
	taskset 1 sh -c "echo 2 >$K/flat"
	is 'all' "$(of all hits)" 6
	is 'below' "$(lines below)" 'known_outer() { known_inner(); } known_outer() { known_inner(); } known_outer() { known_inner(); } '
	is 'without' "$(lines without)" 'known_flat(); known_flat(); '
	rmdir $I/below $I/without $I/all
	# A slow call shows those around it, shared or not.
	graph all "$SLEEP"
	echo 150000 >$I/slow/tracing_thresh
	graph slow "$SLEEP" hrtimer_nanosleep
	taskset 1 usleep 1000
	taskset 1 usleep 300000
	is 'slow' "$(lines slow)" "hrtimer_nanosleep() { $SLEEP(); } "
	is 'all' "$(lines all)" "$SLEEP(); $SLEEP(); "
}

own_profile() {
	echo known_flat known_outer known_inner >$R/filter
	echo function_graph >$R/current_tracer
	echo 1 >$R/function_profile_enabled
	taskset 1 sh -c "echo 500 >$K/flat"
	echo 0 >$R/options/graph-time
	taskset 1 sh -c "echo 500 >$K/pairs"
	is 'hits' "$(status hits)" 1500
	cat $R/trace_stat/function0
	for name in known_flat known_outer known_inner; do
		is $name "$(awk -v name=$name '$1 == name { print $2 }' $R/trace_stat/function0)" 500
		awk -v name=$name '$1 == name { exit !($3 + 0 > 0) }' $R/trace_stat/function0
	done
	echo 0 >$R/function_profile_enabled
	taskset 1 sh -c "echo 500 >$K/flat"
	is 'hits' "$(status hits)" 2000
	is 'missed' "$(status 'missed returns')" 0
	hooked_as_said
}

if [ "$SLOWER" -eq 1 ]; then CALLS=100000 NAPS=300; else CALLS=30000 NAPS=100; fi
load_test() { under_load $CALLS; }
sleeper_test() { sleepers_under_load $NAPS; }
their_test() { theirs_miss_nothing $CALLS; }

t 'several see all calls' several_see_all
t 'too many are refused' too_many
t 'calls that are open while others come and go' open_calls
t 'others come and go under load' load_test
t 'and while calls sleep' sleeper_test
if [ -e $T/dynamic_events ] && grep -q 'f\[' $T/README; then
	t 'an fprobe of others misses nothing' their_test
else
	skip 'an fprobe of others misses nothing' 'no events of fprobe'
fi
t 'a call that returns to none' returns_to_none
t 'clocks' clocks
t 'options/sleep-time' time_asleep
t 'graph_function, graph_notrace and tracing_thresh' below_roots
t 'the profile of the instance itself' own_profile
unload
rmmod known_calls
finish
