#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The profile, the waits: for how long tasks were asleep in calls, and queued for a CPU.
. /tests/lib/ktap.sh

insmod /lib/modules/known_calls.ko
K=/sys/kernel/debug/known_calls
reload
SUMS=$R/trace_stat/function
FOLDED=$R/trace_stat/function_folded

profile() {
	echo "$*" >$R/filter
	echo nop >$R/current_tracer
	echo 1 >$R/options/profile-wait
	echo 1 >$R/function_profile_enabled
}
ended() { echo 0 >$R/function_profile_enabled; }
# of COLUMN FUNCTION: a number of its line.
of() {
	local column
	case $1 in
	calls) column=3 ;;
	total) column=4 ;;
	self) column=5 ;;
	asleep) column=11 ;;
	queued) column=12 ;;
	esac
	awk -v name="$2" -v column=$column '$1 == name { value = $column } END { print value ? value : 0 }' $SUMS
}
# line PATH: the number of its line, 0 if it has none.
line() { awk -v path="$1" '{ n = $NF; sub(/ [0-9]+$/, "") } $0 == path { value = n } END { print value + 0 }' $FOLDED; }
# spin_beside_another: known_spin, on a CPU that another task wants, too.
spin_beside_another() {
	taskset 1 sh -c 'while :; do :; done' &
	hog=$!
	taskset 1 sh -c "echo 40000000 >$K/busy"
	kill $hog
}

asleep() {
	profile do_nanosleep
	is columns "$(sed -n 1p $SUMS | tr -s ' ')" \
		' Function | Calls Total us Self us Avg us p50 us p90 us p99 us Max us Asleep us Queued us'
	taskset 1 usleep 50000
	taskset 2 usleep 30000
	ended
	cat $SUMS
	is calls "$(of calls do_nanosleep)" 2
	# (before a task sleeps it sets the timer)
	holds "$(of asleep do_nanosleep) >= 70000"
	holds "$(of asleep do_nanosleep) + $(of queued do_nanosleep) <= $(of total do_nanosleep) + 0.004"
	# They count anew after a clear.
	echo >$SUMS
	is calls "$(of calls do_nanosleep)" 0
	is asleep "$(of asleep do_nanosleep)" 0
	# They stay as long as the profile; the next has none, unless that is asked for.
	echo 0 >$R/options/profile-wait
	sed -n 1p $SUMS | grep -q 'Queued us$'
	echo 1 >$R/function_profile_enabled
	is columns "$(sed -n 1p $SUMS | grep -c Queued)" 0
	ended
}

queued() {
	profile known_spin known_around
	spin_beside_another
	ended
	cat $SUMS
	holds "$(of queued known_spin) > 1000"
	holds "$(of asleep known_spin) < $(of queued known_spin) / 10"
	# What is within is in the whole.
	holds "$(of queued known_around) >= $(of queued known_spin)"
	holds "$(of queued known_around) <= $(of total known_around)"
}

while_it_is_on() {
	echo 0 >$R/options/profile-wait
	echo do_nanosleep >$R/filter
	echo 1 >$R/function_profile_enabled
	usleep 20000
	echo 1 >$R/options/profile-wait
	usleep 30000
	ended
	cat $SUMS
	is calls "$(of calls do_nanosleep)" 2
	holds "$(of total do_nanosleep) >= 50000"
	holds "$(of asleep do_nanosleep) >= 25000"
	holds "$(of asleep do_nanosleep) < 45000"
}

folded() {
	local own
	echo 1 >$R/options/profile-contexts
	profile hrtimer_nanosleep do_nanosleep known_around known_spin
	taskset 1 usleep 50000
	spin_beside_another
	ended
	cat $FOLDED
	holds "$(line 'hrtimer_nanosleep;do_nanosleep;[asleep]') >= 40000000"
	# Each part of the time is of the innermost call alone.
	is 'asleep in the outer one' "$(line 'hrtimer_nanosleep;[asleep]')" 0
	holds "$(line 'known_around;known_spin;[queued]') > 1000000"
	# The parts make the whole. (of each number less than a ns is cut off)
	own=$(of self known_spin)
	holds "$(line 'known_around;known_spin') + $(line 'known_around;known_spin;[asleep]') + $(line 'known_around;known_spin;[queued]') - $own * 1000 < 3"
	holds "$own * 1000 - $(line 'known_around;known_spin') - $(line 'known_around;known_spin;[asleep]') - $(line 'known_around;known_spin;[queued]') < 4"
	# They are in the total time, and no calls.
	echo 1 >$R/options/folded-total
	is lines "$(grep -c '\[queued\]\|\[asleep\]' $FOLDED)" 0
	echo 0 >$R/options/folded-total
	echo 1 >$R/options/folded-calls
	is lines "$(grep -c '\[queued\]\|\[asleep\]' $FOLDED)" 0
	echo 0 >$R/options/folded-calls
	echo >$SUMS
	is lines "$(grep -c . $FOLDED)" 0
	echo 0 >$R/options/profile-contexts
}

without_sleep() {
	echo 0 >$R/options/sleep-time
	profile do_nanosleep
	usleep 50000
	ended
	cat $SUMS
	holds "$(of asleep do_nanosleep) >= 40000"
	holds "$(of total do_nanosleep) < 40000"
	echo 1 >$R/options/sleep-time
}

with_another() {
	profile do_nanosleep
	mkdir $R/instances/a
	echo do_nanosleep >$R/instances/a/filter
	fails sh -c "echo function_graph >$R/instances/a/current_tracer"
	grep -q 'Too many tracers and profiles' $R/instances/a/error_log
	rmdir $R/instances/a
	ended
}

t 'time asleep' asleep
t 'time in queues' queued
t 'switched on while calls are counted' while_it_is_on
t 'by contexts' folded
t 'without sleep-time' without_sleep
t 'beside another instance' with_another
rmmod known_calls
finish
