#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Each call is its task's: name, thread and process are those at the moment of the call.
. /tests/lib/ktap.sh

reload

# tasks_are FILE: the calls in the trace are those of the tasks in it, "NAME ID PROCESS" in that order.
tasks_are() {
	cat $R/trace >/tmp/tasks.trace
	sed -nE "s/^ *([^ ]+)-([0-9]+) +\( *([0-9]+)\) \[.*: $PARENT <-.*/\1 \2 \3/p" /tmp/tasks.trace >/tmp/tasks.got
	diff "$1" /tmp/tasks.got
}

begin() {
	echo "$PARENT" >$R/filter
	echo "$1" >$R/current_tracer
	echo 1 >$R/options/record-tgid
	echo 4096 >$R/buffer_size_kb
	echo >$R/trace
}

# A thread that is not the leader takes its ID, and another name, without a switch.
executed() {
	local thread leader i
	begin function
	tasks exec 5 calls getppid 7 >/tmp/ids
	read -r thread leader </tmp/ids
	fails [ "$thread" = "$leader" ]
	{
		for i in $(seq 5); do echo "tasks $thread $leader"; done
		for i in $(seq 7); do echo "calls $leader $leader"; done
	} >/tmp/wanted
	tasks_are /tmp/wanted
}

# prctl(PR_SET_NAME) between any two calls.
renamed() {
	local pid count
	count=$(some 1000)
	begin function
	tasks names "$count" &
	pid=$!
	wait $pid
	seq 0 $((count - 1)) | sed "s/.*/n& $pid $pid/" >/tmp/wanted
	tasks_are /tmp/wanted
}

# Many short ones: each has a name of its own.
short() {
	begin function
	tasks short "$(some 1000)" >/tmp/ids
	awk '{ print "s" NR - 1, $1, $1 }' /tmp/ids >/tmp/wanted
	tasks_are /tmp/wanted
}

# The memory of one that has ended is the next one's: another instance tells of a function that gets its address.
reused() {
	local I=$R/instances/memory left=5
	mkdir $I
	echo wake_up_new_task >$I/filter
	echo 1 >$I/options/func-args
	while :; do
		echo >$I/trace
		short
		sed -nE 's/^ *tasks-.*: wake_up_new_task\(([a-z]*=)?(0x[0-9a-f]+)[,)].*/\2/p' $I/trace >/tmp/memory
		is tasks "$(grep -c . /tmp/memory)" "$(grep -c . /tmp/ids)"
		[ "$(sort -u /tmp/memory | grep -c .)" -eq "$(grep -c . /tmp/ids)" ] || break
		# (RCU gives memory back)
		left=$((left - 1))
		[ $left -gt 0 ]
	done
	rmdir $I
}

t 'an exec by a thread that is not the leader' executed
t 'names that change between calls' renamed
if [ "$SLOWER" -eq 1 ]; then
	t 'tasks in the memory of others' reused
else
	t 'short tasks' short
	skip 'tasks in the memory of others' 'a kernel with checkers does not give memory out again so soon'
fi
finish
