#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# What status says of calls, where a module of the tests' own makes as many as are asked for: how often a function was
# entered, also while lists are edited, and calls that the kernel had no room to watch.
. /tests/lib/ktap.sh

insmod /lib/modules/known_calls.ko
K=/sys/kernel/debug/known_calls

reload

# calls_are HITS RETURNS: so many entries, and returns that are events of their own; and they were not lost.
calls_are() {
	is hits "$(status hits)" "$1"
	is returns "$(status returns)" "$2"
	is lost "$(status 'events lost')" 0
	accounts_agree
}

# In function_graph an entry and its return may be one event, or two.
hits_of_graph() {
	echo known_flat known_outer known_inner >$R/filter
	echo function_graph >$R/current_tracer
	# (a call that begins on one CPU and ends on another has two)
	taskset 1 sh -c "echo 4160 >$K/flat"
	calls_are 4160 0
	taskset 1 sh -c "echo 1000 >$K/pairs"
	calls_are 6160 1000
	# With values, every return has its own.
	echo >$R/trace
	calls_are 0 0
	echo 1 >$R/options/funcgraph-retval
	echo 100 >$K/flat
	calls_are 100 100
	echo 0 >$R/options/funcgraph-retval
	# Entries are recorded only at the end of calls that took long: nothing here.
	echo >$R/trace
	echo 1000000 >$R/tracing_thresh
	echo 100 >$K/flat
	calls_are 0 0
}

hits_of_function() {
	echo known_outer known_inner >$R/filter
	echo 1000 >$K/pairs
	calls_are 2000 0
	echo between >$R/trace_marker
	calls_are 2000 0
	is marks "$(status marks)" 1
}

# Those that found no room count, too, and which of them were returns.
hits_of_what_is_lost() {
	echo 64 >$R/buffer_size_kb
	echo 0 >$R/options/overwrite
	echo known_outer known_inner >$R/filter
	echo function_graph >$R/current_tracer
	taskset 1 sh -c "echo 10000 >$K/pairs"
	is hits "$(status hits)" 20000
	[ "$(status returns)" -ge 1000 ]
	[ "$(status 'lost to full buffers')" -ge 1000 ]
	accounts_agree
	echo 1 >$R/options/overwrite
	echo >$R/trace
	taskset 1 sh -c "echo 10000 >$K/pairs"
	calls_are 20000 10000
	[ "$(status 'events overwritten')" -ge 1000 ]
}

# seen_and_deep CALLS [KEY]: so many in the trace and too deep together, some of them each.
seen_and_deep() {
	local deep
	deep=$(status "${2:-calls too deep}" | cut -d ' ' -f 1)
	is 'missed returns' "$(status 'missed returns')" 0
	[ "$deep" -ge $(($1 / 2)) ]
	is 'seen, and too deep' $(($(status hits) + deep)) "$1"
}

deep_calls() {
	echo known_deep >$R/filter
	echo function_graph >$R/current_tracer
	is 'too deep at first' "$(status 'calls too deep')" 0
	echo 50 >$K/deep
	is 'too deep' "$(status 'calls too deep')" 0
	calls_are 50 49
	# By this shell, and by tasks that have come since, and ended.
	echo >$R/trace
	echo 150 >$K/deep
	seen_and_deep 150
	for _ in 1 2; do sh -c "echo 150 >$K/deep"; done
	until_true 10 seen_and_deep 450
	# The kernel's counts go on.
	echo >$R/trace
	is 'too deep since it was cleared' "$(status 'calls too deep')" 0
	echo 150 >$K/deep
	seen_and_deep 150
	# Of the time when calls were traced.
	echo nop >$R/current_tracer
	is 'too deep since it was cleared' "$(status 'calls too deep')" 0
	mkdir $R/instances/other
	echo known_deep >$R/instances/other/filter
	echo function_graph >$R/instances/other/current_tracer
	echo 150 >$K/deep
	sh -c "echo 150 >$K/deep"
	is 'too deep for others' "$(status 'calls too deep')" 0
	[ "$(sed -n 's/^calls too deep: \([0-9]*\).*/\1/p' $R/instances/other/status)" -ge 75 ]
	rmdir $R/instances/other
}

# Interrupts of a CPU that does nothing use its idle task's.
deep_in_idle() {
	echo known_deep >$R/filter
	echo function_graph >$R/current_tracer
	for cpu in 0 1; do
		for _ in 1 2 3 4 5 6 7 8 9 10; do taskset $((cpu + 1)) sh -c "echo 150 >$K/deep_irq"; done
	done
	seen_and_deep 3000
	# (some of them were indeed)
	grep -qE '^ [01]\).*known_deep' $R/trace
	echo 1 >$R/options/funcgraph-proc
	grep -qE '^ [01]\) +<idle>-0 .*known_deep' $R/trace
	echo 0 >$R/options/funcgraph-proc
}

