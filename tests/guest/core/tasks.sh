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

# Many short ones: the memory of one that has ended is the next one's, and each has a name of its own.
reused() {
	begin function
	tasks short "$(some 1000)" >/tmp/ids
	awk '{ print "s" NR - 1, $1, $1 }' /tmp/ids >/tmp/wanted
	tasks_are /tmp/wanted
}

t 'an exec by a thread that is not the leader' executed
t 'names that change between calls' renamed
t 'tasks in the memory of others' reused
finish
