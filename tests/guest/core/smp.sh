#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Both CPUs trace at once: all calls are there, each CPU's in order.
. /tests/lib/ktap.sh

reload
YIELD=$(sys sched_yield)

both_cpus() {
	local count pid0 pid1
	count=$(some 4000)
	count=$((count / 8 * 8))
	echo 4096 >$R/buffer_size_kb
	echo "$PARENT $YIELD" >$R/filter
	calls together $count >/tmp/pids
	read -r pid0 pid1 </tmp/pids
	echo 0 >$R/tracing_on
	cat $R/trace >/tmp/smp.trace
	# Each process did its calls in turn, on its CPU, with times that do not go back.
	events /tmp/smp.trace | sed -nE "s/^ *calls-($pid0|$pid1) +\[00([01])\] .{5} +([0-9.]+): ([^ ]+) <-.*/\1 \2 \3 \4/p" |
		awk -v pid0="$pid0" -v pid1="$pid1" -v count="$count" -v first="$PARENT" -v second="$YIELD" '
			function wrong(text) { print text ": " $0; bad = 1; exit }
			($1 == pid0) != ($2 == 0) { wrong("not on its CPU") }
			$4 != (made[$1]++ % 2 ? second : first) { wrong("not in turn") }
			$3 < last { wrong("back in time") }
			{ last = $3 }
			END {
				print made[pid0], made[pid1]
				exit bad || made[pid0] != 2 * count || made[pid1] != 2 * count
			}'
	is lost "$(status 'events lost')" 0
	is overwritten "$(status 'events overwritten')" 0
	accounts_agree
	# Both CPUs had an eighth done before either began the next.
	[ "$(events /tmp/smp.trace | sed -E 's/^.*-[0-9]+ +\[(...)\].*/\1/' | uniq | wc -l)" -gt 8 ]
}

moved() {
	# One process that goes to and fro keeps its pid, and its order.
	local pid i
	echo "$PARENT" >$R/filter
	calls getppid 0 &
	pid=$!
	for i in 1 2 3 4 5 6; do
		taskset -p 1 $pid >/dev/null
		taskset -p 2 $pid >/dev/null
	done
	kill $pid
	wait $pid || :
	echo 0 >$R/tracing_on
	cat $R/trace >/tmp/smp.trace
	grep -q "calls-$pid .*\[000\]" /tmp/smp.trace || [ "$(stat_of 0 'written events')" -gt 0 ]
	fails grep -vE "^#|calls-$pid +\[00[01]\]|^(cat|sh|CPU)|taskset|sh-" /tmp/smp.trace
	accounts_agree
}

many_processes() {
	# Every event has its process: none is unknown, however short it lived.
	local count
	echo 4096 >$R/buffer_size_kb
	echo "$(pick do_exit)" >$R/filter
	calls forks 100 0 &
	calls forks 100 1
	wait
	echo 0 >$R/tracing_on
	cat $R/trace >/tmp/smp.trace
	fails grep -qF '<...>' /tmp/smp.trace
	count=$(events /tmp/smp.trace | grep -c '^ *calls-')
	[ "$count" -ge 200 ]
	# Each with a pid of its own.
	is pids "$(events /tmp/smp.trace | sed -nE 's/^ *(calls-[0-9]+) .*/\1/p' | sort -u | wc -l)" "$count"
}

SIGNALLED=$(some 2000)

# some_interrupts: calls on both CPUs, some of them interrupted by a hardirq ('h' or 'H' in the third
# column of the state).
some_interrupts() {
	echo >$R/trace
	calls signals "$SIGNALLED" 0 &
	calls signals "$SIGNALLED" 1
	wait
	cat $R/trace >/tmp/smp.trace
	events /tmp/smp.trace | grep -qE '\] ..[hH].. '
}

interrupts() {
	# Timer interrupts come in the middle of recording, signals in the middle of calls.
	echo 8192 >$R/buffer_size_kb
	echo '*timer* *signal*' >$R/filter
	echo "$PARENT" >>$R/filter
	until_true 10 some_interrupts
	echo 0 >$R/tracing_on
	is 'all calls' "$(grep -cE "^ *calls-.*: $PARENT <-" /tmp/smp.trace)" $((2 * SIGNALLED))
	accounts_agree
}

t 'events of both CPUs, each in order, none lost' both_cpus
t 'a process that moves between CPUs' moved
t 'every event names its process, however short it lived' many_processes
t 'interrupts nest with what they interrupt' interrupts
finish
