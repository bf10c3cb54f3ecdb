#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The profile, the waits: for how long tasks were asleep in calls, and queued for a CPU, and what woke them.
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
# waker FUNCTION: what ended its longest wait.
waker() { awk -v name="$1" '$1 == name { print $13 }' $SUMS; }
# below PATH: the sum of the lines that begin with it.
below() { awk -v path="$1" '{ n = $NF; sub(/ [0-9]+$/, "") } index($0 ";", path ";") == 1 { sum += n } END { print sum + 0 }' $FOLDED; }
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
		' Function | Calls Total us Self us Avg us p50 us p90 us p99 us Max us Asleep us Queued us Woken by'
	taskset 1 usleep 50000
	taskset 2 usleep 30000
	ended
	cat $SUMS
	is calls "$(of calls do_nanosleep)" 2
	# (before a task sleeps it sets the timer)
	holds "$(of asleep do_nanosleep) >= 70000"
	holds "$(of asleep do_nanosleep) + $(of queued do_nanosleep) <= $(of total do_nanosleep) + 0.004"
	waker do_nanosleep | grep -xE '\[(hard|soft)irq\]'
	# They count anew after a clear.
	echo >$SUMS
	is calls "$(of calls do_nanosleep)" 0
	is asleep "$(of asleep do_nanosleep)" 0
	# They stay as long as the profile; the next has none, unless that is asked for.
	echo 0 >$R/options/profile-wait
	sed -n 1p $SUMS | grep -q 'Queued us  Woken by$'
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
	# What is preempted is woken by nothing.
	is waker "$(waker known_spin)" -
}

while_it_is_on() {
	local before
	echo 0 >$R/options/profile-wait
	echo do_nanosleep >$R/filter
	echo 1 >$R/function_profile_enabled
	usleep 20000
	before=$(of total do_nanosleep)
	echo 1 >$R/options/profile-wait
	usleep 30000
	ended
	cat $SUMS
	is calls "$(of calls do_nanosleep)" 2
	holds "$before >= 20000"
	holds "$(of asleep do_nanosleep) >= 25000"
	# The first call slept unseen, however long a busy machine let it.
	holds "$(of asleep do_nanosleep) <= $(of total do_nanosleep) - $before + 0.004"
}

folded() {
	local own
	echo 1 >$R/options/profile-contexts
	profile hrtimer_nanosleep do_nanosleep known_around known_spin
	taskset 1 usleep 50000
	spin_beside_another
	ended
	cat $FOLDED
	holds "$(below 'hrtimer_nanosleep;do_nanosleep;[asleep]') >= 40000000"
	# Each part of the time is of the innermost call alone.
	is 'asleep in the outer one' "$(below 'hrtimer_nanosleep;[asleep]')" 0
	holds "$(line 'known_around;known_spin;[queued]') > 1000000"
	# The parts make the whole. (of each number less than a ns is cut off)
	own=$(of self known_spin)
	holds "$(below 'known_around;known_spin') - $own * 1000 < 3"
	holds "$own * 1000 - $(below 'known_around;known_spin') < 4"
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

is_asleep() { grep -q '^State:.*S (' "/proc/$1/status" && grep -q known_waiting "/proc/$1/stack"; }
# wake_by NAME US: a task that waits in known_waiting for so long is woken by one of that name.
wake_by() {
	echo 0 >$K/wake
	taskset 1 sh -c "echo 1 >$K/wait" &
	sleeper=$!
	until_true 20 is_asleep $sleeper
	usleep $2
	sh -c "echo -n '$1' >/proc/self/comm; echo 1 >$K/wake"
	wait $sleeper
	echo 0 >$K/wake
}

woken_by() {
	local longest
	echo 1 >$R/options/profile-contexts
	profile known_waiting
	wake_by 'one waker' 100000
	wake_by 'another; one' 40000
	cat $FOLDED
	ended
	cat $SUMS
	# (a busy host may have had the second one sleep for longer)
	longest=one_waker
	[ "$(line 'known_waiting;[asleep];one_waker')" -ge "$(line 'known_waiting;[asleep];another:_one')" ] ||
		longest=another:_one
	is 'waker of the longest' "$(waker known_waiting)" $longest
	holds "$(line 'known_waiting;[asleep];one_waker') >= 100000000"
	holds "$(line 'known_waiting;[asleep];another:_one') >= 40000000"
	is 'not known' "$(line 'known_waiting;[asleep]')" 0
	# The parts make the whole, but for what the scheduler's clock is read before we read ours.
	holds "$(below known_waiting) - $(of self known_waiting) * 1000 < 10 * $(of self known_waiting)"
	holds "$(of self known_waiting) * 1000 - $(below known_waiting) < 6"
	is 'lost wakers' "$(status 'profile lost wakers')" 0
	# From a clear on it is what is longest then.
	echo 1 >$R/function_profile_enabled
	wake_by 'one waker' 100000
	echo >$SUMS
	is 'after a clear' "$(waker known_waiting)" ''
	wake_by 'another; one' 40000
	ended
	is 'waker of the longest since' "$(waker known_waiting)" another:_one
	is 'waker before' "$(line 'known_waiting;[asleep];one_waker')" 0
	echo 0 >$R/options/profile-contexts
}

# A pipe's reader is woken by the writer.
of_a_pipe() {
	local mark=/tmp/open
	rm -f $mark
	mkfifo $mark
	echo 1 >$R/options/profile-contexts
	profile "$(pick ksys_read vfs_read)"
	cat $mark >/tmp/got &
	sleeper=$!
	sh -c "echo -n writer >/proc/self/comm; exec 3>$mark; usleep 60000; echo 1 >&3; exec 3>&-"
	wait $sleeper
	ended
	cat $FOLDED
	holds "$(line "$(pick ksys_read vfs_read);[asleep];writer") >= 50000000"
	echo 0 >$R/options/profile-contexts
}

without_sleep() {
	echo 0 >$R/options/sleep-time
	profile do_nanosleep
	usleep 500000
	ended
	cat $SUMS
	holds "$(of asleep do_nanosleep) >= 400000"
	holds "$(of total do_nanosleep) < 400000"
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
t 'what woke a task' woken_by
t 'what woke a reader' of_a_pipe
t 'without sleep-time' without_sleep
t 'beside another instance' with_another
rmmod known_calls
finish
