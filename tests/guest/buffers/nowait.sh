#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# A reader that may not wait for events does not, whatever other readers do.
. /tests/lib/ktap.sh

reload
YIELD=$(sys sched_yield)

# (trace_pipe in tracefs waits)
nothing_there() {
	local file
	echo "$YIELD" >$R/filter
	echo 0 >$R/buffer_percent
	for file in trace_pipe per_cpu/cpu0/trace_pipe per_cpu/cpu0/trace_pipe_raw; do
		is "$file" "$(nowait splice $R/$file)" 'splice EAGAIN'
	done
	calls yields 10 0
	for file in per_cpu/cpu0/trace_pipe_raw trace_pipe; do
		is "$file" "$(nowait splice $R/$file)" 'splice ok'
		calls yields 10 0
	done
}

# Few events at a time, and none in the end.
all_taken() {
	[ "$(status 'events present')" -eq 0 ]
}
trickle() {
	for _ in $(seq 30); do calls yields 3 0 >/dev/null; done
	until_true 10 all_taken >/dev/null
	usleep 100000
}
# One takes what the other has seen.
raced() {
	local file
	echo "$YIELD" >$R/filter
	echo 0 >$R/buffer_percent
	for file in trace_pipe per_cpu/cpu0/trace_pipe_raw; do
		is "$file" "$(trickle | nowait race $R/$file)" ok
	done
}

# A reader whose memory another task brings holds up none of those that have the file open with it.
reader_hangs() {
	local file
	echo "$YIELD" >$R/filter
	for file in trace_pipe per_cpu/cpu0/trace_pipe_raw; do
		calls yields 1000 0
		nowait fault $R/$file >/tmp/results
		is "$file" "$(sort /tmp/results | tr '\n' ' ')" 'poll ok read EAGAIN reader ok splice EAGAIN '
	done
}

t 'when there is nothing' nothing_there
t 'when somebody else was faster' raced
if [ -e /proc/sys/vm/unprivileged_userfaultfd ]; then
	t 'when a reader hangs' reader_hangs
else
	skip 'when a reader hangs' 'the kernel has no userfaultfd'
fi
finish
