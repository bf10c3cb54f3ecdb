#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The numbers that fgraph gives its users: they go round, while calls of earlier users are open.
. /tests/lib/ktap.sh

reload
YIELD=$(sys sched_yield)
SLEEP=$(pick do_nanosleep)
# Returns in the middle of fprobe's own work.
WITHIN=$(pick mutex_unlock)

no_splat() {
	fails sh -c 'dmesg | grep -A 3 WARNING'
}

# Twice: the kernel's tracer, too, has one of the 16 numbers.
beside_busy() {
	local number round
	stock_off
	echo "$WITHIN" >$T/set_ftrace_filter
	echo "$YIELD" >$R/filter
	echo nop >$R/current_tracer
	for round in 1 2; do
		echo function_graph >$T/current_tracer
		for number in $(seq 16); do
			echo 1 >$R/function_profile_enabled
			echo 0 >$R/function_profile_enabled
		done
		echo nop >$T/current_tracer
	done
	stock_off
	no_splat
}

# All functions, those that a trap runs through included.
beside_all() {
	local number
	stock_off
	echo "$YIELD" >$R/filter
	echo nop >$R/current_tracer
	echo function_graph >$T/current_tracer
	for number in $(seq 16); do
		echo 1 >$R/function_profile_enabled
		echo 0 >$R/function_profile_enabled
	done
	stock_off
	no_splat
}

# One returns every few milliseconds, whose number was another.
sleepers() {
	local number
	echo "$SLEEP" >$R/filter
	echo nop >$R/current_tracer
	echo 1 >$R/function_profile_enabled
	for number in $(seq 150); do
		usleep $((1500000 + number * 20000)) &
		workers="$workers $!"
	done
	echo 0 >$R/function_profile_enabled
	echo "$YIELD" >$R/filter
	echo nop >$R/current_tracer
	for number in $(seq 17); do
		echo 1 >$R/function_profile_enabled
		echo 0 >$R/function_profile_enabled
		usleep 1
	done
	no_splat
}

# traces NUMBER FUNCTION [OPTION]: an instance of that number traces the calls of it, without the option.
traces() {
	mkdir $R/instances/"$1"
	[ -z "$3" ] || echo 0 >$R/instances/"$1"/options/"$3"
	echo "$2" >$R/instances/"$1"/filter
	echo function_graph >$R/instances/"$1"/current_tracer
}
# What is kept of a call on the task's shadow stack is of two words, or, without sleep-time, of five.
module_goes() {
	local before=$1 after=$2 sleeper name count
	# (what one CPU frees, it has again)
	taskset -p 1 "$(sh -c 'echo $PPID')"
	reload
	# Each has a place of its own for another of the calls that the sleeper is in: a function that several trace has one
	# for all of them.
	count=0
	for name in do_nanosleep hrtimer_nanosleep common_nsleep "$(sys clock_nanosleep)"; do
		grep -qxF "$name" /tmp/available || continue
		count=$((count + 1))
		traces $count "$name" "$before"
	done
	[ $count -ge 2 ]
	usleep 1000000000 &
	sleeper=$!
	until_true 10 grep -q nanosleep /proc/$sleeper/stack
	unload
	# The other 15 numbers are given away before fprobe has the same again.
	echo "$PARENT" >$T/set_ftrace_filter
	for name in $(seq 15); do
		echo function_graph >$T/current_tracer
		echo nop >$T/current_tracer
	done
	load
	# As many probes as it takes to have those places.
	traces 1 "$YIELD" "$after"
	for name in $(grep -m 60 '^xfrm_' /tmp/available); do
		echo "$name" >>$R/instances/1/filter
	done
	kill $sleeper
	wait $sleeper || :
	calls yields 5
	cat $R/instances/1/trace >/tmp/instances.trace
	cat /tmp/instances.trace
	is "calls of $YIELD" "$(grep -c "$YIELD" /tmp/instances.trace)" 5
	is "calls of $SLEEP" "$(grep -c "$SLEEP" /tmp/instances.trace)" 0
	no_splat
}
short_to_short() { module_goes '' ''; }
long_to_short() { module_goes sleep-time ''; }

# fprobe itself would warn.
none_left() {
	local number
	stock_off
	for number in $(seq 16); do
		mkdir $T/instances/$number
		echo "$PARENT" >$T/instances/$number/set_ftrace_filter
		echo function_graph >$T/instances/$number/current_tracer
	done
	echo "$YIELD" >$R/filter
	echo nop >$R/current_tracer
	gets 'write ENOSPC' $R/function_profile_enabled 1
	says $R/function_profile_enabled 0
	echo nop >$T/instances/1/current_tracer
	echo 1 >$R/function_profile_enabled
	echo 0 >$R/function_profile_enabled
	for number in $(seq 16); do
		echo nop >$T/instances/$number/current_tracer
		rmdir $T/instances/$number
	done
	no_splat
}

t 'a call returns whose probe went with the module' short_to_short
t 'the same, of which more was kept than is now' long_to_short
t 'while the kernel traces what fprobe calls' beside_busy
stressed 'while the kernel traces all functions' beside_all
t 'while calls of an earlier number return' sleepers
t 'all numbers are in use' none_left
finish