# counted FUNCTION: calls of it that the profile has.
counted() { cat $R/trace_stat/function[01] | awk -v name="$1" '$1 == name { hits += $2 } END { print hits + 0 }'; }
# counted_and_deep CALLS: as seen_and_deep, of the profile. (one that is too deep has no room at all, or none for what
# is kept of it)
counted_and_deep() {
	local deep hits
	deep=$(($(status 'profile too deep' | cut -d ' ' -f 1) + $(status 'profile missed')))
	hits=$(counted known_deep)
	[ "$deep" -ge $(($1 / 2)) ]
	is 'counted, and too deep' $((hits + deep)) "$1"
}

deep_in_profile() {
	echo known_deep >$R/filter
	echo nop >$R/current_tracer
	echo 1 >$R/function_profile_enabled
	echo 150 >$K/deep
	counted_and_deep 150
	sh -c "echo 150 >$K/deep"
	until_true 10 counted_and_deep 300
	# (as all of the profile)
	echo >$R/trace
	counted_and_deep 300
	# Of tasks that have only just ended, too.
	for _ in 1 2 3 4 5 6 7 8; do sh -c "echo 150 >$K/deep"; done
	echo 0 >$R/function_profile_enabled
	counted_and_deep 1500
	echo 150 >$K/deep
	counted_and_deep 1500
	echo 1 >$R/function_profile_enabled
	echo 150 >$K/deep
	counted_and_deep 150
	is 'calls too deep, for no tracer' "$(status 'calls too deep')" 0
}

# makes: on each CPU calls of known_flat, until made; /tmp/made-MASK has how many.
makes() {
	local mask
	rm -f /tmp/enough /tmp/made-*
	for mask in 1 2; do
		background taskset $mask sh -c "made=0
			while [ ! -e /tmp/enough ]; do echo 200 >$K/flat; made=\$((made + 200)); done
			echo \$made >/tmp/made-$mask"
	done
}
# made: ends them; $made is how many there were.
made() {
	local worker
	touch /tmp/enough
	for worker in $workers; do wait "$worker"; done
	workers=
	made=$(awk '{ sum += $1 } END { print sum }' /tmp/made-1 /tmp/made-2)
	[ "$made" -ge 1000 ]
}
# edited: the lists, by each kind of word; known_flat is in them all the while, alone and with others.
edited() {
	echo known_inner >>$R/filter
	echo '!known_inner' >>$R/filter
	echo 'known_f* known_[io]*' >$R/filter
	echo '!known_o*' >>$R/filter
	echo 'known_i*' >$R/notrace
	echo >$R/notrace
	echo known_flat >$R/filter
	# In another instance the function itself comes and goes.
	echo 'known_f*' >>$R/instances/other/filter
	echo known_flat >$R/instances/other/notrace
	echo >$R/instances/other/notrace
	echo '!known_flat' >>$R/instances/other/filter
}
# while_edited ROUNDS FILE VALUE: calls are made while lists change; both instances have that on.
while_edited() {
	local round
	mkdir $R/instances/other
	echo known_inner >$R/instances/other/filter
	echo known_flat >$R/filter
	for round in $R $R/instances/other; do
		echo nop >"$round/current_tracer"
		echo "$3" >"$round/$2"
	done
	makes
	for round in $(seq "$1"); do edited; done
	made
	is rounds "$round" "$1"
	echo "# $made calls"
}
while_function_is_edited() {
	while_edited 5 current_tracer function
	calls_are "$made" 0
}
while_graph_is_edited() {
	echo 1 >$R/options/funcgraph-retval
	while_edited 2 current_tracer function_graph
	calls_are "$made" "$made"
	is missed "$(status 'missed returns')" 0
}
while_profile_is_edited() {
	while_edited 2 function_profile_enabled 1
	is counted "$(counted known_flat)" "$made"
	is missed "$(status 'profile missed')" 0
	is lost "$(status 'profile lost')" 0
}

t 'hits of function_graph are entries' hits_of_graph
t 'hits of function are events' hits_of_function
t 'what is lost counts as what it would have been' hits_of_what_is_lost
t 'calls that are too deep' deep_calls
t 'the same in interrupts of idle CPUs' deep_in_idle
t 'the same of the profile' deep_in_profile
t 'function misses no call while lists are edited' while_function_is_edited
t 'nor does function_graph' while_graph_is_edited
t 'nor does the profile' while_profile_is_edited
unload
rmmod known_calls
finish
