#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Waiting: of the time that a call did not run, what its task waited for, and what woke it.
. /tests/lib/ktap.sh

insmod /lib/modules/known_calls.ko
K=/sys/kernel/debug/known_calls
reload
SLEEP=$(sys clock_nanosleep)

graph() {
	echo nop >$R/current_tracer
	echo "$1" >$R/filter
	echo 1 >$R/options/funcgraph-wait
	echo function_graph >$R/current_tracer
}
# ends NAME: the comments of ends and leaves of that function's calls.
ends() { sed -nE "s,^.*(\} /\* $1|  $1( \[[a-z_]*\])?\(\); /\*)( \[[a-z_]*\])?( .*) \*/\$,\4,p" $R/trace; }
# part NAME OF <COMMENT: of the time, in us.
part() { sed -nE "s/.* $1 ([0-9.]+) us.*/\1/p"; }
# took NAME: the duration of its last call, in us.
took() { awk -v name="$1" '$0 ~ name { for (i = 2; i < NF; i++) if ($i == "us") us = $(i - 1) } END { print us }' $R/trace; }
is_asleep() { grep -q '^State:.*S (' "/proc/$1/status" && grep -q known_waiting "/proc/$1/stack"; }
# sleeper CPU: a task that waits to be woken, in known_waiting, whose ID is in $sleeper.
sleeper() {
	taskset "$1" sh -c "echo 1 >$K/wait" &
	sleeper=$!
	until_true 20 is_asleep $sleeper
}

# The task that wakes another is told, and that it was asleep for as long.
woken_by_task() {
	local waker asleep
	graph 'known_waiting'
	echo 0 >$K/wake
	sleeper 1
	nap=200000
	usleep $nap
	sh -c "echo \$\$ >/tmp/waker; echo 1 >$K/wake"
	wait $sleeper
	echo 0 >$K/wake
	echo 0 >$R/tracing_on
	cat $R/trace
	waker=$(cat /tmp/waker)
	is calls "$(ends known_waiting | grep -c .)" 1
	ends known_waiting | grep -qE " asleep [0-9.]+ us, queued [0-9.]+ us, woken by (sh-)?$waker\$"
	asleep=$(ends known_waiting | part asleep)
	holds "$asleep >= $nap"
	holds "$asleep <= $(took known_waiting)"
	echo 1 >$R/tracing_on
}

# A timer wakes from an interrupt, and calls around have the wait, too.
woken_by_timer() {
	graph "$SLEEP hrtimer_nanosleep do_nanosleep"
	taskset 1 usleep 50000
	echo 0 >$R/tracing_on
	cat $R/trace
	for name in do_nanosleep hrtimer_nanosleep "$SLEEP"; do
		ends "$name" | tail -n 1 >/tmp/end
		cat /tmp/end
		grep -qE ' asleep [0-9.]+ us, queued [0-9.]+ us, woken by \[(hard|soft)irq\]$' /tmp/end
		# (before it sleeps the task sets the timer)
		holds "$(part asleep </tmp/end) >= 40000"
		holds "$(part asleep </tmp/end) + $(part queued </tmp/end) <= $(took "$name") + 0.002"
	done
	echo 1 >$R/tracing_on
}

# What is preempted was not asleep, and nothing woke it.
preempted() {
	graph 'known_spin'
	taskset 1 sh -c 'while :; do :; done' &
	hog=$!
	taskset 1 sh -c "echo 40000000 >$K/busy"
	kill $hog
	echo 0 >$R/tracing_on
	cat $R/trace
	ends known_spin | tail -n 1 >/tmp/end
	holds "$(part queued </tmp/end) > 1000"
	holds "$(part asleep </tmp/end) < $(part queued </tmp/end) / 10"
	fails grep -q woken /tmp/end
	echo 1 >$R/tracing_on
}

# Without sleep-time, durations have what is left.
without_sleep() {
	graph "do_nanosleep"
	echo 0 >$R/options/sleep-time
	taskset 1 usleep 500000
	echo 0 >$R/tracing_on
	cat $R/trace
	ends do_nanosleep | tail -n 1 >/tmp/end
	holds "$(part asleep </tmp/end) >= 400000"
	holds "$(took do_nanosleep) < 400000"
	echo 1 >$R/options/sleep-time
	echo 1 >$R/tracing_on
}

# A call that did not wait says nothing, and without the option none does.
no_waits() {
	graph 'known_flat'
	echo 5 >$K/flat
	is comments "$(grep -c 'queued' $R/trace)" 0
	is calls "$(grep -c known_flat $R/trace)" 5
	graph do_nanosleep
	echo 0 >$R/options/funcgraph-wait
	usleep 1000
	is comments "$(grep -c 'queued' $R/trace)" 0
	grep -q do_nanosleep $R/trace
}

# A function's calls keep so much then that it is of one instance alone.
with_another() {
	graph do_nanosleep
	mkdir $R/instances/a
	echo do_nanosleep >$R/instances/a/filter
	fails sh -c "echo function_graph >$R/instances/a/current_tracer"
	grep -q 'Too many tracers and profiles' $R/instances/a/error_log
	echo 0 >$R/options/funcgraph-wait
	echo function_graph >$R/instances/a/current_tracer
	fails sh -c "echo 1 >$R/options/funcgraph-wait"
	says $R/options/funcgraph-wait 0
	rmdir $R/instances/a
}

t 'a task that wakes another is told' woken_by_task
t 'a timer wakes from an interrupt' woken_by_timer
t 'what is preempted waits in the queue' preempted
t 'durations without the time asleep' without_sleep
t 'calls that do not wait say nothing' no_waits
t 'beside another instance' with_another
echo nop >$R/current_tracer
rmmod known_calls
finish
